//! `weft study-relay`: passes TCP connections on with the delay and the rate of a network, and
//! reports its own lateness. It ends when standard input closes.
//!
//! Each direction of a connection has a thread that receives and one that sends when it is time.
//! The clock of one chunk is independent of all others, so that nothing adds up.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use clap::Args;

use super::child::for_each_line_of_input;
use crate::{
    limits::{RELAY_CHUNK_BYTES, RELAY_CHUNKS_MAX, RELAY_CONNECT_S, RELAY_CONNECTIONS_MAX},
    process::exit::{Failure, printed},
};

/// Options of `weft study-relay`.
#[derive(Args, Debug)]
pub struct StudyRelayArgs {
    /// Server to connect to
    #[arg(long)]
    to: SocketAddr,
    /// Delay of each direction, microseconds
    #[arg(long)]
    delay_us: u64,
    /// Rate of each direction, megabits per second; 0: no limit
    #[arg(long, default_value_t = 0)]
    mbit: u64,
    /// Address to listen at
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST.into())]
    address: IpAddr,
}

/// Runs until standard input closes. A line `counters` is answered with the lateness.
pub fn run(args: &StudyRelayArgs) -> Result<(), Failure> {
    let listener = TcpListener::bind((args.address, 0))?;
    printed(writeln!(std::io::stdout(), "listening on tcp://{}", listener.local_addr()?))?;
    let relay = Arc::new(Relay {
        to: args.to,
        delay: Duration::from_micros(args.delay_us),
        bytes_per_second: args.mbit.saturating_mul(125_000),
        connections: AtomicUsize::new(0),
        late: Late::default(),
    });
    let accepting = Arc::clone(&relay);
    std::thread::spawn(move || accepting.accept(&listener));
    for_each_line_of_input(|line| {
        if line == "counters" {
            // Whoever asks is gone if this fails, and closes standard input.
            let _ = writeln!(std::io::stdout(), "counters {}", relay.late.json());
        }
    });
    Ok(())
}

struct Relay {
    to: SocketAddr,
    /// Of each direction.
    delay: Duration,
    /// Of each direction; 0: no limit.
    bytes_per_second: u64,
    connections: AtomicUsize,
    late: Late,
}

/// Received data, and the time for sending it.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

impl Relay {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming().flatten() {
            if self.connections.fetch_add(1, Relaxed) >= RELAY_CONNECTIONS_MAX {
                self.connections.fetch_sub(1, Relaxed);
                continue;
            }
            let relay = Arc::clone(self);
            std::thread::spawn(move || {
                // An end that cannot be reached, or is gone, closes the connection of the other.
                let _ = relay.pass_on(&client);
                relay.connections.fetch_sub(1, Relaxed);
            });
        }
    }

    /// Passes a connection on until both directions have ended.
    fn pass_on(self: &Arc<Self>, client: &TcpStream) -> std::io::Result<()> {
        let limit = Duration::from_secs(RELAY_CONNECT_S);
        let server = TcpStream::connect_timeout(&self.to, limit)?;
        for end in [client, &server] {
            end.set_nodelay(true)?;
        }
        std::thread::scope(|scope| {
            for (from, to) in [(client, &server), (&server, client)] {
                let (give, chunks) = sync_channel(RELAY_CHUNKS_MAX);
                scope.spawn(move || self.receive(from, &give));
                scope.spawn(move || self.send(to, &chunks));
            }
        });
        Ok(())
    }

    fn receive(&self, mut from: &TcpStream, give: &SyncSender<Chunk>) {
        let mut room = vec![0; RELAY_CHUNK_BYTES];
        let mut free_at = Instant::now();
        while let Ok(count @ 1..) = from.read(&mut room) {
            let now = Instant::now();
            // The wire takes one chunk after the other.
            free_at = free_at.max(now) + self.takes(count);
            let chunk = Chunk { due: free_at + self.delay, bytes: room[..count].to_vec() };
            if give.send(chunk).is_err() {
                break;
            }
        }
    }

    /// Returns the time in which a wire of this rate sends `bytes` bytes.
    fn takes(&self, bytes: usize) -> Duration {
        match self.bytes_per_second {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(bytes as f64 / rate as f64),
        }
    }

    fn send(&self, mut to: &TcpStream, chunks: &Receiver<Chunk>) {
        sleep_exactly();
        for chunk in chunks {
            let mut waited = false;
            while let Some(left) = chunk.due.checked_duration_since(Instant::now())
                && !left.is_zero()
            {
                waited = true;
                std::thread::sleep(left);
            }
            self.late.add(waited.then(|| chunk.due.elapsed()));
            if to.write_all(&chunk.bytes).is_err() {
                break;
            }
        }
        // The other direction may have more.
        let _ = to.shutdown(Shutdown::Write);
    }
}

/// Sleeps of this thread end when they should: by default the kernel joins those that end within
/// 50 µs of each other.
fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Microseconds of lateness that are told apart.
const LATE_US_MAX: usize = 10_000;

/// Lateness of chunks that were waited for: their number for each microsecond, the last one for all
/// above. Others were due when they came to be sent: the relay, or the receiver, was busy.
struct Late {
    waited: Vec<AtomicU64>,
    due: AtomicU64,
}

impl Default for Late {
    fn default() -> Self {
        let waited = (0..=LATE_US_MAX).map(|_| AtomicU64::new(0)).collect();
        Self { waited, due: AtomicU64::new(0) }
    }
}

impl Late {
    /// Counts a chunk: its lateness after a wait, or none if it was due already.
    fn add(&self, late: Option<Duration>) {
        let us = |late: Duration| usize::try_from(late.as_micros()).unwrap_or(LATE_US_MAX);
        let counter = late.map_or(&self.due, |late| &self.waited[us(late).min(LATE_US_MAX)]);
        counter.fetch_add(1, Relaxed);
    }

    /// Microseconds within which this part of all chunks was sent.
    fn within(&self, part: f64) -> usize {
        let counts: Vec<u64> = self.waited.iter().map(|count| count.load(Relaxed)).collect();
        let wanted = (counts.iter().sum::<u64>() as f64 * part).ceil() as u64;
        let mut sum = 0;
        let reached = |count: &u64| {
            sum += count;
            sum >= wanted
        };
        counts.iter().position(reached).unwrap_or(0)
    }

    fn json(&self) -> String {
        let due = self.due.load(Relaxed);
        let waited: u64 = self.waited.iter().map(|count| count.load(Relaxed)).sum();
        let due_percent = 100 * due / (due + waited).max(1);
        let (p50_us, p99_us) = (self.within(0.5), self.within(0.99));
        serde_json::json!({ "p50_us": p50_us, "p99_us": p99_us, "due_percent": due_percent })
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_told_by_its_parts() {
        let late = Late::default();
        assert_eq!(late.json(), r#"{"p50_us":0,"p99_us":0,"due_percent":0}"#);
        for us in 1..=100 {
            late.add(Some(Duration::from_micros(us)));
            late.add(None);
        }
        assert_eq!(late.json(), r#"{"p50_us":50,"p99_us":99,"due_percent":50}"#);
        late.add(Some(Duration::from_secs(60)));
        assert_eq!(late.within(1.0), LATE_US_MAX);
    }

    #[test]
    fn a_wire_takes_its_time() {
        let relay = |bytes_per_second| Relay {
            to: (Ipv4Addr::LOCALHOST, 1).into(),
            delay: Duration::ZERO,
            bytes_per_second,
            connections: AtomicUsize::new(0),
            late: Late::default(),
        };
        assert_eq!(relay(0).takes(1 << 20), Duration::ZERO);
        assert_eq!(relay(125_000_000).takes(125_000), Duration::from_millis(1));
    }
}
