//! NVMe over any transport: controllers and hosts, independent of what carries their capsules.

pub(crate) mod host;
pub(crate) mod names;
pub(crate) mod rdma;
pub(crate) mod target;
#[cfg(test)]
mod tests;
