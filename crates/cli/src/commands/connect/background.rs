//! The server of a connection in the background, and what it tells the command that started it: one
//! line of JSON on its standard output.

use crate::process::exit::Failure;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use weft_server::attach::entries::{Entry, create};
use weft_server::programs::this_program;

/// The outcome of the start.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// It serves the disk, which this is the record of.
    Serving(Box<Entry>),
    /// It ends.
    Failed { status: u8, message: String },
}

/// Reports the outcome, and passes it on.
pub fn report<T>(
    outcome: Result<T, Failure>,
    entry: impl FnOnce(&T) -> &Entry,
) -> Result<T, Failure> {
    let said = match &outcome {
        Ok(server) => Outcome::Serving(Box::new(entry(server).clone())),
        Err(failure) => Outcome::Failed { status: failure.status(), message: failure.to_string() },
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &said).map_err(std::io::Error::from)?;
    writeln!(out)?;
    out.flush()?;
    outcome
}

/// Starts this program again, with the same arguments, as a server whose messages go to a log.
/// Returns the record of the disk.
pub fn start(log: &Path) -> Result<Entry, Failure> {
    let mut child = spawn(log)?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    let (status, message) = match serde_json::from_str(&line) {
        Ok(Outcome::Serving(entry)) => return Ok(*entry),
        Ok(Outcome::Failed { status, message }) => {
            child.wait()?;
            (status, message)
        }
        // It was killed, or panicked: its log stays.
        Err(_) => {
            let ended = child.wait()?;
            let text = format!(
                "the server of the disk ended with {ended} before it served; {} has its messages",
                log.display()
            );
            let status = ended.code().and_then(|code| u8::try_from(code).ok());
            return Err(Failure::new(status.filter(|status| *status != 0).unwrap_or(1), text));
        }
    };
    let _ = std::fs::remove_file(log);
    Err(Failure::new(status, message))
}

fn spawn(log: &Path) -> Result<Child, Failure> {
    let mut command = this_program()?;
    command.args(std::env::args_os().skip(1)).arg("--background");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(create(log)?);
    #[cfg(windows)]
    {
        use std::os::windows::process::CommandExt;
        // DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP.
        command.creation_flags(0x8 | 0x200);
    }
    Ok(command.spawn()?)
}
