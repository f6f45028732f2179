//! Peers that may still execute this process's writes after it exits.

use super::registry::{Pair, Registry, Unsettled};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use weft_base::lock::{Condition, Lock};
use weft_block::BlockDevice;
use weft_io::Time;
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::types::Cntlid;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateWriter {
    pair: Pair,
    /// Its name for other controllers, if they can reset it.
    instance: Option<Instance>,
    /// Milliseconds that it may go on.
    bound_ms: u64,
}

/// See [`CrossControllerReset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Instance {
    icid: u16,
    ciu: u8,
    cirn: u64,
}

impl LateWriter {
    /// A peer that may still execute commands for `bound`, by its pair of NQNs. `instance` names its
    /// controller, if a cross-controller reset can end it.
    #[doc(hidden)]
    pub fn new(pair: Pair, instance: Option<CrossControllerReset>, bound: Duration) -> Self {
        let instance = instance.map(|of| Instance { icid: of.icid.0, ciu: of.ciu, cirn: of.cirn });
        Self { pair, instance, bound_ms: millis(bound) }
    }

    fn instance(&self) -> Option<CrossControllerReset> {
        let Instance { icid, ciu, cirn } = self.instance?;
        Some(CrossControllerReset { icid: Cntlid(icid), ciu, cirn })
    }
}

/// Late writes of a process to a device, as it records them for the next process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateWrites {
    /// Milliseconds for which they may be executed, by the device's own bound.
    late_writes_ms: u64,
    /// Peers that may execute them.
    #[serde(default)]
    pub late_writers: Vec<LateWriter>,
}

impl LateWrites {
    /// Those to this device, while it is not known who executes them.
    pub fn of(device: &dyn BlockDevice) -> Self {
        let late_writes_ms = millis(device.late_writes_bound().unwrap_or_default());
        Self { late_writes_ms, late_writers: Vec::new() }
    }

    /// Returns the time for which they may be executed.
    pub fn bound(&self) -> Duration {
        let bounds = self.late_writers.iter().map(|writer| writer.bound_ms);
        Duration::from_millis(bounds.max().unwrap_or_default().max(self.late_writes_ms))
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Gets all of them whenever that changes, before the new one has anything to write.
pub type Watcher = Box<dyn Fn(&[LateWriter]) + Send>;

/// Those of this process.
#[derive(Default)]
#[doc(hidden)]
pub struct LateWriterList(Lock<ListState>);

#[derive(Default)]
struct ListState {
    all: Vec<Known>,
    watchers: Vec<(u64, Watcher)>,
    next: u64,
}

struct Known {
    id: u64,
    writer: LateWriter,
    /// From then on it executes nothing; `None`: it is in use.
    until: Option<Time>,
}

impl ListState {
    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn add(&mut self, writer: LateWriter) -> u64 {
        let id = self.id();
        self.all.push(Known { id, writer, until: None });
        self.tell();
        id
    }

    fn tell(&self) {
        let all: Vec<LateWriter> = self.all.iter().map(|known| known.writer.clone()).collect();
        self.watchers.iter().for_each(|(_, watcher)| watcher(&all));
    }
}

impl LateWriterList {
    /// Something is about to be sent to one. Gives a name for [`Self::ended`].
    #[doc(hidden)]
    pub fn began(&self, writer: LateWriter, now: Time) -> u64 {
        let state = &mut *self.0.lock();
        state.all.retain(|known| known.until.is_none_or(|until| until > now));
        state.add(writer)
    }

    /// Something is about to be sent to a peer which cannot be told to stop, so that it is known by
    /// its name alone, and for good.
    #[doc(hidden)]
    pub fn began_unstoppable(&self, name: String, bound: Duration) {
        let state = &mut *self.0.lock();
        state.all.retain(|known| known.writer.pair != name);
        state.add(LateWriter::new(name, None, bound));
    }

    /// Notes that nothing further is sent to a peer, and that it executes nothing from `until` on.
    #[doc(hidden)]
    pub fn ended(&self, id: u64, until: Time) {
        let known = &mut self.0.lock().all;
        known.iter_mut().filter(|known| known.id == id).for_each(|known| known.until = Some(until));
    }
}

/// The late writers of all sources that share a control, for disks that outlive this process.
#[derive(Clone, Default)]
pub struct LateWriters {
    /// The peers that may still write.
    #[doc(hidden)]
    pub list: Arc<LateWriterList>,
    /// Commands of this process whose outcome is unknown.
    #[doc(hidden)]
    pub unsettled: Arc<Registry>,
}

/// Notification of changes, until it is dropped.
pub struct Watch(Arc<LateWriterList>, u64);

impl Drop for Watch {
    fn drop(&mut self) {
        let state = &mut *self.0.0.lock();
        state.watchers.retain(|(id, _)| *id != self.1);
    }
}

impl LateWriters {
    /// Gets all of them now, and whenever that changes.
    pub fn watch(&self, watcher: Watcher) -> Watch {
        let state = &mut *self.list.0.lock();
        let id = state.id();
        state.watchers.push((id, watcher));
        state.tell();
        Watch(Arc::clone(&self.list), id)
    }

    /// Has late writes of a process that has ended stopped, by sources of this one at the same peers.
    pub fn stop(&self, before: &LateWrites) -> Stopping {
        let shared = Arc::new(Shared::default());
        let is_unknown = before.late_writers.is_empty() && !before.bound().is_zero();
        *shared.left.lock() = before.late_writers.len() + usize::from(is_unknown);
        let one = |writer: &LateWriter| {
            let waiting: Arc<dyn Unsettled> = Arc::new(Waiting(Arc::clone(&shared)));
            let instance = writer.instance();
            // What this process uses itself must not be reset.
            let is_own = self.list.0.lock().all.iter().any(|known| known.writer == *writer);
            if instance.is_some() && !is_own {
                let what = Arc::downgrade(&waiting);
                self.unsettled.inherited(writer.pair.clone(), instance, what);
            }
            waiting
        };
        let _waiting = before.late_writers.iter().map(one).collect();
        Stopping { _waiting, shared: Arc::clone(&shared) }
    }
}

/// Those of a process that has ended, which are being stopped.
pub struct Stopping {
    _waiting: Vec<Arc<dyn Unsettled>>,
    shared: Arc<Shared>,
}

impl Stopping {
    /// Waits for all to stop, for at most `most`. Returns whether they have.
    pub fn wait(&self, most: Duration) -> bool {
        let left = self.shared.left.lock();
        let (left, _) = self.shared.news.wait_while_for(left, most, |left| *left > 0);
        *left == 0
    }
}

#[derive(Default)]
struct Shared {
    left: Lock<usize>,
    news: Condition,
}

struct Waiting(Arc<Shared>);

impl Unsettled for Waiting {
    fn settle(&self, _: Time) {
        // Each is settled once: the registry forgets it then.
        *self.0.left.lock() -= 1;
        self.0.news.notify_all();
    }

    fn settled_at(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn writer(cirn: u64) -> LateWriter {
        let instance = CrossControllerReset { icid: Cntlid(1), ciu: 2, cirn };
        LateWriter::new("a".into(), Some(instance), S)
    }

    fn left(late_writers: &[LateWriter]) -> LateWrites {
        LateWrites { late_writes_ms: 0, late_writers: late_writers.to_vec() }
    }

    fn unnamed(bound: Duration) -> LateWriter {
        LateWriter::new("b".into(), None, bound)
    }

    #[test]
    fn watchers_have_all_that_may_still_execute_something() {
        let late = LateWriters::default();
        let seen = Arc::new(Lock::new(Vec::new()));
        let first = late.list.began(writer(1), Time::ZERO);
        let of_watch = Arc::clone(&seen);
        let watch = late.watch(Box::new(move |all| *of_watch.lock() = all.to_vec()));
        assert_eq!(*seen.lock(), [writer(1)]);
        late.list.ended(first, Time::ZERO + S);
        late.list.began(writer(2), Time::ZERO);
        assert_eq!(*seen.lock(), [writer(1), writer(2)], "the first one may go on");
        late.list.began_unstoppable("b".into(), S);
        late.list.began_unstoppable("b".into(), 2 * S);
        late.list.began(writer(3), Time::ZERO + S);
        assert_eq!(*seen.lock(), [writer(2), unnamed(2 * S), writer(3)]);
        drop(watch);
        late.list.began(writer(4), Time::ZERO);
        assert_eq!(seen.lock().len(), 3, "no further notice is sent");
    }

    #[test]
    fn those_of_before_have_stopped_when_the_peer_says_so_of_each() {
        let late = LateWriters::default();
        let asked = Arc::new(Lock::new(Vec::new()));
        let of_ask = Arc::clone(&asked);
        let ask = Box::new(move |lost| of_ask.lock().push(lost));
        let id = late.unsettled.join("a".into(), ask);
        let stopping = late.stop(&left(&[writer(1), writer(2)]));
        let all = asked.lock().clone();
        assert_eq!(all.len(), 2);
        assert!(late.unsettled.answered(id, all[0], true, Time::ZERO));
        assert!(!stopping.wait(Duration::ZERO), "one of them is left");
        assert!(late.unsettled.answered(id, all[1], true, Time::ZERO));
        assert!(stopping.wait(Duration::MAX));
    }

    #[test]
    fn what_cannot_be_named_and_what_is_in_use_here_is_not_stopped() {
        let late = LateWriters::default();
        late.unsettled.join("a".into(), Box::new(|_| panic!("nobody is to be asked")));
        late.list.began(writer(1), Time::ZERO);
        let stopping = late.stop(&left(&[writer(1), unnamed(S)]));
        assert!(!stopping.wait(Duration::ZERO));
    }

    #[test]
    fn where_nobody_is_known_time_has_to_pass() {
        let late = LateWriters::default();
        let unknown = LateWrites { late_writes_ms: 5, late_writers: Vec::new() };
        assert_eq!(unknown.bound(), Duration::from_millis(5));
        assert!(!late.stop(&unknown).wait(Duration::ZERO));
        assert!(late.stop(&LateWrites::default()).wait(Duration::ZERO), "nothing is left");
        assert_eq!(left(&[writer(1), unnamed(2 * S)]).bound(), 2 * S);
    }
}
