//! The threads that answer: one that accepts clients, and one for each client. A client that does
//! not read its answers, or asks nothing for long, loses its connection; it never delays another
//! one, or any I/O. When the server ends, its clients lose their connections, too.

use super::methods::Methods;
use super::place::{self, ClaimedPath};
use super::protocol::{FaultCode, ManagementAnswer, RequestFault};
use crate::limits::{CONTROL_CLIENTS_MAX, CONTROL_IDLE_S, CONTROL_SEND_S, REQUEST_BYTES_MAX};
use crate::permitted::Permitted;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::Error;
use weft_endpoint::refusals::Refusals;

/// A control socket that answers. Dropping it closes the socket and removes its file.
pub struct ControlServer {
    claim: ClaimedPath,
    clients: Arc<ControlClients>,
    accepting: Option<JoinHandle<()>>,
}

/// The clients, and what they can ask for.
struct ControlClients {
    methods: Methods,
    refusals: Refusals,
    /// The server ends: no client gets a place.
    stopping: AtomicBool,
    /// Those that are connected, by number, with what closes their connections.
    connected: Lock<HashMap<u64, system::Closer>>,
}

/// The place of a client among [`CONTROL_CLIENTS_MAX`].
struct ClientPlace {
    of: Arc<ControlClients>,
    number: u64,
}

impl ControlClients {
    fn connected(&self) -> MutexGuard<'_, HashMap<u64, system::Closer>> {
        self.connected.lock()
    }

    /// Accepting failed. With other users permitted, anybody can connect, and does so as fast as it
    /// is refused.
    fn refuse(&self, error: &io::Error) {
        self.refusals.log_now(|| format!("a client of the control socket was refused: {error}"));
        if error.kind() != io::ErrorKind::PermissionDenied {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A place for a client; `None`: all are taken.
    fn place(
        self: &Arc<Self>,
        client: &system::Accepted,
        number: u64,
    ) -> io::Result<Option<ClientPlace>> {
        let mut connected = self.connected();
        if self.stopping.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the server ends"));
        }
        if connected.len() >= CONTROL_CLIENTS_MAX {
            return Ok(None);
        }
        connected.insert(number, system::closer(client)?);
        Ok(Some(ClientPlace { of: Arc::clone(self), number }))
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.of.connected().remove(&self.number);
    }
}

impl ControlServer {
    /// Listens at `path`. A socket that a dead process left there is replaced.
    ///
    /// # Errors
    /// `InUse` if a living process listens there; otherwise the error of listening.
    pub fn start(path: &Path, methods: Methods) -> Result<Self, Error> {
        Self::start_for(path, methods, Permitted::default())
    }

    /// The same, also for clients of other users.
    pub fn start_for(path: &Path, methods: Methods, users: Permitted) -> Result<Self, Error> {
        place::check(path)?;
        let claim = ClaimedPath::take(path)?;
        let failed = |e| {
            Error::io(
                format!(
                    "cannot listen at {}: {e}; choose another path with --control",
                    path.display()
                ),
                e,
            )
        };
        let listener = system::ManagementListener::bind(path, users).map_err(failed)?;
        let clients = Arc::new(ControlClients {
            methods,
            refusals: Refusals::new(),
            stopping: AtomicBool::new(false),
            connected: Lock::default(),
        });
        let all = Arc::clone(&clients);
        let accept = move || {
            let mut numbers = 0..;
            while !all.stopping.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok(client) if !all.stopping.load(Ordering::Acquire) => {
                        serve(&all, client, numbers.next().unwrap_or_default())
                    }
                    Ok(_) => {}
                    Err(e) => all.refuse(&e),
                }
            }
        };
        let accepting = std::thread::Builder::new().name("weft-control".into()).spawn(accept);
        Ok(Self { claim, clients, accepting: Some(accepting.map_err(failed)?) })
    }

    /// The path of its socket.
    pub fn path(&self) -> PathBuf {
        self.claim.path().to_owned()
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.clients.stopping.store(true, Ordering::Release);
        // Wakes the thread that accepts, so that it closes the socket.
        let limit = Duration::from_secs(1);
        if system::connect(self.claim.path(), limit).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
        self.clients.connected().values().for_each(system::close);
    }
}

fn serve(clients: &Arc<ControlClients>, mut client: system::Accepted, number: u64) {
    let prepared = system::limit(
        &client,
        Duration::from_secs(CONTROL_IDLE_S),
        Duration::from_secs(CONTROL_SEND_S),
    );
    if let Err(e) = prepared {
        return clients.refuse(&e);
    }
    let place = match clients.place(&client, number) {
        Ok(Some(place)) => place,
        Ok(None) => {
            let text = format!(
                "the control socket has {CONTROL_CLIENTS_MAX} clients, the maximum; end one of them"
            );
            let refusal = ManagementAnswer::to(
                Value::Null,
                Err(RequestFault::new(FaultCode::NoResources, text)),
            );
            return drop(say(&mut client, &refusal));
        }
        Err(e) => return clients.refuse(&e),
    };
    let work = move || {
        // It is gone, slow, or idle: nothing is owed to it any more.
        let _ = converse(&place.of.methods, client);
    };
    if let Err(e) = std::thread::Builder::new().name("weft-client".into()).spawn(work) {
        clients.refuse(&e);
    }
}

/// Answers a client until it has gone. A line that is too long is answered, and ends the
/// conversation.
fn converse(methods: &Methods, client: impl Read + Write) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let mut line = Vec::new();
    while client.by_ref().take(REQUEST_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)? > 0 {
        let request = line.trim_ascii_end();
        if !request.is_empty() {
            let (answer, afterwards) = methods.answer(request);
            let said = say(client.get_mut(), &answer);
            if let Some(afterwards) = afterwards {
                afterwards();
            }
            said?;
        }
        if line.len() > REQUEST_BYTES_MAX {
            break;
        }
        line.clear();
        line.shrink_to(4096);
    }
    Ok(())
}

fn say(client: &mut impl Write, answer: &ManagementAnswer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    client.write_all(&line)
}

/// Unix sockets of this user's.
#[cfg(unix)]
pub mod system {
    use crate::permitted::Permitted;
    use crate::private_files;
    use std::io::{self, IoSliceMut, Read, Write};
    use std::net::Shutdown;
    use std::ops::Deref;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;
    use weft_io::unasked::{Closing, PeerSocket};

    /// A connection to a server.
    pub type Stream = UnixStream;

    /// The connection of a client, which may send descriptors: to close it does not wait for what
    /// they stand for.
    pub struct Accepted(Arc<PeerSocket<UnixStream>>);

    impl Deref for Accepted {
        type Target = UnixStream;

        fn deref(&self) -> &UnixStream {
            &self.0
        }
    }

    impl Read for Accepted {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.recv(&mut [IoSliceMut::new(buf)])
        }
    }

    impl Write for Accepted {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let mut stream: &UnixStream = self;
            stream.write(buf)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A handle that closes a connection.
    pub type Closer = Accepted;

    /// The handle that closes this one.
    pub fn closer(client: &Accepted) -> io::Result<Closer> {
        Ok(Accepted(Arc::clone(&client.0)))
    }

    /// Closes a connection, whoever reads from it; what was written arrives.
    pub fn close(closer: &Closer) {
        // The other end may have closed it already.
        let _ = closer.shutdown(Shutdown::Both);
    }

    /// A listening socket.
    pub struct ManagementListener {
        socket: PeerSocket<UnixListener>,
        closing: Closing,
        users: Permitted,
    }

    impl ManagementListener {
        /// Listens at `path`, replacing a socket that is there: the caller holds the claim to the
        /// path.
        pub fn bind(path: &Path, users: Permitted) -> io::Result<Self> {
            crate::management::place::remove(path)?;
            let (socket, closing) = (private_files::bind_for(path, &users)?, Closing::default());
            Ok(Self { socket: PeerSocket::new(socket, &closing), closing, users })
        }

        /// The next client, if it belongs to the user of this process, to root, or to one of those
        /// that are permitted.
        pub fn accept(&self) -> io::Result<Accepted> {
            self.closing.check()?;
            let (client, _) = self.socket.accept()?;
            let client = Accepted(Arc::new(PeerSocket::new(client, &self.closing)));
            private_files::check_user(&client, &self.users)?;
            Ok(client)
        }
    }

    /// Bounds the time that reading a request and writing an answer take.
    pub fn limit(stream: &Stream, receive: Duration, send: Duration) -> io::Result<()> {
        stream.set_read_timeout(Some(receive))?;
        stream.set_write_timeout(Some(send))
    }

    /// Connects to the socket at `path`; waits for it for at most `limit`.
    pub fn connect(path: &Path, limit: Duration) -> io::Result<Stream> {
        weft_io::unix::connect(path, limit)
    }
}

#[cfg(windows)]
pub use super::pipe as system;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testing::wait::PATIENCE;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weft-control-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn methods() -> Methods {
        let mut methods = Methods::default();
        methods.add("echo", |value: Value| Ok(value));
        methods
    }

    fn asked(client: &mut BufReader<system::Stream>, line: &str) -> Value {
        client.get_mut().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or(Value::Null)
    }

    #[test]
    fn clients_are_answered_and_counted() {
        let directory = directory("clients");
        let path = directory.join("a.control");
        let server = ControlServer::start(&path, methods()).unwrap();
        assert!(ControlServer::start(&path, methods()).is_err(), "it is alive");
        let connect = || BufReader::new(system::connect(&path, PATIENCE).unwrap());
        let mut clients: Vec<_> = (0..CONTROL_CLIENTS_MAX).map(|_| connect()).collect();
        let echo = "{\"version\":1,\"method\":\"echo\",\"params\":7}\n";
        // In the other order: a client that says nothing delays nobody.
        clients.iter_mut().rev().for_each(|client| assert_eq!(asked(client, echo)["result"], 7));
        let mut refused = String::new();
        connect().read_line(&mut refused).unwrap();
        assert!(refused.contains("no-resources"), "{refused}");
        assert_eq!(
            asked(&mut clients[0], &format!("{}\n", "x".repeat(REQUEST_BYTES_MAX)))["error"]["code"],
            "malformed"
        );
        drop(server);
        assert!(!path.exists());
        let mut rest = String::new();
        assert!(clients[1].read_line(&mut rest).is_ok_and(|read| read == 0), "it is disconnected");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_of_a_dead_process_is_replaced() {
        let directory = directory("stale");
        let path = directory.join("a.control");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let _server = ControlServer::start(&path, methods()).unwrap();
        let mut client = BufReader::new(system::connect(&path, PATIENCE).unwrap());
        assert_eq!(
            asked(&mut client, "{\"version\":1,\"method\":\"echo\",\"params\":1}\n")["result"],
            1
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&path).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
