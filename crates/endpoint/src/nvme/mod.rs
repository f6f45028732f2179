//! NVMe over any transport: what controllers and hosts have in common whatever carries their capsules.

pub(crate) mod host;
pub(crate) mod names;
pub(crate) mod target;
#[cfg(test)]
mod tests;
