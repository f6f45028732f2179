//! Options of reconnect and multipath, with nvme-cli's names where it has one.

use std::time::Duration;
use weft_connection::limits::{RECONNECT_DELAY_S, UNFLUSHED_BYTES};

/// Options of the paths of a device. Part of [`crate::ConnectOptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathOptions {
    /// URLs of further paths to the same data.
    pub further: Vec<String>,
    /// All paths lead to the same data: one to another target is used, with a warning, also where
    /// its data could not be compared with that of the others. Otherwise it is not used until that
    /// works.
    pub same_data: bool,
    /// Time for which weft tries to reconnect a path (`ctrl_loss_tmo`). `None`: for ever. Zero: not
    /// at all; with a single path the device is then the source itself.
    pub ctrl_loss_timeout: Option<Duration>,
    /// Maximum pause between two attempts to reconnect (`reconnect_delay`). The first pauses are
    /// shorter.
    pub reconnect_delay: Duration,
    /// Time for which operations wait while no path can be used; then they fail
    /// (`fast_io_fail_tmo`). `None`: they wait for ever.
    pub fast_io_fail_timeout: Option<Duration>,
    /// Policy by which an operation chooses its path.
    pub io_policy: IoPolicy,
    /// When a write whose connection was lost is sent again.
    pub failover: Failover,
    /// Maximum bytes of completed writes that are kept until a flush, to write them again if the
    /// target restarts and has lost them.
    pub unflushed_bytes: usize,
    /// Nobody else writes to the data while the device is open: what a target has lost is written
    /// again. Otherwise weft reads it back, writes nothing, and the next flush fails if the target
    /// no longer has it.
    pub only_writer: bool,
    /// The same as [`Self::only_writer`] as long as nobody else is registered with the device for
    /// reservations. A device that knows reservations is asked when it is opened, for the log, and
    /// each time before anything is written to it again.
    pub only_writer_if_alone: bool,
    /// Reserves the device (Write Exclusive) while it is open. What a target has lost is written
    /// again if it reports that the reservation is still held, as nobody else can have written in
    /// the meantime. Opening fails if another host holds one.
    pub reserve: bool,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self {
            further: Vec::new(),
            same_data: false,
            ctrl_loss_timeout: None,
            reconnect_delay: Duration::from_secs(RECONNECT_DELAY_S),
            fast_io_fail_timeout: None,
            io_policy: IoPolicy::default(),
            failover: Failover::default(),
            unflushed_bytes: UNFLUSHED_BYTES,
            only_writer: false,
            only_writer_if_alone: false,
            reserve: false,
        }
    }
}

impl PathOptions {
    /// One path, which is not reconnected: the device ends with its connections.
    pub fn once() -> Self {
        Self { ctrl_loss_timeout: Some(Duration::ZERO), ..Self::default() }
    }

    /// Returns true if the device is the source itself.
    #[doc(hidden)]
    pub fn is_once(&self) -> bool {
        self.further.is_empty() && self.ctrl_loss_timeout == Some(Duration::ZERO)
    }
}

/// Policy by which an operation chooses among the paths with the best access state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IoPolicy {
    /// The first one in the order in which they were given, while it can be used.
    #[default]
    Numa,
    /// Each in turn.
    RoundRobin,
    /// The one with the fewest operations in flight.
    QueueDepth,
    /// The one that is expected to answer first: by the average of its measured latencies, and its
    /// operations in flight.
    Latency,
}

/// When a write that may have been executed is sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Failover {
    /// When the old controller certainly does not execute it any more.
    #[default]
    Safe,
    /// At once. If the old controller executes it late, it may overwrite later data: the risk that
    /// Linux takes.
    Fast,
}
