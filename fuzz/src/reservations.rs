//! Hosts of NVMe and initiators of SCSI that reserve one namespace, each by its own commands. Their
//! answers are compared with a model of what the standards say.

use std::sync::Arc;

use uuid::Uuid;
use weft_endpoint::reservations::{decode, encode};
use weft_proto::nvme::controller::{ControllerCore, DeviceOutcome, IoNext, IoQueue, Subsystem};
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Id128, Lba, Nsid};
use weft_proto::reservation::{
    Action, KeyCheck, Kind, PermittedAccess, Registrant, ReservationRefusal, ReservationState,
    Reservations,
};
use weft_proto::scsi::cdb::{Command, Extent};
use weft_proto::scsi::initiator::parameters::reserve_out;
use weft_proto::scsi::lun::Nexus;
use weft_proto::scsi::opcode::{ReserveIn, ReserveOut};
use weft_proto::scsi::status::{ScsiStatus, SenseKey};
use weft_proto::stream::Tag;

use crate::Input;
use crate::admin::enabled;
use crate::reservation_model::{HOSTS, KEYS, Model, registrant};
use crate::scsi_rig::{self, BLOCK, Ended, Rig};

const NAMESPACE: Uuid = Uuid::from_bytes([7; 16]);
const TAG: Tag = Tag(1);

/// Who sends commands.
enum Host {
    Nvme { queue: IoQueue, _subsystem: Subsystem, _control: ControllerCore },
    Scsi(Nexus),
}

/// The namespace, its hosts, and what is known of it.
pub struct Reserving {
    reservations: Arc<Reservations>,
    rig: Rig,
    hosts: Vec<Host>,
    model: Model,
    /// It outlasts a restart.
    persistent: bool,
}

impl Default for Reserving {
    fn default() -> Self {
        Self::after(ReservationState::default(), Model::default())
    }
}

impl Reserving {
    /// A target that has started with this state.
    fn after(state: ReservationState, model: Model) -> Self {
        let persistent = state.is_persistent();
        let reservations = Arc::new(Reservations::new(state, true));
        let rig = Rig::reserving(scsi_rig::config(scsi_rig::ALL), Arc::clone(&reservations));
        let host = |n: u8| match registrant(n) {
            Registrant::Host(id) => nvme(id, &reservations),
            Registrant::Nexus(_) => Host::Scsi(rig.host(n)),
        };
        let hosts = (0..HOSTS).map(host).collect();
        Self { reservations, rig, hosts, model, persistent }
    }

    /// Lets one thing happen.
    pub fn step(&mut self, input: &mut Input) {
        let who = input.byte() % HOSTS;
        match input.below(16) {
            0 => self.restart(input),
            1 => self.report(who),
            2..6 => self.check_access(who),
            _ => self.change(input, who),
        }
    }

    /// The process dies; the next one begins with what is in the state file.
    fn restart(&mut self, input: &mut Input) {
        let state = self.reservations.look(ReservationState::clone);
        assert_eq!(state.is_persistent(), self.persistent);
        let (state, model) = if self.persistent {
            let text = encode(&state, NAMESPACE);
            let restored = decode(&text, NAMESPACE).expect("what was stored can be read");
            assert_eq!(
                (restored.registrations(), restored.reservation()),
                (state.registrations(), state.reservation())
            );
            damage(input, &text, &restored);
            (restored, Model { generation: 0, ..self.model.clone() })
        } else {
            (ReservationState::default(), Model::default())
        };
        *self = Self::after(state, model);
    }

    /// A host changes something, if it may.
    fn change(&mut self, input: &mut Input, who: u8) {
        let keys = [input.byte(), input.byte()].map(|byte| u64::from(byte) % KEYS);
        let kind = input.pick(&Kind::ALL);
        let is_nvme = matches!(self.hosts[usize::from(who)], Host::Nvme { .. });
        let (action, persist, outcome) = if is_nvme {
            self.by_nvme(input, who, keys, kind)
        } else {
            self.by_scsi(input, who, keys, kind)
        };
        let mut next = self.model.clone();
        let expected = next.apply(who, &action);
        assert_eq!(
            outcome,
            expected.map(drop).map_err(shown),
            "{who}: {action:?} of {:?}",
            self.model
        );
        if outcome.is_ok() {
            (self.model, self.persistent) = (next, persist.unwrap_or(self.persistent));
        }
        assert_eq!(self.reservations.look(ReservationState::generation), self.model.generation);
        (0..HOSTS).for_each(|n| {
            assert_eq!(
                self.reservations.access(&registrant(n)),
                self.model.access(n),
                "{n} after {action:?}"
            )
        });
    }

    fn by_nvme(
        &mut self,
        input: &mut Input,
        who: u8,
        keys: [u64; 2],
        kind: Kind,
    ) -> (Action, Option<bool>, Result<(), Shown>) {
        let [current, other] = keys;
        let typed = u32::from(kind.nvme()) << 8;
        let (opcode, dword10, action, persist) = match input.below(8) {
            n @ 0..3 => {
                let ignore = input.flag();
                let known = KeyCheck::Registered((!ignore).then_some(current));
                let (check, key) =
                    [(KeyCheck::New, other.max(1)), (known, 0), (known, other.max(1))][n];
                let persist = input.pick(&[None, None, Some(false), Some(true)]);
                let cptpl = persist.map_or(0, |on| 2 | u32::from(on));
                let action = Action::Register { check, key, all_ports: false };
                (
                    NvmOpcode::RESERVATION_REGISTER,
                    n as u32 | u32::from(ignore) << 3 | cptpl << 30,
                    action,
                    persist,
                )
            }
            3 => (
                NvmOpcode::RESERVATION_RELEASE,
                typed,
                Action::Release { key: current, kind },
                None,
            ),
            4 => (NvmOpcode::RESERVATION_RELEASE, typed | 1, Action::Clear { key: current }, None),
            5 => (
                NvmOpcode::RESERVATION_ACQUIRE,
                typed,
                Action::Acquire { key: current, kind },
                None,
            ),
            n => {
                let abort = n == 7;
                let action = Action::Preempt { key: current, target: other, kind, abort };
                (NvmOpcode::RESERVATION_ACQUIRE, typed | 1 + u32::from(abort), action, None)
            }
        };
        let new = if let Action::Register { key, .. } = action { key } else { other };
        let data = [current.to_le_bytes(), new.to_le_bytes()].concat();
        let data = if opcode == NvmOpcode::RESERVATION_RELEASE { &data[..8] } else { &data[..] };
        let mut sqe = Sqe::new(opcode.0, Nsid(1));
        sqe.set_dword(10, dword10);
        sqe.set_sgl(Sgl::transport(data.len() as u32));
        let outcome = match self.nvme_command(who, &sqe, data) {
            Status::SUCCESS => Ok(()),
            Status::RESERVATION_CONFLICT => Err(Shown::Conflict),
            Status::INVALID_FIELD => Err(Shown::Wrong),
            status => panic!("{action:?}: {status:?}"),
        };
        (action, persist, outcome)
    }

    fn nvme_command(&mut self, who: u8, sqe: &Sqe, data: &[u8]) -> Status {
        let Host::Nvme { queue, .. } = &mut self.hosts[usize::from(who)] else {
            panic!("{who} is not an NVMe host")
        };
        let mut next = queue.start(TAG, sqe, 0);
        loop {
            next = match next {
                IoNext::Fetch { .. } => queue.data(TAG, data),
                IoNext::Reserve { .. } => {
                    let operation = queue.take_operation().expect("it is there once");
                    queue.reserved(TAG, self.reservations.execute(&operation).map(drop))
                }
                IoNext::Submit(_) => queue.finished(TAG, DeviceOutcome::DONE, &[]),
                IoNext::Reply { cqe, .. } => return cqe.status,
                next => panic!("{next:?}"),
            };
        }
    }

    fn by_scsi(
        &mut self,
        input: &mut Input,
        who: u8,
        keys: [u64; 2],
        kind: Kind,
    ) -> (Action, Option<bool>, Result<(), Shown>) {
        let [current, other] = keys;
        let persist = input.flag();
        let register =
            |check| (Action::Register { check, key: other, all_ports: false }, Some(persist));
        let (action, (meant, persists)) = match input.below(7) {
            0 => (ReserveOut::REGISTER, register(KeyCheck::Current(current))),
            1 => (ReserveOut::REGISTER_AND_IGNORE, register(KeyCheck::Ignore)),
            2 => (ReserveOut::RESERVE, (Action::Acquire { key: current, kind }, None)),
            3 => (ReserveOut::RELEASE, (Action::Release { key: current, kind }, None)),
            4 => (ReserveOut::CLEAR, (Action::Clear { key: current }, None)),
            5 => (
                ReserveOut::PREEMPT,
                (Action::Preempt { key: current, target: other, kind, abort: false }, None),
            ),
            _ => (
                ReserveOut::PREEMPT_AND_ABORT,
                (Action::Preempt { key: current, target: other, kind, abort: true }, None),
            ),
        };
        let mut list = reserve_out(current, other);
        list[20] |= u8::from(persists == Some(true));
        let out = Command::ReserveOut {
            action,
            scope: 0,
            kind: kind.scsi(),
            parameters: list.len() as u32,
        };
        let ended = self.scsi_command(who, out, &list);
        let outcome = match ended.status {
            ScsiStatus::GOOD => Ok(()),
            ScsiStatus::RESERVATION_CONFLICT => Err(Shown::Conflict),
            _ => Err(Shown::Wrong),
        };
        (meant, persists, outcome)
    }

    /// Sends a command until the unit attentions that wait have been told.
    fn scsi_command(&mut self, who: u8, command: Command, data: &[u8]) -> Ended {
        let Host::Scsi(nexus) = &mut self.hosts[usize::from(who)] else {
            panic!("{who} is not an initiator")
        };
        for _ in 0..16 {
            let ended = self.rig.run(nexus, command, data);
            if ended.sense.is_none_or(|sense| sense.key != SenseKey::UNIT_ATTENTION) {
                return ended;
            }
        }
        panic!("unit attentions do not end")
    }

    /// A host reads and writes, as far as it may.
    fn check_access(&mut self, who: u8) {
        let [read, write] = match &self.hosts[usize::from(who)] {
            Host::Nvme { .. } => {
                [command::read(Nsid(1), Lba(0), 1), command::write(Nsid(1), Lba(0), 1, false)].map(
                    |mut sqe| {
                        sqe.set_sgl(Sgl::transport(512));
                        match self.nvme_command(who, &sqe, &[0; 512]) {
                            Status::SUCCESS => true,
                            Status::RESERVATION_CONFLICT => false,
                            status => panic!("{status:?}"),
                        }
                    },
                )
            }
            Host::Scsi(_) => {
                let extent = Extent { lba: 0, blocks: 1 };
                let read = (Command::Read { extent, dpo: false, fua: false }, &[][..]);
                let write = (Command::Write { extent, dpo: false, fua: false }, &[0; BLOCK][..]);
                [read, write].map(|(command, data)| {
                    match self.scsi_command(who, command, data).status {
                        ScsiStatus::GOOD => true,
                        ScsiStatus::RESERVATION_CONFLICT => false,
                        status => panic!("{status:?}"),
                    }
                })
            }
        };
        self.rig.disk.requests.clear();
        assert_eq!(
            PermittedAccess { read, write },
            self.model.access(who),
            "{who}: {:?}",
            self.model
        );
    }

    /// What a host is told of the registrants is what there is.
    fn report(&mut self, who: u8) {
        let mut keys: Vec<u64> = self.model.keys.values().copied().collect();
        keys.sort_unstable();
        let (generation, mut told) = match &mut self.hosts[usize::from(who)] {
            Host::Nvme { queue, .. } => nvme_report(queue, &self.model),
            Host::Scsi(_) => {
                let ended = self.scsi_command(
                    who,
                    Command::ReserveIn { action: ReserveIn::READ_KEYS, allocation: 4096 },
                    &[],
                );
                assert!(ended.is_good());
                let number =
                    |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                (
                    number(&ended.data[..4]) as u32,
                    ended.data[8..].chunks_exact(8).map(number).collect::<Vec<_>>(),
                )
            }
        };
        told.sort_unstable();
        assert_eq!((generation, told), (self.model.generation, keys));
    }
}

/// How an operation ended, as far as both protocols tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Conflict,
    Wrong,
}

fn shown(refusal: ReservationRefusal) -> Shown {
    match refusal {
        ReservationRefusal::Conflict | ReservationRefusal::Full => Shown::Conflict,
        _ => Shown::Wrong,
    }
}

/// Changes the stored text somewhere: it is refused, or means the same.
fn damage(input: &mut Input, text: &str, state: &ReservationState) {
    let mut bytes = text.as_bytes().to_vec();
    let at = input.below(bytes.len());
    bytes[at] = input.byte();
    if let Some(read) = String::from_utf8(bytes).ok().and_then(|text| decode(&text, NAMESPACE).ok())
    {
        assert_eq!(
            (read.registrations(), read.reservation()),
            (state.registrations(), state.reservation())
        );
    }
}

fn nvme(id: Id128, reservations: &Arc<Reservations>) -> Host {
    let (subsystem, control, queue) = enabled(id, reservations);
    Host::Nvme { queue, _subsystem: subsystem, _control: control }
}

/// Generation and keys, of the extended data structure.
fn nvme_report(queue: &mut IoQueue, model: &Model) -> (u32, Vec<u64>) {
    const BYTES: usize = 4096;
    let mut sqe = Sqe::new(NvmOpcode::RESERVATION_REPORT.0, Nsid(1));
    sqe.set_dword(10, BYTES as u32 / 4 - 1);
    sqe.set_dword(11, 1);
    sqe.set_sgl(Sgl::transport(BYTES as u32));
    assert_eq!(queue.start(TAG, &sqe, 0), IoNext::Report { bytes: BYTES as u32 });
    let mut memory = vec![0xee; BYTES];
    assert!(
        matches!(queue.report(TAG, &mut memory), IoNext::Reply { cqe, .. } if cqe.status == Status::SUCCESS)
    );
    assert_eq!(memory[4], model.held.as_ref().map_or(0, |(kind, _)| kind.nvme()));
    let count = usize::from(u16::from_le_bytes([memory[5], memory[6]]));
    let registrants = memory[64..].chunks_exact(64).take(count);
    let key = |of: &[u8]| u64::from_le_bytes(core::array::from_fn(|at| of[8 + at]));
    (u32::from_le_bytes(core::array::from_fn(|at| memory[at])), registrants.map(key).collect())
}
