//! The same controllers and hosts over two transports: NVMe/TCP, and whole messages with the host's memory by address and key, which is how
//! RDMA works. What a transport has to hold runs over both.

#[path = "../../../tests/common/checker.rs"]
mod checker;
mod conformance;
mod fabric;
mod host_end;
mod place;
mod target_end;
