//! NVMe/TCP as a transport of hosts: a stream pump with the host's engine.

use crate::source::nvme::transport::{CommandEngine, CommandEvent, CommandOwner, ControllerLink};
use weft_connection::nvme::names::remark_all;
use weft_connection::pump::{ConnectionEnd, Flow, Handler, StreamPump};
use weft_io::{Activity, DriverId, Handle};
use weft_proto::nvme::deviation::Deviations;
use weft_proto::nvme::host::{HostData, SubmitError};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_tcp::{HostConnection, TcpHostEvent};
use weft_proto::stream::Tag;

/// One connection.
pub struct TcpLink {
    pump: StreamPump<HostConnection>,
    /// Why the controller ended it, if it said so.
    terminated: Option<String>,
    /// What the log has said of what it does against the rules.
    remarked: Deviations,
}

impl TcpLink {
    pub(super) fn new(pump: StreamPump<HostConnection>) -> Self {
        Self { pump, terminated: None, remarked: Deviations::default() }
    }

    #[cold]
    fn remark(&mut self, noted: Deviations) {
        let peer = self.pump.peer();
        remark_all(&format_args!("the controller at {peer}"), self.remarked.add(noted));
    }
}

impl CommandEngine for HostConnection {
    #[inline]
    fn submit(&mut self, sqe: Sqe, data: HostData) -> Result<Tag, SubmitError> {
        Self::submit(self, sqe, data)
    }

    #[inline]
    fn release(&mut self, tag: Tag) {
        Self::release(self, tag);
    }

    #[inline]
    fn outstanding(&self) -> usize {
        Self::outstanding(self)
    }

    #[inline]
    fn is_closed(&self) -> bool {
        weft_proto::stream::StreamEngine::is_closed(self)
    }

    fn cid(&self, tag: Tag) -> Option<Cid> {
        Self::cid(self, tag)
    }

    fn never_sent(&self, tag: Tag) -> bool {
        Self::never_sent(self, tag)
    }
}

/// Hands commands what the pump has for them.
struct CommandsHandler<'a, C> {
    commands: &'a mut C,
    terminated: &'a mut Option<String>,
}

impl<C: CommandOwner<HostConnection>> Handler<HostConnection> for CommandsHandler<'_, C> {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.commands.memory_mut(tag, offset, len)
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        self.commands.memory(tag, offset, len)
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut HostConnection, event: TcpHostEvent) -> Flow {
        match event {
            TcpHostEvent::Response { tag, cqe, received_bytes } => {
                self.commands.event(
                    on,
                    engine,
                    CommandEvent::Response { tag, cqe, received_bytes },
                );
            }
            TcpHostEvent::DataFailed { tag, cqe } => {
                self.commands.event(on, engine, CommandEvent::DataFailed { tag, cqe })
            }
            TcpHostEvent::Ready(_) => {}
            TcpHostEvent::Terminated(why) => *self.terminated = Some(why.to_string()),
        }
        Flow::Continue
    }

    #[inline]
    fn released(&mut self, on: &Handle, engine: &mut HostConnection, tag: Tag) {
        if let Some(event) = engine.sent(tag) {
            let _ = self.event(on, engine, event);
        }
    }
}

impl ControllerLink for TcpLink {
    type Engine = HostConnection;

    #[inline]
    fn engine(&mut self) -> &mut HostConnection {
        &mut self.pump.engine
    }

    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.pump.register(on, driver)
    }

    fn deregister(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.pump.deregister(on, driver)
    }

    #[inline]
    fn receive(
        &mut self,
        on: &Handle,
        commands: &mut impl CommandOwner<HostConnection>,
    ) -> Activity {
        let activity = self
            .pump
            .receive(on, &mut CommandsHandler { commands, terminated: &mut self.terminated });
        let noted = self.pump.engine.take_deviations();
        if !noted.is_empty() {
            self.remark(noted);
        }
        activity.or_settled_if(self.pump.is_drained())
    }

    #[inline]
    fn send(&mut self, on: &Handle, commands: &mut impl CommandOwner<HostConnection>) -> Activity {
        let activity =
            self.pump.send(on, &mut CommandsHandler { commands, terminated: &mut self.terminated });
        activity.or_settled_if(!self.pump.has_unsent())
    }

    fn close(&mut self) {
        self.pump.close();
    }

    fn abort(&mut self) {
        self.pump.abort();
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.pump.end().is_some()
    }

    fn complaint(&self) -> Option<String> {
        let broken = || {
            self.pump.engine.violation().map(|violation| format!("broke the protocol: {violation}"))
        };
        self.terminated.as_ref().map(|why| format!("ended the connection: {why}")).or_else(broken)
    }

    fn why_ended(&self) -> String {
        match (self.complaint(), self.pump.end()) {
            (Some(complaint), _) => format!("the controller {complaint}"),
            (None, Some(ConnectionEnd::Peer)) => "the controller closed it".into(),
            (None, Some(ConnectionEnd::Error(e))) => e.to_string(),
            (None, Some(ConnectionEnd::Engine) | None) => "it was closed".into(),
        }
    }

    fn is_quiet(&self) -> bool {
        self.pump.is_quiet()
    }
}
