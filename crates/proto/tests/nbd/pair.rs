//! A client and a server with a disk in memory.

use super::connection_end::{ConnectionEnd, Go};
use std::sync::Arc;
use weft_proto::nbd::client::ClientCommand;
use weft_proto::nbd::code::{
    CommandCode, CommandFlags, ErrorCode, ReplyCode, TransmissionFlags as Flags,
};
use weft_proto::nbd::server::{CommandKind, ExportOffer, Listed};
use weft_proto::nbd::{
    BlockSizes, ClientConfig, ClientEvent, ExportInfo, NbdClient, NbdEngine, ServerConfig,
    ServerEvent,
};
use weft_proto::stream::Tag;

pub const DISK_BYTES: usize = 1 << 20;

/// The exports that every test knows.
pub fn exports() -> Arc<[Listed]> {
    ["first", "second"]
        .map(|name| Listed { name: name.into(), description: format!("the {name}") })
        .into()
}

pub fn info() -> ExportInfo {
    let flags = [
        Flags::HAS_FLAGS,
        Flags::SEND_FLUSH,
        Flags::SEND_FUA,
        Flags::SEND_TRIM,
        Flags::SEND_WRITE_ZEROES,
        Flags::SEND_FAST_ZERO,
        Flags::CAN_MULTI_CONN,
    ];
    ExportInfo {
        size_bytes: DISK_BYTES as u64,
        flags: flags.into_iter().fold(Flags::default(), Flags::with),
        sizes: BlockSizes { minimum: 512, preferred: 4096, payload_max: 65_536 },
    }
}

/// The server and what it serves.
pub struct Target {
    pub end: ConnectionEnd<NbdEngine>,
    pub disk: Vec<u8>,
    /// Requests, in order.
    pub log: Vec<CommandKind>,
    pub info: ExportInfo,
    pub full: bool,
    pub left: bool,
    /// Requests that are not completed by themselves.
    pub hold: bool,
    pub held: Vec<Tag>,
    kinds: Vec<(CommandKind, u64, u64)>,
}

impl Target {
    pub fn new(config: ServerConfig, info: ExportInfo) -> Self {
        Self {
            end: ConnectionEnd::new(NbdEngine::new(config)),
            disk: vec![0; DISK_BYTES],
            log: Vec::new(),
            info,
            full: false,
            left: false,
            hold: false,
            held: Vec::new(),
            kinds: Vec::new(),
        }
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        let Self { end, disk, log, info, full, left, hold, held, kinds } = self;
        end.receive(bytes, &mut |end, event| {
            match event {
                ServerEvent::StartTls => return Go::Pause,
                ServerEvent::Full => {
                    *full = true;
                    return Go::Pause;
                }
                ServerEvent::Disconnect => {
                    *left = true;
                    return Go::Pause;
                }
                ServerEvent::Select => select(&mut end.engine, info),
                ServerEvent::Request { tag, command } => {
                    log.push(command.kind);
                    kinds.resize(kinds.len().max(tag.index() + 1), (CommandKind::Flush, 0, 0));
                    kinds[tag.index()] = (command.kind, command.offset, command.length);
                    if matches!(command.kind, CommandKind::Write { .. }) {
                        end.provide(tag, vec![0; command.length as usize]);
                    } else if *hold {
                        held.push(tag);
                    } else {
                        execute(end, disk, kinds[tag.index()], tag);
                    }
                }
                ServerEvent::DataArrived { tag } => execute(end, disk, kinds[tag.index()], tag),
            }
            Go::On
        });
    }

    /// Goes on with what a pause held back.
    pub fn resume(&mut self) {
        self.full = false;
        self.receive(&[]);
    }

    /// Completes what was held.
    pub fn complete_held(&mut self) {
        self.hold = false;
        for tag in core::mem::take(&mut self.held) {
            let kind = self.kinds[tag.index()];
            execute(&mut self.end, &mut self.disk, kind, tag);
        }
    }

    pub fn transmit(&mut self) -> Vec<u8> {
        let bytes = self.end.transmit();
        for tag in core::mem::take(&mut self.end.released) {
            self.end.engine.sent(tag);
        }
        bytes
    }
}

fn select(engine: &mut NbdEngine, info: &ExportInfo) {
    let exports = exports();
    let name = engine.wanted();
    match exports.iter().find(|listed| name.is_empty() || listed.name == name) {
        Some(listed) => engine.answer(Ok(ExportOffer { listed, info: *info })),
        None => engine.answer(Err((ReplyCode::ERR_UNKNOWN, "not here"))),
    }
}

fn execute(
    end: &mut ConnectionEnd<NbdEngine>,
    disk: &mut [u8],
    (kind, offset, length): (CommandKind, u64, u64),
    tag: Tag,
) {
    let range = offset as usize..(offset + length) as usize;
    match kind {
        CommandKind::Read => end.provide(tag, disk[range].to_vec()),
        CommandKind::Write { .. } => disk[range].copy_from_slice(&end.memory[tag.index()]),
        CommandKind::WriteZeroes { .. } => disk[range].fill(0),
        CommandKind::Flush | CommandKind::Trim { .. } => {}
    }
    end.engine.complete(tag, ErrorCode::SUCCESS);
}

/// Both ends, and how their bytes are cut.
pub struct Pair {
    pub target: Target,
    pub client: ConnectionEnd<NbdClient>,
    pub ready: bool,
    pub refused: bool,
    pub responses: Vec<(Tag, ErrorCode)>,
    /// Extents of block status: bytes, and whether they are zeroes.
    pub extents: Vec<(u64, bool)>,
    /// Bytes so far, to the server and to the client.
    pub passed: [usize; 2],
    /// Position at which each direction is cut once.
    pub cuts: [usize; 2],
    /// Bytes at a time.
    pub step: usize,
}

impl Pair {
    pub fn new(config: ClientConfig, server: ServerConfig) -> Self {
        Self {
            target: Target::new(server, info()),
            client: ConnectionEnd::new(NbdClient::new(config)),
            ready: false,
            refused: false,
            responses: Vec::new(),
            extents: Vec::new(),
            passed: [0; 2],
            cuts: [0; 2],
            step: usize::MAX,
        }
    }

    pub fn plain(export: &str) -> Self {
        Self::new(ClientConfig::new(export), ServerConfig::new(exports()))
    }

    /// The pieces in which bytes of a direction arrive.
    fn pieces<'a>(&mut self, direction: usize, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let start = self.passed[direction];
        self.passed[direction] += bytes.len();
        let cut = self.cuts[direction].saturating_sub(start).min(bytes.len());
        let (front, back) = bytes.split_at(cut);
        let step = self.step;
        front.chunks(step.max(1)).chain(back.chunks(step.max(1))).collect()
    }

    fn client_event(&mut self, bytes: &[u8]) {
        let Self { client, ready, refused, responses, extents, .. } = self;
        client.receive(bytes, &mut |end, event| {
            match event {
                ClientEvent::StartTls => return Go::Pause,
                ClientEvent::Ready => *ready = true,
                ClientEvent::Refused => *refused = true,
                ClientEvent::Hole { tag, offset, len } => {
                    end.memory[tag.index()][offset as usize..(offset + len) as usize].fill(0);
                }
                ClientEvent::Extent { length, zero, .. } => extents.push((length, zero)),
                ClientEvent::Response { tag, error } => responses.push((tag, error)),
            }
            Go::On
        });
    }

    /// Passes bytes to and fro until both are silent.
    pub fn run(&mut self) {
        loop {
            let (feed_server, feed_client) = (self.client.transmit(), self.target.transmit());
            for tag in core::mem::take(&mut self.client.released) {
                if let Some(ClientEvent::Response { tag, error }) = self.client.engine.sent(tag) {
                    self.responses.push((tag, error));
                }
            }
            if feed_server.is_empty() && feed_client.is_empty() {
                return;
            }
            for piece in self.pieces(0, &feed_server) {
                self.target.receive(piece);
            }
            for piece in self.pieces(1, &feed_client) {
                self.client_event(piece);
            }
        }
    }

    /// Has the client take in bytes that no server of ours would send.
    pub fn feed_client(&mut self, bytes: &[u8]) {
        self.client_event(bytes);
    }

    /// Submits a command with its memory.
    pub fn submit(
        &mut self,
        code: CommandCode,
        flags: CommandFlags,
        offset: u64,
        length: u64,
        data: Vec<u8>,
    ) -> Tag {
        let tag = self.client.engine.submit(ClientCommand { code, flags, offset, length }).unwrap();
        self.client.provide(tag, data);
        tag
    }

    /// Runs one command to its end; gives its error and its memory.
    pub fn command(
        &mut self,
        code: CommandCode,
        flags: CommandFlags,
        offset: u64,
        length: u64,
        data: Vec<u8>,
    ) -> (ErrorCode, Vec<u8>) {
        let tag = self.submit(code, flags, offset, length, data);
        self.run();
        let (answered, error) = self.responses.pop().expect("a response");
        assert_eq!(answered, tag);
        self.client.engine.release(tag);
        (error, core::mem::take(&mut self.client.memory[tag.index()]))
    }

    pub fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        let (error, data) = self.command(
            CommandCode::READ,
            CommandFlags::default(),
            offset,
            length,
            vec![0xee; length as usize],
        );
        assert_eq!(error, ErrorCode::SUCCESS);
        data
    }

    pub fn write(&mut self, offset: u64, data: Vec<u8>) {
        let length = data.len() as u64;
        assert_eq!(
            self.command(CommandCode::WRITE, CommandFlags::FUA, offset, length, data).0,
            ErrorCode::SUCCESS
        );
    }
}
