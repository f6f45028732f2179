//! The log: to standard error, for people or as JSON.

use clap::{Args, ValueEnum};
use tracing::Level;

/// Options of the log.
#[derive(Args, Debug)]
pub struct LogArgs {
    /// Form of the log on standard error
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, help_heading = "Log")]
    log_format: Format,
    /// Least important lines to log: error, warn, info, debug or trace
    #[arg(long, global = true, default_value_t = Level::WARN, help_heading = "Log")]
    log_level: Level,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts to log.
pub fn start(args: &LogArgs) {
    let log = tracing_subscriber::fmt().with_max_level(args.log_level).with_writer(std::io::stderr).with_target(false);
    match args.log_format {
        Format::Text => log.with_ansi(false).init(),
        Format::Json => log.json().flatten_event(true).init(),
    }
}
