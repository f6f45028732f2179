//! The session of one initiator with a target: converts a CDB to requests, and their outcomes to a
//! reply.

use super::access;
use super::attention::Attention;
use super::blocks::Blocks;
use super::mode::{self, ModeRequest};
use super::name::NexusName;
use super::report::Report;
use super::reservation::{Out, Refusal, effect, is_exempt};
use super::table::UnitTable;
use super::target::{Target, unit_number};
use super::task::{DeviceOutcome, Reply, Stage, Step, Task};
use super::unit::{LogicalUnit, NexusId, View};
use crate::reservation;
use crate::scsi::cdb::table::{Operation, SupportedBy};
use crate::scsi::cdb::{CDB_BYTES, Command};
use crate::scsi::opcode::{OpCode, ReservationType};
use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};
use std::sync::Arc;

/// A logical unit, and what this nexus has seen of it.
#[derive(Debug)]
pub(super) struct Seen {
    pub unit: Arc<LogicalUnit>,
    pub view: View,
    /// No other logical unit that this nexus has seen has it: a command for one before under the
    /// same number is known by it.
    stamp: u32,
}

/// The number of no logical unit.
const NOWHERE: u16 = u16::MAX;

/// An I_T nexus. It is lost when it is dropped.
#[derive(Debug)]
pub struct Nexus {
    target: Arc<Target>,
    id: NexusId,
    pub(super) name: NexusName,
    units: Vec<Option<Seen>>,
    last_stamp: u32,
    /// What a logical unit says first.
    first: Attention,
    wakes: Vec<NexusId>,
    pub(super) operation: Option<reservation::Operation>,
}

impl Nexus {
    pub(super) fn new(
        target: Arc<Target>,
        id: NexusId,
        name: NexusName,
        first: Attention,
        units: &UnitTable,
    ) -> Self {
        let mut nexus = Self {
            target,
            id,
            name,
            units: Vec::new(),
            last_stamp: 0,
            first,
            wakes: Vec::new(),
            operation: None,
        };
        nexus.take_units(units);
        nexus
    }

    /// Its name as long as it is attached.
    pub fn id(&self) -> NexusId {
        self.id
    }

    /// The ports that it joins.
    pub fn name(&self) -> &NexusName {
        &self.name
    }

    /// A command has arrived, for the logical unit `lun` (as in SAM-5 §4.7). The initiator is going
    /// to send `data_out_bytes` bytes with it. `task` is free.
    #[inline]
    pub fn start(
        &mut self,
        task: &mut Task,
        lun: u64,
        cdb: &[u8; CDB_BYTES],
        data_out_bytes: u32,
    ) -> Step {
        let Some(number) =
            unit_number(lun).filter(|&number| matches!(self.units.get(number), Some(Some(_))))
        else {
            return self.start_nowhere(task, cdb);
        };
        let Some(Some(seen)) = self.units.get_mut(number) else {
            return self.start_nowhere(task, cdb);
        };
        *task = Task { unit: number as u16, stamp: seen.stamp, ..Task::new() };
        if seen.view.generation != seen.unit.generation() {
            seen.view = seen.unit.view(self.id);
        }
        if seen.view.has_attention
            && let Some(reply) = self.tell(number, cdb)
        {
            return Step::Reply(reply);
        }
        let step = match Command::decode(cdb) {
            Ok(command) => self.start_command(task, cdb, command, data_out_bytes),
            Err(sense) => Err(Refusal::Check(sense)),
        };
        self.conclude(task, step)
    }

    /// The data that [`Step::Fetch`] asked for is in the command's memory, which `data` shows, in
    /// one piece at least as far as a parameter list or a block goes. For a WRITE and a VERIFY
    /// `data` may be empty.
    #[inline]
    pub fn data(&mut self, task: &mut Task, data: &[u8]) -> Step {
        if task.stage != Stage::Fetching {
            return Step::Reply(
                self.check(task, Sense::illegal(AdditionalSense::INTERNAL_TARGET_FAILURE)),
            );
        }
        let step = match task.command {
            Command::ModeSelect { ten, .. } => self.mode_select(task, ten, data),
            Command::ReserveOut { .. } => self.reserve_out(task, data),
            _ if self.is_kept_out(task) => Err(Refusal::Conflict),
            _ => {
                self.blocks(task).and_then(|blocks| blocks.data(task, data).map_err(Refusal::Check))
            }
        };
        self.conclude(task, step)
    }

    /// The memory that [`Step::Respond`] asked for is there. The response is at its front.
    pub fn respond(&mut self, task: &mut Task, memory: &mut [u8]) -> Reply {
        task.stage = Stage::Idle;
        let unit = self.seen(task).ok().map(|seen| &*seen.unit);
        let report = Report { nexus: self, name: &self.name, id: self.id, unit };
        match report.write(&task.command, memory) {
            Ok(bytes) => {
                task.transfer_bytes = bytes;
                Reply { data_in_bytes: bytes, ..self.good(task) }
            }
            Err(sense) => self.check(task, sense),
        }
    }

    /// The device is done with the request of a command. `data` shows the command's memory again,
    /// as for [`Self::data`].
    #[inline]
    pub fn finished(&mut self, task: &mut Task, outcome: DeviceOutcome, data: &[u8]) -> Step {
        let step = match outcome {
            DeviceOutcome::Done => self
                .blocks(task)
                .and_then(|blocks| blocks.finished(task, data).map_err(Refusal::Check)),
            // Its device may have failed because the logical unit is gone, which is the better
            // reason.
            DeviceOutcome::Failed(..) if let Err(refusal) = self.seen(task).map(drop) => {
                Err(refusal)
            }
            DeviceOutcome::Failed(status, sense) => {
                return Step::Reply(Reply { status, sense, transfer_bytes: 0, ..self.end(task) });
            }
        };
        self.conclude(task, step)
    }

    /// A logical unit of this nexus that lost its commands to another initiator, or to a reset, as
    /// its number: they are to be aborted without a reply. Asked for when the nexus is woken.
    pub fn take_abort(&mut self) -> Option<usize> {
        let id = self.id;
        self.units
            .iter()
            .position(|seen| seen.as_ref().is_some_and(|seen| seen.unit.take_abort(id)))
    }

    /// Another nexus whose commands on some logical unit were aborted by what this one did. Asked
    /// for behind each call until there is none.
    #[inline]
    pub fn take_wake(&mut self) -> Option<NexusId> {
        self.wakes.pop()
    }

    /// LOGICAL UNIT RESET (SAM-5 §7.7), without this nexus's own commands, which the caller aborts.
    /// Says whether there is such a unit.
    pub fn reset_unit(&mut self, lun: u64) -> bool {
        self.disturb(lun, |state, id| {
            state.reset();
            state.abort_where(|nexus| nexus.id != id)
        })
    }

    /// CLEAR TASK SET (SAM-5 §7.5), without this nexus's own commands, which the caller aborts.
    /// Says whether there is such a unit.
    pub fn clear_task_set(&mut self, lun: u64) -> bool {
        self.disturb(lun, |state, id| {
            state.tell_others(Some(id), Attention::CommandsCleared);
            state.abort_where(|nexus| nexus.id != id)
        })
    }

    /// A reset of all logical units, as by TARGET WARM RESET (RFC 7143 §11.5.1), without this
    /// nexus's own commands.
    pub fn reset_target(&mut self) {
        for number in 0..self.units.len() {
            self.reset_unit(super::lun_of(number));
        }
    }

    fn disturb(
        &mut self,
        lun: u64,
        how: impl FnOnce(&mut super::unit::UnitState, NexusId) -> Vec<NexusId>,
    ) -> bool {
        let seen = unit_number(lun).and_then(|number| self.units.get(number)?.as_ref());
        let Some(seen) = seen else { return false };
        let aborted = how(&mut seen.unit.change(), self.id);
        self.wakes.extend(aborted);
        true
    }

    /// Whether there is a logical unit of this number for it.
    pub fn sees(&self, number: usize) -> bool {
        matches!(self.units.get(number), Some(Some(_)))
    }

    /// Name of the target.
    pub(super) fn target_name(&self) -> &str {
        self.target.name()
    }

    /// The logical units that it sees, with their numbers.
    pub(super) fn units(&self) -> impl Iterator<Item = (usize, &LogicalUnit)> {
        self.units
            .iter()
            .enumerate()
            .filter_map(|(number, seen)| Some((number, &*seen.as_ref()?.unit)))
    }

    /// Replaces the logical units and notifies the initiator: about added or removed numbers
    /// through all units that stay, and about another unit under the same number through that unit.
    /// Commands in progress for a removed unit fail when its device returns them; see
    /// [`Self::revoked`] for those that no device has. Returns whether the set of numbers changed.
    #[cold]
    pub fn set_units(&mut self, units: &UnitTable) -> bool {
        let before: Vec<usize> = self.units().map(|(number, _)| number).collect();
        let lists_differ = self.take_units(units);
        if lists_differ {
            let stay = self.units().filter(|(number, _)| before.contains(number));
            stay.for_each(|(_, unit)| unit.tell(self.id, Attention::LunsChanged));
        }
        lists_differ
    }

    /// Makes itself known to logical units that are new, and forgets those that are gone. Tells
    /// whether other numbers are in use now.
    fn take_units(&mut self, units: &UnitTable) -> bool {
        let mut lists_differ = false;
        self.units.resize_with(self.units.len().max(units.len()), || None);
        for number in 0..self.units.len() {
            let (seen, unit) = (&mut self.units[number], units.at(number));
            if seen.as_ref().map(|seen| Arc::as_ptr(&seen.unit)) == unit.map(Arc::as_ptr) {
                continue;
            }
            lists_differ |= seen.is_some() != unit.is_some();
            let gone = seen.take();
            if let Some(gone) = &gone {
                gone.unit.detach(self.id);
            }
            if let Some(unit) = unit {
                let first = if gone.is_some() { Attention::InquiryChanged } else { self.first };
                unit.attach(self.id, self.name.clone(), first);
                if gone.is_some_and(|gone| gone.unit.geometry().blocks != unit.geometry().blocks) {
                    unit.tell(self.id, Attention::CapacityChanged);
                }
                self.last_stamp = self.last_stamp.wrapping_add(1);
                self.units[number] = Some(Seen {
                    view: unit.view(self.id),
                    unit: Arc::clone(unit),
                    stamp: self.last_stamp,
                });
            }
        }
        lists_differ
    }

    /// Whether blocks for which a command has asked no device yet must not be asked for any more,
    /// as its logical unit is gone, another one or too small by now; the command is to be ended by
    /// [`Self::finished`] with a failure.
    pub fn revoked(&self, task: &Task, lba: u64, count: u32) -> bool {
        let is_inside =
            |blocks: u64| lba.checked_add(count.into()).is_some_and(|end| end <= blocks);
        !self.seen(task).is_ok_and(|seen| is_inside(seen.unit.geometry().blocks))
    }

    /// A command to a logical unit that is not there (SPC-4 §6.6.1, SAM-5 §5.11): some are answered
    /// nevertheless.
    #[cold]
    fn start_nowhere(&mut self, task: &mut Task, cdb: &[u8; CDB_BYTES]) -> Step {
        *task = Task { unit: NOWHERE, ..Task::new() };
        let step = match Command::decode(cdb) {
            Ok(
                command @ (Command::Inquiry { .. }
                | Command::ReportLuns { .. }
                | Command::RequestSense { .. }),
            ) => {
                task.command = command;
                Ok(self.ask_for_memory(task))
            }
            Ok(_) => {
                Err(Refusal::Check(Sense::illegal(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED)))
            }
            Err(sense) => Err(Refusal::Check(sense)),
        };
        self.conclude(task, step)
    }

    /// A unit attention condition ends any command but those that look for such things (SAM-5
    /// §5.14).
    #[cold]
    fn tell(&mut self, number: usize, cdb: &[u8; CDB_BYTES]) -> Option<Reply> {
        if matches!(OpCode(cdb[0]), OpCode::INQUIRY | OpCode::REPORT_LUNS | OpCode::REQUEST_SENSE) {
            return None;
        }
        let seen = self.units.get_mut(number)?.as_mut()?;
        let attention = seen.unit.lock().nexus(self.id)?.attentions.take();
        seen.view = seen.unit.view(self.id);
        let task = Task { unit: number as u16, stamp: seen.stamp, ..Task::new() };
        Some(self.check(&task, attention?.sense()))
    }

    #[inline]
    fn start_command(
        &mut self,
        task: &mut Task,
        cdb: &[u8; CDB_BYTES],
        command: Command,
        data_out: u32,
    ) -> Result<Step, Refusal> {
        task.command = command;
        let blocks = self.blocks(task)?;
        match command {
            Command::Read { .. } if blocks.view.access.read && blocks.view.is_free => {
                Ok(blocks.read(task, cdb)?)
            }
            Command::Write { .. } if blocks.view.access.write && blocks.view.is_free => {
                Ok(blocks.write(task, cdb, data_out)?)
            }
            _ => self.start_rare(task, cdb, data_out),
        }
    }

    fn start_rare(
        &mut self,
        task: &mut Task,
        cdb: &[u8; CDB_BYTES],
        data_out: u32,
    ) -> Result<Step, Refusal> {
        let blocks = self.blocks(task)?;
        if !has_operation(cdb, &blocks) {
            return Err(Sense::illegal(AdditionalSense::INVALID_COMMAND_OPERATION_CODE).into());
        }
        let view = blocks.view;
        if let Some(sense) = access::refusal(view.state, &task.command) {
            return Err(sense.into());
        }
        let is_forbidden = effect(&task.command).is_some_and(|effect| !view.access.allows(effect));
        if is_forbidden || view.is_reserved && !is_exempt(&task.command) {
            return Err(Refusal::Conflict);
        }
        match task.command {
            Command::TestUnitReady if !blocks.unit.is_reached() => {
                Err(Sense::new(SenseKey::NOT_READY, AdditionalSense::ACCESS_STATE_UNAVAILABLE)
                    .into())
            }
            Command::TestUnitReady | Command::PreventAllow { .. } => {
                Ok(Step::Reply(self.good(task)))
            }
            Command::StartStopUnit { power_condition, load_eject, start, .. } => {
                start_stop(power_condition, load_eject, start)?;
                Ok(Step::Reply(self.good(task)))
            }
            Command::Reserve => self.reserve(task),
            Command::Release => self.release(task),
            Command::ModeSelect { parameters, .. } => {
                mode::check_select(parameters)?;
                self.fetch(task, parameters, data_out)
            }
            Command::ReserveOut { action, scope, kind, parameters } => {
                Out { action, scope, kind: ReservationType(kind) }.check(parameters)?;
                self.fetch(task, parameters, data_out)
            }
            Command::ReserveIn { .. }
                if blocks
                    .unit
                    .reservations()
                    .is_some_and(|reservations| reservations.has_to_confirm()) =>
            {
                task.stage = Stage::Reserving;
                Ok(Step::Reserve)
            }
            _ => match blocks.start(task, cdb, data_out) {
                Some(step) => Ok(step?),
                None => Ok(self.ask_for_memory(task)),
            },
        }
    }

    /// Asks for a parameter list, all of it.
    fn fetch(&self, task: &mut Task, parameters: u32, data_out: u32) -> Result<Step, Refusal> {
        task.transfer_bytes = parameters;
        match parameters {
            0 => Ok(Step::Reply(self.good(task))),
            _ if data_out < parameters => {
                Err(Sense::illegal(AdditionalSense::INVALID_FIELD_IN_COMMAND_UNIT).into())
            }
            bytes => {
                task.stage = Stage::Fetching;
                Ok(Step::Fetch { bytes })
            }
        }
    }

    pub(super) fn ask_for_memory(&mut self, task: &mut Task) -> Step {
        task.stage = Stage::Responding;
        match Report::bytes_max(&task.command) {
            0 => Step::Reply(self.respond(task, &mut [])),
            bytes => Step::Respond { bytes },
        }
    }

    fn mode_select(&mut self, task: &Task, ten: bool, list: &[u8]) -> Result<Step, Refusal> {
        let list = &list[..list.len().min(task.transfer_bytes as usize)];
        let unit = &self.seen(task)?.unit;
        let geometry = unit.geometry();
        let mut state = unit.change();
        let mode = mode::select(list, ten, state.mode, &geometry, unit.features())?;
        if mode != state.mode {
            state.mode = mode;
            state.tell_others(Some(self.id), Attention::ModeChanged);
        }
        drop(state);
        Ok(Step::Reply(self.good(task)))
    }

    pub(super) fn seen(&self, task: &Task) -> Result<&Seen, Refusal> {
        let seen = self
            .units
            .get(task.unit())
            .and_then(Option::as_ref)
            .filter(|seen| seen.stamp == task.stamp);
        seen.ok_or(Refusal::Check(Sense::illegal(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED)))
    }

    #[inline]
    fn blocks(&self, task: &Task) -> Result<Blocks<'_>, Refusal> {
        self.seen(task).map(|seen| Blocks { unit: &seen.unit, view: &seen.view })
    }

    #[inline]
    pub(super) fn conclude(&self, task: &mut Task, step: Result<Step, Refusal>) -> Step {
        match step {
            Ok(Step::Reply(reply)) => {
                task.stage = Stage::Idle;
                let descriptor_sense = self.end(task).descriptor_sense;
                Step::Reply(Reply { descriptor_sense, ..reply })
            }
            Ok(step) => step,
            Err(refusal) => Step::Reply(self.refuse(task, refusal)),
        }
    }

    #[cold]
    fn refuse(&self, task: &mut Task, refusal: Refusal) -> Reply {
        task.stage = Stage::Idle;
        match refusal {
            Refusal::Conflict => Reply {
                status: ScsiStatus::RESERVATION_CONFLICT,
                transfer_bytes: 0,
                ..self.end(task)
            },
            Refusal::Check(sense) => self.check(task, sense),
        }
    }

    /// CHECK CONDITION. Nothing was moved, unless the command was refused for what the initiator
    /// sends.
    fn check(&self, task: &Task, sense: Sense) -> Reply {
        let is_length = sense.code == AdditionalSense::INVALID_FIELD_IN_COMMAND_UNIT;
        let transfer_bytes = if is_length { task.transfer_bytes } else { 0 };
        Reply {
            status: ScsiStatus::CHECK_CONDITION,
            sense: Some(sense),
            transfer_bytes,
            ..self.end(task)
        }
    }

    #[inline]
    pub(super) fn good(&self, task: &Task) -> Reply {
        self.end(task)
    }

    /// GOOD, without data.
    #[inline]
    fn end(&self, task: &Task) -> Reply {
        let descriptor_sense = self.seen(task).is_ok_and(|seen| seen.view.mode.descriptor_sense);
        Reply { descriptor_sense, ..Reply::good(task.transfer_bytes) }
    }
}

impl Drop for Nexus {
    /// I_T nexus loss: what belongs to the nexus alone ends, registrations stay.
    fn drop(&mut self) {
        for seen in self.units.iter().flatten() {
            seen.unit.detach(self.id);
        }
    }
}

/// Whether the logical unit has what an operation needs.
pub(super) fn is_supported(operation: &Operation, unit: &LogicalUnit) -> bool {
    match operation.needs {
        SupportedBy::Every => true,
        SupportedBy::Discard => unit.features().discard,
        SupportedBy::Compare => unit.features().compare,
        SupportedBy::Reservations => unit.reservations().is_some(),
        // RESERVE(6) is a matter of one logical unit, and those of other gateways would not know.
        SupportedBy::OwnReservations => {
            unit.reservations().is_some_and(|reservations| !reservations.is_of_group())
        }
    }
}

fn has_operation(cdb: &[u8; CDB_BYTES], blocks: &Blocks) -> bool {
    Operation::find(cdb).is_ok_and(|operation| is_supported(operation, blocks.unit))
}

/// START STOP UNIT (SBC-3 §5.25): the unit is started always. Others use it too, so it cannot be
/// stopped, put to sleep or ejected.
fn start_stop(power_condition: u8, load_eject: bool, start: bool) -> Result<(), Sense> {
    match (power_condition, load_eject, start) {
        (0, false, true) => Ok(()),
        (0, true, _) => Err(Sense::cdb_bit(4, 1)),
        (0, ..) => Err(Sense::cdb_bit(4, 0)),
        _ => Err(Sense::cdb_bit(4, 7)),
    }
}

/// What MODE SENSE of a CDB wants.
pub(super) fn mode_request(command: &Command) -> Option<ModeRequest> {
    match *command {
        Command::ModeSense { ten, no_descriptors, long_lba, control, page, subpage, .. } => {
            Some(ModeRequest { ten, no_descriptors, long_lba, control, page, subpage })
        }
        _ => None,
    }
}
