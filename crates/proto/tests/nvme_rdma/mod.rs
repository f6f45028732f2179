//! NVMe over RDMA: golden bytes, both engines over a queue pair in memory, what a peer may not do,
//! and what is given up.

mod descriptors;
mod drops;
mod golden;
mod layer;
mod life;
mod random;
mod violations;
mod wire;
