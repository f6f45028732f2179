//! The client: keeps operations in flight and measures.

use super::channel::{Channel, Secure};
use super::gather::Gather;
use super::message::{
    COUNT_NUMBER, CeilingMessage, CeilingMessageKind, HEADER_BYTES, Malformed, PAYLOAD_BYTES_MAX,
    Parser,
};
use super::tuning::CeilingTuning;
use super::{RECEIVE_BYTES, pause};
use crate::error::Error;
use crate::limits::{DRAIN_MAX, IODEPTH_MAX};
use crate::random::Pcg;
use crate::stats::Latencies;
use crate::workload::Direction;
use core::time::Duration;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Instant;
use weft_io::cpu_usage::{self, Usage};

/// Time limit for a connection and the first answer.
const CONNECT: Duration = Duration::from_secs(5);

/// Measurement of a ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct CeilingSpec {
    /// Percentage of reads.
    pub rwmixread: u8,
    /// Payload of each operation, bytes.
    pub bytes: u32,
    /// Random or sequential addresses.
    pub random: bool,
    /// Operations in flight, over all connections.
    pub iodepth: u32,
    /// Connections.
    pub connections: u32,
    /// Writes up to this size are sent with their request; larger ones wait for the server's
    /// request.
    pub in_capsule_bytes: u32,
    /// Time to run before measuring.
    pub ramp_time: Duration,
    /// Time to measure.
    pub runtime: Duration,
    /// Core to run on.
    pub cpu: Option<usize>,
    /// The tuning of the connections.
    pub tuning: CeilingTuning,
    /// Operations per second, started one at a time; otherwise as many as the depth allows.
    pub rate_iops: Option<u32>,
    /// Process ID of the server, to measure its CPU time.
    pub server_pid: Option<u32>,
    /// Encryption of the connections; the server must use the same.
    pub secure: Option<Secure>,
}

impl Default for CeilingSpec {
    fn default() -> Self {
        Self {
            rwmixread: 100,
            bytes: 4096,
            random: true,
            iodepth: 32,
            connections: 1,
            in_capsule_bytes: 8192,
            ramp_time: Duration::from_millis(200),
            runtime: Duration::from_secs(1),
            cpu: None,
            tuning: CeilingTuning::default(),
            rate_iops: None,
            server_pid: None,
            secure: None,
        }
    }
}

/// The result.
#[derive(Clone, Debug)]
pub struct CeilingReport {
    /// Operations by [`Direction::index`].
    pub ios: [u64; 3],
    /// Duration of the measurement.
    pub runtime: Duration,
    /// Latency of all operations.
    pub latency: Latencies,
    /// CPU time of the client's thread during the measurement.
    pub thread: Usage,
    /// Receives of the client that returned something, and sends.
    pub system_calls: u64,
    /// The same for the server.
    pub server_system_calls: u64,
    /// CPU time of the server during the measurement, if its process is known.
    pub server: Option<Usage>,
    /// The tuning of the connections.
    pub tuning: CeilingTuning,
}

impl CeilingReport {
    /// Operations per second.
    pub fn iops(&self) -> f64 {
        self.ios.iter().sum::<u64>() as f64 / self.runtime.as_secs_f64().max(1e-9)
    }
}

/// Runs with the server at `to`. Polls all the time, so it needs a core of its own.
///
/// # Errors
/// An invalid option; no connection within five seconds; a server that uses another protocol or
/// ends.
pub fn run(to: SocketAddr, spec: &CeilingSpec) -> Result<CeilingReport, Error> {
    check(spec)?;
    let spec = spec.clone();
    let thread = std::thread::Builder::new().name("weft-ceiling".into()).spawn(move || {
        weft_io::cpu::be_punctual();
        if let Some(cpu) = spec.cpu {
            weft_io::cpu::pin_thread(cpu)
                .map_err(|e| Error::io(format!("cannot run on core {cpu}"), e))?;
        }
        Client::connect(to, &spec)?.run()
    });
    let thread = thread.map_err(|e| Error::io("cannot start a thread", e))?;
    thread.join().unwrap_or_else(|_| Err(Error::Thread("it panicked".into())))
}

fn check(spec: &CeilingSpec) -> Result<(), Error> {
    if !(1..=IODEPTH_MAX).contains(&spec.iodepth) {
        return Err(Error::option("iodepth", format!("it must be 1 to {IODEPTH_MAX}")));
    }
    if !(1..=spec.iodepth).contains(&spec.connections) {
        return Err(Error::option("numjobs", "connections must be 1 to iodepth"));
    }
    if (spec.tuning.block || spec.rate_iops.is_some()) && spec.iodepth > 1 {
        return Err(Error::option("iodepth", "a ceiling that sleeps has one operation in flight"));
    }
    if spec.tuning.block && spec.secure.is_some() {
        return Err(Error::option("ceiling-tuning", "a ceiling with TLS polls: leave +block out"));
    }
    if !(1..=PAYLOAD_BYTES_MAX).contains(&spec.bytes) {
        return Err(Error::option("bs", format!("it must be 1 to {PAYLOAD_BYTES_MAX}")));
    }
    Ok(())
}

struct Client<'a> {
    spec: &'a CeilingSpec,
    connections: Vec<Connection>,
    /// Payload to write: a place for each operation, as a real initiator's buffers would be.
    memory: Vec<u8>,
    /// Places of the region.
    places: u64,
    next_place: u64,
    rng: Pcg,
    /// When each operation began, and which way it goes.
    begun: Vec<(Instant, Direction)>,
    under_way: usize,
    measured: Measured,
}

struct Connection {
    stream: Channel,
    parser: Parser,
    out: Gather,
    /// Operations to be begun.
    free: Vec<u32>,
    /// Operations whose payload the server has asked for.
    granted: Vec<u32>,
}

struct Measured {
    /// What the server answered to those who count its system calls.
    counts: Vec<u64>,
    on: bool,
    ios: [u64; 3],
    latency: Latencies,
    system_calls: u64,
}

impl<'a> Client<'a> {
    fn connect(to: SocketAddr, spec: &'a CeilingSpec) -> Result<Self, Error> {
        let mut region = u64::MAX;
        let mut connections = Vec::new();
        for index in 0..spec.connections {
            let (stream, bytes) = hello(to, spec)?;
            region = region.min(bytes);
            let free =
                (0..spec.iodepth).filter(|number| number % spec.connections == index).collect();
            let (parser, out) =
                (Parser::new(RECEIVE_BYTES), Gather::new(spec.tuning.copy_bytes_max()));
            connections.push(Connection { stream, parser, out, free, granted: Vec::new() });
        }
        if region < spec.bytes.into() {
            return Err(Error::option(
                "bs",
                format!("it exceeds the server's region of {region} bytes"),
            ));
        }
        let payload =
            if spec.rwmixread < 100 { spec.iodepth as usize * spec.bytes as usize } else { 0 };
        Ok(Self {
            connections,
            memory: vec![0x5a; payload],
            places: region / u64::from(spec.bytes),
            next_place: 0,
            rng: Pcg::new(1),
            begun: vec![(Instant::now(), Direction::Read); spec.iodepth as usize],
            under_way: 0,
            measured: Measured {
                counts: Vec::new(),
                on: false,
                ios: [0; 3],
                latency: Latencies::new(),
                system_calls: 0,
            },
            spec,
        })
    }

    fn run(mut self) -> Result<CeilingReport, Error> {
        let server = || self.spec.server_pid.and_then(|pid| cpu_usage::of_process(pid).ok());
        let start = Instant::now();
        self.run_until(start + self.spec.ramp_time)?;
        self.count();
        self.measured.on = true;
        let (begin, before) = (Instant::now(), (cpu_usage::thread(), server()));
        self.run_until(begin + self.spec.runtime)?;
        let (runtime, thread, after) =
            (begin.elapsed(), cpu_usage::thread().since(&before.0), server());
        self.measured.on = false;
        self.count();
        let Measured { ios, ref latency, system_calls, .. } = self.measured;
        let latency = latency.clone();
        self.drain()?;
        let server = after.zip(before.1).map(|(after, before)| after.since(&before));
        let server_system_calls = match self.measured.counts[..] {
            [before, after] => after - before,
            _ => 0,
        };
        let tuning = self.spec.tuning;
        Ok(CeilingReport {
            ios,
            runtime,
            latency,
            thread,
            system_calls,
            server_system_calls,
            server,
            tuning,
        })
    }

    /// Asks the server how many system calls it has made.
    fn count(&mut self) {
        let (bytes, count) = CeilingMessage {
            kind: CeilingMessageKind::Count,
            number: COUNT_NUMBER,
            offset: 0,
            len: 0,
        }
        .encode();
        self.connections[0].out.push(&bytes[..count]);
    }

    fn run_until(&mut self, end: Instant) -> Result<(), Error> {
        let mut now = Instant::now();
        let several = self.spec.iodepth > 1;
        let pause_each = self.spec.rate_iops.map(|rate| Duration::from_secs(1) / rate.max(1));
        let mut due = now;
        while now < end {
            if let Some(each) = pause_each.filter(|_| self.under_way == 0) {
                due += each;
                std::thread::sleep(due.saturating_duration_since(now));
                now = Instant::now();
            }
            for at in 0..self.connections.len() {
                self.begin(at, now);
            }
            let sent = self.send()?;
            let received = self.receive()?;
            if !sent && !received {
                pause(several);
            }
            now = Instant::now();
        }
        Ok(())
    }

    /// Waits for operations in flight, so that the server is idle for the next client.
    fn drain(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        while self.under_way > 0 || self.measured.counts.len() < 2 {
            if begin.elapsed() > DRAIN_MAX {
                return Err(Error::io(
                    "the ceiling's server no longer answers",
                    io::ErrorKind::TimedOut.into(),
                ));
            }
            self.send()?;
            self.receive()?;
        }
        Ok(())
    }

    /// Begins all operations of a connection that are free.
    fn begin(&mut self, at: usize, now: Instant) {
        while let Some(number) = self.connections[at].free.pop() {
            let read = self.rng.next_u32() % 100 < self.spec.rwmixread.into();
            let len = self.spec.bytes;
            let kind = match read {
                true => CeilingMessageKind::Read,
                false if len <= self.spec.in_capsule_bytes => CeilingMessageKind::Write,
                false => CeilingMessageKind::WriteLarge,
            };
            let offset = self.place() * u64::from(len);
            let (bytes, count) = CeilingMessage { kind, number, offset, len }.encode();
            let out = &mut self.connections[at].out;
            out.push(&bytes[..count]);
            if kind == CeilingMessageKind::Write {
                out.push_payload(&self.memory, number as usize * len as usize, len as usize);
            }
            self.begun[number as usize] =
                (now, if read { Direction::Read } else { Direction::Write });
            self.under_way += 1;
        }
    }

    fn place(&mut self) -> u64 {
        if self.spec.random {
            return ((u128::from(self.rng.next_u64()) * u128::from(self.places)) >> 64) as u64;
        }
        self.next_place = (self.next_place + 1) % self.places;
        self.next_place
    }

    fn send(&mut self) -> Result<bool, Error> {
        let mut sent = false;
        for connection in &mut self.connections {
            for number in connection.granted.drain(..) {
                let len = self.spec.bytes;
                let (bytes, count) =
                    CeilingMessage { kind: CeilingMessageKind::Data, number, offset: 0, len }
                        .encode();
                connection.out.push(&bytes[..count]);
                connection.out.push_payload(
                    &self.memory,
                    number as usize * len as usize,
                    len as usize,
                );
            }
            let calls = connection.out.send(&self.memory, &mut connection.stream).map_err(lost)?;
            self.measured.system_calls += if self.measured.on { calls } else { 0 };
            sent |= calls > 0;
        }
        Ok(sent)
    }

    fn receive(&mut self) -> Result<bool, Error> {
        let mut any = false;
        for connection in &mut self.connections {
            let received = match connection.stream.read(connection.parser.room()) {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => n,
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(e) => return Err(lost(e)),
            };
            any = true;
            let now = Instant::now();
            self.measured.system_calls += u64::from(self.measured.on);
            let (free, granted) = (&mut connection.free, &mut connection.granted);
            let (measured, begun, under_way) =
                (&mut self.measured, &self.begun, &mut self.under_way);
            let result = connection.parser.take(received, |message| {
                if (message.kind, message.number) == (CeilingMessageKind::Done, COUNT_NUMBER) {
                    measured.counts.push(message.offset);
                    return Ok(());
                }
                let &(since, direction) = begun.get(message.number as usize).ok_or(Malformed)?;
                match message.kind {
                    CeilingMessageKind::Data => {}
                    CeilingMessageKind::Grant => granted.push(message.number),
                    CeilingMessageKind::Done => {
                        *under_way = under_way.checked_sub(1).ok_or(Malformed)?;
                        free.push(message.number);
                        measured.done(direction, now - since);
                    }
                    _ => return Err(Malformed),
                }
                Ok(())
            });
            result.map_err(|Malformed| lost(io::ErrorKind::InvalidData.into()))?;
        }
        Ok(any)
    }
}

impl Measured {
    #[inline]
    fn done(&mut self, direction: Direction, latency: Duration) {
        if self.on {
            self.ios[direction.index()] += 1;
            self.latency.record(latency.as_nanos() as u64);
        }
    }
}

fn lost(cause: io::Error) -> Error {
    Error::io("the connection to the ceiling's server was lost", cause)
}

/// Connects, says how the connection is used, and asks for the size of the region.
fn hello(to: SocketAddr, spec: &CeilingSpec) -> Result<(Channel, u64), Error> {
    let tuning = spec.tuning;
    let connect = |e| Error::io(format!("cannot connect to the ceiling's server at {to}"), e);
    let stream = std::net::TcpStream::connect_timeout(&to, CONNECT).map_err(connect)?;
    let mut stream = Channel::new(stream, spec.secure.as_ref()).map_err(connect)?;
    let number = tuning.copy_bytes_max() as u32;
    let (request, count) = CeilingMessage {
        kind: CeilingMessageKind::Hello,
        number,
        offset: tuning.flags(),
        len: tuning.socket_bytes,
    }
    .encode();
    let mut answer = [0; HEADER_BYTES];
    let exchanged = stream.exchange(&request[..count], &mut answer, CONNECT);
    match (exchanged, CeilingMessage::decode(&answer)) {
        (Ok(()), Ok(Some((CeilingMessage { kind: CeilingMessageKind::Done, offset, .. }, _)))) => {
            stream.tune(tuning);
            Ok((stream, offset))
        }
        // Whatever the server is, why TLS failed tells more.
        (Err(e), _) if spec.secure.is_some() => Err(connect(e)),
        _ => Err(Error::NotACeiling(to.to_string())),
    }
}
