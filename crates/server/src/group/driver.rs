//! Runs a gateway of a group on a thread of its own: tells [`GatewayProcess`] what happens, and
//! does what it orders.
//!
//! The thread never waits for the cluster: other threads do. So a gateway that cannot reach it
//! stops serving when its lease ends.

use super::input::Input;
use super::status::LiveStatus;
use super::store::{GroupObjects, Word};
use super::threads;
use crate::limits::GROUP_MONITORS_S;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use weft_block::{AccessState, Error};
use weft_ceph::ObjectError;
use weft_endpoint::inventory::{LiveInventory, OtherGateway};
use weft_group::{
    AnaAccess, Ending, GatewayEvent, GatewayOrder, GatewayProcess, GatewayRole, GatewaySettings,
    GroupAnswer, GroupRequest, Other,
};

/// A running driver, with its channels.
pub struct Started {
    /// Its inputs.
    pub inputs: Inputs,
    /// Gets the first and the last controller identifier, once.
    pub joined: Receiver<(u16, u16)>,
    /// Gets the reason why the gateway has to end, once.
    pub ended: Receiver<Ending>,
}

/// Tells the driver. When this is dropped it ends, at once and without a word: the others keep out
/// a gateway that has not left before.
pub struct Inputs(Sender<Input>);

impl Inputs {
    /// Tells it; whether it still runs.
    pub fn send(&self, input: Input) -> bool {
        self.0.send(input).is_ok()
    }

    /// For threads that tell it, too.
    pub fn sender(&self) -> Sender<Input> {
        self.0.clone()
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        let _ = self.0.send(Input::End);
    }
}

struct Driver {
    process: GatewayProcess,
    epoch: Instant,
    inputs: Receiver<Input>,
    record: GroupWorker<GroupRequest>,
    beats: GroupWorker<GroupRequest>,
    fence: GroupWorker<GroupRequest>,
    monitors: GroupWorker<()>,
    status: Arc<LiveStatus>,
    serving: GroupServing,
    joined: Option<Sender<(u16, u16)>>,
    ended: Sender<Ending>,
    /// They wait until their orders are in the record, by number.
    wishing: BTreeMap<u64, Sender<()>>,
    wishes: u64,
    /// They wait until others have what this gateway served.
    leaving: Vec<Sender<()>>,
    /// They wait until it has left.
    departing: Vec<Sender<()>>,
}

/// Starts the driver of a gateway.
pub fn start(
    settings: GatewaySettings,
    store: &Arc<GroupObjects>,
    status: Arc<LiveStatus>,
) -> Result<Started, Error> {
    let (inputs, taken) = mpsc::channel();
    let (tell_joined, joined) = mpsc::channel();
    let (tell_ended, ended) = mpsc::channel();
    let worker = |name, event| GroupWorker::of_requests(name, store, (inputs.clone(), event));
    let driver = Driver {
        process: GatewayProcess::new(settings, Duration::from_secs(GROUP_MONITORS_S)),
        epoch: Instant::now(),
        inputs: taken,
        record: worker("record", GatewayEvent::Record)?,
        beats: worker("beats", GatewayEvent::Beats)?,
        fence: worker("fence", GatewayEvent::Fence)?,
        monitors: GroupWorker::of_monitors(store, inputs.clone())?,
        status,
        serving: GroupServing::default(),
        joined: Some(tell_joined),
        ended: tell_ended,
        wishing: BTreeMap::new(),
        wishes: 0,
        leaving: Vec::new(),
        departing: Vec::new(),
    };
    threads::start("driver", move || driver.run())?;
    Ok(Started { inputs: Inputs(inputs), joined, ended })
}

impl Driver {
    fn run(mut self) {
        loop {
            while let Some(order) = self.process.next(self.epoch.elapsed()) {
                if let ControlFlow::Break(ending) = self.carry_out(order) {
                    // Whoever waits for orders sees that nobody is there any more.
                    let _ = self.ended.send(ending);
                    return;
                }
            }
            self.status.note(&self.process);
            let until = |at: Duration| at.saturating_sub(self.epoch.elapsed());
            match self.inputs.recv_timeout(self.process.deadline().map_or(Duration::MAX, until)) {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.tell(event),
            Input::End => {}
            Input::Serve(inventory) => {
                self.tell(GatewayEvent::Ready);
                self.serving.begin(inventory);
                self.tell(GatewayEvent::Served);
            }
            Input::Wish(wish, done) => {
                self.wishes += 1;
                self.wishing.insert(self.wishes, done);
                self.tell(GatewayEvent::Wish(self.wishes, wish));
            }
            Input::Leave(done) => {
                self.tell(GatewayEvent::Leave);
                self.leaving.push(done);
            }
            Input::Closed(done) => {
                self.tell(GatewayEvent::Closed);
                self.departing.push(done);
            }
        }
    }

    fn tell(&mut self, event: GatewayEvent) {
        self.process.take(self.epoch.elapsed(), event);
    }

    /// Why the gateway ends, if it does.
    fn carry_out(&mut self, order: GatewayOrder) -> ControlFlow<Ending> {
        match order {
            GatewayOrder::Ask(request) => self.ask(request),
            GatewayOrder::AskMonitors => {
                tracing::warn!(
                    "the cluster does not answer, so this gateway does not serve: the monitors are asked"
                );
                self.monitors.ask(());
            }
            GatewayOrder::Joined { cntlids } => {
                if let Some(joined) = self.joined.take() {
                    let _ = joined.send(cntlids);
                }
            }
            GatewayOrder::Serve(role) => {
                self.serving.serve(role);
                self.tell(GatewayEvent::Served);
            }
            GatewayOrder::CarriedOut(number) => {
                if let Some(done) = self.wishing.remove(&number) {
                    let _ = done.send(());
                }
            }
            GatewayOrder::Unreadable(why) => {
                tracing::error!("this gateway goes on with what it has, and tries again: {why}");
            }
            GatewayOrder::Resigned => self.leaving.clear(),
            GatewayOrder::End(ending) => return ControlFlow::Break(ending),
        }
        ControlFlow::Continue(())
    }

    fn ask(&self, request: GroupRequest) {
        if let GroupRequest::Fence(client) = &request {
            tracing::warn!("the cluster is asked to keep out {client}, a gateway that has died");
        }
        let worker = match request {
            GroupRequest::Read | GroupRequest::Write { .. } => &self.record,
            GroupRequest::Beat(_) => &self.beats,
            GroupRequest::Fence(_) => &self.fence,
        };
        worker.ask(request);
    }
}

/// The role of a gateway, and what hosts are served by.
#[derive(Default)]
pub struct GroupServing {
    inventory: Option<Arc<LiveInventory>>,
    role: Option<GatewayRole>,
}

impl GroupServing {
    /// Serves hosts by this inventory. On return they are notified of the present role.
    pub fn begin(&mut self, inventory: Arc<LiveInventory>) {
        self.inventory = Some(inventory);
        self.tell_hosts();
    }

    /// Takes this role from now on. On return connected hosts are notified.
    pub fn serve(&mut self, role: GatewayRole) {
        self.role = Some(role);
        self.tell_hosts();
    }

    fn tell_hosts(&self) {
        let Self { inventory: Some(inventory), role: Some(role) } = self else { return };
        let other = |other: &Other| OtherGateway {
            first_cntlid: other.cntlids.0,
            urls: other.listeners.clone(),
        };
        let others: Vec<_> = role.others.iter().map(other).collect();
        let changed = inventory.change(|builder| {
            builder.set_others(&others);
            role.access.iter().try_for_each(|(group, access)| {
                let state = match access {
                    AnaAccess::Optimized => AccessState::Optimized,
                    AnaAccess::NonOptimized => AccessState::NonOptimized,
                    AnaAccess::Inaccessible => AccessState::Inaccessible,
                };
                builder.set_access_state(*group, None, state).map(drop)
            })
        });
        if let Err(e) = changed {
            tracing::error!("the ANA states that the group asks for cannot be set: {e}");
        }
        let count = |of: AnaAccess| role.access.values().filter(|access| **access == of).count();
        let (optimized, none) = (count(AnaAccess::Optimized), count(AnaAccess::Inaccessible));
        tracing::info!(
            "this gateway is optimized for {optimized} of {} ANA groups, {none} are inaccessible",
            role.access.len()
        );
    }
}

// Threads that wait for the cluster, so that the one that runs the gateway need not.

/// A thread that does one thing after the other, each of which ends with an input of the driver.
pub struct GroupWorker<T>(Sender<T>);

impl<T: Send + 'static> GroupWorker<T> {
    fn of(
        name: &str,
        inputs: Sender<Input>,
        work: impl Fn(T) -> GatewayEvent + Send + 'static,
    ) -> Result<Self, Error> {
        let (tasks, taken) = mpsc::channel();
        let run = move || {
            for task in taken {
                if inputs.send(Input::Event(work(task))).is_err() {
                    break;
                }
            }
        };
        threads::start(name, run)?;
        Ok(Self(tasks))
    }

    /// Has it done, later.
    pub fn ask(&self, task: T) {
        // The thread lives as long as this.
        let _ = self.0.send(task);
    }
}

impl GroupWorker<()> {
    /// Asks the monitors of the cluster whether they are there, for as long as it takes.
    pub fn of_monitors(store: &Arc<GroupObjects>, inputs: Sender<Input>) -> Result<Self, Error> {
        let store = Arc::clone(store);
        Self::of("monitors", inputs, move |()| {
            GatewayEvent::Monitors(store.objects.catch_up().is_ok())
        })
    }
}

impl GroupWorker<GroupRequest> {
    /// Asks the store for one kind of thing.
    pub fn of_requests(
        name: &str,
        store: &Arc<GroupObjects>,
        (inputs, event): (Sender<Input>, fn(GroupAnswer) -> GatewayEvent),
    ) -> Result<Self, Error> {
        let store = Arc::clone(store);
        Self::of(name, inputs, move |request| event(asked(&store, &request)))
    }
}

fn asked(store: &Arc<GroupObjects>, request: &GroupRequest) -> GroupAnswer {
    let answer = store.answer(request).unwrap_or_else(|e| match e {
        ObjectError::Blocklisted => GroupAnswer::Blocklisted,
        other => GroupAnswer::Failed(other.to_string()),
    });
    if let GroupAnswer::Failed(why) = &answer {
        tracing::warn!("the cluster did not do what the group needs, and is asked again: {why}");
    }
    if let (GroupRequest::Write { .. }, GroupAnswer::Written(_)) = (request, &answer) {
        store.tell(Word::Record);
    }
    answer
}
