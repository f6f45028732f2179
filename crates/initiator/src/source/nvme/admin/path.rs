//! Reports of an association about its path, and its services to others of the same host: access
//! states, and the reset of controllers that were lost.

use super::super::association::{Association, ToAdmin};
use super::super::transport::ControllerLink;
use super::Admin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use weft_block::AccessState;
use weft_connection::settle::LateWriter;
use weft_connection::settle::registry::{Pair, Unsettled};
use weft_io::{Handle, Time};
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::host::HostConfig;
use weft_proto::nvme::log_page::AnaState;
use weft_proto::nvme::types::Nsid;

/// Who settles whose writes: the same host, at the same subsystem.
fn pair(host: &HostConfig) -> Pair {
    format!("nvme {} {:x?} {}", host.host_nqn.as_str(), host.host_id.0, host.subsystem.as_str())
}

/// What a state of the log page is to users of the device. A controller that tells none reaches all
/// that it has.
fn access_of(state: Option<AnaState>) -> AccessState {
    match state {
        None | Some(AnaState::OPTIMIZED) => AccessState::Optimized,
        Some(AnaState::NON_OPTIMIZED) => AccessState::NonOptimized,
        Some(AnaState::PERSISTENT_LOSS) => AccessState::PersistentLoss,
        Some(AnaState::CHANGE) => AccessState::Transition,
        Some(_) => AccessState::Inaccessible,
    }
}

impl<L: ControllerLink> Admin<L> {
    /// How well the controller reaches each of the namespaces.
    pub(super) fn access_states(&self) -> Vec<(Nsid, AccessState)> {
        let namespaces = self.control.namespaces().iter();
        namespaces
            .map(|namespace| (namespace.nsid, access_of(self.control.access(namespace.nsid))))
            .collect()
    }

    /// Tells how well the controller reaches the namespace that is used, unless that is being
    /// asked.
    pub(super) fn tell_access(&self) {
        if self.over || self.control.is_reading_access() {
            return;
        }
        let Some(nsid) = self.association.learned().used.as_ref().map(|used| used.nsid) else {
            return;
        };
        // Of one that is away nothing is known.
        let Some(state) = self.association.learned().access_of(nsid) else { return };
        let before = self.association.access();
        if before != state {
            tracing::info!(
                "{}: access state of namespace {nsid}: {before:?}, now {state:?}",
                self.target.name
            );
            self.association.set_access(state);
        }
    }

    /// The controller is ready: it may settle what other controllers of its subsystem have of this
    /// host's writes.
    pub(super) fn offer_resets(&mut self) {
        if self.control.can_cross_reset() {
            let association = Arc::downgrade(&self.association);
            let ask = move |lost| {
                if let Some(association) = Weak::upgrade(&association) {
                    association.tell(ToAdmin::CrossReset(lost));
                }
            };
            let registry = self.association.options.control.unsettled();
            self.registered = Some(registry.join(pair(&self.target.host), Box::new(ask)));
        }
    }

    /// From now on the controller may execute writes of this process after the end of that.
    pub(super) fn may_write(&mut self, on: &Handle) {
        let (pair, control) = (pair(&self.target.host), &self.association.options.control);
        let instance = self.control.controller().identify.instance();
        let writer = LateWriter::new(pair, instance, self.association.settle_bound());
        self.late = Some(control.late_list().began(writer, on.now()));
    }

    /// From `settled_at` on it cannot any more.
    pub(super) fn writes_end(&mut self, settled_at: Time) {
        if let Some(id) = self.late.take() {
            self.association.options.control.late_list().ended(id, settled_at);
        }
    }

    /// It is about to end, or has.
    pub(super) fn withdraw_resets(&mut self) {
        if let Some(id) = self.registered.take() {
            self.association.options.control.unsettled().leave(id);
        }
    }

    /// A reset of another controller was asked for, and this came of it.
    pub(super) fn reset_answered(&self, on: &Handle, lost: CrossControllerReset, stopped: bool) {
        let (name, icid) = (&self.target.name, lost.icid);
        let Some(id) = self.registered else { return };
        if self.association.options.control.unsettled().answered(id, lost, stopped, on.now()) {
            tracing::info!(
                "{name}: controller {icid}, which was lost, was reset: its writes can no longer be executed"
            );
        } else if !stopped {
            tracing::info!(
                "{name}: controller {icid}, which was lost, was not reset; its writes end by time"
            );
        }
    }

    /// The association has ended, and is not settled: another controller of the subsystem may be
    /// able to settle it before time does.
    pub(super) fn register_unsettled(&self, on: &Handle) {
        if let Some(instance) = self.control.controller().identify.instance() {
            let unsettled: Arc<dyn Unsettled> = Arc::<Association<L>>::clone(&self.association);
            let registry = self.association.options.control.unsettled();
            registry.ended(
                pair(&self.target.host),
                Some(instance),
                Arc::downgrade(&unsettled),
                on.now(),
            );
        }
    }

    /// How long the controller may go on after the loss of its connections, and a word to the log
    /// about it.
    pub(super) fn settle_bound(&self) -> Duration {
        let (name, bound) = (&self.target.name, self.association.settle_bound());
        if self.then.is_some() {
            // There has been no I/O.
        } else if self.association.options.keep_alive_ms == 0 || !self.control.has_keep_alive() {
            tracing::warn!(
                "{name}: without keep alive the controller may go on with writes that it has for any time; those under way end in {} s \
                 (--quiesce-time) all the same",
                bound.as_secs_f32()
            );
        } else {
            tracing::info!(
                "{name}: writes under way end in {} s, when the controller can no longer execute them",
                bound.as_secs_f32()
            );
        }
        bound
    }
}
