//! The device of a connection, for scripts: waits for its target and until it answers, and prints
//! its path alone.

use crate::process::exit::Failure;
use clap::Args;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use weft_block::{ErrorKind, units, waiting};
use weft_server::attach::entries::Entry;

/// Longest wait; a longer one would have no end that can be counted.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Time between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Exit statuses of an attempt to connect that may succeed later: nothing listens there, or nothing
/// answers.
const PASSING: [u8; 2] = [7, 8];

/// Time between two attempts to read.
const PAUSE: Duration = Duration::from_millis(50);

/// Bytes of the read that a device has to answer.
const READ_BYTES: usize = 512;

/// Options of `weft connect`.
#[derive(Args, Debug)]
pub struct DeviceArgs {
    /// Wait until the target listens, and return when the device exists and has answered a read;
    /// fail if that takes longer than DURATION, 30s if none is given
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "30s",
        value_parser = units::parse_duration,
        conflicts_with_all = ["serve_only", "print"]
    )]
    wait: Option<Duration>,
    /// Print the path of the device, and nothing else, on standard output
    #[arg(long, conflicts_with_all = ["serve_only", "print"])]
    print_device: bool,
}

impl DeviceArgs {
    /// Returns whether one of the options was given.
    pub fn is_asked(&self) -> bool {
        self.wait.is_some() || self.print_device
    }

    /// Returns whether standard output has the path of the device alone.
    pub fn prints(&self) -> bool {
        self.print_device
    }

    /// The end of the time that was given.
    pub fn until(&self) -> Option<Instant> {
        Some(Instant::now() + self.wait?.min(WAIT_MAX))
    }

    /// Waits for the device as far as that is asked for, and prints its path if it is.
    ///
    /// # Errors
    /// Its name is not known, or it does not answer in time. The connection stays.
    pub fn finish(&self, entry: &Entry, until: Option<Instant>) -> Result<(), Failure> {
        let Entry { name, device, .. } = entry;
        if device.is_empty() && self.is_asked() {
            let text = format!(
                "the system has not told the name of the disk of \"{name}\"; `weft disconnect {name}` ends the connection"
            );
            return Err(Failure::of(ErrorKind::NotFound, text));
        }
        if let Some(until) = until {
            let _waiting = waiting::begin(|| format!("{device} to answer"));
            answers(Path::new(device), until).map_err(|why| {
                let text = format!(
                    "{device} has not answered in the time of --wait ({why}); the connection stays, and `weft disconnect {name}` ends it"
                );
                Failure::of(ErrorKind::TimedOut, text)
            })?;
        }
        if self.print_device {
            let mut out = io::stdout().lock();
            writeln!(out, "{device}")?;
            out.flush()?;
        }
        Ok(())
    }
}

/// Connects, again and again while the target does not listen or answer and there is time.
///
/// # Errors
/// That of the last attempt.
pub fn patiently<T>(
    until: Option<Instant>,
    connect: impl Fn() -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        let is_over = until.is_none_or(|until| Instant::now() + CONNECT_PAUSE >= until);
        match connect() {
            Err(e) if !is_over && PASSING.contains(&e.status()) => thread::sleep(CONNECT_PAUSE),
            result => return result,
        }
    }
}

/// Waits until a device exists and has answered a read, on a thread of its own: a read may take as
/// long as its target is away.
///
/// # Errors
/// Why it has not until that time.
fn answers(device: &Path, until: Instant) -> Result<(), String> {
    let device = device.to_owned();
    let (give, given) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let read = File::open(&device).and_then(|mut it| it.read_exact(&mut [0; READ_BYTES]));
            let is_last = read.is_ok() || Instant::now() >= until;
            // Nobody waits any longer.
            if give.send(read.map_err(|e| e.to_string())).is_err() || is_last {
                return;
            }
            thread::sleep(PAUSE);
        }
    });
    let mut why = "a read has not completed".to_owned();
    loop {
        match given.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(e)) => why = e,
            Err(_) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_or_too_short_does_not_answer() {
        let place = std::env::temp_dir().join(format!("weft-answers-{}", std::process::id()));
        let soon = || Instant::now() + Duration::from_millis(200);
        assert!(answers(&place, soon()).is_err());
        std::fs::write(&place, [0; READ_BYTES - 1]).unwrap();
        assert!(answers(&place, soon()).unwrap_err().contains("fill whole buffer"));
        let later = place.clone();
        let writer = thread::spawn(move || std::fs::write(later, [0; READ_BYTES]).unwrap());
        answers(&place, Instant::now() + Duration::from_secs(600)).unwrap();
        writer.join().unwrap();
        std::fs::remove_file(place).unwrap();
    }

    #[test]
    fn connecting_is_tried_again_where_that_may_help_and_while_there_is_time() {
        let late = Some(Instant::now() + Duration::from_secs(600));
        let attempts = |kinds: &'static [ErrorKind], until| {
            let count = std::cell::Cell::new(0);
            let result = patiently(until, || {
                count.set(count.get() + 1);
                match kinds.get(count.get() - 1) {
                    Some(kind) => Err(Failure::of(*kind, "")),
                    None => Ok(()),
                }
            });
            (result.is_ok(), count.get())
        };
        assert_eq!(attempts(&[ErrorKind::Refused, ErrorKind::TimedOut], late), (true, 3));
        assert_eq!(attempts(&[ErrorKind::Usage], late), (false, 1));
        assert_eq!(attempts(&[ErrorKind::Refused], None), (false, 1));
        assert_eq!(attempts(&[ErrorKind::Refused], Some(Instant::now())), (false, 1));
    }
}
