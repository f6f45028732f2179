//! Opening a connection: TCP, ICReq and ICResp and, for an I/O queue, Connect; all within one time limit.

use crate::pump::{End, Flow, Handler, StreamPump};
use crate::source::dial::dial;
use std::net::SocketAddr;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme_tcp::{HostConfig, HostConnection, HostData, HostEvent};
use weft_proto::stream::Tag;

/// What to open.
pub(super) struct Plan {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) host: HostConfig,
    /// Connect of the I/O queue, and its data; nothing for an admin queue.
    pub(super) connect: Option<(Sqe, Box<[u8; 1024]>)>,
    pub(super) limit: Duration,
    /// What data may go into the capsules of the queue, once Connect has succeeded.
    pub(super) in_capsule_bytes: u32,
}

/// A connection that stands, and the answer to Connect if one was sent.
pub(super) type Opened = (StreamPump<HostConnection>, Option<Cqe>);

/// Starts to open; `then` gets the result, on this loop.
pub(super) fn open(on: &Handle, plan: Plan, then: impl FnOnce(&Handle, Result<Opened, Error>) + 'static) {
    let started = on.clock();
    let (addresses, limit) = (plan.addresses.clone(), plan.limit);
    dial(on, &addresses, limit, "a target", move |on, result| match result {
        Err(e) => then(on, Err(e)),
        Ok(stream) => handshake(on, stream, plan, started, Box::new(then)),
    });
}

type Then = Box<dyn FnOnce(&Handle, Result<Opened, Error>)>;

fn handshake(on: &Handle, stream: Box<dyn Stream>, plan: Plan, started: Time, then: Then) {
    let mut then = Some(then);
    let peer = stream.peer();
    let spawned = on.try_spawn(|id| {
        let mut pump = StreamPump::new(stream, HostConnection::new(plan.host));
        pump.register(on, id)?;
        let deadline = started + plan.limit;
        on.wake_at(id, deadline);
        let talk = Talk { connect: plan.connect, ready: false, answer: None, terminated: None };
        Ok::<_, std::io::Error>(Opening {
            pump: Some(pump),
            talk,
            peer,
            id,
            deadline,
            limit: plan.limit,
            in_capsule_bytes: plan.in_capsule_bytes,
            then: then.take(),
        })
    });
    if let (Err(e), Some(then)) = (spawned, then) {
        then(on, Err(Error::io(format!("cannot watch a connection: {e}"), e)));
    }
}

/// The driver of the handshake.
struct Opening {
    pump: Option<StreamPump<HostConnection>>,
    talk: Talk,
    /// For messages: a connection that was reset no longer knows it.
    peer: String,
    id: DriverId,
    deadline: Time,
    limit: Duration,
    in_capsule_bytes: u32,
    then: Option<Then>,
}

/// What was said so far.
struct Talk {
    connect: Option<(Sqe, Box<[u8; 1024]>)>,
    ready: bool,
    answer: Option<Cqe>,
    terminated: Option<String>,
}

impl Handler<HostConnection> for Talk {
    fn memory_mut(&mut self, _: Tag, _: u32, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn memory(&self, _: Tag, offset: u32, len: u32) -> &[u8] {
        let (_, data) = self.connect.as_ref().expect("only Connect has data to send");
        &data[offset as usize..(offset + len) as usize]
    }

    fn event(&mut self, on: &Handle, engine: &mut HostConnection, event: HostEvent) -> Flow {
        match event {
            HostEvent::Ready(_) => {
                self.ready = true;
                if let Some((sqe, data)) = &self.connect {
                    // A new queue has room for its first command.
                    let _ = engine.submit(*sqe, HostData::Out(data.len() as u32));
                }
            }
            HostEvent::Response { tag, cqe, .. } | HostEvent::DataFailed { tag, cqe } => {
                engine.release(tag);
                self.answer = Some(cqe);
            }
            HostEvent::Terminated(why) => self.terminated = Some(why.to_string()),
        }
        let _ = on;
        Flow::Continue
    }

    fn released(&mut self, on: &Handle, engine: &mut HostConnection, tag: Tag) {
        if let Some(event) = engine.sent(tag) {
            let _ = self.event(on, engine, event);
        }
    }
}

impl Talk {
    fn is_done(&self) -> bool {
        self.ready && (self.connect.is_none() || self.answer.is_some())
    }
}

impl Opening {
    fn finish(&mut self, on: &Handle, result: Result<Opened, Error>) -> Activity {
        on.remove(self.id);
        if let Some(then) = self.then.take() {
            then(on, result);
        }
        Activity::Busy
    }

    /// Why it will not come to anything, if so.
    fn failure(&self, on: &Handle, pump: &StreamPump<HostConnection>) -> Option<Error> {
        let peer = &self.peer;
        let stage = if self.talk.ready { "Connect" } else { "ICReq" };
        if let Some(why) = &self.talk.terminated {
            return Some(Error::new(ErrorKind::Protocol, format!("{peer} ended the connection in answer to {stage}: {why}")));
        }
        if let Some(violation) = pump.engine.violation() {
            let hint = "check that this is the port of an NVMe/TCP target";
            return Some(Error::new(ErrorKind::Protocol, format!("{peer} does not speak NVMe/TCP: {violation}; {hint}")));
        }
        match pump.end() {
            Some(End::Error(e)) => {
                let cause = std::io::Error::from(e.kind());
                let hint = "check that this is the port of an NVMe/TCP target";
                return Some(Error::io(format!("{peer} closed the connection in answer to {stage}: {e}; {hint}"), cause));
            }
            Some(End::Peer | End::Engine) => {
                let hint = "check that this is the port of an NVMe/TCP target";
                return Some(Error::new(
                    ErrorKind::Refused,
                    format!("{peer} closed the connection in answer to {stage}; {hint}"),
                ));
            }
            None => {}
        }
        (on.now() >= self.deadline).then(|| {
            let hint = "check that this is the port of an NVMe/TCP target";
            let limit = self.limit.as_secs_f32();
            Error::new(ErrorKind::TimedOut, format!("{peer} does not answer {stage} within {limit} s; {hint}"))
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
        if self.talk.is_done() && pump.is_quiet() {
            let _ = pump.deregister(on, self.id);
            pump.engine.set_in_capsule_bytes(self.in_capsule_bytes);
            let answer = self.talk.answer;
            return self.finish(on, Ok((pump, answer)));
        }
        if let Some(error) = self.failure(on, &pump) {
            return self.finish(on, Err(error));
        }
        self.pump = Some(pump);
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        pump.send(on, &mut self.talk)
    }
}
