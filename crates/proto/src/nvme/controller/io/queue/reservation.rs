//! The commands Reservation Register, Acquire, Release and Report (Base 2.1 §7.4 to 7.7).

use super::IoQueue;
use crate::nvme::controller::fault::{Fault, at, data_from_host, data_to_host};
use crate::nvme::controller::io::command::{Command, Context, IoRequestKind};
use crate::nvme::controller::io::next::{DeviceOutcome, IoNext};
use crate::nvme::controller::io::reservation_command::ReservationCommand;
use crate::nvme::controller::io::slot::{CommandStage, IDLE, IoSlot, Role};
use crate::nvme::opcode::NvmOpcode;
use crate::nvme::reservation::{RegisteredController, ReservationStatus};
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::{Cntlid, Id128, Nsid};
use crate::reservation::{Registrant, ReservationRefusal, ReservationRequest, ReservationState};
use crate::stream::Tag;

/// EDS of Reservation Report: registrants in their extended form.
const EXTENDED: u32 = 1;

/// A current key and another one.
const KEYS_BYTES: u32 = 16;

/// The current key alone. Linux sends room for two.
const KEY_BYTES: u32 = 8;

impl Context<'_> {
    /// Checks a command that changes reservations.
    pub fn reserve(&self, opcode: NvmOpcode, sqe: &Sqe) -> Result<Command, Fault> {
        let namespace = self.reservable(sqe)?;
        let reserve = ReservationCommand::parse(opcode, sqe.dword(10))?;
        let bytes = data_from_host(sqe, self.in_capsule_bytes, self.host_memory)?;
        let least = if opcode == NvmOpcode::RESERVATION_RELEASE { KEY_BYTES } else { KEYS_BYTES };
        if !(least..=KEYS_BYTES).contains(&bytes) {
            return Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH));
        }
        // Each host without an identifier would be another one after a reset.
        if *self.conflicts.host() == Registrant::Host(Id128::default()) {
            return Err(Fault::new(Status::COMMAND_SEQUENCE_ERROR));
        }
        Ok(Command::Reserve { namespace, bytes, reserve })
    }

    /// Checks Reservation Report. Host identifiers have 128 bits on fabrics, so there is only the
    /// extended form.
    pub fn report(&self, sqe: &Sqe) -> Result<Command, Fault> {
        let namespace = self.reservable(sqe)?;
        if sqe.dword(11) & EXTENDED == 0 {
            return Err(Fault::at(Status::HOST_ID_FORMAT, at::CDW11));
        }
        let bytes = (u64::from(sqe.dword(10)) + 1) * 4;
        let bytes = u32::try_from(bytes)
            .ok()
            .filter(|&bytes| bytes <= self.transfer_bytes_max)
            .ok_or(Fault::field(at::CDW10))?;
        data_to_host(sqe, bytes, self.host_memory)?;
        Ok(Command::Report { namespace, bytes })
    }

    /// The namespace of a command, if it can be reserved; the commands are unknown where none can.
    fn reservable(&self, sqe: &Sqe) -> Result<usize, Fault> {
        let has = |namespace: &crate::nvme::controller::Namespace| namespace.reservations.is_some();
        if !self.namespaces.iter().any(has) {
            return Err(Fault::at(Status::INVALID_OPCODE, at::OPCODE));
        }
        match self.namespace(sqe)? {
            (index, found) if has(found) => Ok(index),
            _ => Err(Fault::at(Status::INVALID_OPCODE, at::OPCODE)),
        }
    }
}

impl IoQueue {
    /// The operation of [`IoNext::Reserve`]; `None`: the state must be put in force everywhere, so
    /// that it can be reported.
    pub fn take_operation(&mut self) -> Option<ReservationRequest> {
        self.operation.take()
    }

    /// The operation of a command has been executed, or not.
    pub fn reserved(&mut self, tag: Tag, outcome: Result<(), ReservationRefusal>) -> IoNext {
        match self.slots.get(tag.index()) {
            Some(slot)
                if slot.stage == CommandStage::Device && matches!(slot.role, Role::Reserve(_)) =>
            {
                let failed = |refusal| DeviceOutcome {
                    status: status(refusal),
                    do_not_retry: refusal != ReservationRefusal::NotStored,
                };
                self.reply(tag, outcome.map_or_else(failed, |()| DeviceOutcome::DONE))
            }
            Some(slot) if slot.stage == CommandStage::Device && slot.role == Role::Report => {
                match outcome {
                    Ok(()) => self.take_report(tag),
                    Err(refusal) => self.reply(tag, DeviceOutcome::failed(status(refusal))),
                }
            }
            _ => IoNext::Hold,
        }
    }

    /// The keys of a command are there.
    pub(super) fn reserve(&mut self, tag: Tag, reserve: ReservationCommand, data: &[u8]) -> IoNext {
        match reserve.action(data) {
            Ok(action) => {
                self.operation = Some(ReservationRequest {
                    by: self.conflicts.host().clone(),
                    action,
                    persist: reserve.persist,
                });
                let slot = &mut self.slots[tag.index()];
                slot.stage = CommandStage::Device;
                IoNext::Reserve { namespace: slot.request.namespace }
            }
            Err(fault) => {
                self.reply(tag, DeviceOutcome { status: fault.status, do_not_retry: true })
            }
        }
    }

    pub(super) fn start_report(
        &mut self,
        tag: Tag,
        sqe: &Sqe,
        namespace: usize,
        bytes: u32,
    ) -> IoNext {
        let request = crate::nvme::controller::IoRequest {
            tag,
            namespace,
            kind: IoRequestKind::Read,
            bytes,
            ..IDLE.request
        };
        self.occupy(tag, sqe, CommandStage::Held, Role::Report, request);
        let reservations =
            self.namespaces.at(namespace).and_then(|namespace| namespace.reservations.as_ref());
        if reservations.is_some_and(|reservations| reservations.has_to_confirm()) {
            self.slots[tag.index()].stage = CommandStage::Device;
            return IoNext::Reserve { namespace };
        }
        self.take_report(tag)
    }

    fn take_report(&mut self, tag: Tag) -> IoNext {
        let slot = &mut self.slots[tag.index()];
        slot.stage = CommandStage::Held;
        IoNext::Report { bytes: slot.request.bytes }
    }

    /// Writes what [`IoNext::Report`] announced into `memory`, which has as many bytes.
    pub fn report(&mut self, tag: Tag, memory: &mut [u8]) -> IoNext {
        let Some(slot) = self
            .slots
            .get(tag.index())
            .filter(|slot| slot.role == Role::Report && slot.stage == CommandStage::Held)
        else {
            return IoNext::Hold;
        };
        let namespace = self.namespaces.at(slot.request.namespace);
        let Some(reservations) = namespace.and_then(|namespace| namespace.reservations.as_ref())
        else {
            return self.reply(tag, DeviceOutcome::failed(Status::INVALID_NAMESPACE));
        };
        // Another gateway may have changed the state while the command waited for memory.
        let Some(report) = reservations.look_settled(reservation_status) else {
            return self.reply(tag, DeviceOutcome::failed(Status::COMMAND_INTERRUPTED));
        };
        let bytes = report.len().min(memory.len());
        memory[..bytes].copy_from_slice(&report[..bytes]);
        memory[bytes..].fill(0);
        self.reply(tag, DeviceOutcome::DONE)
    }

    /// The reservation of the host on a namespace was preempted, and its commands aborted with it:
    /// none of them reaches a device from now on. Returns those that a device has already. `None`:
    /// the host no longer sees the namespace. Then, too, commands of before may still be in a
    /// device; they were revoked, as others may have been, so all that were count.
    pub fn preempt(&mut self, nsid: Option<Nsid>) -> Vec<Tag> {
        let mut in_device = Vec::new();
        let is_of = |of: Nsid| nsid.is_some_and(|nsid| [nsid, Nsid::ALL].contains(&of));
        let is_command = |role: Role| !matches!(role, Role::Reserve(_) | Role::Report);
        let slots = self.slots.iter_mut().zip(0..);
        let copies = &self.copies;
        let reads = |slot: &IoSlot, tag: u16| {
            let copy = copies.get(usize::from(tag)).and_then(Option::as_deref);
            slot.role == Role::Copy && copy.is_some_and(|copy| copy.reads(is_of))
        };
        let meant = slots.filter(|(slot, tag)| {
            let is_meant = is_of(slot.nsid) || slot.doom.is_some() || reads(slot, *tag);
            is_meant && is_command(slot.role)
        });
        for (slot, tag) in meant.filter(|(slot, _)| slot.stage != CommandStage::Idle) {
            slot.doom = slot.doom.or(Some(Status::PREEMPT_ABORT));
            if slot.stage == CommandStage::Device {
                in_device.push(Tag(tag));
            }
        }
        in_device
    }
}

fn status(refusal: ReservationRefusal) -> Status {
    match refusal {
        ReservationRefusal::Conflict | ReservationRefusal::Full => Status::RESERVATION_CONFLICT,
        ReservationRefusal::NotStored => Status::INTERNAL_ERROR,
        ReservationRefusal::WrongType
        | ReservationRefusal::ZeroKey
        | ReservationRefusal::CannotPersist
        | ReservationRefusal::NothingToMove
        | ReservationRefusal::MoveToHolder => Status::INVALID_FIELD,
    }
}

/// The status of an operation for the host that asked for it by a feature.
pub(in crate::nvme::controller) fn feature_status(
    outcome: Result<(), ReservationRefusal>,
) -> Status {
    outcome.map_or_else(status, |()| Status::SUCCESS)
}

/// The Reservation Status data structure in its extended form (Base 2.1 §7.7).
pub fn reservation_status(state: &ReservationState) -> Vec<u8> {
    let registrations = state.registrations();
    let header = ReservationStatus {
        generation: state.generation(),
        rtype: state.reservation().map_or(0, |reservation| reservation.kind.nvme()),
        regctl: registrations.len() as u16,
        ptpls: state.is_persistent().into(),
    };
    let mut out = header.encode();
    for known in registrations {
        let rcsts =
            if state.is_holder(&known.registrant) { RegisteredController::HOLDS } else { 0 };
        let hostid = host_id(&known.registrant);
        out.extend(
            RegisteredController { cntlid: Cntlid::DYNAMIC, rcsts, rkey: known.key, hostid }
                .encode(),
        );
    }
    out
}

/// The identifier under which hosts are shown a registrant. An I_T nexus of SCSI has none, so it
/// gets a hash of its names (FNV-1a).
fn host_id(of: &Registrant) -> Id128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    match of {
        Registrant::Host(id) => *id,
        Registrant::Nexus(nexus) => {
            let bytes =
                nexus.initiator.as_bytes().iter().copied().chain(nexus.target_port.to_be_bytes());
            Id128(
                bytes
                    .fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
                    .to_be_bytes(),
            )
        }
    }
}
