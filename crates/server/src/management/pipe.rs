//! Control sockets on Windows: named pipes of this user's.
//!
//! Two things keep others out. The pipe's descriptor admits its owner, administrators and the
//! system alone, and nobody from the network; its name is drawn by chance and stands in the file
//! `NAME.control` of the runtime directory, which belongs to the user. So nobody can take the name
//! before the server does, and a client that finds the file speaks to the server that wrote it.

use crate::permitted::Permitted;
use interprocess::ConnectWaitMode;
use interprocess::os::windows::named_pipe::{
    DuplexPipeStream, PipeListener, PipeListenerOptions, pipe_mode::Bytes,
};
use interprocess::os::windows::security_descriptor::SecurityDescriptor;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::time::Duration;
use weft_io::durable::{self, Readers};
use widestring::u16cstr;

/// Prefix of the names of our pipes.
pub const PREFIX: &str = r"\\.\pipe\weft-";

/// A connection to a server.
pub type Stream = DuplexPipeStream<Bytes>;

/// The connection of a client.
pub type Accepted = Stream;

/// Pipes are closed by the threads that hold them: a client that stays gets the answer that the
/// server has ended.
pub type Closer = ();

/// Does nothing.
pub fn closer(_: &Accepted) -> io::Result<Closer> {
    Ok(())
}

/// Does nothing.
pub fn close(&(): &Closer) {}

/// A listening pipe.
pub struct ManagementListener(PipeListener<Bytes, Bytes>);

impl ManagementListener {
    /// Listens on a new pipe and notes its name at `path`, replacing what is there: the caller
    /// holds the claim to the path.
    pub fn bind(path: &Path, _: Permitted) -> io::Result<Self> {
        let name = format!("{PREFIX}{:016x}{:016x}", chance(), chance());
        // Owner, system and administrators: everything. Nothing is inherited.
        let descriptor =
            SecurityDescriptor::deserialize(u16cstr!("D:P(A;;GA;;;OW)(A;;GA;;;SY)(A;;GA;;;BA)"))?;
        let options = PipeListenerOptions::new()
            .path(name.as_str())
            .security_descriptor(Some(descriptor))
            .accept_remote(false);
        let listener = options.create_duplex::<Bytes>()?;
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".new");
        durable::replace_soon(path, Path::new(&fresh), name.as_bytes(), Readers::Owner)?;
        Ok(Self(listener))
    }

    /// The next client.
    pub fn accept(&self) -> io::Result<Accepted> {
        self.0.accept()
    }
}

/// A number that nobody can guess: keys of hash tables are drawn from the system's random numbers.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Pipes that block know no time limits: a client that stays silent keeps its place among this
/// user's.
pub fn limit(_: &Stream, _: Duration, _: Duration) -> io::Result<()> {
    Ok(())
}

/// Connects to the pipe whose name is in the file at `path`; waits for it for at most `limit`.
pub fn connect(path: &Path, limit: Duration) -> io::Result<Stream> {
    let name = std::fs::read_to_string(path)?;
    if !name.starts_with(PREFIX) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file does not name a pipe of weft's",
        ));
    }
    Stream::connect_by_path_with_wait_mode(name.as_str(), ConnectWaitMode::Timeout(limit))
}
