//! Makes and ends connections by weft's own commands, each in a process of its own.

use super::place::WorkingDirectory;
use super::record::RecordedConnection;
use crate::attach::entries::{Entry, Runtime};
use crate::attach::run::detach;
use crate::programs::sentence;
use crate::programs::this_program;
use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};

/// Makes and ends connections. Connecting and disconnecting may take long; several are asked for at
/// a time.
pub trait Attacher: Send + Sync {
    /// Makes a connection; what there is to say about it.
    fn connect(&self, connection: &RecordedConnection) -> Result<String, Error>;

    /// Ends a connection; `force`: also one that is used.
    fn disconnect(&self, name: &str, force: bool) -> Result<(), Error>;

    /// The connection with this name, if its process is alive.
    fn find(&self, name: &str) -> Option<Entry>;

    /// Whether the process of a connection was killed, and the system waits for the next one, which
    /// continues its disk.
    fn is_left(&self, name: &str) -> bool;

    /// The process of a connection has gone by itself. If no other process can continue its disk,
    /// whatever of the system still tries to use it is to stop.
    fn clear(&self, name: &str);
}

/// Connections by `weft connect` and `weft disconnect`.
pub struct OwnCommands {
    runtime: Runtime,
    kind: fn(i32) -> ErrorKind,
    /// What is known of each connection, for when its process has gone.
    known: Lock<HashMap<String, Entry>>,
}

impl OwnCommands {
    /// Those of this user. `kind`: the kind of error of an exit status.
    pub fn new(runtime: Runtime, kind: fn(i32) -> ErrorKind) -> Self {
        Self { runtime, kind, known: Lock::default() }
    }

    /// Runs this program to its end; what it printed. Relative paths among its words begin in
    /// `directory`.
    fn run(&self, words: &[String], directory: &Path) -> Result<String, Error> {
        WorkingDirectory::of(directory, self.runtime.path())?
            .within(|place| self.run_in(words, place))
    }

    fn run_in(&self, words: &[String], place: &Path) -> Result<String, Error> {
        let mut program =
            this_program().map_err(|e| Error::io(format!("cannot find this program: {e}"), e))?;
        // It is no part of what the service manager watches.
        for variable in ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"] {
            program.env_remove(variable);
        }
        program.args(words).current_dir(place).stdin(Stdio::null());
        let output = program.output().map_err(|e| {
            let program = program.get_program().display();
            Error::io(format!("cannot start {program}: {e}"), e)
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        let kind = output.status.code().map_or(ErrorKind::Io, self.kind);
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::new(kind, sentence(&said).unwrap_or("it ended without a message")))
    }
}

impl Attacher for OwnCommands {
    fn connect(&self, connection: &RecordedConnection) -> Result<String, Error> {
        let mut words = connection.words.clone();
        words.push("--by-daemon".into());
        let said = self.run(&words, &connection.directory)?;
        if self.find(&connection.name).is_none() {
            let text =
                format!("the command made no connection with the name {:?}", connection.name);
            return Err(Error::new(ErrorKind::Usage, text));
        }
        Ok(said)
    }

    fn disconnect(&self, name: &str, force: bool) -> Result<(), Error> {
        let force = if force { &["--force"][..] } else { &[] };
        let words = [&["disconnect", "--by-daemon"], force, &["--", name]].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        self.run(&words, self.runtime.path())?;
        self.known.lock().remove(name);
        Ok(())
    }

    fn find(&self, name: &str) -> Option<Entry> {
        let entry = self.runtime.find(name)?;
        if entry.attached {
            self.known.lock().insert(name.to_owned(), entry.clone());
        }
        Some(entry)
    }

    fn is_left(&self, name: &str) -> bool {
        let left = self.runtime.left().unwrap_or_default();
        left.iter().any(|entry| entry.name == name)
    }

    /// The next process removes what is left of a file by FUSE. The iSCSI initiator would try
    /// to connect again for ever. A device of nbd is free by itself, and may have another server by
    /// now.
    fn clear(&self, name: &str) {
        if self.is_left(name) {
            return;
        }
        let known = self.known.lock().remove(name);
        let Some(entry) = known.filter(|entry| entry.protocol == "iscsi") else { return };
        if let Err(e) = detach(&self.runtime.served(&entry)) {
            tracing::warn!("\"{name}\": {e}");
        }
    }
}
