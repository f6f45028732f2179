//! The blocks of an export that may hold data: the server is asked once for all of them, on a
//! connection that no queue uses at the time.

use crate::control::Control;
use crate::source::idle::Idle;
use core::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;
use weft_connection::limits::{EXTENT_REQUESTS_MAX, EXTENT_RUNS_MAX, EXTENTS_S};
use weft_connection::pump::{Flow, Handler, Link, StreamPump};
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::nbd::client::ClientCommand;
use weft_proto::nbd::code::{CommandCode, CommandFlags, ErrorCode};
use weft_proto::nbd::{ClientEvent, NbdClient};
use weft_proto::stream::Tag;

/// Bytes that one request asks about: a multiple of every block.
const ASKED_BYTES: u64 = 1 << 31;

/// The runs of bytes of `0..bytes` that may hold anything but zeroes. Waits for the server, which
/// has `io_timeout` for each answer, or the connection is lost. `None`: it does not tell, or no
/// connection is free.
pub(super) fn ask(
    idle: &Arc<Idle<NbdClient>>,
    control: &Control,
    bytes: u64,
    io_timeout: Duration,
) -> Option<Vec<Range<u64>>> {
    let pump = idle.take().ok()?;
    if !pump.engine.tells_extents() {
        idle.give(pump);
        return None;
    }
    let (give, answer) = mpsc::channel();
    let (idle, task) = (Arc::clone(idle), control.task());
    let Ok(remote) = control.remote() else {
        idle.give(pump);
        return None;
    };
    remote.post(move |on| {
        let begun = on.now();
        let (limit, known) = (begun + Duration::from_secs(EXTENTS_S), KnownExtents::of(bytes));
        let spawned = on.try_spawn(|id| {
            let mut asking =
                Asking { pump: Some(pump), known, idle, id, io_timeout, limit, heard: begun, give };
            asking.pump.as_mut().map_or(Ok(()), |pump| pump.register(on, id))?;
            Ok::<_, std::io::Error>(asking)
        });
        if let Err(e) = spawned {
            tracing::debug!("cannot ask an NBD server for extents: {e}");
        }
        drop(task);
    });
    // It ends by itself: each answer has a time limit.
    answer.recv().ok().flatten()
}

/// Extents that the server reported, and the ranges left to ask for.
struct KnownExtents {
    /// What was not asked about yet.
    rest: Range<u64>,
    /// What answers left open.
    open: Vec<Range<u64>>,
    /// Requests under way, by tag: what is left of their ranges.
    asked: Vec<Option<Range<u64>>>,
    /// Bytes that may hold data, in any order.
    runs: Vec<Range<u64>>,
    /// There are no more of them.
    is_full: bool,
    /// Nothing more is asked: what is not known counts as data.
    is_over: bool,
}

impl KnownExtents {
    fn of(bytes: u64) -> Self {
        Self {
            rest: 0..bytes,
            open: Vec::new(),
            asked: Vec::new(),
            runs: Vec::new(),
            is_full: false,
            is_over: false,
        }
    }

    /// What to ask about next.
    fn next(&mut self) -> Option<Range<u64>> {
        self.open.pop().or_else(|| {
            let Range { start, end } = self.rest.clone();
            self.rest.start = end.min(start.saturating_add(ASKED_BYTES));
            (start < end).then_some(start..self.rest.start)
        })
    }

    fn under_way(&self) -> usize {
        self.asked.iter().flatten().count()
    }

    /// Asks about as much as may be under way.
    fn ask(&mut self, engine: &mut NbdClient) {
        while !self.is_over && self.under_way() < EXTENT_REQUESTS_MAX {
            let Some(range) = self.next() else { return };
            let (offset, length) = (range.start, range.end - range.start);
            let (code, flags) = (CommandCode::BLOCK_STATUS, CommandFlags::default());
            let Ok(tag) = engine.submit(ClientCommand { code, flags, offset, length }) else {
                self.open.push(range);
                self.is_over = true;
                return;
            };
            if self.asked.len() <= tag.index() {
                self.asked.resize_with(tag.index() + 1, || None);
            }
            self.asked[tag.index()] = Some(range);
        }
    }

    /// The next bytes of a request are zeroes, or not.
    fn extent(&mut self, tag: Tag, length: u64, zero: bool) {
        let Some(range) = self.asked.get_mut(tag.index()).and_then(Option::as_mut) else { return };
        let (start, end) = (range.start, range.start + length);
        let fits = self.runs.len() < EXTENT_RUNS_MAX;
        match self.runs.last_mut() {
            _ if self.is_full => return,
            _ if zero => {}
            Some(last) if last.end == start => last.end = end,
            _ if fits => self.runs.push(start..end),
            // From here on all is data, for what is known.
            _ => {
                (self.is_full, self.is_over) = (true, true);
                return;
            }
        }
        range.start = end;
    }

    fn response(&mut self, engine: &mut NbdClient, tag: Tag, error: ErrorCode) {
        engine.release(tag);
        let Some(range) = self.asked.get_mut(tag.index()).and_then(Option::take) else { return };
        self.is_over |= error != ErrorCode::SUCCESS;
        if !range.is_empty() {
            self.open.push(range);
        }
    }

    /// All runs, in order and apart from each other.
    fn finish(self) -> Vec<Range<u64>> {
        let mut all = self.runs;
        all.extend(self.open.into_iter().chain(self.asked.into_iter().flatten()));
        all.extend(Some(self.rest).filter(|rest| !rest.is_empty()));
        all.sort_unstable_by_key(|run| run.start);
        all.dedup_by(|next, run| {
            let touch = next.start <= run.end;
            run.end = if touch { run.end.max(next.end) } else { run.end };
            touch
        });
        all
    }
}

impl Handler<NbdClient> for KnownExtents {
    fn memory_mut(&mut self, _: Tag, _: u32, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn memory(&self, _: Tag, _: u32, _: u32) -> &[u8] {
        &[]
    }

    fn event(&mut self, _: &Handle, engine: &mut NbdClient, event: ClientEvent) -> Flow {
        match event {
            ClientEvent::Extent { tag, length, zero } => self.extent(tag, length, zero),
            ClientEvent::Response { tag, error } => self.response(engine, tag, error),
            ClientEvent::Hole { .. }
            | ClientEvent::StartTls
            | ClientEvent::Ready
            | ClientEvent::Refused => {}
        }
        Flow::Continue
    }

    fn released(&mut self, _: &Handle, _: &mut NbdClient, _: Tag) {}
}

/// The driver of the connection meanwhile.
struct Asking {
    pump: Option<StreamPump<NbdClient>>,
    known: KnownExtents,
    idle: Arc<Idle<NbdClient>>,
    id: DriverId,
    io_timeout: Duration,
    /// From then on nothing more is asked.
    limit: Time,
    /// When it last had fewer requests under way.
    heard: Time,
    give: Sender<Option<Vec<Range<u64>>>>,
}

impl Asking {
    /// Gives the connection back, and tells what is known.
    fn finish(&mut self, on: &Handle, why: Option<String>) {
        on.remove(self.id);
        let Some(mut pump) = self.pump.take() else { return };
        let known = core::mem::replace(&mut self.known, KnownExtents::of(0));
        let fits = why.is_none() && pump.is_quiet() && pump.deregister(on, self.id).is_ok();
        if fits {
            self.idle.give(pump);
        } else {
            let why = why.unwrap_or_else(|| "it ended while the server reported holes".into());
            self.idle.lost(why);
        }
        // Who asked may have given up.
        let _ = self.give.send(fits.then(|| known.finish()));
    }

    /// What is wrong with the connection.
    fn fault(&self, on: &Handle) -> Option<String> {
        let pump = self.pump.as_ref()?;
        if pump.end().is_some() {
            let violation = pump.engine.violation().map(|violation| violation.to_string());
            return Some(violation.unwrap_or_else(|| "the server ended the connection".into()));
        }
        (on.now() >= self.heard + self.io_timeout).then(|| {
            let seconds = self.io_timeout.as_secs_f32();
            format!("the server has not answered within {seconds} s")
        })
    }
}

impl Driver for Asking {
    fn receive(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        let before = self.known.under_way();
        let activity = Link::receive(pump, on, &mut self.known);
        if self.known.under_way() != before {
            self.heard = on.now();
        }
        activity
    }

    fn work(&mut self, on: &Handle) -> Activity {
        if let Some(why) = self.fault(on) {
            self.finish(on, Some(why));
            return Activity::Busy;
        }
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        self.known.is_over |= on.now() >= self.limit;
        self.known.ask(&mut pump.engine);
        if self.known.under_way() == 0 {
            self.finish(on, None);
            return Activity::Busy;
        }
        on.wake_at(self.id, self.heard + self.io_timeout);
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        Link::send(pump, on, &mut self.known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Asked about 8 MiB under tag 0.
    fn asked() -> KnownExtents {
        let mut known = KnownExtents::of(8 * MIB);
        known.asked = vec![known.next()];
        known
    }

    #[test]
    fn what_is_not_told_counts_as_data() {
        assert_eq!(KnownExtents::of(8 * MIB).finish().first(), Some(&(0..8 * MIB)));
        assert_eq!(KnownExtents::of(0).finish(), []);
        let mut known = asked();
        for (mib, zero) in [(1, true), (1, false), (1, false), (2, true)] {
            known.extent(Tag(0), mib * MIB, zero);
        }
        assert_eq!(known.finish(), [MIB..3 * MIB, 5 * MIB..8 * MIB]);
    }

    #[test]
    fn runs_have_a_bound() {
        let mut known = asked();
        for n in 0..2 * EXTENT_RUNS_MAX as u64 + 8 {
            known.extent(Tag(0), 1, n % 2 == 1);
        }
        assert!(known.is_over);
        let runs = known.finish();
        assert_eq!(runs.len(), EXTENT_RUNS_MAX + 1);
        let end = 2 * EXTENT_RUNS_MAX as u64;
        assert!(runs[0] == (0..1) && runs.last() == Some(&(end..8 * MIB)), "{:?}", runs.last());
    }

    #[test]
    fn large_exports_are_asked_about_in_parts() {
        let mut known = KnownExtents::of(5 * ASKED_BYTES + 512);
        let parts: Vec<_> = core::iter::from_fn(|| known.next()).collect();
        assert_eq!(parts.len(), 6);
        assert_eq!(parts.last(), Some(&(5 * ASKED_BYTES..5 * ASKED_BYTES + 512)));
        // Whatever size a server states costs nothing.
        let mut known = KnownExtents::of(u64::MAX);
        assert_eq!(known.next(), Some(0..ASKED_BYTES));
        known.open.push(ASKED_BYTES / 2..ASKED_BYTES);
        assert_eq!(known.finish().first(), Some(&(ASKED_BYTES / 2..u64::MAX)));
    }
}
