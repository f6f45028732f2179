//! The control: the loop for everything that is not I/O, and its environment. A value in
//! [`crate::ConnectOptions`].
//!
//! Connections are opened on the control loop; admin connections, keep alive, and connections that
//! no queue uses stay there. It sleeps when there is nothing to do. The control also determines how
//! host names are looked up and where identities come from; the loop provides the time. All clones
//! are the same control. A program has one. A simulation has one per simulated host, on a simulated
//! loop, with reproducible names and identities.

use crate::names::Names;
use crate::source::iscsi::isids::Isids;
use std::fmt;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use weft_base::lock::{Condition, Lock};
use weft_block::{Error, Pending, waiting};
use weft_connection::capture::Capture;
use weft_connection::identity::Identities;
use weft_connection::limits::{CONTROL_POOL_BYTES, FINISH_S};
use weft_connection::loops::ask;
use weft_connection::settle::registry::Registry;
use weft_connection::settle::{LateWriterList, LateWriters};
use weft_io::counters::Snapshot;
use weft_io::event_loop::spawn;
use weft_io::{DriverId, Handle, LoopConfig, RemoteLoop};

/// Receives the outcome of an operation on the control loop.
pub(crate) type Done<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// The control loop, which opens connections and keeps them alive while no queue uses them. A
/// control created by [`Control::new`] starts its thread on first use, and ends it when the last
/// clone and everything opened with it are gone.
#[derive(Clone)]
pub struct Control(Arc<Holder>);

/// Notifies the shared part when the last clone is dropped.
struct Holder(Arc<SharedControl>);

struct SharedControl {
    state: Lock<LoopState>,
    /// Signalled when the last task has ended.
    over: Condition,
    names: Names,
    identities: Identities,
    late_writers: LateWriters,
    isids: Isids,
    /// What captures the connections that are opened from now on.
    capture: Lock<Option<Capture>>,
}

struct LoopState {
    place: LoopPlace,
    /// Connections and other tasks that must finish before the loop may end.
    tasks: usize,
    /// No clone exists any more.
    released: bool,
}

/// The state of the loop.
enum LoopPlace {
    /// Not started yet.
    Later,
    /// On its own thread.
    Own(RemoteLoop),
    /// Provided by the caller.
    Given(RemoteLoop),
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}

impl Control {
    /// A control with its own thread, the system's resolver and permanent identities.
    pub fn new() -> Self {
        Self::with(LoopPlace::Later, Names::System, Identities::system())
    }

    /// A control on an existing loop.
    pub fn on(remote: RemoteLoop, names: Names, identities: Identities) -> Self {
        Self::with(LoopPlace::Given(remote), names, identities)
    }

    fn with(place: LoopPlace, names: Names, identities: Identities) -> Self {
        let state = Lock::new(LoopState { place, tasks: 0, released: false });
        Self(Arc::new(Holder(Arc::new(SharedControl {
            state,
            over: Condition::new(),
            names,
            identities,
            late_writers: LateWriters::default(),
            isids: Isids::default(),
            capture: Lock::default(),
        }))))
    }

    fn shared(&self) -> &Arc<SharedControl> {
        &self.0.0
    }

    /// The control loop.
    ///
    /// # Errors
    /// If its thread cannot be started.
    #[doc(hidden)]
    pub fn remote(&self) -> Result<RemoteLoop, Error> {
        let mut state = self.shared().state();
        if let LoopPlace::Own(remote) | LoopPlace::Given(remote) = &state.place {
            return Ok(remote.clone());
        }
        let config = LoopConfig {
            name: "weft-control".into(),
            spin: Duration::ZERO,
            pool_bytes: CONTROL_POOL_BYTES,
            ..LoopConfig::default()
        };
        let ((), remote, _) = spawn(config, |_| ())
            .map_err(|e| Error::io(format!("cannot start the control loop: {e}"), e))?;
        state.place = LoopPlace::Own(remote.clone());
        Ok(remote)
    }

    /// Returns the counters of the control loop so far, once the loop has been started.
    pub fn counters(&self) -> Option<Snapshot> {
        let remote = match &self.shared().state().place {
            LoopPlace::Own(remote) | LoopPlace::Given(remote) => remote.clone(),
            LoopPlace::Later => return None,
        };
        ask(&remote, |on| on.counters().snapshot()).ok()
    }

    /// Runs `start` on the control loop. `start` begins an operation that passes its result to the
    /// closure, within a bounded time.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        start: impl FnOnce(&Handle, Done<T>) + Send + 'static,
    ) -> Result<Pending<T>, Error> {
        let (promise, pending) = Pending::promised();
        let task = self.task();
        let done = Box::new(move |outcome| {
            promise.complete(outcome);
            drop(task);
        });
        self.remote()?.post(move |on| start(on, done));
        Ok(pending)
    }

    /// Wakes a driver on the control loop.
    pub(crate) fn wake(&self, driver: DriverId) {
        // A driver exists, so the loop exists.
        if let Ok(remote) = self.remote() {
            remote.wake(driver);
        }
    }

    /// The way to look up host names.
    pub(crate) fn names(&self) -> &Names {
        &self.shared().names
    }

    /// The source of names and random numbers.
    pub fn identities(&self) -> &Identities {
        &self.shared().identities
    }

    /// The ISIDs of iSCSI sessions.
    pub(crate) fn isids(&self) -> &Isids {
        &self.shared().isids
    }

    /// Has a capture show all connections that are opened from now on.
    pub fn set_capture(&self, capture: Capture) {
        *self.shared().capture.lock() = Some(capture);
    }

    /// Returns the capture of connections, if one was asked for.
    pub fn capture(&self) -> Option<Capture> {
        self.shared().capture.lock().clone()
    }

    /// What is over and not settled.
    pub(crate) fn unsettled(&self) -> &Registry {
        &self.shared().late_writers.unsettled
    }

    /// Those at the peers that may write.
    pub(crate) fn late_list(&self) -> &LateWriterList {
        &self.shared().late_writers.list
    }

    /// Returns the peers that may execute writes of its sources after the end of this process.
    pub fn late_writers(&self) -> LateWriters {
        self.shared().late_writers.clone()
    }

    /// A task for which [`Control::finish`] waits, until it is dropped.
    #[doc(hidden)]
    pub fn task(&self) -> ControlTask {
        self.shared().state().tasks += 1;
        ControlTask(Arc::clone(self.shared()))
    }

    /// Waits (at most 6 seconds) until the peers of all dropped devices have been notified and
    /// their connections closed. Call it at the end of a program, not on a loop's thread. Without
    /// it peers see their connections break off, which is harmless.
    pub fn finish(&self) {
        let _waiting = waiting::begin(|| "peers to close their connections".into());
        self.finish_within(Duration::from_secs(FINISH_S));
    }

    /// As [`Control::finish`], with another time limit.
    pub fn finish_within(&self, limit: Duration) {
        let state = self.shared().state();
        let busy = |state: &mut LoopState| state.tasks > 0;
        drop(self.shared().over.wait_while_for(state, limit, busy));
    }
}

impl SharedControl {
    fn state(&self) -> MutexGuard<'_, LoopState> {
        self.state.lock()
    }
}

impl LoopState {
    /// Ends the loop's thread when it is no longer needed.
    fn end_if_over(&self) {
        if self.released
            && self.tasks == 0
            && let LoopPlace::Own(remote) = &self.place
        {
            remote.post(|on| on.stop());
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.released = true;
        state.end_if_over();
    }
}

/// See [`Control::task`].
#[doc(hidden)]
pub struct ControlTask(Arc<SharedControl>);

impl Drop for ControlTask {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.tasks -= 1;
        if state.tasks == 0 {
            self.0.over.notify_all();
        }
        state.end_if_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;
    use weft_io::{Activity, Driver};

    #[test]
    fn finish_waits_for_what_is_under_way() {
        let control = Control::new();
        let task = control.task();
        let (give, take) = mpsc::channel();
        let waiting = control.clone();
        let waiter = std::thread::spawn(move || {
            waiting.finish();
            give.send(Instant::now()).unwrap();
        });
        let before = Instant::now();
        drop(task);
        assert!(take.recv().unwrap() >= before);
        waiter.join().unwrap();
    }

    #[test]
    fn the_loop_ends_with_the_last_clone_and_the_last_task() {
        struct Tell {
            _dropped: mpsc::Sender<()>,
        }
        impl Driver for Tell {
            fn work(&mut self, _: &Handle) -> Activity {
                Activity::Idle
            }
        }
        let control = Control::new();
        let (give, take) = mpsc::channel();
        let task = control.task();
        control.remote().unwrap().post(move |on| {
            on.spawn(|_| Tell { _dropped: give });
        });
        let other = control.clone();
        drop(control);
        drop(other);
        assert!(control_still_lives(&task));
        drop(task);
        // The driver is dropped with its loop.
        assert!(take.recv().is_err());
    }

    fn control_still_lives(task: &ControlTask) -> bool {
        let LoopPlace::Own(remote) = &task.0.state().place else { return false };
        weft_connection::loops::ask(remote, |on| !on.is_stopping()).unwrap()
    }
}
