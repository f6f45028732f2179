//! Looks after sessions that no queue uses, on the control loop: a target pings them too, and they
//! must be logged out in the end.

use super::session_names::SessionNames;
use crate::source::idle::Idle;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use weft_connection::limits::{CLOSE_S, ISCSI_IDLE_STEP_S, ISCSI_LOGOUT_STEP_MS};
use weft_connection::pump::{Flow, Handler, StreamPump};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};
use weft_proto::iscsi::initiator::{CommandOutcome, Initiator, InitiatorEvent};
use weft_proto::scsi::initiator::{AttentionChange, CommandVerdict};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::ScsiStatus;
use weft_proto::stream::{StreamEngine, Tag};

/// Why a session of a disk that was started anew is ended.
pub(super) const RESTARTED: &str = "the disk has restarted, and may have lost what it had cached";

/// A session without commands: nothing of it has memory.
#[derive(Default)]
pub(super) struct NoCommands {
    /// The disk has said that it was started anew.
    is_restarted: bool,
}

impl Handler<Initiator> for NoCommands {
    fn memory_mut(&mut self, _: Tag, _: u32, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn memory(&self, _: Tag, _: u32, _: u32) -> &[u8] {
        unreachable!("a session without commands sends no data")
    }

    fn event(&mut self, _: &Handle, engine: &mut Initiator, event: InitiatorEvent) -> Flow {
        // What the device itself wanted to know when its queue was dropped.
        if let InitiatorEvent::Ended { tag, end } = event {
            if let CommandOutcome::Answered(answer) = end {
                let verdict =
                    CommandVerdict::of(ScsiStatus(answer.status), Sense::decode(engine.sense(tag)));
                self.is_restarted |= verdict == CommandVerdict::Again(AttentionChange::Restarted);
            }
            engine.release(tag);
        }
        Flow::Continue
    }

    fn released(&mut self, _: &Handle, _: &mut Initiator, _: Tag) {}
}

/// The driver.
pub(super) struct IdleSessions {
    id: DriverId,
    idle: Arc<Idle<Initiator>>,
    /// The device is gone.
    closing: Arc<AtomicBool>,
    /// The names of the sessions of a device with a volatile cache.
    cached: Option<Weak<SessionNames>>,
    leaving: Vec<(StreamPump<Initiator>, Time)>,
    next: Time,
    timer: TimerSlot,
}

impl IdleSessions {
    /// Starts to look after sessions. When `closing` is set and the driver woken, it logs them out,
    /// and later ones as they come back. Where `cached` has the names of sessions, a disk that says
    /// that it was started anew begins another epoch.
    pub(super) fn spawn(
        on: &Handle,
        idle: Arc<Idle<Initiator>>,
        closing: Arc<AtomicBool>,
        cached: Option<Weak<SessionNames>>,
    ) -> DriverId {
        on.spawn(|id| Self {
            id,
            idle,
            closing,
            cached,
            leaving: Vec::new(),
            next: Time::ZERO,
            timer: TimerSlot::default(),
        })
    }

    /// Sends and receives what there is, without waiting for it. What has ended is thrown away.
    fn look_after(&self, on: &Handle) {
        self.idle.look_after(|pump| {
            // An answer may come in pieces. The rest of it must not wait for the next look: by then
            // the ping counts as unanswered.
            let mut answers = NoCommands::default();
            let _ = pump.receive_all(on, &mut answers);
            let _ = pump.send(on, &mut answers);
            if let (true, Some(names)) =
                (answers.is_restarted, self.cached.as_ref().and_then(Weak::upgrade))
            {
                names.begin_epoch();
                return Err(RESTARTED.to_owned());
            }
            match (pump.engine.fault(), pump.end()) {
                (Some(fault), _) => Err(fault.to_string()),
                (None, Some(_)) => Err("the target closed it".to_owned()),
                (None, None) => Ok(()),
            }
        });
    }

    /// Begins to log out the sessions that wait.
    fn leave(&mut self, on: &Handle) {
        for mut pump in self.idle.take_all() {
            self.idle.ended();
            pump.engine.tick(on.now().since_epoch());
            pump.engine.log_out(Duration::ZERO);
            if pump.register(on, self.id).is_ok() {
                self.leaving.push((pump, on.now() + Duration::from_secs(CLOSE_S)));
            }
        }
    }

    fn work_closing(&mut self, on: &Handle) {
        self.leave(on);
        let now = on.now();
        self.leaving.retain(|(pump, until)| {
            !pump.engine.is_closed() && pump.end().is_none() && now < *until
        });
        if self.leaving.is_empty() && self.idle.standing() == 0 {
            return on.remove(self.id);
        }
        self.timer.arm(on, self.id, now + Duration::from_millis(ISCSI_LOGOUT_STEP_MS));
    }
}

impl Driver for IdleSessions {
    fn receive(&mut self, on: &Handle) -> Activity {
        for (pump, _) in &mut self.leaving {
            let _ = pump.receive(on, &mut NoCommands::default());
        }
        Activity::Idle
    }

    fn work(&mut self, on: &Handle) -> Activity {
        if self.closing.load(Ordering::Acquire) {
            self.work_closing(on);
        } else if on.now() >= self.next {
            self.look_after(on);
            self.next = on.now() + Duration::from_secs(ISCSI_IDLE_STEP_S);
            self.timer.arm(on, self.id, self.next);
        }
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        for (pump, _) in &mut self.leaving {
            let _ = pump.send(on, &mut NoCommands::default());
        }
        Activity::Idle
    }
}
