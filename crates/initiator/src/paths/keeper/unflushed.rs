//! Handling of unflushed writes when a path is open again: asks who else may have written, and
//! looks for the writes or writes them again.

use super::super::asking::{self, Answer, Asked};
use super::super::compare::Lost;
use super::super::registered::{self, Others};
use super::super::replay::{Ended, Failure, Writers, replay};
use super::{Keeper, Phase};
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, Device, Error, OpKind};
use weft_connection::limits::REPLAY_ATTEMPTS;
use weft_io::Handle;

impl Keeper {
    /// Whether a device that was opened may have lost completed writes that no flush covers. So may
    /// one that is opened for the first time: its target may have started again with that of
    /// another path, whose loss nobody has noticed yet.
    pub(super) fn may_have_lost_writes(&self, device: &dyn BlockDevice) -> bool {
        let epoch = device.cache_epoch();
        let is_known =
            epoch.is_some() && self.paths.iter().any(|path| path.again && path.epoch == epoch);
        self.group.log.is_some() && (self.is_unfinished || !is_known)
    }

    /// No queue has anything under way that would disturb: finds out whether what is not flushed
    /// may be written again.
    pub(super) fn settled(&mut self, on: &Handle, path: usize) -> bool {
        let Phase::Settling(device, _) = &self.paths[path].phase else { return false };
        let device = Arc::clone(device);
        if !self.may_have_lost_writes(device.as_ref()) {
            // Another path to the same target has written them again.
            self.admit(on, path, device);
            self.group.open_gate();
            return true;
        }
        let (is_told, may_be) = (self.group.is_only_writer(), self.group.may_be_only_writer());
        let asks = self.group.key.is_some()
            || may_be && registered::decides(&self.group.options, device.as_ref());
        if is_told || !asks {
            return self.begin_replay(on, path, device, is_told || may_be);
        }
        let (asked, control, id) = (Asked::default(), self.group.control.clone(), self.id);
        self.paths[path].phase = Phase::Asking(Arc::clone(&device), Arc::clone(&asked));
        let done = move |answer| {
            *asked.lock() = Some(answer);
            control.wake(id);
        };
        asking::ask(on, &device, OpKind::ReservationReport, Box::new(done));
        true
    }

    /// It is known who else is registered with a device, or its connection was lost.
    pub(super) fn answered(
        &mut self,
        on: &Handle,
        path: usize,
        answer: Result<Answer, Error>,
    ) -> bool {
        match (answer, core::mem::replace(&mut self.paths[path].phase, Phase::Lost)) {
            (Ok(answer), Phase::Asking(device, _)) => {
                let is_alone = self.is_alone(&answer);
                self.begin_replay(on, path, device, is_alone)
            }
            (answer, _) => {
                let why = answer.err().map_or_else(String::new, |e| e.to_string());
                self.replayed(on, path, Err(Failure::before_all(why)))
            }
        }
    }

    /// Whether nobody else can have written, by what the device says of its reservation.
    fn is_alone(&self, answer: &Answer) -> bool {
        let Some(key) = self.group.key else {
            let others = Others::of(answer);
            self.group.note_others(others);
            return others == Others::None;
        };
        let is_held = key.holds(answer);
        if !is_held {
            tracing::error!(
                "{}: the reservation (--reserve) is lost: the target has forgotten it, or another host has taken it, and may have written; nothing is \
                 written again. Connect again to reserve the disk",
                self.group.url
            );
        }
        is_held
    }

    /// Writes again what is not flushed, or looks for it.
    fn begin_replay(
        &mut self,
        on: &Handle,
        path: usize,
        device: Device,
        only_writer: bool,
    ) -> bool {
        let (before, now) = (self.paths[path].epoch, device.cache_epoch());
        let Some(log) = &self.group.log else { return false };
        let is_certain = before.is_some() && now.is_some();
        if log.is_incomplete() && is_certain {
            let url = &self.group.url;
            tracing::error!(
                "{url}: the target has restarted and lost completed writes; more than {} bytes were not flushed (--unflushed), so they cannot \
                 all be written again: the next flush fails",
                self.group.options.unflushed_bytes
            );
            log.forget_loss();
            self.group.lose_writes();
            self.is_told = true;
        }
        let writers = if only_writer {
            Writers::OnlyThis
        } else {
            Writers::Several(self.group.unresolved.ranges())
        };
        match replay(
            on,
            &self.group.base.fit(Arc::clone(&device), &[]),
            Arc::clone(log),
            &writers,
            self.id,
        ) {
            Ok(told) => {
                self.paths[path].phase = Phase::Replaying(device, told);
                true
            }
            Err(e) => self.replayed(on, path, Err(Failure::before_all(e.to_string()))),
        }
    }

    pub(super) fn replayed(
        &mut self,
        on: &Handle,
        path: usize,
        outcome: Result<Ended, Failure>,
    ) -> bool {
        let phase = core::mem::replace(&mut self.paths[path].phase, Phase::Lost);
        match (outcome, phase) {
            (Ok(ended), Phase::Replaying(device, _)) => {
                let ended = ended.hide(&self.group);
                self.tell_of(path, &ended);
                self.replay_ended();
                self.admit(on, path, device);
            }
            (outcome, _) => {
                // What was told of is not told again; what is lost later is.
                self.is_told = false;
                let failure = outcome.err().unwrap_or_else(|| Failure::before_all(String::new()));
                if failure.is_begun {
                    self.replay_failed(on, path, &failure);
                }
                self.failed(on, path, failure.why, true);
            }
        }
        self.group.open_gate();
        // Another path may have waited for this one.
        on.wake(self.id);
        true
    }

    /// Says what became of the unflushed writes. What is still there stays in the log, and nobody
    /// has to notice.
    fn tell_of(&mut self, path: usize, ended: &Ended) {
        let is_told = core::mem::take(&mut self.is_told);
        match *ended {
            Ended::Written(0, Lost { blocks: 0, .. })
            | Ended::Looked(Lost { blocks: 0, .. }, _) => {}
            Ended::Written(count, Lost { blocks: 0, .. }) => {
                tracing::warn!(
                    "{}: the target may have restarted; {count} unflushed writes were written again",
                    self.name(path)
                );
            }
            Ended::Looked(Lost { blocks, first }, _)
            | Ended::Written(_, Lost { blocks, first }) => {
                tracing::error!(
                    "{}: {blocks} blocks (the first is {first}) do not have the data that was written and not flushed: the target has lost it, or \
                     another host has written there. They were not written again, and the next flush fails; check file systems and databases on the \
                     disk.{}",
                    self.name(path),
                    if matches!(ended, Ended::Looked(..)) {
                        " Give --only-writer if nobody else writes to it"
                    } else {
                        ""
                    }
                );
                if !is_told {
                    self.group.lose_writes();
                }
            }
        }
    }

    /// Older data may have been written over newer data: nothing else is sent until all is written
    /// again, by whatever path. Paths that are live connect again for that. A device that answers
    /// with an error each time has lost the writes for good.
    fn replay_failed(&mut self, on: &Handle, path: usize, failure: &Failure) {
        self.replay_errors += u32::from(failure.is_answered);
        if self.replay_errors >= REPLAY_ATTEMPTS
            || self.group.options.ctrl_loss_timeout == Some(Duration::ZERO)
        {
            tracing::error!(
                "{}: unflushed data cannot be written again ({}): the next flush fails",
                self.group.url,
                failure.why
            );
            self.group.log.iter().for_each(|log| log.give_up());
            self.group.lose_writes();
            return self.replay_ended();
        }
        if core::mem::replace(&mut self.is_unfinished, true) {
            return;
        }
        self.group.close_gate();
        for other in (0..self.paths.len()).filter(|other| *other != path) {
            if matches!(self.paths[other].phase, Phase::Live) {
                self.lose(on, other);
            }
        }
    }

    fn replay_ended(&mut self) {
        self.replay_errors = 0;
        if core::mem::take(&mut self.is_unfinished) {
            self.group.open_gate();
        }
    }
}
