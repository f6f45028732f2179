//! Parts that both ends of NVMe need, whichever transport carries their capsules: [`names`] of
//! peers, and the work of a queue pair ([`rdma`]).

pub mod names;
pub mod rdma;
