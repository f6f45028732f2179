//! A new process takes over from an old one, without closing the old one's listening sockets: no
//! connection attempt is refused during the takeover.
//!
//! The new process asks the old one, by its control socket, to send duplicates of its listening
//! sockets, and then to end. The old one drains its connections and flushes; hosts that connect
//! until the new one listens wait in the queues of the sockets. When the old one has gone, its
//! files are free, and the new process opens them and listens.
//!
//! An old process that can go on is asked to release everything, and not to end: it reports that it
//! has, waits until the new one serves, and ends then. If the new one fails, it serves again.

#[cfg(not(unix))]
mod elsewhere;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
use elsewhere as system;
#[cfg(unix)]
use unix as system;

use crate::limits::HANDOVER_S;
use crate::management::client::ManagementClient;
use crate::management::methods::NoParams;
use crate::management::place::named;
use crate::management::protocol::RequestFault;
use crate::service::demands::Demands;
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind, waiting};
use weft_io::listening::Listening;

/// The method that has a server release everything, and wait.
pub const RELEASE: &str = "server.release";

/// The server that a new one takes over from, if any: its control socket, or its name.
#[derive(Clone, Debug, Default)]
pub struct Takeover {
    /// `PATH` or `NAME`.
    pub from: Option<String>,
    /// Also from one that demands proofs of its hosts which this one does not.
    pub insecure: bool,
    /// Another process was to take over from this one, and has failed.
    pub has_failed: bool,
}

/// The resources that another server has released. It goes on, unless this one reports that it
/// serves.
pub struct TakenResources(system::Gone);

impl TakenResources {
    /// This one serves.
    pub fn serves(self) {
        self.0.serves();
    }
}

/// What is asked for before a server is: which methods it has.
#[derive(Deserialize)]
struct Known {
    methods: Vec<String>,
}

/// The plan of a process that takes over.
#[derive(Debug)]
pub struct Successor {
    /// The addresses at which it is to listen.
    pub places: Vec<SocketAddr>,
    /// The address for its metrics.
    pub metrics: Option<SocketAddr>,
    /// Its demands on its hosts.
    pub demands: Demands,
}

/// The new process's request to the old one: the Unix socket at which it waits for the listening
/// sockets.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// Path.
    pub socket: PathBuf,
}

/// The number of sockets that were sent, and the facts that the next process needs.
#[derive(Debug, Deserialize, Serialize)]
pub struct HandedOver {
    /// Listening sockets.
    pub sockets: usize,
    /// The server; an older version does not send it.
    #[serde(default)]
    pub server: Option<Replaced>,
}

/// A server that is being replaced.
#[derive(Debug, Deserialize, Serialize)]
pub struct Replaced {
    /// The address of its metrics.
    pub metrics: Option<SocketAddr>,
    /// Its demands on its hosts.
    pub demands: Demands,
}

/// The parts of the old process that hand over.
#[derive(Clone)]
pub struct Giver {
    /// Its sockets.
    pub listening: Listening,
    /// Has it drain and end.
    pub end: Arc<dyn Fn() + Send + Sync>,
    /// Has it drain, and go on if the other process fails; `None`: it cannot.
    pub release: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The connections to whoever took over, which tell that the process has gone.
    waiting: Arc<Lock<Vec<system::Waiting>>>,
}

impl Giver {
    /// Hands over these sockets; `end` has the process drain and end, and `release` drain and go
    /// on.
    pub fn new(
        listening: Listening,
        end: impl Fn() + Send + Sync + 'static,
        release: Option<Arc<dyn Fn() + Send + Sync>>,
    ) -> Self {
        Self { listening, end: Arc::new(end), release, waiting: Arc::default() }
    }

    /// Tells the process that takes over that everything is released, and waits until it serves, or
    /// until this one `is_ending`. `false`: the other one has gone.
    pub fn release(&self, is_ending: &dyn Fn() -> bool) -> bool {
        let waiting = core::mem::take(&mut *self.waiting.lock());
        waiting.iter().any(|waiting| system::release(waiting, is_ending))
    }

    /// Returns whether another process takes over.
    pub fn has_given(&self) -> bool {
        // One that found something wrong has gone again.
        self.waiting.lock().iter().any(system::is_there)
    }

    /// Sends the sockets; how many.
    pub fn give(&self, Handover { socket }: &Handover) -> Result<usize, RequestFault> {
        let failed = |e| {
            Error::io(format!("cannot send the listening sockets to {}: {e}", socket.display()), e)
        };
        let open = self.listening.open();
        let waiting = system::give(socket, &open).map_err(failed)?;
        self.waiting.lock().push(waiting);
        tracing::info!("another process takes over {} listening sockets", open.len());
        Ok(open.len())
    }
}

impl Takeover {
    /// Takes over, if that is wanted: gets the sockets, and waits until the old process has gone,
    /// or has released everything.
    ///
    /// The other one goes on if its sockets do not fit the addresses of this one, where listening
    /// at the remaining ones is not possible, and where it demands more of its hosts.
    pub fn run(
        &self,
        listening: &Listening,
        successor: Successor,
    ) -> Result<Option<TakenResources>, Error> {
        let Some(from) = &self.from else { return Ok(None) };
        let mut places = successor.places;
        let own = listening.unused();
        let path = named(from)?;
        let failed = |e| {
            Error::io(format!("cannot take over from the server at {}: {e}", path.display()), e)
        };
        let receiver = system::Receiver::new(&path).map_err(failed)?;
        let mut client = ManagementClient::connect(&path)?;
        let HandedOver { sockets, server } =
            client.ask("server.handover", Handover { socket: receiver.path().to_owned() })?;
        let (received, mut gone) = receiver.receive().map_err(failed)?;
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
        let Known { methods } = client.ask("server.info", NoParams {})?;
        let can_go_on = methods.iter().any(|method| method == RELEASE);
        client.ask::<()>(if can_go_on { RELEASE } else { "server.end" }, NoParams {})?;
        // Its thread must not keep the old process's devices.
        drop(client);
        let of = || format!("the server at {} to end", path.display());
        let _waiting = waiting::begin(of);
        gone.wait(Duration::from_secs(HANDOVER_S)).map_err(failed)?;
        Ok(Some(TakenResources(gone)))
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
