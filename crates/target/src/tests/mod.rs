//! The same controllers and hosts over three transports: NVMe/TCP; whole messages with the host's
//! memory by address and key; and NVMe over RDMA with the queue pairs of a simulated world. What a
//! transport has to hold runs over all.

mod captured;
#[path = "../../../endpoint/tests/common/checker.rs"]
mod checker;
mod conformance;
mod fabric;
mod host_end;
mod place;
mod target_end;
mod testbed;
