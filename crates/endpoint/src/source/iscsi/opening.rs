//! Opening a session: TCP, login, and what is asked before it can be used; all within one time limit.

use super::fault::{explain, unusable};
use crate::pump::{End, Flow, Handler, StreamPump};
use crate::source::dial::dial;
use std::net::SocketAddr;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};
use weft_proto::iscsi::initiator::{
    Command, CommandData, DiscoveredTarget, End as Ended, Fault, Initiator, InitiatorConfig, InitiatorEvent,
};
use weft_proto::iscsi::pdu::Lun;
use weft_proto::scsi::initiator::{Disk, Probe, Question};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::ScsiStatus;
use weft_proto::stream::Tag;

/// What to open.
pub(super) struct Plan {
    /// URL or address, for messages.
    pub(super) name: String,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) config: InitiatorConfig,
    /// The logical unit that is to be asked what it is.
    pub(super) probe: Option<Lun>,
    pub(super) limit: Duration,
}

/// A session that stands.
pub(super) struct Opened {
    pub(super) pump: StreamPump<Initiator>,
    /// What the logical unit said.
    pub(super) disk: Option<Disk>,
    /// What a discovery session learned.
    pub(super) targets: Vec<DiscoveredTarget>,
}

/// Why there is none.
pub(super) enum Failure {
    /// The target is at this address.
    Moved(String),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Pause before a disk that is not ready is asked again.
const LATER: Duration = Duration::from_millis(100);

/// Room for the answer to any question.
const ANSWER_BYTES: usize = 512;

type Then = Box<dyn FnOnce(&Handle, Result<Opened, Failure>)>;

/// Starts to open; `then` gets the result, on this loop.
pub(super) fn open(on: &Handle, plan: Plan, then: impl FnOnce(&Handle, Result<Opened, Failure>) + 'static) {
    let deadline = on.clock() + plan.limit;
    let (addresses, limit) = (plan.addresses.clone(), plan.limit);
    dial(on, &addresses, limit, "a target", move |on, result| match result {
        Err(e) => then(on, Err(e.into())),
        Ok(stream) => log_in(on, stream, plan, deadline, Box::new(then)),
    });
}

fn log_in(on: &Handle, stream: Box<dyn Stream>, plan: Plan, deadline: Time, then: Then) {
    let mut then = Some(then);
    let spawned = on.try_spawn(|id| {
        let mut pump = StreamPump::new(stream, Initiator::new(plan.config.clone(), on.now().since_epoch()));
        pump.register(on, id)?;
        on.wake_at(id, deadline);
        let talk = Talk { ready: false, listed: false, ended: None, data: [0; ANSWER_BYTES] };
        let (probe, timer) = (Probe::new(), TimerSlot::default());
        Ok::<_, std::io::Error>(Opening {
            pump: Some(pump),
            talk,
            probe,
            asked: Asked::Nothing,
            plan,
            id,
            deadline,
            timer,
            then: then.take(),
        })
    });
    if let (Err(e), Some(then)) = (spawned, then) {
        then(on, Err(Error::io(format!("cannot watch a connection: {e}"), e).into()));
    }
}

/// What was said so far.
struct Talk {
    ready: bool,
    listed: bool,
    ended: Option<(Tag, Ended)>,
    data: [u8; ANSWER_BYTES],
}

impl Handler<Initiator> for Talk {
    fn memory_mut(&mut self, _: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.data.get_mut(offset as usize..(offset + len) as usize)
    }

    fn memory(&self, _: Tag, _: u32, _: u32) -> &[u8] {
        unreachable!("no question sends data")
    }

    fn event(&mut self, _: &Handle, _: &mut Initiator, event: InitiatorEvent) -> Flow {
        match event {
            InitiatorEvent::Ready => self.ready = true,
            InitiatorEvent::Targets => self.listed = true,
            InitiatorEvent::Ended { tag, end } => self.ended = Some((tag, end)),
            InitiatorEvent::Reported { .. } | InitiatorEvent::Leaving => {}
        }
        Flow::Continue
    }

    fn released(&mut self, on: &Handle, engine: &mut Initiator, tag: Tag) {
        if let Some(event) = engine.sent(tag) {
            let _ = self.event(on, engine, event);
        }
    }
}

/// Where the questions to the logical unit stand.
enum Asked {
    Nothing,
    /// The next one is for then.
    Later(Time),
    Waiting,
}

/// The driver.
struct Opening {
    pump: Option<StreamPump<Initiator>>,
    talk: Talk,
    probe: Probe,
    asked: Asked,
    plan: Plan,
    id: DriverId,
    deadline: Time,
    timer: TimerSlot,
    then: Option<Then>,
}

impl Opening {
    fn finish(&mut self, on: &Handle, result: Result<Opened, Failure>) -> Activity {
        on.remove(self.id);
        if let Some(then) = self.then.take() {
            then(on, result);
        }
        Activity::Busy
    }

    /// Asks the next question, or takes an answer. Whether all is known.
    fn ask(&mut self, on: &Handle, engine: &mut Initiator) -> Result<bool, Error> {
        let Some(lun) = self.plan.probe else { return Ok(self.talk.ready) };
        if let Some((tag, end)) = self.talk.ended.take() {
            let sense = Sense::decode(engine.sense(tag));
            engine.release(tag);
            self.take_answer(end, sense)?;
            self.asked = match self.probe.question() {
                Some(Question { later: true, .. }) => Asked::Later(on.now() + LATER),
                _ => Asked::Nothing,
            };
        }
        let Some(question) = self.probe.question() else { return Ok(true) };
        match self.asked {
            Asked::Waiting => return Ok(false),
            Asked::Later(at) if on.now() < at => {
                self.timer.arm(on, self.id, at);
                return Ok(false);
            }
            _ => {}
        }
        let data = CommandData::In(question.data_in_bytes.min(ANSWER_BYTES as u32));
        // A session has room for one command.
        let _ = engine.submit(on.now().since_epoch(), Command { lun, cdb: question.cdb.bytes, data });
        self.asked = Asked::Waiting;
        Ok(false)
    }

    fn take_answer(&mut self, end: Ended, sense: Option<Sense>) -> Result<(), Error> {
        let name = &self.plan.name;
        let Ended::Answered(answer) = end else {
            return Err(Error::new(ErrorKind::TimedOut, format!("{name}: the logical unit does not answer; try again later")));
        };
        if answer.damaged {
            return Err(Error::new(ErrorKind::Io, format!("{name}: data was damaged on its way; try again")));
        }
        let data = &self.talk.data[..(answer.received_bytes as usize).min(ANSWER_BYTES)];
        self.probe.answer(ScsiStatus(answer.status), sense, data).map_err(|e| unusable(name, &e))
    }

    /// Why it will not come to anything, if so.
    fn failure(&self, on: &Handle, pump: &StreamPump<Initiator>) -> Option<Failure> {
        let name = &self.plan.name;
        let hint = "check that this is the port of an iSCSI target";
        match pump.engine.fault() {
            Some(Fault::Moved { address }) => return Some(Failure::Moved(address.clone())),
            Some(fault) => return Some(explain(name, fault).into()),
            None => {}
        }
        match pump.end() {
            Some(End::Error(e)) => {
                let cause = std::io::Error::from(e.kind());
                return Some(
                    Error::io(format!("{name}: the target closed the connection during login: {e}; {hint}"), cause).into(),
                );
            }
            Some(End::Peer | End::Engine) => {
                let text = format!("{name}: the target closed the connection during login; {hint}");
                return Some(Error::new(ErrorKind::Refused, text).into());
            }
            None => {}
        }
        (on.now() >= self.deadline).then(|| {
            let text = format!("{name}: the target did not log us in within {} s; {hint}", self.plan.limit.as_secs_f32());
            Error::new(ErrorKind::TimedOut, text).into()
        })
    }
}

impl Driver for Opening {
    fn receive(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        pump.receive(on, &mut self.talk)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let Some(mut pump) = self.pump.take() else { return Activity::Idle };
        pump.engine.tick(on.now().since_epoch());
        let known = match self.ask(on, &mut pump.engine) {
            Ok(known) => known || self.talk.listed,
            Err(e) => return self.finish(on, Err(e.into())),
        };
        if known && pump.is_quiet() {
            let _ = pump.deregister(on, self.id);
            let (disk, targets) = (self.plan.probe.map(|_| self.probe.disk().clone()), pump.engine.take_targets());
            return self.finish(on, Ok(Opened { pump, disk, targets }));
        }
        if let Some(failure) = self.failure(on, &pump) {
            return self.finish(on, Err(failure));
        }
        self.pump = Some(pump);
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        pump.send(on, &mut self.talk)
    }
}
