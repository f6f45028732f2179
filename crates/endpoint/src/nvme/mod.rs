//! Parts that both ends of NVMe need, whichever transport carries their capsules: [`names`] of
//! peers, and the work of a queue pair ([`rdma`]).

pub(crate) mod names;
pub(crate) mod rdma;
#[cfg(test)]
mod tests;
