//! Runs a gateway of a group on a thread of its own: tells [`GatewayProcess`] what happens, and
//! does what it orders.
//!
//! The thread never waits for the cluster: other threads do. So a gateway that cannot reach it
//! stops serving when its lease ends.

use super::monitors::Monitors;
use super::serving::Serving;
use super::store::{Store, Worker};
use super::{Seen, lock, thread};
use crate::limits::GROUP_MONITORS_S;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_block::Error;
use weft_endpoint::inventory::LiveInventory;
use weft_group::{Ending, Event, GatewayProcess, Order, Request, Settings, Wish};

/// What the thread is told.
pub enum Input {
    /// Something that the gateway has to know.
    Event(Event),
    /// Hosts can be served, by this inventory.
    Serve(Arc<LiveInventory>),
    /// An administrator's order; told when it is in the record.
    Wish(Wish, Sender<()>),
    /// Give everything away; dropped when that is done.
    Leave(Sender<()>),
    /// Nothing can be executed any more; dropped when the gateway has left.
    Closed(Sender<()>),
}

/// What has been started.
pub struct Started {
    /// Told the first and the last controller identifier, once.
    pub joined: Receiver<(u16, u16)>,
    /// Told why the gateway has to end, once.
    pub ended: Receiver<Ending>,
}

struct Driver {
    process: GatewayProcess,
    epoch: Instant,
    inputs: Receiver<Input>,
    record: Worker,
    beats: Worker,
    fence: Worker,
    monitors: Monitors,
    seen: Arc<Mutex<Seen>>,
    serving: Serving,
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
    settings: Settings,
    store: &Arc<Store>,
    (inputs, taken): (Sender<Input>, Receiver<Input>),
    seen: Arc<Mutex<Seen>>,
) -> Result<Started, Error> {
    let (tell_joined, joined) = mpsc::channel();
    let (tell_ended, ended) = mpsc::channel();
    let worker = |name, event| Worker::start(name, store, (inputs.clone(), event));
    let driver = Driver {
        process: GatewayProcess::new(settings, Duration::from_secs(GROUP_MONITORS_S)),
        epoch: Instant::now(),
        inputs: taken,
        record: worker("record", Event::Record)?,
        beats: worker("beats", Event::Beats)?,
        fence: worker("fence", Event::Fence)?,
        monitors: Monitors::start(store, inputs)?,
        seen,
        serving: Serving::default(),
        joined: Some(tell_joined),
        ended: tell_ended,
        wishing: BTreeMap::new(),
        wishes: 0,
        leaving: Vec::new(),
        departing: Vec::new(),
    };
    thread("driver", move || driver.run())?;
    Ok(Started { joined, ended })
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
            self.show();
            let until = |at: Duration| at.saturating_sub(self.epoch.elapsed());
            match self.inputs.recv_timeout(self.process.deadline().map_or(Duration::MAX, until)) {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.tell(event),
            Input::Serve(inventory) => {
                self.tell(Event::Ready);
                self.serving.begin(inventory);
                self.tell(Event::Served);
            }
            Input::Wish(wish, done) => {
                self.wishes += 1;
                self.wishing.insert(self.wishes, done);
                self.tell(Event::Wish(self.wishes, wish));
            }
            Input::Leave(done) => {
                self.tell(Event::Leave);
                self.leaving.push(done);
            }
            Input::Closed(done) => {
                self.tell(Event::Closed);
                self.departing.push(done);
            }
        }
    }

    fn tell(&mut self, event: Event) {
        self.process.take(self.epoch.elapsed(), event);
    }

    /// Why the gateway ends, if it does.
    fn carry_out(&mut self, order: Order) -> ControlFlow<Ending> {
        match order {
            Order::Ask(request) => self.ask(request),
            Order::AskMonitors => {
                tracing::warn!(
                    "the cluster does not answer, so this gateway does not serve: the monitors are asked"
                );
                self.monitors.ask();
            }
            Order::Joined { cntlids } => {
                if let Some(joined) = self.joined.take() {
                    let _ = joined.send(cntlids);
                }
            }
            Order::Serve(role) => {
                self.serving.serve(role);
                self.tell(Event::Served);
            }
            Order::CarriedOut(number) => {
                if let Some(done) = self.wishing.remove(&number) {
                    let _ = done.send(());
                }
            }
            Order::Unreadable(why) => {
                tracing::error!("this gateway goes on with what it has, and tries again: {why}");
            }
            Order::Resigned => self.leaving.clear(),
            Order::End(ending) => return ControlFlow::Break(ending),
        }
        ControlFlow::Continue(())
    }

    fn ask(&self, request: Request) {
        if let Request::Fence(client) = &request {
            tracing::warn!("the cluster is asked to keep out {client}, a gateway that has died");
        }
        let worker = match request {
            Request::Read | Request::Write { .. } => &self.record,
            Request::Beat(_) => &self.beats,
            Request::Fence(_) => &self.fence,
        };
        worker.ask(request);
    }

    /// Notes what others may see of it.
    fn show(&self) {
        let mut seen = lock(&self.seen);
        seen.serves = self.process.serves();
        seen.trouble = self.process.trouble().map(str::to_owned);
        let record = self.process.record();
        if seen.record.as_ref().map(|record| record.generation)
            != record.map(|record| record.generation)
        {
            seen.record = record.cloned();
        }
    }
}
