//! A whole server: event loops, sources, exports, the control socket and the metrics, started and
//! stopped in the right order.
//!
//! * `environment`: the things that the process gives the server, and the server's events for it.
//! * `bare`: the same without the control socket, metrics, a group and a takeover.
//! * `check`: what is found wrong before anything starts.

mod bare;
mod check;
mod environment;

pub use bare::BareServer;
pub use environment::{Environment, ServerNotice};

use crate::config::Desired;
use crate::group::{GroupMembership, Joined};
use crate::management::capture::LastCapture;
use crate::management::running::Running;
use crate::management::server::ControlServer;
use crate::metrics::MetricsServer;
use crate::served::{ChangeTiming, Served};
use crate::service::activation;
use crate::service::demands::Demands;
use crate::service::takeover::{Giver, TakenResources};
use crate::sources::LossWatch;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use weft_block::Error;
use weft_endpoint::inventory::Inventory;
use weft_endpoint::loops::Loops;
use weft_endpoint::report::Report;
use weft_io::RemoteLoop;
use weft_io::counters::Snapshot;

/// A running server. [`Server::stop`] ends it in order. If it is dropped instead, connections break
/// off, and caches are not flushed.
pub struct Server {
    desired: Desired,
    parts: Parts,
    loops: Loops,
    /// What another server has released for this one, until [`Server::took_over`]. That one goes on
    /// when this is dropped: so it is the last.
    taken: Option<TakenResources>,
}

/// What ends before the loops do.
struct Parts {
    running: Arc<Running>,
    control: Option<ControlServer>,
    metrics: Option<MetricsServer>,
    losses: Option<LossWatch>,
    group: Option<Arc<GroupMembership>>,
}

impl Server {
    /// Starts a server. When this returns hosts can connect. A server that takes over from another
    /// one calls [`Server::took_over`] then.
    ///
    /// # Errors
    /// Mistakes in `desired`; errors of opening a source or of listening. Then nothing is in use
    /// any longer. The server that this one takes over from has not ended for a mistake that could
    /// be seen before.
    pub fn start(mut desired: Desired, environment: Environment) -> Result<Self, Error> {
        let successor = check::check(&desired, &environment)?;
        let loops = Loops::start(&desired.loops)?;
        let taken = match environment.takeover.run(&desired.loops.listening, successor) {
            Ok(taken) => taken,
            Err(e) => return Err(ended(loops, e)),
        };
        let joined = match Joined::join(environment.group.as_ref(), &mut desired) {
            Ok(joined) => joined,
            Err(e) => return Err(ended(loops, e)),
        };
        match Parts::start(&mut desired, &environment, &joined, loops.remotes()) {
            Ok(parts) => {
                joined.stays();
                Ok(Self { desired, parts, loops, taken })
            }
            Err(e) => {
                environment.health.end();
                // The other process goes on when `taken` is dropped: nothing is in use then.
                Err(ended(loops, e))
            }
        }
    }

    /// Ends the server from which this one takes over, if there is one. Until then that one waits,
    /// and goes on when this one stops: so it is called when nothing is left to be done that can
    /// fail. Changes of what is served wait until then, as they would be lost.
    pub fn took_over(&mut self) {
        self.taken.take().into_iter().for_each(TakenResources::serves);
        self.served().allow(ChangeTiming::InTurn);
    }

    /// The state that it was started with; a gateway of a group has filled in the group's
    /// configuration.
    pub fn desired(&self) -> &Desired {
        &self.desired
    }

    /// Its served state, with every change of it.
    pub fn served(&self) -> &Arc<Served> {
        &self.parts.running.served
    }

    /// Its present inventory.
    pub fn inventory(&self) -> Arc<Inventory> {
        self.served().inventory.now()
    }

    /// The URLs at which hosts reach it.
    pub fn urls(&self) -> Vec<String> {
        self.served().exports.urls()
    }

    /// Its state. Waits for no I/O.
    pub fn report(&self) -> Report {
        self.parts.running.report()
    }

    /// Its event loops.
    pub fn loops(&self) -> &[RemoteLoop] {
        self.loops.remotes()
    }

    /// The sum of the counters of its loops.
    pub fn counters(&self) -> Snapshot {
        let each = self.loops.counters();
        each.iter().fold(Snapshot::default(), |sum, counters| sum.plus(counters))
    }

    /// The path of its control socket, if it has one.
    pub fn control_socket(&self) -> Option<PathBuf> {
        self.parts.control.as_ref().map(ControlServer::path)
    }

    /// The URL of its metrics, if it has some.
    pub fn metrics_url(&self) -> Option<String> {
        self.parts.metrics.as_ref().map(MetricsServer::url)
    }

    /// Ends it: accepts no more connections, lets commands in flight end for a bounded time, closes
    /// all connections, flushes, and ends its threads. When this returns nothing is in use, and a
    /// server that this one has not yet taken over from goes on.
    ///
    /// # Errors
    /// A device could not be flushed, or a loop has failed.
    pub fn stop(self) -> Result<(), Error> {
        let Self { desired: _, mut parts, loops, taken } = self;
        parts.refuse_changes();
        let stopped = stop(parts, loops, taken.is_some());
        drop(taken);
        stopped
    }

    /// Ends it like [`Server::stop`], for a process that takes over, and waits until that one
    /// serves. If that one fails instead, returns the last served state, for a server that
    /// continues with it, and the sockets on which this one listened. The wait ends when
    /// `is_ending` returns true.
    ///
    /// # Errors
    /// Those of [`Server::stop`], if the other process serves.
    pub fn hand_over(self, is_ending: impl Fn() -> bool) -> Result<Option<Desired>, Error> {
        let Self { mut desired, mut parts, loops, taken: _taken } = self;
        parts.refuse_changes();
        // Not before: a change that a client was told of would be lost.
        let (giver, state) = (parts.running.giver.clone(), parts.running.served.state());
        let listening = desired.loops.listening.clone();
        // They stay open, so that hosts that connect meanwhile wait.
        let sockets = listening.open();
        let stopped = stop(parts, loops, false);
        if giver.release(&is_ending) {
            return stopped.map(|()| None);
        }
        if let Err(e) = stopped {
            tracing::error!("before another process was to take over: {e}");
        }
        tracing::warn!("the process that was to take over has failed; this one goes on");
        state.put_into(&mut desired);
        for (at, socket) in sockets {
            let again = socket
                .try_clone()
                .map_err(|e| Error::io(format!("cannot listen at {at} again: {e}"), e))?;
            listening.give(at, again);
        }
        Ok(Some(desired))
    }
}

/// Ends a server in order, when it refuses changes. `is_followed`: another one goes on at the same
/// addresses, also if it does not take over.
fn stop(parts: Parts, loops: Loops, is_followed: bool) -> Result<(), Error> {
    let Parts { running, group, .. } = parts;
    let exports = Arc::clone(&running.served.exports);
    // A process that takes over learns from its end that nothing is in use any more.
    let giver = running.giver.clone();
    tracing::info!("stopping: {} connections are open", exports.connections());
    log_counters(&loops);
    if !is_followed && !giver.has_given() {
        exports.withdraw();
    }
    let stopped = exports.stop();
    running.capture.end();
    // A cache that was not flushed is what counts as an unsafe shutdown.
    if stopped.is_ok() {
        running.served.inventory.health().end();
    }
    drop((exports, running));
    loops.stop()?;
    if let Some(group) = group.filter(|_| stopped.is_ok()) {
        group.closed();
    }
    stopped
}

impl Parts {
    fn start(
        desired: &mut Desired,
        environment: &Environment,
        joined: &Joined,
        loops: &[RemoteLoop],
    ) -> Result<Self, Error> {
        let on_event = || Arc::clone(&environment.on_event);
        let served = serve(desired, environment, joined.group(), loops)?;
        activation::check(&desired.loops.listening)?;
        if environment.takeover.from.is_some() {
            served.allow(ChangeTiming::Later);
        }
        let (ends, releases) = (on_event(), on_event());
        // A gateway of a group joins it again from its start.
        let can_go_on = environment.goes_on && joined.group().is_none();
        let release: Arc<dyn Fn() + Send + Sync> =
            Arc::new(move || releases(ServerNotice::ReleaseRequested));
        let giver = Giver::new(
            desired.loops.listening.clone(),
            move || ends(ServerNotice::EndRequested),
            can_go_on.then_some(release),
        );
        let running = Arc::new(Running {
            served,
            loops: loops.to_vec(),
            giver,
            capture: LastCapture::default(),
            demands: Demands::of(desired),
            metrics: OnceLock::new(),
        });
        let metrics = environment.metrics.start(&running)?;
        if let Some(metrics) = &metrics {
            running.metrics.get_or_init(|| metrics.address());
        }
        let control = match &environment.control_socket {
            Some(socket) => running.manage(socket)?,
            None => None,
        };
        let loses = on_event();
        let losses = desired
            .exit_on_loss
            .then(|| {
                let inventory = &running.served.inventory;
                LossWatch::start(inventory, move |url| loses(ServerNotice::SourceLost(url)))
            })
            .transpose()?;
        let leaves = on_event();
        let group = joined.group().cloned();
        if let Some(group) = &group {
            running.served.follow_others(group)?;
            let inventory = &running.served.inventory;
            group.serve(inventory, move |ending| leaves(ServerNotice::GroupLost(ending)))?;
        }
        Ok(Self { running, control, metrics, losses, group })
    }

    /// Ends what changes the server. What a client was told of before is part of its state; a
    /// change that is under way gets no answer, and one that waits is not made.
    fn refuse_changes(&mut self) {
        self.running.served.allow(ChangeTiming::Never);
        drop(self.losses.take());
        if let Some(group) = &self.group {
            group.leave();
        }
        drop((self.control.take(), self.metrics.take()));
    }
}

/// Opens the sources and listens. A gateway of a group that cannot serve what the group has serves
/// nothing at first, and tries again.
fn serve(
    desired: &mut Desired,
    environment: &Environment,
    group: Option<&Arc<GroupMembership>>,
    loops: &[RemoteLoop],
) -> Result<Arc<Served>, Error> {
    match (Served::start(desired, environment, group, loops), group) {
        (Err(e), Some(group)) if !desired.subsystems.is_empty() => {
            group.serve_nothing(desired, &e);
            Served::start(desired, environment, Some(group), loops)
        }
        (started, _) => started,
    }
}

/// Ends the loops of a server that does not start; why.
fn ended(loops: Loops, why: Error) -> Error {
    // That matters more than how the loops ended.
    let _ = loops.stop();
    why
}

fn log_counters(loops: &Loops) {
    for (n, counters) in loops.counters().iter().enumerate() {
        let counted: Vec<String> =
            counters.entries().map(|(name, count)| format!("{name}={count}")).collect();
        tracing::info!("loop {n}: {}", counted.join(" "));
    }
}
