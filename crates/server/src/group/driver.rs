//! Runs a gateway of a group on a thread of its own: tells [`GatewayProcess`] what happens, and
//! does what it orders.
//!
//! The thread never waits for the cluster: other threads do. So a gateway that cannot reach it
//! stops serving when its lease ends.

use super::input::Input;
use super::serving::GroupServing;
use super::status::LiveStatus;
use super::store::GroupObjects;
use super::threads;
use super::workers::GroupWorker;
use crate::limits::GROUP_MONITORS_S;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use weft_block::Error;
use weft_group::{
    Ending, GatewayEvent, GatewayOrder, GatewayProcess, GatewaySettings, GroupRequest,
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
