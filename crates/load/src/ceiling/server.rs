//! The server: serves connections on the calling thread.

use super::channel::{Channel, Secure};
use super::gather::{COPY_BYTES_MAX, Gather};
use super::message::{COUNT_NUMBER, CeilingMessage, CeilingMessageKind, Malformed, Parser};
use super::tuning::{BLOCK, CeilingTuning, PREFETCH, SOCKET_BYTES_MAX};
use super::{RECEIVE_BYTES, pause};
use core::time::Duration;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use weft_io::region::Pages;

/// Time for which the server keeps polling after the last message, before it sleeps.
const SPIN: Duration = Duration::from_millis(100);

/// Maximum sleep before it checks whether to stop.
const SLEEP: Duration = Duration::from_millis(500);

/// Empty turns between two checks of the clock and the listener.
const EMPTY_TURNS: u32 = 1024;

/// Maximum connections; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 256;

/// The region from which reads are served: memory like that of a RAM disk, in huge pages if
/// available.
pub struct CeilingMemory(Pages);

impl CeilingMemory {
    /// A region of `bytes` bytes that is touched at once: pages that were never written would all
    /// be the same one, always in the cache.
    ///
    /// # Errors
    /// The system's error, if it does not have enough memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let mut pages = Pages::new(bytes)?;
        pages.fill(0x5a);
        Ok(Self(pages))
    }
}

/// Serves until `stop` is true, or while the process lives; with TLS if `secure` is given. Sleeps
/// when idle.
///
/// # Errors
/// The listener's. A connection that fails, or whose peer uses another protocol, is closed; others
/// are not affected.
pub fn serve(
    listener: std::net::TcpListener,
    memory: &CeilingMemory,
    secure: Option<Secure>,
    stop: &AtomicBool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut server = Server {
        listener: TcpListener::from_std(listener),
        poll: Poll::new()?,
        memory: &memory.0,
        secure,
        messages: Vec::new(),
        connections: Vec::new(),
        calls: 0,
    };
    let mut active = Instant::now();
    let mut empty = 0;
    while !stop.load(Relaxed) {
        if server.turn() {
            empty = 0;
            continue;
        }
        empty += 1;
        pause(server.connections.iter().any(|c| c.several));
        if empty == 1 {
            active = Instant::now();
        }
        if empty % EMPTY_TURNS == 0 || server.connections.is_empty() {
            server.accept()?;
            if server.connections.is_empty() || active.elapsed() > SPIN {
                server.sleep()?;
                server.accept()?;
                empty = 0;
            }
        }
    }
    Ok(())
}

struct Server<'a> {
    listener: TcpListener,
    poll: Poll,
    memory: &'a Pages,
    secure: Option<Secure>,
    /// What came in one receive.
    messages: Vec<CeilingMessage>,
    connections: Vec<Connection>,
    /// Receives that brought something, and sends, since it was started.
    calls: u64,
}

struct Connection {
    stream: Channel,
    parser: Parser,
    out: Gather,
    /// See [`CeilingTuning`].
    prefetch: bool,
    /// The last receive brought several messages.
    several: bool,
}

impl Server<'_> {
    /// Receives from all, then sends to all; whether anything moved.
    fn turn(&mut self) -> bool {
        let mut moved = false;
        let (memory, calls, messages) = (self.memory, &mut self.calls, &mut self.messages);
        self.connections.retain_mut(|connection| {
            match connection.receive(memory, *calls, messages) {
                Ok(some) => {
                    *calls += u64::from(some);
                    moved |= some;
                    true
                }
                Err(_) => false,
            }
        });
        self.connections.retain_mut(|connection| {
            match connection.out.send(memory, &mut connection.stream) {
                Ok(sent) => {
                    *calls += sent;
                    moved |= sent > 0;
                    true
                }
                Err(_) => false,
            }
        });
        moved
    }

    fn accept(&mut self) -> io::Result<()> {
        while self.connections.len() < CONNECTIONS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // What cannot be encrypted is closed.
                    let Ok(stream) = Channel::new(stream.into(), self.secure.as_ref()) else {
                        continue;
                    };
                    stream.set_up();
                    let (parser, out) = (Parser::new(RECEIVE_BYTES), Gather::new(COPY_BYTES_MAX));
                    self.connections.push(Connection {
                        stream,
                        parser,
                        out,
                        prefetch: false,
                        several: false,
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // The peer was gone before it was accepted.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sleeps until something happens. Sockets are with the poller only meanwhile: registered ones
    /// cost at every packet.
    fn sleep(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut self.listener, Token(0), Interest::READABLE)?;
        for connection in &mut self.connections {
            let interest =
                if connection.out.is_empty() { Interest::READABLE } else { Interest::WRITABLE };
            registry.register(&mut connection.stream, Token(1), interest)?;
        }
        let result = self.poll.poll(&mut Events::with_capacity(16), Some(SLEEP));
        let registry = self.poll.registry();
        registry.deregister(&mut self.listener)?;
        for connection in &mut self.connections {
            registry.deregister(&mut connection.stream)?;
        }
        match result {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
            _ => Ok(()),
        }
    }
}

impl Connection {
    /// Receives once and answers what came; whether anything did. A peer that does not take its
    /// answers is not heard. `calls` is the answer to those who count.
    ///
    /// All messages are read before the first is answered, so that the requested data can be
    /// prefetched meanwhile.
    fn receive(
        &mut self,
        memory: &Pages,
        calls: u64,
        messages: &mut Vec<CeilingMessage>,
    ) -> io::Result<bool> {
        if !self.out.is_empty() {
            return Ok(false);
        }
        let received = match self.stream.read(self.parser.room()) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => n,
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                return Ok(false);
            }
            Err(e) => return Err(e),
        };
        messages.clear();
        let prefetch = self.prefetch;
        let taken = self.parser.take(received, |message| {
            if prefetch && message.kind == CeilingMessageKind::Read {
                memory.prefetch(message.offset as usize, message.len as usize);
            }
            messages.push(message);
            Ok(())
        });
        self.several = messages.len() > 1;
        let answered = taken.and_then(|()| {
            messages.iter().try_for_each(|&message| self.answer(message, memory, calls))
        });
        answered.map(|()| true).map_err(|Malformed| io::ErrorKind::InvalidData.into())
    }

    #[inline]
    fn answer(
        &mut self,
        message: CeilingMessage,
        memory: &[u8],
        calls: u64,
    ) -> Result<(), Malformed> {
        match message.kind {
            CeilingMessageKind::Hello => {
                self.out.copy_bytes_max = message.number as usize;
                self.prefetch = message.offset & PREFETCH != 0;
                let (socket_bytes, block) =
                    (message.len.min(SOCKET_BYTES_MAX), message.offset & BLOCK != 0);
                let tuning = CeilingTuning { socket_bytes, block, ..CeilingTuning::default() };
                self.stream.tune(tuning);
            }
            CeilingMessageKind::Count => {
                let counted = CeilingMessage {
                    kind: CeilingMessageKind::Done,
                    number: COUNT_NUMBER,
                    offset: calls,
                    len: 0,
                };
                let (bytes, count) = counted.encode();
                self.out.push(&bytes[..count]);
                return Ok(());
            }
            _ => {}
        }
        answer(message, memory, &mut self.out)
    }
}

#[inline]
fn answer(message: CeilingMessage, memory: &[u8], out: &mut Gather) -> Result<(), Malformed> {
    let CeilingMessage { kind, number, offset, len } = message;
    let mut say = |kind, offset, len| {
        let (bytes, count) = CeilingMessage { kind, number, offset, len }.encode();
        out.push(&bytes[..count]);
    };
    match kind {
        CeilingMessageKind::Hello => say(CeilingMessageKind::Done, memory.len() as u64, 0),
        CeilingMessageKind::Read => {
            let end = offset.checked_add(len.into()).ok_or(Malformed)?;
            if end > memory.len() as u64 {
                return Err(Malformed);
            }
            say(CeilingMessageKind::Data, offset, len);
            out.push_payload(memory, offset as usize, len as usize);
            let (bytes, count) =
                CeilingMessage { kind: CeilingMessageKind::Done, number, offset: 0, len: 0 }
                    .encode();
            out.push(&bytes[..count]);
        }
        CeilingMessageKind::WriteLarge => say(CeilingMessageKind::Grant, offset, len),
        CeilingMessageKind::Write | CeilingMessageKind::Data => say(CeilingMessageKind::Done, 0, 0),
        CeilingMessageKind::Grant | CeilingMessageKind::Done | CeilingMessageKind::Count => {
            return Err(Malformed);
        }
    }
    Ok(())
}
