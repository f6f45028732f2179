//! The daemon: drives [`Supervision`], keeps the record, and answers orders.

use super::attacher::Attacher;
use super::orders::{CONNECT, ConnectOrder, DISCONNECT, Disconnect, HeldConnection, LIST};
use super::record::{ConnectionRecords, RecordedConnection};
use super::store::ConnectionStore;
use super::supervision::{Supervised, Supervision};
use crate::management::methods::{Methods, NoParams};
use crate::management::protocol::RequestFault;
use crate::management::server::ControlServer;
use crate::permitted::Permitted;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_base::lock::{Condition, Lock};
use weft_block::{Error, ErrorKind};

/// How often it looks whether the processes of connections are alive.
const LOOK: Duration = Duration::from_secs(1);

/// How long an order waits for an attempt that is under way.
const PATIENCE: Duration = Duration::from_secs(60);

/// The settings of a daemon.
pub struct DaemonSettings {
    /// The record of the connections that last.
    pub store: ConnectionStore,
    /// Makes and ends connections.
    pub attacher: Arc<dyn Attacher>,
    /// Its control socket.
    pub socket: PathBuf,
    /// Users who may command it, in addition to its own user and root.
    pub users: Permitted,
}

/// A running daemon.
pub struct Daemon {
    shared: Arc<Shared>,
    control: ControlServer,
    supervising: JoinHandle<()>,
}

/// What its threads share.
struct Shared {
    inside: Lock<Inside>,
    /// Something was asked for, or has ended.
    changed: Condition,
    attacher: Arc<dyn Attacher>,
}

struct Inside {
    supervision: Supervision,
    record: ConnectionRecords,
    store: ConnectionStore,
    stopping: bool,
    /// When the connections were looked after for the last time.
    looked: Instant,
}

impl Daemon {
    /// Begins to restore what is recorded, and to answer.
    ///
    /// # Errors
    /// The record cannot be used, or the socket is taken.
    pub fn start(settings: DaemonSettings) -> Result<Self, Error> {
        let DaemonSettings { store, attacher, socket, users } = settings;
        let (record, mut supervision) = (store.read()?, Supervision::default());
        let now = Instant::now();
        for connection in record.connections() {
            let is_there = attacher.find(&connection.name).is_some();
            supervision.restore(connection.clone(), is_there, now);
        }
        let inside = Inside { supervision, record, store, stopping: false, looked: now };
        let (inside, changed) = (Lock::new(inside), Condition::new());
        let shared = Arc::new(Shared { inside, changed, attacher });
        let control = ControlServer::start_for(&socket, methods(&shared), users)?;
        let of = Arc::clone(&shared);
        let supervising = std::thread::Builder::new()
            .name("weft-daemon".into())
            .spawn(move || of.supervise())
            .map_err(|e| Error::io(format!("cannot start a thread: {e}"), e))?;
        Ok(Self { shared, control, supervising })
    }

    /// The path of its control socket.
    pub fn socket(&self) -> PathBuf {
        self.control.path()
    }

    /// Returns a function that reports whether the connections were looked after within a time.
    pub fn alive(&self) -> impl Fn(Duration) -> bool + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move |limit| shared.inside.lock().looked.elapsed() < limit.max(LOOK * 3)
    }

    /// Ends the daemon. The connections stay.
    pub fn stop(self) {
        self.shared.inside.lock().stopping = true;
        self.shared.changed.notify_all();
        drop(self.control);
        // It holds no lock while it waits.
        let _ = self.supervising.join();
    }
}

/// What can be asked of it.
fn methods(shared: &Arc<Shared>) -> Methods {
    let (mut methods, of) = (Methods::default(), Arc::downgrade(shared));
    methods.add_of(&of, LIST, |shared, NoParams {}| Ok(shared.shown()));
    methods.add_of(&of, CONNECT, |shared, order| shared.connect(order));
    methods.add_of(&of, DISCONNECT, |shared, order: Disconnect| shared.disconnect(&order));
    methods
}

impl Shared {
    /// Waits until something has changed, or for a time.
    fn wait<'a>(&self, inside: MutexGuard<'a, Inside>, limit: Duration) -> MutexGuard<'a, Inside> {
        self.changed.wait_for(inside, limit).0
    }

    /// Makes connections when they are due, and notices those that have ended.
    fn supervise(self: Arc<Self>) {
        let mut inside = self.inside.lock();
        while !inside.stopping {
            for connection in inside.supervision.due(Instant::now()) {
                self.attempt(connection, &mut inside);
            }
            let connected = inside.supervision.connected();
            let until = inside.supervision.next();
            drop(inside);
            let gone: Vec<String> =
                connected.into_iter().filter(|name| self.attacher.find(name).is_none()).collect();
            for name in &gone {
                self.attacher.clear(name);
            }
            inside = self.inside.lock();
            let now = Instant::now();
            for name in &gone {
                if inside.supervision.lost(name, now) {
                    tracing::warn!("the server of \"{name}\" ended; it is started again");
                }
            }
            inside.looked = now;
            // One that is due and waits for others is made when one of them is done.
            let until = until.filter(|next| *next > now);
            let pause = until.map_or(LOOK, |next| next.duration_since(now)).min(LOOK);
            inside = self.wait(inside, pause);
        }
    }

    /// Makes a connection on a thread of its own: it may take long.
    fn attempt(self: &Arc<Self>, connection: RecordedConnection, inside: &mut Inside) {
        let (of, name) = (Arc::clone(self), connection.name.clone());
        let work = move || {
            let outcome = of.attacher.connect(&connection).map(drop);
            of.attempted(&connection.name, outcome);
        };
        if let Err(e) = std::thread::Builder::new().name("weft-restore".into()).spawn(work) {
            let why = format!("cannot start a thread: {e}");
            inside.supervision.attempted(&name, Err(why), Instant::now());
        }
    }

    fn attempted(&self, name: &str, outcome: Result<(), Error>) {
        // A process of the daemon before this one may have made it meanwhile.
        let outcome = match outcome {
            Err(e) if e.kind() == ErrorKind::InUse && self.attacher.find(name).is_some() => Ok(()),
            other => other.map_err(|e| e.to_string()),
        };
        match &outcome {
            Ok(()) => tracing::info!("\"{name}\" is connected"),
            Err(why) => tracing::warn!("\"{name}\" is tried again: {why}"),
        }
        self.inside.lock().supervision.attempted(name, outcome, Instant::now());
        self.changed.notify_all();
    }

    fn connect(
        &self,
        ConnectOrder { connection, persist }: ConnectOrder,
    ) -> Result<String, RequestFault> {
        connection.check()?;
        let name = connection.name.clone();
        self.inside.lock().supervision.begin(connection.clone())?;
        let outcome = self.attacher.connect(&connection);
        let mut inside = self.inside.lock();
        let recorded = match &outcome {
            Ok(_) if persist => inside.record(|record| record.add(connection)),
            _ => Ok(()),
        };
        inside.supervision.begun(&name, persist && recorded.is_ok(), outcome.as_ref().err());
        self.changed.notify_all();
        recorded.map_err(|e| {
            let text = format!("\"{name}\" is connected, but will not last: {e}");
            Error::new(e.kind(), text)
        })?;
        Ok(outcome?)
    }

    fn disconnect(&self, order: &Disconnect) -> Result<(), RequestFault> {
        let Disconnect { name, forget, force } = order;
        if (self.begin_to_end(name)? || self.attacher.is_left(name))
            && let Err(e) = self.attacher.disconnect(name, *force)
        {
            // Its process may have ended by itself.
            if self.attacher.find(name).is_some() || self.attacher.is_left(name) {
                self.inside.lock().supervision.stays(name, &e);
                return Err(e.into());
            }
        }
        let mut inside = self.inside.lock();
        let forgotten = match forget {
            true => inside.record(|record| {
                record.forget(name);
                Ok(())
            }),
            false => Ok(()),
        };
        let recorded = inside.record.has(name);
        inside.supervision.ended(name, recorded);
        self.changed.notify_all();
        Ok(forgotten?)
    }

    /// Waits for an attempt that is under way; whether there is a process to end.
    fn begin_to_end(&self, name: &str) -> Result<bool, Error> {
        let (mut inside, until) = (self.inside.lock(), Instant::now() + PATIENCE);
        loop {
            if inside.supervision.find(name).is_none() {
                let text = format!("the daemon holds no connection with the name \"{name}\"");
                return Err(Error::new(ErrorKind::NotFound, text));
            }
            if let Some(has_process) = inside.supervision.end(name) {
                return Ok(has_process);
            }
            if Instant::now() > until {
                let text = format!(
                    "\"{name}\" was still being connected or ended after {} s; try again later",
                    PATIENCE.as_secs()
                );
                return Err(Error::new(ErrorKind::TimedOut, text));
            }
            inside = self.wait(inside, LOOK);
        }
    }

    fn shown(&self) -> Vec<HeldConnection> {
        let (all, now) = (self.inside.lock().supervision.all().to_vec(), Instant::now());
        all.into_iter().map(|it| self.show(it, now)).collect()
    }

    fn show(&self, it: Supervised, now: Instant) -> HeldConnection {
        let waits = it.waits(now).map(|wait| wait.as_millis());
        HeldConnection {
            entry: self.attacher.find(&it.connection.name),
            name: it.connection.name,
            url: it.connection.url,
            recorded: it.recorded,
            state: it.state,
            last_error: it.last_error,
            next_attempt_ms: waits.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        }
    }
}

impl Inside {
    /// Changes the record, in memory once it is on the disk.
    fn record(
        &mut self,
        change: impl FnOnce(&mut ConnectionRecords) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut record = self.record.clone();
        change(&mut record)?;
        self.store.write(&record)?;
        self.record = record;
        Ok(())
    }
}
