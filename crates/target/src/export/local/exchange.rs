//! Data that is not in memory of this process's own, such as a guest's: the caller copies it, once,
//! from and to the memory that goes to the device.

use weft_io::Segment;

/// Copies data of operations, which come without any. Called while operations are submitted and
/// reaped, and in the turns of the queue between.
pub(crate) trait Exchange {
    /// Fills memory with the data of the operation with this `user`; `false`: it is not there any
    /// more.
    fn fill(&self, user: u64, into: &mut [Segment]) -> bool;

    /// Takes the result of the operation with this `user`; `false`: the place for it is not there
    /// any more.
    fn take(&self, user: u64, from: &[Segment]) -> bool;
}
