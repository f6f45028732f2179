//! A queue between its Connect and the connection that serves it.

use super::authenticating::Authenticating;
use super::subsystems::{ControllerId, ControllerView};
use super::target_state::TargetState;
use crate::export::shares::Grant;
use std::sync::Arc;
use std::time::Duration;
use weft_io::RemoteLoop;
use weft_proto::nvme::controller::{ControllerCore, IoQueue};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::ConnectResponse;
use weft_proto::nvme::types::Qid;

/// A queue that was admitted, and the answer to its Connect.
pub(crate) struct Admitted {
    pub(super) controller: ControllerId,
    pub(super) queue: Queue,
    pub(super) cqe: Cqe,
    pub(super) claim: Claim,
    /// By which the host proves who it is.
    pub(super) authentication: Option<Box<Authenticating>>,
    /// Whether it has to do that before the queue is served.
    pub(super) is_stranger: bool,
}

/// What was admitted.
pub(super) enum Queue {
    Admin(Box<ControllerCore>),
    Io(Box<IoQueue>, ControllerView),
}

impl Admitted {
    pub(super) fn new(controller: ControllerId, queue: Queue, cqe: Cqe, claim: Claim) -> Self {
        Self { controller, queue, cqe, claim, authentication: None, is_stranger: false }
    }

    /// Has the host prove who it is, if that is demanded: first, and says so in the answer to its
    /// Connect, or when it likes, if its connection is encrypted with a key that came of an
    /// authentication.
    pub(super) fn demand(
        mut self,
        mut authentication: Option<Box<Authenticating>>,
        is_proven: bool,
    ) -> Self {
        if let (Some(authentication), Queue::Admin(_)) = (&mut authentication, &self.queue) {
            authentication.belongs_to(self.controller);
        }
        self.is_stranger = authentication.is_some() && !is_proven;
        if let Some(authentication) = authentication.as_ref().filter(|_| self.is_stranger) {
            let required = match authentication.demands_channel() {
                true => ConnectResponse::SECURE_CHANNEL_REQUIRED,
                false => ConnectResponse::AUTHENTICATION_REQUIRED,
            };
            let response = ConnectResponse::decode(self.cqe.result as u32);
            let response = ConnectResponse { authentication: required, ..response };
            self.cqe.result = response.encode().into();
        }
        if let (Some(_), Queue::Io(queue, _)) = (&authentication, &mut self.queue) {
            queue.set_authenticates();
        }
        self.authentication = authentication;
        self
    }

    /// The loop for a queue: queues of one controller go round the loops.
    pub(super) fn home<'a>(&self, shared: &'a TargetState) -> &'a RemoteLoop {
        let (_, cntlid) = self.controller;
        &shared.loops[(usize::from(cntlid.0) + usize::from(self.qid().0)) % shared.loops.len()]
    }

    /// Gives up the place of an I/O queue whose host has yet to prove who it is: a stranger does
    /// not keep a queue from the host whose it is. It is taken when the host has done so, by
    /// [`Self::taken`].
    pub(super) fn step_back(self) -> Self {
        match &self.queue {
            Queue::Admin(_) => self,
            Queue::Io(..) => Self { claim: Claim::none(self.controller, self.qid()), ..self },
        }
    }

    /// The same queue with the place that it has got now.
    pub(super) fn taken(self, mut again: Self) -> Self {
        if let (Queue::Io(before, _), Queue::Io(queue, _)) = (&self.queue, &mut again.queue) {
            queue.continues(before);
        }
        Self { authentication: self.authentication, ..again }
    }

    /// Entries of the queue, and whether the host wants to know how far it has been used up.
    pub(super) fn begins(&self) -> (u16, bool) {
        match &self.queue {
            Queue::Admin(control) => (control.entries() as u16, true),
            Queue::Io(queue, _) => (queue.entries() as u16, queue.has_flow_control()),
        }
    }

    /// The identifier of the queue.
    pub(super) fn qid(&self) -> Qid {
        match &self.queue {
            Queue::Admin(_) => Qid(0),
            Queue::Io(queue, _) => queue.qid(),
        }
    }
}

/// The place of an admitted queue in its association. Given up when this is dropped: the connection
/// did not get to its loop.
pub(super) struct Claim {
    shared: Option<Arc<TargetState>>,
    controller: ControllerId,
    qid: Qid,
    /// The connection that the controller was granted for it, until the connection is one of those
    /// that are admitted.
    granted: Option<Grant>,
}

impl Claim {
    pub(super) fn new(
        shared: &Arc<TargetState>,
        controller: ControllerId,
        qid: Qid,
        granted: Option<Grant>,
    ) -> Self {
        Self { shared: Some(Arc::clone(shared)), controller, qid, granted }
    }

    /// Of a queue that has no place yet.
    fn none(controller: ControllerId, qid: Qid) -> Self {
        Self { shared: None, controller, qid, granted: None }
    }

    /// What was granted, to be used now.
    pub(super) fn take_granted(&mut self) -> Option<Grant> {
        self.granted.take()
    }

    /// The connection of the queue counts as admitted from now on.
    pub(super) fn admitted(&self, now: Duration) {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.qid != Qid(0)) {
            shared.queue_connected(now, self.controller);
        }
    }

    /// A connection serves the queue from now on, and says itself when it has ended.
    pub(super) fn served(mut self) -> Arc<TargetState> {
        self.shared.take().expect("a claim is taken once")
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        if self.qid == Qid(0) {
            shared.give_up(self.controller);
        } else {
            shared.give_back(self.controller, self.granted.take());
            shared.queue_gone(self.controller, self.qid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::nvme::TargetLimits;
    use crate::export::nvme::mailbox::Mailbox;
    use crate::export::nvme::ports::Caller;
    use crate::inventory::{LiveInventory, SubsystemConfig};
    use weft_block::OpenOptions;
    use weft_io::LoopConfig;
    use weft_io::sim::World;
    use weft_proto::nvme::controller::{CONNECT_BYTES, Port};
    use weft_proto::nvme::fabrics::{Connect, ConnectData, Property};
    use weft_proto::nvme::property::{Configuration, PropertyOffset};
    use weft_proto::nvme::sqe::HostMemory;
    use weft_proto::nvme::types::{Cntlid, Id128, Nqn};
    use weft_proto::nvme::wire::NqnField;
    use weft_proto::stream::Tag;

    fn subsystem() -> Nqn {
        Nqn::new("nqn.2026-01.example.weft:admission").unwrap()
    }

    /// A target on one loop, with nobody connected.
    fn shared() -> Arc<TargetState> {
        let mut world = World::new(1);
        let host = world.host("10.0.0.1");
        let on = world.add_loop(host, &LoopConfig::default());
        let device = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let inventory =
            LiveInventory::of_devices(SubsystemConfig::new(subsystem()), vec![device]).unwrap();
        TargetState::new(
            inventory,
            TargetLimits::default(),
            1 << 20,
            vec![world.handle(on).remote()],
            1,
        )
    }

    fn connect(shared: &Arc<TargetState>, qid: u16, cntlid: Cntlid) -> Admitted {
        let connect = Connect {
            record_format: 0,
            qid: Qid(qid),
            sq_size: 31,
            attributes: 0,
            keep_alive_ms: 0,
        };
        let host = Nqn::new("nqn.2026-01.example.host:admission").unwrap();
        let names = ConnectData {
            host_id: Id128([7; 16]),
            cntlid,
            subnqn: NqnField::from(&subsystem()),
            hostnqn: NqnField::from(&host),
        };
        let mut data = [0; CONNECT_BYTES];
        names.put(&mut data);
        let port = Port {
            id: 1,
            host_memory: HostMemory::Transport,
            listener: None,
            in_capsule_bytes: 0,
            came_by: None,
        };
        let from = Caller { port, peer: "192.0.2.1:1", identity: None };
        let admitted = shared.admit(
            Duration::ZERO,
            &connect.encode(),
            &data,
            from,
            &Arc::<Mailbox>::default(),
        );
        admitted.unwrap_or_else(|refusal| panic!("queue {qid} is refused: {refusal}"))
    }

    #[test]
    fn a_queue_that_does_not_get_to_its_loop_is_given_up() {
        let shared = shared();
        let Admitted { controller, queue, claim, .. } = connect(&shared, 0, Cntlid::DYNAMIC);
        let Queue::Admin(mut control) = queue else { panic!("queue 0 is the admin queue") };
        let on = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES;
        let _ =
            control.start(Duration::ZERO, Tag(0), &Property::set(PropertyOffset::CC, on.into()));
        // The second one would be refused while the first is there.
        for _ in 0..2 {
            let io = connect(&shared, 1, controller.1);
            assert_eq!(shared.members.serving(), 1);
            drop(io);
            assert_eq!(shared.members.serving(), 0);
        }
        assert!(shared.view(controller).is_some());
        drop(claim);
        assert!(shared.view(controller).is_none(), "the controller stays");
    }

    #[test]
    fn only_a_queue_that_is_admitted_gives_its_host_more_time() {
        let shared = shared();
        let Admitted { controller, queue, claim: _claim, .. } =
            connect(&shared, 0, Cntlid::DYNAMIC);
        let Queue::Admin(mut control) = queue else { panic!("queue 0 is the admin queue") };
        let on = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES;
        let _ =
            control.start(Duration::ZERO, Tag(0), &Property::set(PropertyOffset::CC, on.into()));
        let limit = shared.limits.handshake;
        let kept = |now| shared.lapse(now, controller);
        assert_eq!(shared.grant_queues(Duration::ZERO, controller, 4), 4);
        // One that is given up, and another question.
        drop(connect(&shared, 1, controller.1));
        assert_eq!(shared.grant_queues(limit / 2, controller, 4), 4);
        assert_eq!(kept(limit / 2), Some(limit));
        let mut io = connect(&shared, 1, controller.1);
        drop(io.claim.take_granted());
        io.claim.admitted(limit / 2);
        assert_eq!(kept(limit), Some(limit + limit / 2));
        assert_eq!(kept(limit + limit / 2), None);
        // It is told a number, and nothing is kept.
        assert_eq!(shared.grant_queues(limit * 2, controller, 4), 4);
        assert_eq!(kept(limit * 2), None);
        io.claim.admitted(limit * 3);
        assert_eq!(shared.grant_queues(limit * 3, controller, 4), 4);
        assert_eq!(kept(limit * 3), Some(limit * 4));
    }

    #[test]
    fn a_queue_that_is_served_stays() {
        let shared = shared();
        let Admitted { controller, claim, .. } = connect(&shared, 0, Cntlid::DYNAMIC);
        drop(claim.served());
        assert!(shared.view(controller).is_some());
    }
}
