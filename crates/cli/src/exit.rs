//! Exit statuses: one for each kind of problem, so that scripts can tell them apart.

use std::fmt;
use std::process::ExitCode;
use weft_block::ErrorKind;

/// Why the program ends without success.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    message: String,
}

/// Exit statuses and what they mean, for `weft --help`.
pub const TABLE: &str = "\
Exit status:
  0  done
  1  the operating system failed in a way that has no number of its own
  2  a URL or option is wrong
  3  no such file, host, subsystem or namespace
  4  not permitted, by the system or by the peer
  5  somebody else holds it (a port, a file)
  6  no space, memory, queues or file descriptors
  7  the peer refused or ended the connection
  8  no answer in time
  9  the peer does not speak this protocol, or breaks its rules
 10  the device or peer cannot do what is asked
 11  operations failed during a measurement
 12  verification found wrong data
 13  a source is lost, and --exit-on-loss was given
130  interrupted: the result is that of the time before";

impl Failure {
    /// Operations failed.
    pub const OPERATIONS: u8 = 11;
    /// Data was wrong.
    pub const VERIFICATION: u8 = 12;
    /// A source was lost behind a server.
    pub const LOST: u8 = 13;
    /// Ctrl-C ended it; 128 and the number of the signal, as shells have it.
    pub const INTERRUPTED: u8 = 130;

    /// A failure with a status of [`TABLE`].
    pub fn new(status: u8, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// A failure of a kind.
    pub fn of(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::new(status_of(kind), message)
    }

    /// Prints the sentence and gives the status.
    pub fn report(&self) -> ExitCode {
        eprintln!("weft: {self}");
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
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

impl From<weft_bench::Error> for Failure {
    fn from(error: weft_bench::Error) -> Self {
        Self::of(error.kind(), error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        weft_block::Error::io(error.to_string(), error).into()
    }
}
