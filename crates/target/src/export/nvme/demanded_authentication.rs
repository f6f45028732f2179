//! Authentication that a target demands of its hosts before it serves them.

use super::admitting::Caller;
use super::authenticating::Authenticating;
use super::mailbox::Mailbox;
use super::subsystems::{Subsystems, Which};
use super::target_state::TargetState;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_proto::nvme::auth::ControllerKeys;
use weft_proto::nvme::controller::CONNECT_BYTES;
use weft_proto::nvme::fabrics::ConnectData;
use weft_proto::nvme::types::Nqn;

impl TargetState {
    /// What the host has to prove that sends this Connect, on a connection that `has_tls` or not.
    pub(super) fn authentication(
        self: &Arc<Self>,
        subsystems: &Subsystems,
        which: Which,
        data: &[u8; CONNECT_BYTES],
        (from, mailbox): (Caller<'_>, &Arc<Mailbox>),
        (is_admin, has_tls): (bool, bool),
    ) -> Option<Box<Authenticating>> {
        let (subsystem, demanded) = subsystems.demanded(which)?;
        let names = ConnectData::decode(data).ok()?;
        let host = names.hostnqn.nqn().ok();
        // By whichever name the host has it: both ends calculate with it.
        let called = names.subnqn.nqn().unwrap_or_else(|_| subsystem.clone());
        let keys = ControllerKeys { has_tls, ..demanded.keys(host.as_ref(), &called, is_admin) };
        let of = (host, subsystem);
        Some(Box::new(Authenticating::new(Arc::clone(self), keys, of, from, mailbox)))
    }

    /// What is known of a host now, where `before` was.
    pub(super) fn keys(
        &self,
        subsystem: &Nqn,
        host: Option<&Nqn>,
        before: &ControllerKeys,
    ) -> Option<ControllerKeys> {
        let inventory = self.inventory.now();
        let demanded = inventory.authentication(subsystem)?;
        let now = demanded.keys(host, subsystem, before.is_admin);
        Some(ControllerKeys { subnqn: before.subnqn.clone(), has_tls: before.has_tls, ..now })
    }

    /// The number of the next challenge: never 0, and another one for as long as there are any.
    pub(super) fn next_sequence(&self) -> u32 {
        match self.sequence.fetch_add(1, Ordering::Relaxed).wrapping_add(1) {
            0 => self.next_sequence(),
            number => number,
        }
    }
}
