//! Exit statuses: one per kind of error, so that scripts can distinguish them.

use crate::limits::PATIENCE_S;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use weft_block::{ErrorKind, waiting};
use weft_proto::printable::PrintableLine;
use weft_server::service::windows::{self, message::ServiceMessage};

/// The reason for an unsuccessful exit.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    message: String,
}

/// Exit statuses and their meaning, for `weft --help`.
pub const TABLE: &str = "\
Exit status:
  0  done
  1  an error of the operating system that none of the others covers
  2  a URL or option is wrong
  3  no such file, host, subsystem or namespace
  4  not permitted, by the system or by the peer
  5  in use (a port, a file)
  6  no space, memory, queues or file descriptors
  7  the peer refused or ended the connection
  8  no answer in time
  9  the peer does not speak this protocol, or violates it
 10  not supported by the device or peer, or by this system, which lacks a driver, library or program
 11  operations failed during a measurement
 12  verification found wrong data
 13  a source was lost, and --exit-on-loss was given
 14  a study is worse than its baseline allows (weft study gate)
101  a defect of weft: one of its threads panicked
130  interrupted: the result covers the time until then; a server did not finish";

impl Failure {
    /// Whoever reads the output has read enough: there is nothing to say of that.
    const READ_ENOUGH: u8 = 0;
    /// Operations failed.
    pub const OPERATIONS: u8 = 11;
    /// Verification found wrong data.
    pub const VERIFICATION: u8 = 12;
    /// A source of a server was lost.
    pub const LOST: u8 = 13;
    /// A study is worse than its baseline allows.
    pub const WORSE: u8 = 14;
    /// Ended by Ctrl-C: 128 plus the signal number, as in shells.
    pub const INTERRUPTED: u8 = 130;

    /// A failure with a status from [`TABLE`].
    pub fn new(status: u8, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// A failure of the given kind.
    pub fn of(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::new(status_of(kind), message)
    }

    /// The same, about something that is named first.
    pub fn about(self, what: &str) -> Self {
        match self.message.contains(what) {
            true => self,
            false => Self { message: format!("{what}: {}", self.message), ..self },
        }
    }

    /// The same for those who know no exit statuses.
    pub fn into_error(self) -> weft_block::Error {
        weft_block::Error::new(self.kind().unwrap_or(ErrorKind::Io), self.message)
    }

    /// The kind of error that its status stands for, if it is one of the system's or a peer's.
    pub fn kind(&self) -> Option<ErrorKind> {
        ErrorKind::ALL.into_iter().find(|kind| status_of(*kind) == self.status)
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// Prints the message and returns the exit status.
    pub fn report(&self) -> u8 {
        if self.status != Self::READ_ENOUGH {
            say(ServiceMessage::Failed, &format!("weft: {self}"));
        }
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The kind of error that an exit status of this program stands for.
pub fn kind_of(status: i32) -> ErrorKind {
    ErrorKind::ALL
        .into_iter()
        .find(|kind| i32::from(status_of(*kind)) == status)
        .unwrap_or(ErrorKind::Io)
}

const fn status_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Io => 1,
        ErrorKind::Usage => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::PermissionDenied => 4,
        ErrorKind::InUse => 5,
        ErrorKind::NoResources => 6,
        ErrorKind::Refused => 7,
        ErrorKind::TimedOut => 8,
        ErrorKind::Protocol => 9,
        ErrorKind::Unsupported => 10,
    }
}

impl From<weft_block::Error> for Failure {
    fn from(error: weft_block::Error) -> Self {
        Self::of(error.kind(), error.to_string())
    }
}

impl From<weft_server::management::protocol::RequestFault> for Failure {
    fn from(fault: weft_server::management::protocol::RequestFault) -> Self {
        weft_block::Error::from(fault).into()
    }
}

impl From<weft_server::config::faults::ConfigFaults> for Failure {
    fn from(faults: weft_server::config::faults::ConfigFaults) -> Self {
        weft_block::Error::from(faults).into()
    }
}

impl From<weft_bench::Error> for Failure {
    fn from(error: weft_bench::Error) -> Self {
        Self::of(error.kind(), error.to_string())
    }
}

impl From<weft_extras::Error> for Failure {
    fn from(error: weft_extras::Error) -> Self {
        let kind = match error {
            weft_extras::Error::LeftOut(_) => ErrorKind::Unsupported,
            weft_extras::Error::Failed(_) => ErrorKind::Io,
        };
        Self::of(kind, error.to_string())
    }
}

/// Ends the program with a status.
pub fn end(status: u8) -> ExitCode {
    // Threads of libraries may still be at work there, and what they use would be destroyed below
    // them.
    #[cfg(unix)]
    if weft_ceph::is_loaded() {
        let _ = std::io::stdout().flush();
        signal_hook::low_level::exit(i32::from(status));
    }
    ExitCode::from(status)
}

/// Ends the program with a failure, whatever is under way.
pub fn at_once(failure: &Failure) -> ! {
    let status = i32::from(failure.report());
    #[cfg(unix)]
    signal_hook::low_level::exit(status);
    #[cfg(not(unix))]
    std::process::exit(status)
}

/// Prints a line on standard error, if anybody reads that. `eprintln!` panics where nobody does. A
/// service of Windows has the event log instead.
pub fn tell(line: &str) {
    say(ServiceMessage::Warning, line);
}

/// Reports long waits of the calling thread from now on, with their reason.
pub fn tell_of_waits() {
    let patience = Duration::from_secs(PATIENCE_S);
    waiting::attend(patience, |what| tell(&format!("weft: waiting for {what}")));
}

fn say(message: ServiceMessage, line: &str) {
    // What a peer has said may be in it.
    let shown: Vec<String> = line.split('\n').map(|line| PrintableLine(line).to_string()).collect();
    match windows::is_service() {
        true => windows::write(message, &shown.join("\n")),
        false => _ = writeln!(std::io::stderr(), "{}", shown.join("\n")),
    }
}

/// The outcome of printing: whoever reads it may have read enough.
pub fn printed(outcome: std::io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Of printing, as a rule: errors of sockets and files are those of other crates, or have a
/// sentence of their own.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Self::READ_ENOUGH, "");
        }
        weft_block::Error::io(format!("cannot print: {error}"), error).into()
    }
}
