//! A new process takes over from an old one, without closing the sockets on which that listens: no
//! connection attempt is refused meanwhile.
//!
//! The new process asks the old one, by its control socket, to send duplicates of its listening
//! sockets, and then to end. The old one drains its connections and flushes; hosts that connect
//! meanwhile wait in the queues of the sockets. When it has gone, its files are free, and the new
//! process opens them and listens.

use crate::limits::HANDOVER_S;
use crate::management::client::Client;
use crate::management::place::named;
use crate::management::protocol::Fault;
use crate::service::demands::Demands;
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::listening::Listening;

/// The server that a new one takes over from, if any: its control socket, or its name.
#[derive(Clone, Debug, Default)]
pub struct Takeover {
    /// `PATH` or `NAME`.
    pub from: Option<String>,
    /// Also from one that demands proofs of its hosts which this one does not.
    pub insecure: bool,
}

/// What a process that takes over is to do.
#[derive(Debug)]
pub struct Successor {
    /// The addresses at which it is to listen.
    pub places: Vec<SocketAddr>,
    /// Where its metrics are to be.
    pub metrics: Option<SocketAddr>,
    /// What it demands of its hosts.
    pub demands: Demands,
}

/// What the new process asks the old one for: the Unix socket at which it waits for the listening
/// sockets.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// Path.
    pub socket: PathBuf,
}

/// How many sockets were sent, and what the next process has to know.
#[derive(Debug, Deserialize, Serialize)]
pub struct HandedOver {
    /// Listening sockets.
    pub sockets: usize,
    /// The server; one of an older version does not tell.
    #[serde(default)]
    pub server: Option<Replaced>,
}

/// A server that is being replaced.
#[derive(Debug, Deserialize, Serialize)]
pub struct Replaced {
    /// Where its metrics are.
    pub metrics: Option<SocketAddr>,
    /// What it demands of its hosts.
    pub demands: Demands,
}

/// What the old process needs to hand over.
#[derive(Clone)]
pub struct Giver {
    /// Its sockets.
    pub listening: Listening,
    /// Has it drain and end.
    pub end: Arc<dyn Fn() + Send + Sync>,
    /// The connections to whoever took over, which tell that the process has gone.
    waiting: Arc<Mutex<Vec<system::Waiting>>>,
}

impl Giver {
    /// Hands over these sockets; `end` has the process drain and end.
    pub fn new(listening: Listening, end: impl Fn() + Send + Sync + 'static) -> Self {
        Self { listening, end: Arc::new(end), waiting: Arc::default() }
    }

    /// Whether another process takes over.
    pub fn has_given(&self) -> bool {
        // One that found something wrong has gone again.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).iter().any(system::is_there)
    }

    /// Sends the sockets; how many.
    pub fn give(&self, Handover { socket }: &Handover) -> Result<usize, Fault> {
        let failed = |e| {
            Error::io(format!("cannot send the listening sockets to {}: {e}", socket.display()), e)
        };
        let open = self.listening.open();
        let waiting = system::give(socket, &open).map_err(failed)?;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        tracing::info!("another process takes over {} listening sockets", open.len());
        Ok(open.len())
    }
}

impl Takeover {
    /// Takes over, if that is wanted: gets the sockets, and waits until the old process has gone.
    ///
    /// The other one goes on if its sockets do not fit the addresses of this one, where listening at
    /// the remaining ones is not possible, and where it demands more of its hosts.
    pub fn run(&self, listening: &Listening, successor: Successor) -> Result<(), Error> {
        let Some(from) = &self.from else { return Ok(()) };
        let mut places = successor.places;
        let own = listening.unused();
        let path = named(from)?;
        let failed = |e| {
            Error::io(format!("cannot take over from the server at {}: {e}", path.display()), e)
        };
        let receiver = system::Receiver::new(&path).map_err(failed)?;
        let mut client = Client::connect(&path)?;
        let HandedOver { sockets, server } =
            client.ask("server.handover", Handover { socket: receiver.path().to_owned() })?;
        let (received, gone) = receiver.receive().map_err(failed)?;
        if received.len() != sockets {
            let text = format!(
                "the server sent {sockets} listening sockets, of which {} arrived",
                received.len()
            );
            return Err(Error::new(ErrorKind::Protocol, text));
        }
        if let Some(replaced) = &server {
            let goes_on = format!("the server at {} goes on", path.display());
            self.check_demands(replaced, &successor.demands, &goes_on)?;
            check_metrics(successor.metrics, replaced, &goes_on)?;
        }
        for at in received.iter().map(|(at, _)| at) {
            let Some(place) = places.iter().position(|place| place == at) else {
                let text = format!(
                    "the server at {} listens at {at}, and this one is not to: add it with --listen; that server goes on",
                    path.display()
                );
                return Err(Error::new(ErrorKind::Usage, text));
            };
            places.swap_remove(place);
        }
        for at in places.into_iter().filter(|at| !own.contains(at)) {
            let failed = |e| {
                Error::io(
                    format!("cannot listen at {at}: {e}; the server at {} goes on", path.display()),
                    e,
                )
            };
            TcpListener::bind(at).map_err(failed)?;
        }
        received.into_iter().for_each(|(at, socket)| listening.give(at, socket));
        client.ask::<()>("server.end", crate::management::methods::NoParams {})?;
        // Its thread must not keep the old process's devices.
        drop(client);
        gone.wait(Duration::from_secs(HANDOVER_S)).map_err(failed)?;
        Ok(())
    }

    /// Refuses to take over from a server whose hosts prove what this one would not ask for.
    fn check_demands(
        &self,
        replaced: &Replaced,
        demands: &Demands,
        goes_on: &str,
    ) -> Result<(), Error> {
        let Some((what, how)) = demands.lacks(&replaced.demands) else { return Ok(()) };
        let text = format!(
            "the server to be replaced demands {what} of its hosts, and this one would not: {how}, or say --insecure; {goes_on}"
        );
        if self.insecure {
            tracing::warn!("the server that was replaced demanded {what} of its hosts");
            return Ok(());
        }
        Err(Error::new(ErrorKind::Usage, text))
    }
}

/// Refuses a port of metrics that somebody else has than the server to be replaced.
fn check_metrics(
    wanted: Option<SocketAddr>,
    replaced: &Replaced,
    goes_on: &str,
) -> Result<(), Error> {
    let Some(at) = wanted else { return Ok(()) };
    let is_any = |of: &SocketAddr| of.ip().is_unspecified();
    let is_its = |own: &SocketAddr| {
        own.port() == at.port() && (own.ip() == at.ip() || is_any(own) || is_any(&at))
    };
    if replaced.metrics.as_ref().is_some_and(is_its) {
        return Ok(());
    }
    let failed = |e| {
        Error::io(format!("cannot serve metrics at {at}: {e}; choose another port, {goes_on}"), e)
    };
    TcpListener::bind(at).map(drop).map_err(failed)
}

/// By Unix sockets, with SCM_RIGHTS (unix(7)).
#[cfg(unix)]
mod system {
    use crate::limits::{CONTROL_CONNECT_S, HANDOVER_SOCKETS_MAX};
    use crate::private_files;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    };
    use std::io::{self, IoSlice, IoSliceMut, Read};
    use std::mem::MaybeUninit;
    use std::net::{SocketAddr, TcpListener};
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::Duration;

    /// A connection that ends with this process.
    pub type Waiting = UnixStream;

    /// Space for the descriptors in one message.
    const SPACE: usize = rustix::cmsg_space!(ScmRights(HANDOVER_SOCKETS_MAX));

    /// Sends sockets, and the addresses for which they are.
    pub fn give(to: &Path, sockets: &[(SocketAddr, Arc<TcpListener>)]) -> io::Result<Waiting> {
        if sockets.len() > HANDOVER_SOCKETS_MAX {
            return Err(io::Error::other(format!("there are more than {HANDOVER_SOCKETS_MAX}")));
        }
        let limit = Duration::from_secs(CONTROL_CONNECT_S);
        let stream = weft_io::unix::connect(to, limit)?;
        private_files::check_peer(&stream)?;
        stream.set_write_timeout(Some(limit))?;
        let mut text: String = sockets.iter().map(|(at, _)| format!("{at} ")).collect();
        text.push('\n');
        let descriptors: Vec<_> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("they do not fit into a message"));
        }
        let sent =
            sendmsg(&stream, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::empty())?;
        if sent < text.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(stream)
    }

    /// Whether the other process still waits. It sends nothing.
    pub fn is_there(waiting: &Waiting) -> bool {
        let mut waiting: &UnixStream = waiting;
        waiting.set_nonblocking(true).is_err()
            || waiting.read(&mut [0]).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until there is something to be accepted.
    fn wait_readable(listener: &UnixListener, limit: Duration) -> io::Result<()> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        loop {
            match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&limit)) {
                Err(Errno::INTR) => {}
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                other => return Ok(other.map(drop)?),
            }
        }
    }

    /// Where a process waits for sockets.
    pub struct Receiver {
        listener: UnixListener,
        path: PathBuf,
    }

    /// Tells when the other process has gone.
    pub struct Gone(UnixStream);

    impl Receiver {
        /// Waits next to the control socket of the other process, where no other user can connect,
        /// or replace the socket.
        pub fn new(control: &Path) -> io::Result<Self> {
            let path = control.with_extension(format!("handover-{}", std::process::id()));
            private_files::check_directory(control.parent().unwrap_or(control))?;
            let _ = std::fs::remove_file(&path);
            let listener = private_files::bind(&path)?;
            Ok(Self { listener, path: std::path::absolute(path)? })
        }

        /// Its path.
        pub fn path(&self) -> &Path {
            &self.path
        }

        /// Receives what was sent.
        pub fn receive(self) -> io::Result<(Vec<(SocketAddr, TcpListener)>, Gone)> {
            let limit = Duration::from_secs(CONTROL_CONNECT_S);
            wait_readable(&self.listener, limit)?;
            let (mut stream, _) = self.listener.accept()?;
            private_files::check_peer(&stream)?;
            stream.set_read_timeout(Some(limit))?;
            let (mut text, mut descriptors) = (vec![0; 64 << 10], Vec::new());
            let mut space = [MaybeUninit::uninit(); SPACE];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC;
            let mut length =
                recvmsg(&stream, &mut [IoSliceMut::new(&mut text)], &mut control, flags)?.bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
            while length < text.len() && !text[..length].contains(&b'\n') {
                match stream.read(&mut text[length..])? {
                    0 => break,
                    more => length += more,
                }
            }
            let wrong =
                || io::Error::new(io::ErrorKind::InvalidData, "it sent no list of addresses");
            let text = std::str::from_utf8(&text[..length]).map_err(|_| wrong())?;
            let addresses =
                text.split_whitespace().map(str::parse).collect::<Result<Vec<SocketAddr>, _>>();
            let sockets = descriptors.into_iter().map(TcpListener::from);
            Ok((addresses.map_err(|_| wrong())?.into_iter().zip(sockets).collect(), Gone(stream)))
        }
    }

    impl Drop for Receiver {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    impl Gone {
        /// Waits for the end of the other process.
        pub fn wait(mut self, limit: Duration) -> io::Result<()> {
            self.0.set_read_timeout(Some(limit))?;
            match self.0.read(&mut [0]) {
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
                {
                    Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("it has not ended in {} s", limit.as_secs()),
                    ))
                }
                _ => Ok(()),
            }
        }
    }
}

/// Not supported on this system.
#[cfg(not(unix))]
mod system {
    use std::io;
    use std::net::{SocketAddr, TcpListener};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    /// Never there.
    pub enum Waiting {}

    /// Never there.
    pub enum Receiver {}

    /// Never there.
    pub enum Gone {}

    fn none<T>() -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets"))
    }

    /// Not supported.
    pub fn give(_: &Path, _: &[(SocketAddr, Arc<TcpListener>)]) -> io::Result<Waiting> {
        none()
    }

    /// Never called.
    pub fn is_there(waiting: &Waiting) -> bool {
        match *waiting {}
    }

    impl Receiver {
        /// Not supported.
        pub fn new(_: &Path) -> io::Result<Self> {
            none()
        }

        /// Never called.
        pub fn path(&self) -> &Path {
            match *self {}
        }

        /// Never called.
        pub fn receive(self) -> io::Result<(Vec<(SocketAddr, TcpListener)>, Gone)> {
            match self {}
        }
    }

    impl Gone {
        /// Never called.
        pub fn wait(self, _: Duration) -> io::Result<()> {
            match self {}
        }
    }
}
