//! The log on standard error, as text or as JSON, or in the event log of Windows for a service.

use std::{ffi::OsString, io::Write};

use clap::{ArgAction, Args, ValueEnum};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use weft_block::ErrorKind;
use weft_proto::printable::PrintableLine;
use weft_server::service::windows::{self, message::ServiceMessage};

use crate::{help::headings::LOG, process::exit::Failure};

/// Log options.
#[derive(Args, Debug)]
pub struct LogArgs {
    /// Format of the log on standard error
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, help_heading = LOG)]
    log_format: Format,
    /// Log level: error, warn, info, debug or trace [default: warn] [env: WEFT_LOG]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = LOG)]
    log_level: Option<Level>,
    /// Log more: -v info, -vv debug, -vvv trace
    #[arg(short = 'v', long, global = true, action = ArgAction::Count, conflicts_with = "log_level", help_heading = LOG)]
    verbose: u8,
}

/// Environment variable with the level, used if no option sets it.
const VARIABLE: &str = "WEFT_LOG";

impl LogArgs {
    /// Returns whether -v was given.
    pub fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// The words of a command line that say the same.
    pub fn words(&self) -> Vec<OsString> {
        let level = self.log_level.or(counted(self.verbose));
        level.map_or_else(Vec::new, |level| vec![format!("--log-level={level}").into()])
    }

    fn level(&self) -> Result<Level, Failure> {
        let variable = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
        match (self.log_level.or(counted(self.verbose)), variable) {
            (Some(level), _) => Ok(level),
            (None, None) => Ok(Level::WARN),
            (None, Some(text)) => text.parse().map_err(|_| {
                let sentence = format!("{VARIABLE}={text} is not a log level; set it to error, warn, info, debug or trace");
                Failure::of(ErrorKind::Usage, sentence)
            }),
        }
    }
}

/// The level that a number of `-v` means.
fn counted(verbose: u8) -> Option<Level> {
    match verbose {
        0 => None,
        1 => Some(Level::INFO),
        2 => Some(Level::DEBUG),
        _ => Some(Level::TRACE),
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts the log.
///
/// # Errors
/// [`ErrorKind::Usage`] if the variable is not a log level.
pub fn start(args: &LogArgs) -> Result<(), Failure> {
    // Where standard error is closed there is no place for the subscriber's own complaint either:
    // it would panic.
    let log = tracing_subscriber::fmt().with_max_level(args.level()?).log_internal_errors(false);
    let log = log.with_target(false);
    if windows::is_service() {
        // An event has a time and a level of its own.
        log.without_time().with_level(false).with_writer(OfService).init();
        return Ok(());
    }
    let log = log.with_writer(|| Lines(std::io::stderr()));
    match args.log_format {
        Format::Text => log.init(),
        Format::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Writes each event as one line, whatever peers have said that is in it: nothing acts on the
/// terminal, or looks like another event.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    /// The subscriber writes an event at once.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        self.0.write_all(format!("{}\n", PrintableLine(line)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Makes writers to the event log of Windows.
struct OfService;

/// Writes one event.
struct EventOf(ServiceMessage);

impl MakeWriter<'_> for OfService {
    type Writer = EventOf;

    fn make_writer(&self) -> EventOf {
        EventOf(ServiceMessage::Information)
    }

    fn make_writer_for(&self, about: &Metadata<'_>) -> EventOf {
        EventOf(message(*about.level()))
    }
}

/// The message as which a line of a level is written.
fn message(level: Level) -> ServiceMessage {
    match level {
        Level::ERROR => ServiceMessage::Error,
        Level::WARN => ServiceMessage::Warning,
        _ => ServiceMessage::Information,
    }
}

impl Write for EventOf {
    /// The subscriber writes an event at once.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        windows::write(self.0, &PrintableLine(line).to_string());
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weft_base::lock::Lock;

    use super::*;

    #[test]
    fn an_event_is_a_line_whatever_is_in_it() {
        let mut out = Vec::new();
        let log = std::sync::Arc::new(Lock::new(Vec::new()));
        Lines(&mut out).write_all("peer: é\u{1b}[2J\n2026 ERROR all is lost\n".as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "peer: é\\u{1b}[2J\\u{a}2026 ERROR all is lost\n"
        );
        // As the subscriber writes it.
        let writer = std::sync::Arc::clone(&log);
        let made = move || Lines(Shared(std::sync::Arc::clone(&writer)));
        let subscriber = tracing_subscriber::fmt().with_writer(made).finish();
        tracing::subscriber::with_default(subscriber, || tracing::warn!("{}", "a\nb\u{9b}c"));
        let said = String::from_utf8(log.lock().clone()).unwrap();
        assert!(
            said.ends_with('\n') && said.trim_end().chars().all(|c| !c.is_control()),
            "{said:?}"
        );
    }

    #[test]
    fn a_service_inherits_the_level() {
        let args = |log_level, verbose| LogArgs { log_format: Format::Text, log_level, verbose };
        assert!(args(None, 0).words().is_empty());
        assert_eq!(args(None, 2).words(), ["--log-level=DEBUG"]);
        assert_eq!(args(Some(Level::ERROR), 0).words(), ["--log-level=ERROR"]);
        assert_eq!(
            [Level::ERROR, Level::WARN, Level::TRACE].map(message),
            [ServiceMessage::Error, ServiceMessage::Warning, ServiceMessage::Information]
        );
    }

    #[derive(Clone)]
    struct Shared(std::sync::Arc<Lock<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
