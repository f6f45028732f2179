//! Opening a connection: the first address of a place that accepts a queue pair and, for an I/O
//! queue, Connect.

use super::transport::RdmaLink;
use crate::source::nvme::connect_exchange::ConnectExchange;
use crate::source::nvme::transport::{CommandEngine, ControllerLink, LinkPlan, OpenLink, Opened};
use std::io;
use std::net::SocketAddr;
use weft_block::{Error, ErrorKind};
use weft_connection::nvme::rdma::{Wire, limits};
use weft_io::rdma::{self, DeviceLimits, QueuePair, QueuePairConfig};
use weft_io::{Activity, Driver, DriverId, Handle};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{Connect, ConnectData};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Cntlid, Qid};
use weft_proto::nvme_rdma::cm::Reject;
use weft_proto::nvme_rdma::{Exposure, HostQueuePair, QueuePairEngine, RdmaHostConfig, Work};

type Then = Box<dyn FnOnce(&Handle, Result<Opened<RdmaLink>, Error>)>;

impl OpenLink for RdmaLink {
    type Place = Vec<SocketAddr>;

    fn open(
        on: &Handle,
        plan: LinkPlan<Vec<SocketAddr>>,
        then: impl FnOnce(&Handle, Result<Opened<Self>, Error>) + 'static,
    ) {
        let (until, then): (_, Then) = (plan.limit.until, Box::new(then));
        on.spawn(|id| {
            on.wake_at(id, until);
            on.wake(id);
            Opening { plan, id, nth: 0, attempt: Attempt::None, why: None, then: Some(then) }
        });
    }
}

/// How far the present attempt is.
enum Attempt {
    /// The next address is to be tried.
    None,
    /// The device that leads there is looked for.
    Resolving(Box<dyn QueuePair>),
    /// The connection was asked for.
    Asked(Box<RdmaLink>, Box<QueueConnect>),
    Over,
}

/// The driver.
struct Opening {
    plan: LinkPlan<Vec<SocketAddr>>,
    id: DriverId,
    /// The address that is tried next.
    nth: usize,
    attempt: Attempt,
    /// Why the first address did not do.
    why: Option<Error>,
    then: Option<Then>,
}

impl Opening {
    fn end(&mut self, on: &Handle, outcome: Result<Opened<RdmaLink>, Error>) {
        self.attempt = Attempt::Over;
        on.remove(self.id);
        if let Some(then) = self.then.take() {
            then(on, outcome);
        }
    }

    /// Tries the next address, or ends when there is none.
    fn try_next(&mut self, on: &Handle) {
        let nth = self.nth;
        self.nth += 1;
        let Some(at) = self.plan.place.get(nth) else {
            let none = || {
                Error::new(ErrorKind::NotFound, format!("{}: there is no address", self.plan.name))
            };
            let why = self.why.take().unwrap_or_else(none);
            return self.end(on, Err(why));
        };
        let asked = on.connect_rdma(*at).and_then(|mut pair| {
            on.registrar(self.id, |r| pair.register(r))?;
            Ok(pair)
        });
        match asked {
            Ok(pair) => {
                self.attempt = Attempt::Resolving(pair);
                on.wake(self.id);
            }
            Err(e) => self.fail(on, Error::io(format!("{}: {e}", self.plan.name), e)),
        }
    }

    /// This address does not do.
    fn fail(&mut self, on: &Handle, why: Error) {
        self.attempt = Attempt::None;
        self.why.get_or_insert(why);
        on.wake(self.id);
    }

    /// Looks whether the way to the other end is known, and asks for the connection then.
    fn resolve(&mut self, on: &Handle, mut pair: Box<dyn QueuePair>) -> bool {
        match pair.poll(on) {
            Ok(None) => {
                self.attempt = Attempt::Resolving(pair);
                false
            }
            Ok(Some(rdma::QueuePairEvent::Resolved)) => {
                match self.ask(&mut pair) {
                    Err(e) => self.fail(on, Error::io(format!("{}: {e}", self.plan.name), e)),
                    Ok((queue, slots)) => {
                        let wire = Wire::new(pair, slots);
                        let mut link = RdmaLink::new(
                            wire,
                            queue,
                            self.plan.commands,
                            self.plan.options.control.capture(),
                        );
                        // It is registered already, which the wire is to know.
                        if let Err(e) =
                            link.deregister(on, self.id).and_then(|()| link.register(on, self.id))
                        {
                            self.fail(on, Error::io(format!("cannot watch a connection: {e}"), e));
                            return true;
                        }
                        let said = QueueConnect {
                            exchange: ConnectExchange::new(&self.plan),
                            is_begun: false,
                        };
                        self.attempt = Attempt::Asked(Box::new(link), Box::new(said));
                    }
                }
                true
            }
            Ok(Some(_)) => {
                let trouble = pair.trouble().unwrap_or_else(|| "it is not reached".into());
                let text = format!(
                    "{}: {}: {trouble}; check the address, and `rdma link` at both ends",
                    self.plan.name,
                    pair.peer()
                );
                self.fail(on, Error::new(ErrorKind::Io, text));
                true
            }
            Err(e) => {
                self.fail(on, Error::io(format!("{}: {e}", self.plan.name), e));
                true
            }
        }
    }

    /// Makes the queues, posts receives and asks for the connection; also tells how many slots
    /// there are.
    fn ask(&self, pair: &mut Box<dyn QueuePair>) -> io::Result<(HostQueuePair, u16)> {
        let device = pair.device_limits();
        // One entry of a queue stays free (Base §3.3.1.4).
        let entries = self.plan.commands.saturating_add(1).min(device.receives);
        let (qid, cntlid) = match &self.plan.io {
            None => (Qid(0), Cntlid(0)),
            Some(io) => (
                Connect::decode(&io.connect.0).qid,
                ConnectData::decode(&*io.connect.1).map_or(Cntlid(0), |data| data.cntlid),
            ),
        };
        let exposure = if self.plan.options.rdma_shared_key {
            Exposure::Standing
        } else if device.has_windows {
            Exposure::Window
        } else {
            Exposure::Registration
        };
        let send_queue = send_queue(entries, &device);
        pair.create(&QueuePairConfig {
            send_queue,
            receives: entries,
            receive_bytes: Cqe::BYTES as u32,
            message_bytes: Sqe::default().0.len() as u32,
            slots: entries,
            reads: 0,
            exposure: Some(exposure),
            lent_pieces: 0,
        })?;
        let mut queue = HostQueuePair::new(RdmaHostConfig {
            qid,
            cntlid,
            queue_entries: entries,
            in_capsule_bytes: self.plan.io.as_ref().map_or(0, |io| io.in_capsule_bytes),
            exposure,
            limits: limits(&device, send_queue),
            ..RdmaHostConfig::default()
        });
        while let Some(Work::PostReceive(buffer)) = queue.next_work() {
            pair.post_receive(buffer.0);
        }
        pair.open(&queue.request().encode())?;
        Ok((queue, entries))
    }

    /// Goes on with a connection that was asked for.
    fn exchange(
        &mut self,
        on: &Handle,
        mut link: Box<RdmaLink>,
        mut said: Box<QueueConnect>,
    ) -> bool {
        if link.wire.is_refused() {
            let why = self.refusal(&link);
            self.fail(on, why);
            return true;
        }
        if link.has_ended() || link.engine.is_closed() {
            let complaint = link.complaint().map_or_else(
                || "the target ended it".to_owned(),
                |why| format!("the target {why}"),
            );
            let text = format!(
                "{}: the connection ended while it was opened: {complaint}",
                self.plan.name
            );
            let verdict = said.exchange.verdict();
            self.end(on, Err(verdict.unwrap_or_else(|| Error::new(ErrorKind::Refused, text))));
            return true;
        }
        let is_open = link.engine.queue.is_open();
        if is_open && !said.is_begun {
            said.exchange.start(&mut link.engine);
            said.is_begun = true;
            on.wake(self.id);
        }
        if let Some(why) = said.exchange.take_failure() {
            self.end(on, Err(why));
            return true;
        }
        if is_open && said.exchange.is_done() && link.is_quiet() {
            let _ = link.deregister(on, self.id);
            self.end(on, Ok((*link, said.exchange.finish())));
            return true;
        }
        self.attempt = Attempt::Asked(link, said);
        false
    }

    /// Why the connection was not accepted.
    fn refusal(&self, link: &RdmaLink) -> Error {
        let (name, pair) = (&self.plan.name, &link.wire.pair);
        let peer = pair.peer();
        if let Some(reject) = Reject::decode(pair.private_data()) {
            return Error::new(
                ErrorKind::Refused,
                format!("{name}: {peer} rejected the connection: {}", reject.status),
            );
        }
        let trouble = pair.trouble().unwrap_or_else(|| "it does not accept the connection".into());
        let text =
            format!("{name}: {peer}: {trouble}; check that an NVMe over RDMA target listens there");
        Error::new(ErrorKind::Refused, text)
    }

    fn late(&self) -> Error {
        let stage = match &self.attempt {
            Attempt::Asked(link, said) if link.engine.queue.is_open() => said.exchange.stage(),
            Attempt::Asked(..) => "the request to connect",
            _ => "anything",
        };
        let limit = self.plan.limit.span.as_secs_f32();
        let text = format!(
            "{}: the target does not answer {stage} within {limit} s; check the address",
            self.plan.name
        );
        Error::new(ErrorKind::TimedOut, text)
    }
}

/// Entries of the send queue: a bind, a SEND and an invalidation for each command.
fn send_queue(entries: u16, device: &DeviceLimits) -> u16 {
    entries.saturating_mul(3).min(device.send_queue)
}

impl Driver for Opening {
    fn receive(&mut self, on: &Handle) -> Activity {
        let Attempt::Asked(link, said) = &mut self.attempt else { return Activity::Idle };
        link.receive(on, &mut said.exchange)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        if !matches!(self.attempt, Attempt::Over) && on.now() >= self.plan.limit.until {
            let late = self.late();
            self.end(on, Err(late));
            return Activity::Busy;
        }
        Activity::busy_if(match core::mem::replace(&mut self.attempt, Attempt::Over) {
            Attempt::None => {
                self.try_next(on);
                true
            }
            Attempt::Resolving(pair) => self.resolve(on, pair),
            Attempt::Asked(link, said) => self.exchange(on, link, said),
            Attempt::Over => false,
        })
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let Attempt::Asked(link, said) = &mut self.attempt else { return Activity::Idle };
        link.send(on, &mut said.exchange)
    }
}

/// What is said on the connection.
struct QueueConnect {
    exchange: ConnectExchange,
    is_begun: bool,
}
