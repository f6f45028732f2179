//! Admission of the queues that Connect commands ask for.

use super::admission::{Admitted, Claim, Queue};
use super::associations::{Association, Who};
use super::authenticating::Authenticating;
use super::mailbox::Mailbox;
use super::ports::Caller;
use super::subsystems::{Subsystems, Which};
use super::target_state::TargetState;
use std::sync::Arc;
use std::time::Duration;
use weft_proto::nvme::auth::ControllerKeys;
use weft_proto::nvme::controller::{CONNECT_BYTES, ConnectError, ConnectRefusal, subsystem_name};
use weft_proto::nvme::fabrics::{Connect, ConnectData};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Qid;

/// A Connect for a queue of a subsystem that there is.
struct Asked<'a> {
    now: Duration,
    sqe: &'a Sqe,
    data: &'a [u8; CONNECT_BYTES],
    from: Caller<'a>,
    which: Which,
    /// What its host has to prove.
    demanded: Option<Box<Authenticating>>,
    mailbox: Arc<Mailbox>,
}

impl Asked<'_> {
    fn refuse(&self, reason: ConnectError) -> ConnectRefusal {
        ConnectRefusal::new(self.sqe.cid(), reason)
    }
}

impl TargetState {
    /// Whether a Connect of an admin queue has to wait, as devices have writes yet of an
    /// association that its host has lost: the host might write the same blocks anew, before them.
    /// The connection of this mailbox hears of the end of any such association; one that waits for
    /// too long is closed like any other that does not get beyond its Connect.
    pub(super) fn holds_back(&self, data: &[u8; CONNECT_BYTES], mailbox: &Arc<Mailbox>) -> bool {
        let who = Who::of(data);
        let associations = self.associations.lock();
        let held =
            associations.values().any(|association| association.ending && association.who == who);
        if held {
            self.held_back.lock().push(Arc::clone(mailbox));
        }
        held
    }

    /// The authentication that is demanded of the host that sends this Connect, on a connection that
    /// `has_tls` or not.
    fn authentication(
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

    /// Admits the queue that a Connect asks for, to be served by the connection of this mailbox.
    pub(crate) fn admit(
        self: &Arc<Self>,
        now: Duration,
        sqe: &Sqe,
        data: &[u8; CONNECT_BYTES],
        from: Caller<'_>,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Admitted, ConnectRefusal> {
        // Devices may have changed while no queue was there to tell of it.
        self.inventory.look_at_devices();
        let refuse = |reason| ConnectRefusal::new(sqe.cid(), reason);
        let mut subsystems = self.subsystems.lock();
        let name = subsystem_name(data);
        let unknown = || refuse(ConnectError::Subsystem);
        let which = subsystems.find(name.as_ref()).ok_or_else(unknown)?;
        if self.members.is_stopping() {
            return Err(refuse(ConnectError::NotReady));
        }
        let is_admin = Connect::decode(sqe).qid == Qid(0);
        let is_secure = (is_admin, from.identity.is_some());
        let demanded = self.authentication(&subsystems, which, data, (from, mailbox), is_secure);
        let mailbox = Arc::clone(mailbox);
        let asked = Asked { now, sqe, data, from, which, demanded, mailbox };
        match is_admin {
            true => self.admit_admin(&mut subsystems, asked),
            false => self.admit_io(&mut subsystems, asked),
        }
    }

    fn admit_admin(
        self: &Arc<Self>,
        subsystems: &mut Subsystems,
        asked: Asked<'_>,
    ) -> Result<Admitted, ConnectRefusal> {
        let generated = asked.from.generated();
        let unknown = || asked.refuse(ConnectError::Subsystem);
        let subsystem = subsystems.at(asked.which).ok_or_else(unknown)?;
        let connected = subsystem.connect(asked.now, asked.sqe, asked.data, asked.from.port)?;
        let controller = (asked.which, connected.queue.cntlid());
        if let Some(Err(reason)) =
            generated.map(|identity| self.generated.claim(asked.now, identity, controller))
        {
            subsystem.release(controller.1);
            return Err(asked.refuse(reason));
        }
        let association = Association::new(Who::of(asked.data), asked.from, asked.mailbox);
        self.associations.lock().insert(controller, association);
        let claim = Claim::new(self, controller, Qid(0), None);
        let queue = Queue::Admin(Box::new(connected.queue));
        Ok(Admitted::new(controller, queue, connected.cqe, claim)
            .demand(asked.demanded, generated.is_some()))
    }

    fn admit_io(
        self: &Arc<Self>,
        subsystems: &mut Subsystems,
        asked: Asked<'_>,
    ) -> Result<Admitted, ConnectRefusal> {
        let generated = asked.from.generated();
        if asked.demanded.as_ref().is_some_and(|demanded| demanded.demands_channel()) {
            return Err(asked.refuse(ConnectError::NoSecureChannel));
        }
        let unknown = || asked.refuse(ConnectError::Subsystem);
        let subsystem = subsystems.at(asked.which).ok_or_else(unknown)?;
        let connected = subsystem.connect_io(asked.sqe, asked.data)?;
        let queue = connected.queue;
        let (controller, qid) = ((asked.which, queue.cntlid()), queue.qid());
        if let Err(reason) = self.generated.check(generated, controller) {
            subsystem.release_io(controller.1, qid);
            return Err(asked.refuse(reason));
        }
        let mut associations = self.associations.lock();
        let present = associations.get_mut(&controller).filter(|association| !association.ending);
        let Some((association, view)) =
            present.and_then(|association| Some((association, subsystems.view(controller)?)))
        else {
            let subsystem = subsystems.at(asked.which);
            subsystem.into_iter().for_each(|subsystem| subsystem.release_io(controller.1, qid));
            return Err(asked.refuse(ConnectError::NotReady));
        };
        association.add_queue(qid, asked.mailbox, self.members.serve());
        let granted = association.granted.take_one();
        let claim = Claim::new(self, controller, qid, granted);
        let queue = Queue::Io(Box::new(queue), view);
        // Whose key it is was found out when it was made.
        Ok(Admitted::new(controller, queue, connected.cqe, claim)
            .demand(asked.demanded.filter(|_| generated.is_none()), false))
    }
}
