//! Runs the engine of `weft-group` on a thread of its own, and has hosts served as it says.
//!
//! The thread never waits for the cluster: other threads do. So a gateway that cannot reach it
//! stops serving when its lease ends.

use super::lost::{Lost, Monitors, Step};
use super::store::{Store, Worker};
use super::{Seen, lock, thread};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_block::{AccessState, Error};
use weft_endpoint::inventory::{LiveInventory, OtherGateway};
use weft_group::placement::Weights;
use weft_group::{
    Access, Answer, Ending, Gateway, Other, Output, Record, Request, Role, Settings, Wish,
};

/// What the driver is told.
pub enum Event {
    /// An answer about the record.
    Record(Answer),
    /// An answer to a beat.
    Beats(Answer),
    /// An answer to a fence.
    Fence(Answer),
    /// The monitors have answered, or could not be asked.
    Monitors(bool),
    /// Others say that the record has changed.
    Changed,
    /// The namespaces of each ANA group have changed.
    Weights(Weights),
    /// Hosts can be served.
    Serve(Serving),
    /// An administrator's order; told when it is in the record.
    Wish(Wish, Sender<()>),
    /// Give everything away; dropped when that is done.
    Leave(Sender<()>),
    Closed(Sender<()>),
}

/// What hosts are served by.
pub struct Serving {
    inventory: Arc<LiveInventory>,
}

impl Serving {
    /// By this inventory.
    pub fn new(inventory: Arc<LiveInventory>) -> Self {
        Self { inventory }
    }

    /// Serves like this from now on. On return hosts are told.
    fn serve(&self, role: &Role) {
        let changed = self.inventory.change(|builder| {
            role.access.iter().try_for_each(|(group, access)| {
                let state = match access {
                    Access::Optimized => AccessState::Optimized,
                    Access::NonOptimized => AccessState::NonOptimized,
                    Access::Inaccessible => AccessState::Inaccessible,
                };
                builder.set_access_state(*group, None, state).map(drop)
            })
        });
        if let Err(e) = changed {
            tracing::error!("the ANA states that the group asks for cannot be set: {e}");
        }
        let other = |other: &Other| OtherGateway {
            first_cntlid: other.cntlids.0,
            urls: other.listeners.clone(),
        };
        self.inventory.set_others(&role.others.iter().map(other).collect::<Vec<_>>());
    }
}

/// What has been started.
pub struct Started {
    /// Told the first and the last controller identifier, once.
    pub joined: Receiver<(u16, u16)>,
    /// Told why the gateway has to end, once.
    pub ended: Receiver<Ending>,
}

struct Driver {
    gateway: Gateway,
    epoch: Instant,
    events: Receiver<Event>,
    record: Worker,
    beats: Worker,
    fence: Worker,
    monitors: Monitors,
    lost: Lost,
    name: weft_group::Name,
    seen: Arc<Mutex<Seen>>,
    serving: Option<Serving>,
    role: Option<Role>,
    joined: Option<Sender<(u16, u16)>>,
    ended: Sender<Ending>,
    /// Orders that are not in the record yet.
    wishes: Vec<(Wish, Sender<()>)>,
    /// They wait until others have what this gateway served.
    leaving: Vec<Sender<()>>,
    /// They wait until it has left.
    departing: Vec<Sender<()>>,
}

/// Starts the driver of a gateway.
pub fn start(
    settings: Settings,
    store: Arc<Store>,
    (events, taken): (Sender<Event>, Receiver<Event>),
    seen: Arc<Mutex<Seen>>,
) -> Result<Started, Error> {
    let (tell_joined, joined) = mpsc::channel();
    let (tell_ended, ended) = mpsc::channel();
    let driver = Driver {
        name: settings.name.clone(),
        gateway: Gateway::new(settings),
        epoch: Instant::now(),
        events: taken,
        record: Worker::start("record", &store, (events.clone(), Event::Record))?,
        beats: Worker::start("beats", &store, (events.clone(), Event::Beats))?,
        fence: Worker::start("fence", &store, (events.clone(), Event::Fence))?,
        monitors: Monitors::start(&store, events)?,
        lost: Lost::default(),
        seen,
        serving: None,
        role: None,
        joined: Some(tell_joined),
        ended: tell_ended,
        wishes: Vec::new(),
        leaving: Vec::new(),
        departing: Vec::new(),
    };
    thread("driver", move || driver.run())?;
    Ok(Started { joined, ended })
}

impl Driver {
    fn run(mut self) {
        loop {
            while let Some(output) = self.gateway.next(self.epoch.elapsed()) {
                if let Some(ending) = self.carry_out(output) {
                    // Whoever waits for orders sees that nobody is there any more.
                    let _ = self.ended.send(ending);
                    return;
                }
            }
            self.show();
            let now = self.epoch.elapsed();
            let look_at = match self.look_after_monitors(now) {
                Step::End => {
                    let _ = self.ended.send(Ending::Lost);
                    return;
                }
                Step::Wait(at) => Some(at),
                Step::Ask | Step::Nothing => None,
            };
            let wait = self
                .gateway
                .deadline()
                .into_iter()
                .chain(look_at)
                .min()
                .map_or(Duration::MAX, |at| at.saturating_sub(now));
            match self.events.recv_timeout(wait) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, event: Event) {
        let now = self.epoch.elapsed();
        if let Event::Record(Answer::Failed(why))
        | Event::Beats(Answer::Failed(why))
        | Event::Fence(Answer::Failed(why)) = &event
        {
            lock(&self.seen).trouble = Some(why.clone());
        }
        match event {
            Event::Record(answer) => self.gateway.record_answered(now, answer),
            Event::Beats(answer) => self.gateway.beat_answered(now, answer),
            Event::Fence(answer) => self.gateway.fence_answered(now, answer),
            Event::Monitors(reached) => self.lost.answered(now, reached),
            Event::Changed => self.gateway.changed(),
            Event::Weights(weights) => self.gateway.set_weights(weights),
            Event::Serve(serving) => {
                self.serving = Some(serving);
                self.gateway.set_ready();
                self.serve();
            }
            Event::Wish(wish, done) => {
                self.gateway.wish(wish.clone());
                self.wishes.push((wish, done));
            }
            Event::Leave(done) => {
                self.gateway.leave();
                self.leaving.push(done);
            }
            Event::Closed(done) => {
                self.gateway.closed();
                self.departing.push(done);
            }
        }
    }

    /// Why the gateway ends, if it does.
    fn carry_out(&mut self, output: Output) -> Option<Ending> {
        match output {
            Output::Request(request @ (Request::Read | Request::Write { .. })) => {
                self.record.ask(request)
            }
            Output::Request(request @ Request::Beat(_)) => self.beats.ask(request),
            Output::Request(Request::Fence(client)) => {
                tracing::warn!(
                    "the cluster is asked to keep out {client}, a gateway that has died"
                );
                self.fence.ask(Request::Fence(client));
            }
            Output::Joined { cntlids } => {
                if let Some(joined) = self.joined.take() {
                    let _ = joined.send(cntlids);
                }
            }
            Output::Serve(role) => {
                self.role = Some(role);
                self.serve();
            }
            Output::Resigned => self.leaving.clear(),
            Output::End(ending) => return Some(ending),
        }
        None
    }

    /// Serves as the engine said last.
    fn serve(&mut self) {
        let Some(role) = &self.role else { return };
        if let Some(serving) = &self.serving {
            serving.serve(role);
            let count = |of: Access| role.access.values().filter(|access| **access == of).count();
            let (optimized, none) = (count(Access::Optimized), count(Access::Inaccessible));
            tracing::info!(
                "this gateway is optimized for {optimized} of {} ANA groups, {none} are inaccessible",
                role.access.len()
            );
        }
        let now_other = role
            .access
            .iter()
            .filter(|(_, access)| **access != Access::Optimized)
            .map(|(group, _)| *group);
        now_other.for_each(|group| self.gateway.released(group));
    }

    /// Whether hosts may use this gateway.
    fn serves(&self) -> bool {
        self.role
            .as_ref()
            .is_some_and(|role| role.access.values().any(|access| *access != Access::Inaccessible))
    }

    /// Asks the monitors while this gateway does not reach the cluster; says when to look again, or
    /// to end.
    fn look_after_monitors(&mut self, now: Duration) -> Step {
        let is_other =
            |record: &Record| record.members().any(|(of, member)| *of != self.name && member.ready);
        let has_company = self.gateway.record().is_some_and(is_other);
        let serves = self.serves();
        match self.lost.look(now, serves, has_company) {
            Step::Ask => {
                tracing::warn!(
                    "the cluster does not answer, so this gateway does not serve: the monitors are asked"
                );
                self.monitors.ask();
                self.lost.look(now, serves, has_company)
            }
            step => step,
        }
    }

    /// Notes what others may see of it.
    fn show(&mut self) {
        let serves = self.serves();
        let record = self.gateway.record();
        let is_in = |wish: &Wish| match wish {
            Wish::Pin(group, to) => record.is_some_and(|record| {
                record.groups.get(group).is_some_and(|group| group.pinned == *to)
            }),
            Wish::Forget(name) => record.is_some_and(|record| !record.gateways.contains_key(name)),
        };
        for (_, done) in self.wishes.extract_if(.., |(wish, _)| is_in(wish)) {
            let _ = done.send(());
        }
        let mut seen = lock(&self.seen);
        if let Some(why) = self
            .gateway
            .unreadable()
            .map(ToString::to_string)
            .filter(|why| seen.trouble.as_ref() != Some(why))
        {
            tracing::error!("this gateway goes on with what it has, and tries again: {why}");
            seen.trouble = Some(why);
        }
        seen.serves = serves;
        if seen.record.as_ref().map(|record| record.generation)
            != record.map(|record| record.generation)
        {
            seen.record = record.cloned();
        }
    }
}
