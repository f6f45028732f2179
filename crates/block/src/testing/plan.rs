//! Plan of the tests of a device.

/// Plan of the tests of a device.
#[derive(Clone, Copy, Debug)]
pub struct TestPlan {
    /// Event loops, each with a queue of its own; at least 1. Two or more are needed to see whether
    /// blocks are torn.
    pub loops: usize,
    /// True if the device keeps what is written; [`crate::null`] does not.
    pub keeps_data: bool,
    /// I/O mode of the loops for files.
    pub disk: weft_io::disk::DiskMode,
    /// Rounds of the tests in which loops fight for the same blocks.
    pub rounds: usize,
    /// Blocks of the longest compare-and-write that is tried, at least 1: a path may take fewer
    /// than the device itself.
    pub compare_blocks: usize,
}

impl Default for TestPlan {
    fn default() -> Self {
        Self {
            loops: 1,
            keeps_data: true,
            disk: weft_io::disk::DiskMode::Auto,
            rounds: 200,
            compare_blocks: 3,
        }
    }
}
