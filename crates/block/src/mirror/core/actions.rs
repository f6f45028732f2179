//! Work of the core for the engine: actions on ports, their outcomes, and the log.

use super::Core;
use super::port::{ActionPurpose, Port, memory};
use crate::mirror::engine::{FailureMeaning, Io, IoTarget, MirrorEvent, fault};
use crate::mirror::start::names;
use crate::mirror::user_op::UserOp;
use crate::op::{Completion, OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use weft_io::segment::{Divided, total_len};
use weft_io::{Pool, Segments};

impl Core {
    /// Begins an action of the engine.
    pub(super) fn act(&mut self, name: u64, target: IoTarget, io: Io) {
        let place = match target {
            IoTarget::Leg(number) => self.place_of(number),
            IoTarget::State => Some(self.legs.len()),
        };
        let (legs, state) = (&mut self.legs, &mut self.state);
        let port = place.and_then(|place| match legs.get_mut(place) {
            Some(leg) => leg.port.as_mut(),
            None => state.as_mut().and_then(|state| state.port.as_mut()),
        });
        if let (Io::Equalise { copy, lba, blocks }, Some(place), true) =
            (&io, place, port.is_some())
        {
            return self.equalise(place, name, (*copy, *lba, *blocks));
        }
        let (run, pool) = (self.run, &self.pool);
        let Some(port) = port else {
            return self.engine_done(run, name, Outcome::NotSent(Status::new(StatusKind::Gone)));
        };
        let block = port.block_bytes as usize;
        let plain = ActionPurpose::Plain { run, name };
        match io {
            Io::Flush => port.send(OpKind::Flush, 0, 0, Segments::new(), plain),
            Io::Page { offset, bytes } => port.write_page(pool, offset, &bytes, plain),
            Io::Label { slot, old, new } => {
                port.write_slot(pool, (run, name), slot, [old, new], target == IoTarget::State)
            }
            Io::Fetch { copy, lba, blocks } => {
                let data = memory(pool, blocks as usize * block);
                port.send(
                    OpKind::Read,
                    lba,
                    blocks,
                    data,
                    ActionPurpose::Fetch { run, name, copy },
                );
            }
            Io::Store { copy, lba, blocks } => {
                let mut data = Segments::new();
                if let Some(memory) = self.copies.get_mut(&copy) {
                    memory.share(0, blocks as usize * block, &mut data);
                }
                port.send(OpKind::Write { fua: false }, lba, blocks, data, plain);
            }
            Io::Equalise { .. } => {}
            Io::Read { op } | Io::Compare { op } | Io::Write { op } => {
                self.act_for_user(place, name, op, &io);
            }
        }
    }

    /// Begins an action for an operation of a user on the leg at this place.
    fn act_for_user(&mut self, place: Option<usize>, name: u64, op: u64, io: &Io) {
        let held = self.by_name.get(&op).copied();
        let of = held.and_then(|held| Some((held, self.held.get_mut(held)?)));
        let leg = place.and_then(|place| Some((place, self.legs.get_mut(place)?.port.as_mut()?)));
        let (Some((held, of)), Some((place, port))) = (of, leg) else {
            // Its user was answered while the engine had not begun.
            let aborted = Outcome::NotSent(Status::new(StatusKind::Invalid));
            return self.engine_done(self.run, name, aborted);
        };
        let again = of.sent_again(place, !matches!(io, Io::Write { .. }));
        act_for(of, held, port, &self.pool, (self.run, name), io);
        let failed = self.legs.iter().enumerate().filter(|(place, _)| again >> place & 1 != 0);
        failed.for_each(|(_, leg)| leg.counts.retried());
    }

    pub(super) fn take_in(
        &mut self,
        place: usize,
        index: usize,
        what: ActionPurpose,
        mut completion: Completion,
    ) {
        let outcome = completion.outcome;
        match what {
            ActionPurpose::Plain { run, name } => self.engine_done(run, name, outcome),
            ActionPurpose::Write { run, name, held } => {
                // One on a leg that was let go of may have ended before, and its name be another's.
                if let Some(held) = self.held.get_mut(held).filter(|_| index == 0) {
                    held.ended_on(place, &outcome);
                }
                self.engine_done(run, name, outcome);
            }
            ActionPurpose::Read { run, name, held } => {
                if let Some(held) = self.held.get_mut(held) {
                    held.op.data = core::mem::take(&mut completion.op.data);
                    held.is_lent = false;
                    held.ended_on(place, &outcome);
                }
                self.read_done(run, name, outcome);
            }
            ActionPurpose::Compare { run, name, held } => {
                let Some(held) = self.held.get_mut(held) else { return };
                held.is_lent = false;
                held.ended_on(place, &outcome);
                let is_equal = !outcome.is_success() || held.equals(&completion.op.data);
                let differs = Outcome::Done(Status::new(StatusKind::CompareFailed));
                self.read_done(run, name, if is_equal { outcome } else { differs });
            }
            ActionPurpose::Fetch { run, name, copy } => {
                let mut memory = Divided::new();
                memory.fill(core::mem::take(&mut completion.op.data));
                if run == self.run {
                    self.copies.insert(copy, memory);
                }
                self.engine_done(run, name, outcome);
            }
            ActionPurpose::Compared(it) => self.compared((place, index), it, &completion),
            ActionPurpose::Mended(it) => self.mend_on((place, index), it, outcome),
            ActionPurpose::Slot { .. } => {
                let pool = self.pool.clone();
                let end = self
                    .port_at(place, index)
                    .and_then(|port| port.slot_done(&pool, what, &completion));
                if let Some((run, name, outcome)) = end {
                    self.engine_done(run, name, outcome);
                }
            }
            ActionPurpose::Area => self.area_read(place, &completion),
            ActionPurpose::Reserve if index == 0 => self.reserve_on(place, &completion),
            ActionPurpose::Displace => self.displaced(place),
            ActionPurpose::GiveBack if index == 0 => self.given_back(place),
            // A device that does not answer is gone, and says so itself.
            ActionPurpose::Reserve | ActionPurpose::GiveBack | ActionPurpose::Probe => {}
        }
    }

    /// The end of a read for a user: what the request itself is to blame for decides nothing.
    fn read_done(&mut self, run: u32, name: u64, outcome: Outcome) {
        if !outcome.is_success() && fault(&outcome) == FailureMeaning::Request {
            self.tell_engine(run, name, outcome);
        } else {
            self.engine_done(run, name, outcome);
        }
    }

    pub(super) fn say(&self, event: MirrorEvent) {
        let url = &self.options.url;
        let leg_url = |number: usize| {
            self.place_of(number).map_or_else(
                || names(1 << number),
                |place| format!("leg {number} ({})", self.legs[place].source.url),
            )
        };
        match event {
            MirrorEvent::Dropped { leg, why } => {
                tracing::error!(
                    "{url}: {} failed ({:?}) and is out of sync; the others serve alone",
                    leg_url(leg),
                    why.kind
                );
            }
            MirrorEvent::Resync { leg, regions, bytes, is_whole } => {
                let how = if is_whole {
                    "its label is not the one with which it left (an older copy, or a new leg), so all of it is copied"
                } else {
                    "what it missed is copied"
                };
                tracing::warn!(
                    "{url}: {} is back; {how}: {regions} regions of {bytes} bytes",
                    leg_url(leg)
                );
            }
            MirrorEvent::InSync { leg, copied } => {
                tracing::warn!(
                    "{url}: {} is in sync again; {copied} bytes were copied",
                    leg_url(leg)
                )
            }
            MirrorEvent::Equalising { regions } => {
                tracing::warn!(
                    "{url}: it was not closed in order; {regions} regions in which the legs may differ are made equal"
                );
            }
            MirrorEvent::Unreadable { lba, blocks } => tracing::error!(
                "{url}: {blocks} blocks from block {lba} on can be read from no leg; they fail with a medium error until they are written"
            ),
            MirrorEvent::TooManyUnreadable => tracing::error!(
                "{url}: more blocks can be read from no leg than a mirror remembers; legs that are copied to stay out of sync until some of them \
                 are written"
            ),
            MirrorEvent::Equal { compared } => {
                tracing::warn!("{url}: the legs are equal; {compared} bytes were compared")
            }
        }
    }
}

/// Begins an action for an operation of a user.
fn act_for(
    of: &mut UserOp,
    held: u64,
    port: &mut Port,
    pool: &Pool,
    (run, name): (u32, u64),
    io: &Io,
) {
    let (lba, blocks) = (of.op.lba, of.op.blocks);
    match io {
        Io::Read { .. } => {
            of.is_lent = true;
            let data = core::mem::take(&mut of.op.data);
            port.send(OpKind::Read, lba, blocks, data, ActionPurpose::Read { run, name, held });
        }
        Io::Compare { .. } => {
            of.is_lent = true;
            let data = memory(pool, blocks as usize * port.block_bytes as usize);
            port.send(OpKind::Read, lba, blocks, data, ActionPurpose::Compare { run, name, held });
        }
        _ => {
            of.is_sent = true;
            let (kind, bytes) = sent(of.op.kind, total_len(&of.op.data));
            let data = of.share(bytes);
            port.send(kind, lba, blocks, data, ActionPurpose::Write { run, name, held });
        }
    }
}

/// Returns the operation that a leg gets for a write, and its bytes.
fn sent(kind: OpKind, bytes: usize) -> (OpKind, usize) {
    match kind {
        OpKind::CompareAndWrite { fua } => (OpKind::Write { fua }, bytes / 2),
        other => (other, bytes),
    }
}
