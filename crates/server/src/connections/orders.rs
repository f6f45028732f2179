//! The requests to a daemon: the methods of its control socket, for both ends.

use super::record::RecordedConnection;
use super::supervision::SupervisionState;
use crate::attach::entries::{Entry, Runtime};
use crate::management::client::ManagementClient;
use crate::management::methods::NoParams;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use weft_block::{Error, ErrorKind};

/// Makes a connection and holds it: [`ConnectOrder`], answered with what there is to say.
pub const CONNECT: &str = "connection.connect";

/// Ends one: [`Disconnect`].
pub const DISCONNECT: &str = "connection.disconnect";

/// All of them: [`HeldConnection`].
pub const LIST: &str = "connection.list";

/// Where the daemon of the system listens, if there is one.
#[cfg(unix)]
const OF_SYSTEM: &str = "/run/weft/connections.daemon";

/// A connection to make.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectOrder {
    /// The connection.
    pub connection: RecordedConnection,
    /// It is recorded once it is there.
    pub persist: bool,
}

/// A connection to end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disconnect {
    /// Its name.
    pub name: String,
    /// Its record is removed.
    pub forget: bool,
    /// Although its disk is mounted, or the system fails to detach it.
    pub force: bool,
}

/// A connection that the daemon holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldConnection {
    /// Its name.
    pub name: String,
    /// Its source.
    pub url: String,
    /// It is made again when the daemon starts.
    pub recorded: bool,
    /// Its state.
    pub state: SupervisionState,
    /// Why it could not be made the last time, or was lost.
    pub last_error: Option<String>,
    /// Milliseconds until it is tried again.
    pub next_attempt_ms: Option<u64>,
    /// The entry of the connection that exists now.
    pub entry: Option<Entry>,
}

/// The socket of this user's daemon.
pub fn own_place(runtime: &Runtime) -> PathBuf {
    runtime.file("connections", "daemon")
}

/// A connection to the daemon at `given`.
pub fn daemon_at(given: &Path) -> Result<ManagementClient, Error> {
    ManagementClient::connect(given)
}

/// The daemon of this user, or else that of the system, if it answers this user.
pub fn daemon(runtime: &Runtime) -> Option<ManagementClient> {
    asked(&own_place(runtime)).or_else(of_system)
}

/// Whoever has runtime files elsewhere by choice means those alone.
#[cfg(unix)]
fn of_system() -> Option<ManagementClient> {
    std::env::var_os("WEFT_RUNTIME_DIR").is_none().then(|| asked(Path::new(OF_SYSTEM)))?
}

#[cfg(not(unix))]
fn of_system() -> Option<ManagementClient> {
    None
}

/// A daemon that answers.
fn asked(place: &Path) -> Option<ManagementClient> {
    let mut client = ManagementClient::connect(place).ok()?;
    client.ask::<Vec<HeldConnection>>(LIST, NoParams {}).ok()?;
    Some(client)
}

/// The connections that a daemon holds.
pub fn list(client: &mut ManagementClient) -> Result<Vec<HeldConnection>, Error> {
    client.ask(LIST, NoParams {})
}

/// The kind of error of commands that need a daemon where none answers.
pub fn no_daemon(what: &str) -> Error {
    let text = format!(
        "{what} needs a running `weft daemon`, and none answers this user; start it, or give its socket with --daemon"
    );
    Error::new(ErrorKind::NotFound, text)
}
