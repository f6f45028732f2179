//! The log on standard error, as text or as JSON.

use crate::exit::Failure;
use clap::{ArgAction, Args, ValueEnum};
use tracing::Level;
use weft_block::ErrorKind;

/// Log options.
#[derive(Args, Debug)]
pub struct LogArgs {
    /// Format of the log on standard error
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, help_heading = "Log")]
    log_format: Format,
    /// Log level: error, warn, info, debug or trace [default: warn] [env: WEFT_LOG]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Log")]
    log_level: Option<Level>,
    /// Log more: -v info, -vv debug, -vvv trace
    #[arg(short = 'v', long, global = true, action = ArgAction::Count, conflicts_with = "log_level", help_heading = "Log")]
    verbose: u8,
}

/// Environment variable with the level, used if no option sets it.
const VARIABLE: &str = "WEFT_LOG";

impl LogArgs {
    /// Whether -v was given.
    pub fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    fn level(&self) -> Result<Level, Failure> {
        let counted = match self.verbose {
            0 => None,
            1 => Some(Level::INFO),
            2 => Some(Level::DEBUG),
            _ => Some(Level::TRACE),
        };
        let variable = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
        match (self.log_level.or(counted), variable) {
            (Some(level), _) => Ok(level),
            (None, None) => Ok(Level::WARN),
            (None, Some(text)) => text.parse().map_err(|_| {
                let sentence = format!("{VARIABLE}={text} is not a log level; set it to error, warn, info, debug or trace");
                Failure::of(ErrorKind::Usage, sentence)
            }),
        }
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
    // Where standard error is closed there is no place for the subscriber's own complaint either: it would panic.
    let log = tracing_subscriber::fmt().with_max_level(args.level()?).with_writer(std::io::stderr).log_internal_errors(false);
    let log = log.with_target(false);
    match args.log_format {
        Format::Text => log.with_ansi(false).init(),
        Format::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
