//! NBD: client and server engine, with extended headers, as both ends of ours agree on.

use crate::replay::{self, End};
use crate::{BYTES, DEPTH};
use std::sync::Arc;
use weft_proto::nbd::client::ClientCommand;
use weft_proto::nbd::code::{CommandCode, CommandFlags, ErrorCode, TransmissionFlags};
use weft_proto::nbd::server::{CommandKind, ExportOffer, Listed};
use weft_proto::nbd::{
    BlockSizes, ClientConfig, ClientEvent, ExportInfo, NbdClient, NbdEngine, ServerConfig,
    ServerEvent,
};
use weft_proto::stream::Tag;

struct Host {
    engine: NbdClient,
    code: CommandCode,
}

impl Host {
    fn new(code: CommandCode) -> Self {
        Self { engine: NbdClient::new(ClientConfig::new("")), code }
    }
}

impl End for Host {
    type Engine = NbdClient;

    fn engine(&mut self) -> &mut NbdClient {
        &mut self.engine
    }

    fn submit(&mut self, round: usize) {
        for at in 0..DEPTH {
            let offset = ((round * DEPTH + at) % 120) as u64 * u64::from(BYTES);
            let (code, flags, length) = (self.code, CommandFlags::default(), BYTES.into());
            self.engine.submit(ClientCommand { code, flags, offset, length }).unwrap();
        }
    }

    fn follow(&mut self, event: ClientEvent) -> bool {
        match event {
            ClientEvent::Ready => false,
            ClientEvent::Response { tag, .. } => {
                self.engine.release(tag);
                true
            }
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self, tag: Tag) {
        assert!(self.engine.sent(tag).is_none());
    }
}

struct Target(NbdEngine);

impl Target {
    fn new() -> Self {
        let listed = Listed { name: "one".into(), description: String::new() };
        Self(NbdEngine::new(ServerConfig::new(Arc::new([listed]))))
    }
}

impl End for Target {
    type Engine = NbdEngine;

    fn engine(&mut self) -> &mut NbdEngine {
        &mut self.0
    }

    fn submit(&mut self, _: usize) {}

    /// The device is always done at once.
    fn follow(&mut self, event: ServerEvent) -> bool {
        match event {
            ServerEvent::Select => {
                let listed = &Listed { name: "one".into(), description: String::new() };
                let sizes = BlockSizes { minimum: 512, preferred: 4096, payload_max: 1 << 20 };
                let flags = TransmissionFlags::HAS_FLAGS;
                let info = ExportInfo { size_bytes: 1 << 20, flags, sizes };
                self.0.answer(Ok(ExportOffer { listed, info }));
                false
            }
            ServerEvent::Request { command, .. }
                if matches!(command.kind, CommandKind::Write { .. }) =>
            {
                false
            }
            ServerEvent::Request { tag, .. } | ServerEvent::DataArrived { tag } => {
                self.0.complete(tag, ErrorCode::SUCCESS);
                true
            }
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self, tag: Tag) {
        self.0.sent(tag);
    }
}

#[test]
fn client_read() {
    replay::host(|| Host::new(CommandCode::READ), Target::new());
}

#[test]
fn client_write() {
    replay::host(|| Host::new(CommandCode::WRITE), Target::new());
}

#[test]
fn server_read() {
    replay::target(Host::new(CommandCode::READ), Target::new);
}

#[test]
fn server_write() {
    replay::target(Host::new(CommandCode::WRITE), Target::new);
}
