//! What both ends of NVMe need, whichever carries their capsules: [`names`] of peers, and the work
//! of a queue pair ([`rdma`]).

pub(crate) mod names;
pub(crate) mod rdma;
#[cfg(test)]
mod tests;
