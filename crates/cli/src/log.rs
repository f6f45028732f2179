//! The log on standard error, as text or as JSON, or in the event log of Windows for a service.

mod subscriber;

use crate::exit::Failure;
use crate::help::headings::LOG;
use clap::{ArgAction, Args, ValueEnum};
use std::ffi::OsString;
use std::io::Write;
use subscriber::{Form, Lines};
use tracing::Level;
use tracing::subscriber::set_global_default;
use weft_block::ErrorKind;
use weft_proto::printable::Line;
use weft_server::service::windows::{self, message::Message};

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
    /// Whether -v was given.
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
    let level = args.level()?;
    let form = match args.log_format {
        Format::Text => Form::Text,
        Format::Json => Form::Json,
    };
    // There is none before.
    let _ = if windows::is_service() {
        // An event has a time and a level of its own.
        set_global_default(Lines { form: Form::Bare, level, write: write_event })
    } else {
        set_global_default(Lines { form, level, write: write_line })
    };
    Ok(())
}

/// Writes an event to standard error. Where that is closed there is no place to say so.
fn write_line(_: Level, event: &str) {
    let _ = std::io::stderr().write_all(one_line(event).as_bytes());
}

/// Writes an event to the event log of Windows.
fn write_event(level: Level, event: &str) {
    windows::write(message(level), &Line(event).to_string());
}

/// An event as one line, whatever peers have said that is in it: nothing acts on the terminal, or
/// looks like another event.
fn one_line(event: &str) -> String {
    format!("{}\n", Line(event))
}

/// The message as which a line of a level is written.
fn message(level: Level) -> Message {
    match level {
        Level::ERROR => Message::Error,
        Level::WARN => Message::Warning,
        _ => Message::Information,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_whatever_is_in_it() {
        let event = "peer: é\u{1b}[2J\n2026 ERROR all is lost";
        assert_eq!(one_line(event), "peer: é\\u{1b}[2J\\u{a}2026 ERROR all is lost\n");
    }

    #[test]
    fn a_service_inherits_the_level() {
        let args = |log_level, verbose| LogArgs { log_format: Format::Text, log_level, verbose };
        assert!(args(None, 0).words().is_empty());
        assert_eq!(args(None, 2).words(), ["--log-level=DEBUG"]);
        assert_eq!(args(Some(Level::ERROR), 0).words(), ["--log-level=ERROR"]);
        assert_eq!(
            [Level::ERROR, Level::WARN, Level::TRACE].map(message),
            [Message::Error, Message::Warning, Message::Information]
        );
    }
}
