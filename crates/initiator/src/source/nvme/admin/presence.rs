//! Check that the namespace in use is there, and still the one that was opened.

use super::super::transport::ControllerLink;
use super::Admin;
use crate::source::queue::QueueGate;
use std::time::Duration;
use weft_block::{Error, ErrorKind, Presence};
use weft_connection::limits::ABSENT_PAUSE_MS;
use weft_io::Handle;
use weft_proto::limits::REMOTE_NAMESPACES_MAX;
use weft_proto::nvme::types::Nsid;

impl<L: ControllerLink> Admin<L> {
    pub(super) fn learn(&self) {
        if self.control.namespaces_cut_off() {
            tracing::warn!(
                "{}: more than {REMOTE_NAMESPACES_MAX} namespaces; the others were not looked at",
                self.target.name
            );
        }
        self.association.learn(|learned| {
            learned.controller = self.control.controller().clone();
            learned.namespaces = self.control.namespaces().to_vec();
            learned.unusable = self.control.unusable_namespaces().to_vec();
            learned.access = self.access_states();
        });
    }

    /// Whether the namespace that is used can be used, as far as it is known now. While that is
    /// being found out nothing is sent to it; where there is none at present, it is asked for again
    /// from time to time. Other data under its identifier ends the association: no more of what was
    /// meant for the data of before may reach it.
    pub(super) fn judge(&mut self, on: &Handle) {
        let (nsid, is_there, replaced) = {
            let learned = self.association.learned();
            let Some(nsid) = learned.used.as_ref().map(|used| used.nsid) else { return };
            (
                nsid,
                learned.namespaces.iter().any(|namespace| namespace.nsid == nsid),
                learned.replaced(),
            )
        };
        if self.over || self.association.is_stopped() {
            return;
        }
        let gate = match (self.control.is_looking(), is_there && !self.control.is_unsure(nsid)) {
            _ if replaced.is_some() => QueueGate::Shut,
            // Once it is away it stays so until it was seen.
            (true, _) if self.association.presence() == Presence::Away => QueueGate::Shut,
            (true, _) => QueueGate::Held,
            (false, true) => QueueGate::Open,
            (false, false) => QueueGate::Shut,
        };
        if let Some(why) = replaced {
            return self.end_replaced(on, &why);
        }
        self.tell_presence(nsid, gate);
        self.association.set_gate(gate);
        if gate == QueueGate::Shut && !self.control.is_looking() {
            let again =
                *self.look_at.get_or_insert(on.now() + Duration::from_millis(ABSENT_PAUSE_MS));
            self.look_timer.arm(on, self.id, again);
        }
    }

    /// Answers those who wait for the end of a look, once there is none under way.
    pub(super) fn answer_looks(&mut self) {
        if self.looks.is_empty() || self.over || self.control.is_looking() {
            return;
        }
        let used = self.association.learned().used.as_ref().map(|used| used.nsid);
        let is_told = used.is_none_or(|nsid| !self.control.is_unsure(nsid));
        for reply in self.looks.drain(..) {
            let why = || "the controller does not describe the namespace at present".to_owned();
            reply(is_told.then_some(()).ok_or_else(why));
        }
    }

    /// Looks again for a namespace that was not there, when it is time to.
    pub(super) fn look_for_absent(&mut self, on: &Handle) {
        if self.look_at.take_if(|at| *at <= on.now()).is_some() {
            self.control.look_again(on.now().since_epoch());
        }
    }

    fn end_replaced(&mut self, on: &Handle, why: &str) {
        self.association.stop_io();
        let text = format!(
            "{}: {why}; it is no longer used. Open it again if the new one is meant",
            self.target.name
        );
        tracing::error!("{text}");
        self.expected = true;
        self.reason.get_or_insert(Error::new(ErrorKind::Refused, text));
        self.control.shutdown(on.now().since_epoch());
    }

    /// Says so when the namespace that is used goes, or comes back.
    fn tell_presence(&self, nsid: Nsid, gate: QueueGate) {
        let name = &self.target.name;
        match (self.association.presence(), gate) {
            (Presence::Here, QueueGate::Shut) => {
                tracing::warn!("{name}: namespace {nsid} no longer exists; it may come back")
            }
            (Presence::Away, QueueGate::Open) => tracing::warn!("{name}: namespace {nsid} is back"),
            _ => {}
        }
    }
}
