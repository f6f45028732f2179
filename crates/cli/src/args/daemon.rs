//! `--daemon` of the commands that ask a daemon, and `--persist`.

use crate::limits::DAEMON_START_MS;
use crate::process::exit::Failure;
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weft_block::ErrorKind;
use weft_server::attach::entries::{Entry, Runtime};
use weft_server::connections::orders::{self, ConnectOrder, HeldConnection};
use weft_server::connections::record::RecordedConnection;
use weft_server::management::client::ManagementClient;
use weft_server::secret::VARIABLES;

/// The daemon that a command asks.
#[derive(Args, Clone, Debug)]
pub struct DaemonArgs {
    /// Socket of the daemon [default: the daemon of this user, otherwise that of the system, if one
    /// answers]
    #[arg(long, value_name = "PATH", help_heading = "Daemon")]
    daemon: Option<PathBuf>,
    /// Ask no daemon
    #[arg(long, hide = true)]
    pub by_daemon: bool,
}

/// Persistence of a connection.
#[derive(Args, Clone, Debug)]
pub struct LastingArgs {
    /// Make the daemon restore the connection whenever it starts
    #[arg(long, help_heading = "Daemon")]
    persist: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl DaemonArgs {
    /// The daemon that is meant, if there is one.
    pub fn client(&self, runtime: &Runtime) -> Result<Option<ManagementClient>, Failure> {
        match &self.daemon {
            _ if self.by_daemon => Ok(None),
            Some(path) => Ok(Some(orders::daemon_at(path)?)),
            None => Ok(orders::daemon(runtime)),
        }
    }

    /// The connections that it holds.
    pub fn held(client: &mut Option<ManagementClient>) -> Result<Vec<HeldConnection>, Failure> {
        Ok(client.as_mut().map(orders::list).transpose()?.unwrap_or_default())
    }
}

impl LastingArgs {
    /// The daemon that is meant, if there is one.
    pub fn client(&self, runtime: &Runtime) -> Result<Option<ManagementClient>, Failure> {
        self.daemon.client(runtime)
    }

    /// The record of a connection that a daemon holds.
    ///
    /// # Errors
    /// It holds none of this name.
    pub fn entry(&self, name: &str) -> Result<Entry, Failure> {
        let held = DaemonArgs::held(&mut self.client(&Runtime::open()?)?)?;
        let entry = held.into_iter().find(|it| it.name == name).and_then(|it| it.entry);
        let ended = || {
            let text =
                format!("\"{name}\" was connected and has ended since; `weft list` has the reason");
            Failure::of(ErrorKind::NotFound, text)
        };
        entry.ok_or_else(ended)
    }

    /// Asks a daemon to make and hold the connection that this process was asked for; returns its
    /// answer. `None`: there is no daemon, and none is needed.
    pub fn ask(&self, name: &str, url: &str) -> Result<Option<String>, Failure> {
        let runtime = Runtime::open()?;
        let mut client = self.client(&runtime)?;
        if self.persist && !self.daemon.by_daemon {
            // One that was started just before may not listen yet.
            let until = Instant::now() + Duration::from_millis(DAEMON_START_MS);
            while client.is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(DAEMON_START_MS / 40));
                client = self.client(&runtime)?;
            }
            client = Some(client.ok_or_else(|| orders::no_daemon("--persist"))?);
        }
        let Some(mut client) = client else { return Ok(None) };
        let connection = RecordedConnection {
            name: name.to_owned(),
            url: url.to_owned(),
            words: words()?,
            directory: std::env::current_dir()?,
        };
        let order = ConnectOrder { connection, persist: self.persist };
        Ok(Some(client.ask(orders::CONNECT, order)?))
    }
}

/// The words of this command.
fn words() -> Result<Vec<String>, Failure> {
    let of_connections = |name: &&&str| name.contains("DHCHAP") || name.contains("CHAP_");
    let set = |name: &&&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = VARIABLES.iter().filter(of_connections).find(set) {
        let text = format!(
            "a daemon does not get the secret in {name}; put it into a file, name that with an option, and unset {name}"
        );
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    let word = |word: std::ffi::OsString| {
        word.into_string().map_err(|word| {
            let text = format!("{} is not UTF-8, which a daemon needs", word.display());
            Failure::of(ErrorKind::Usage, text)
        })
    };
    // Whoever calls waits and prints by itself, and only now.
    let is_own = |word: &Result<String, Failure>| {
        word.as_ref().is_ok_and(|word| {
            word == "--print-device" || word == "--wait" || word.starts_with("--wait=")
        })
    };
    std::env::args_os().skip(1).map(word).filter(|word| !is_own(word)).collect()
}
