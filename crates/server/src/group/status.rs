//! The status of a gateway and of its group, for callers that ask.

use std::time::Duration;
use weft_base::lock::{Condition, Lock};
use weft_group::{GatewayProcess, GroupRecord};

/// The last known status.
#[derive(Clone, Debug, Default)]
pub struct GatewayStatus {
    /// The record of the group.
    pub record: Option<GroupRecord>,
    /// This gateway may serve: its lease runs.
    pub serves: bool,
    /// The last problem.
    pub trouble: Option<String>,
}

/// That of a running gateway.
#[derive(Default)]
pub struct LiveStatus {
    status: Lock<GatewayStatus>,
    changed: Condition,
}

impl LiveStatus {
    /// Notes what a gateway knows now.
    pub fn note(&self, process: &GatewayProcess) {
        let mut status = self.status.lock();
        status.serves = process.serves();
        status.trouble = process.trouble().map(str::to_owned);
        let generation = |record: Option<&GroupRecord>| record.map(|record| record.generation);
        if generation(status.record.as_ref()) != generation(process.record()) {
            status.record = process.record().cloned();
        }
        if status.serves {
            self.changed.notify_all();
        }
    }

    /// The last known status.
    pub fn now(&self) -> GatewayStatus {
        self.status.lock().clone()
    }

    /// Waits until the gateway may serve; whether it may within the limit.
    pub fn wait_until_it_serves(&self, limit: Duration) -> bool {
        let status = self.status.lock();
        self.changed.wait_while_for(status, limit, |status| !status.serves).0.serves
    }
}
