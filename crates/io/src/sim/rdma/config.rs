//! Properties of the devices of a world, and their occasional faults.

use crate::rng::Rng;
use core::time::Duration;

/// Behaviour of the devices.
#[derive(Clone, Debug)]
pub struct RdmaConfig {
    /// There are type 2 memory windows.
    pub has_windows: bool,
    /// RDMA READs that an end has outstanding at most.
    pub reads: u8,
    /// Bytes of a message at most.
    pub message_bytes: u32,
    /// Pieces of memory that one transfer takes.
    pub pieces: u8,
    /// Time for which work without an answer from the other end is retried before it fails.
    pub patience: Duration,
    /// One in `n` SENDs is refused at first, as if there were no receive (0: none).
    pub not_ready_one_in: u32,
    /// One in `n` acknowledgements takes much longer than later messages (0: none).
    pub late_one_in: u32,
    /// If a slot has memory, one in `n` others is refused some (0: none).
    pub no_memory_one_in: u32,
    /// One in `n` slots is refused memory, or access to it, in any case (0: none).
    pub refused_one_in: u32,
    /// One in `n` queue pairs that are destroyed without a message leaves the other end to find out
    /// (0: none).
    pub unheard_one_in: u32,
}

impl Default for RdmaConfig {
    /// Devices that refuse nothing.
    fn default() -> Self {
        Self {
            has_windows: true,
            reads: 4,
            message_bytes: 1 << 30,
            pieces: 32,
            patience: Duration::from_secs(4),
            not_ready_one_in: 0,
            late_one_in: 0,
            no_memory_one_in: 0,
            refused_one_in: 0,
            unheard_one_in: 0,
        }
    }
}

impl RdmaConfig {
    /// Devices drawn by chance. What they refuse can be had a little later.
    pub fn drawn(rng: &mut Rng) -> Self {
        Self {
            has_windows: rng.one_in(2),
            reads: *rng.pick(&[1, 4, 16]),
            message_bytes: *rng.pick(&[4 << 10, 16 << 10, 1 << 30]),
            patience: Duration::from_millis(*rng.pick(&[500, 4000, 17_000])),
            not_ready_one_in: *rng.pick(&[0, 16]),
            late_one_in: *rng.pick(&[0, 8]),
            no_memory_one_in: *rng.pick(&[4, 32]),
            refused_one_in: 0,
            unheard_one_in: 2,
            pieces: *rng.pick(&[2, 4, 32]),
        }
    }
}

/// Counts of events on all queue pairs of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaCounts {
    /// SENDs that found no receive.
    pub not_ready: u64,
    /// Slots that got no memory, or to which none could be lent.
    pub no_memory: u64,
    /// Slots to which memory was lent.
    pub lent: u64,
}
