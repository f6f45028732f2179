//! Threads that wait for the cluster, so that the one that runs the gateway need not.

use super::input::Input;
use super::store::{GroupObjects, Word};
use super::threads;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use weft_block::Error;
use weft_ceph::ObjectError;
use weft_group::{GatewayEvent, GroupAnswer, GroupRequest};

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
