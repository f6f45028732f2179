//! The session of one initiator with a target: converts a CDB to requests, and their outcomes to a
//! reply.

use super::access;
use super::address::unit_number;
use super::attention::Attention;
use super::blocks::Blocks;
use super::mode;
use super::name::NexusName;
use super::nexus_units::NexusUnits;
use super::report::Report;
use super::reservation::{Out, Refusal, effect, is_exempt};
use super::table::UnitTable;
use super::task::{DeviceOutcome, Reply, Step, Task, TaskStage};
use super::unit::NexusId;
use crate::reservation;
use crate::scsi::cdb::table::Operation;
use crate::scsi::cdb::{CDB_BYTES, Command};
use crate::scsi::opcode::{OpCode, ReservationType};
use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};
use std::sync::Arc;

/// The number of no logical unit.
const NOWHERE: u16 = u16::MAX;

/// An I_T nexus. It is lost when it is dropped.
#[derive(Debug)]
pub struct Nexus {
    target: Arc<str>,
    pub(super) id: NexusId,
    pub(super) name: NexusName,
    pub(super) units: NexusUnits,
    /// First notice of a logical unit.
    first: Attention,
    pub(super) wakes: Vec<NexusId>,
    pub(super) operation: Option<reservation::ReservationRequest>,
}

impl Nexus {
    pub(super) fn new(
        target: Arc<str>,
        id: NexusId,
        name: NexusName,
        first: Attention,
        units: &UnitTable,
    ) -> Self {
        let mut nexus = Self {
            target,
            id,
            name,
            units: NexusUnits::default(),
            first,
            wakes: Vec::new(),
            operation: None,
        };
        nexus.units.replace(units, nexus.id, &nexus.name, first);
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
        let Some(number) = unit_number(lun) else {
            return self.start_nowhere(task, cdb);
        };
        let Some(seen) = self.units.at_mut(number) else {
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
        if task.stage != TaskStage::Fetching {
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
        task.stage = TaskStage::Idle;
        let unit = self.units.of(task).ok().map(|seen| &*seen.unit);
        let report = Report {
            target: &self.target,
            units: &self.units,
            name: &self.name,
            id: self.id,
            unit,
        };
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
            DeviceOutcome::Failed(..) if let Err(refusal) = self.units.of(task).map(drop) => {
                Err(refusal)
            }
            DeviceOutcome::Failed(status, sense) => {
                return Step::Reply(Reply { status, sense, transfer_bytes: 0, ..self.end(task) });
            }
        };
        self.conclude(task, step)
    }

    /// Returns whether there is a logical unit of this number for it.
    pub fn sees(&self, number: usize) -> bool {
        self.units.at(number).is_some()
    }

    /// Replaces the logical units and notifies the initiator: about added or removed numbers
    /// through all units that stay, and about another unit under the same number through that unit.
    /// Commands in progress for a removed unit fail when its device returns them; see
    /// [`Self::revoked`] for those that no device has. Returns whether the set of numbers changed.
    #[cold]
    pub fn set_units(&mut self, units: &UnitTable) -> bool {
        let before: Vec<usize> = self.units.iter().map(|(number, _)| number).collect();
        let lists_differ = self.units.replace(units, self.id, &self.name, self.first);
        if lists_differ {
            let stay = self.units.iter().filter(|(number, _)| before.contains(number));
            stay.for_each(|(_, unit)| unit.tell(self.id, Attention::LunsChanged));
        }
        lists_differ
    }

    /// Returns the first block and the number of blocks of a plain WRITE that has asked for its
    /// data and whose blocks are there: whoever takes memory for the data may choose it by that.
    #[inline]
    pub fn plain_write(&self, task: &Task) -> Option<(u64, u32)> {
        task.destination().filter(|&(lba, blocks)| !self.revoked(task, lba, blocks))
    }

    /// Returns where data that arrives may be stored at once, if the command is a
    /// [plain WRITE](Self::plain_write) that no reservation forbids by now. Follow with
    /// [`Self::finished`] instead of [`Self::data`].
    #[inline]
    pub fn destination(&self, task: &Task) -> Option<(u64, u32)> {
        self.plain_write(task).filter(|_| !self.is_kept_out(task))
    }

    /// Returns whether blocks for which a command has asked no device yet must no longer be
    /// requested, because its logical unit is gone, replaced or too small by now. End the command
    /// by [`Self::finished`] with a failure.
    pub fn revoked(&self, task: &Task, lba: u64, count: u32) -> bool {
        let is_inside =
            |blocks: u64| lba.checked_add(count.into()).is_some_and(|end| end <= blocks);
        !self.units.of(task).is_ok_and(|seen| is_inside(seen.unit.geometry().blocks))
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
        let seen = self.units.at_mut(number)?;
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
                task.stage = TaskStage::Reserving;
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
                task.stage = TaskStage::Fetching;
                Ok(Step::Fetch { bytes })
            }
        }
    }

    pub(super) fn ask_for_memory(&mut self, task: &mut Task) -> Step {
        task.stage = TaskStage::Responding;
        match Report::bytes_max(&task.command) {
            0 => Step::Reply(self.respond(task, &mut [])),
            bytes => Step::Respond { bytes },
        }
    }

    fn mode_select(&mut self, task: &Task, ten: bool, list: &[u8]) -> Result<Step, Refusal> {
        let list = &list[..list.len().min(task.transfer_bytes as usize)];
        let unit = &self.units.of(task)?.unit;
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

    #[inline]
    fn blocks(&self, task: &Task) -> Result<Blocks<'_>, Refusal> {
        self.units.of(task).map(|seen| Blocks { unit: &seen.unit, view: &seen.view })
    }

    #[inline]
    pub(super) fn conclude(&self, task: &mut Task, step: Result<Step, Refusal>) -> Step {
        match step {
            Ok(Step::Reply(reply)) => {
                task.stage = TaskStage::Idle;
                let descriptor_sense = self.end(task).descriptor_sense;
                Step::Reply(Reply { descriptor_sense, ..reply })
            }
            Ok(step) => step,
            Err(refusal) => Step::Reply(self.refuse(task, refusal)),
        }
    }

    #[cold]
    fn refuse(&self, task: &mut Task, refusal: Refusal) -> Reply {
        task.stage = TaskStage::Idle;
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
        let descriptor_sense =
            self.units.of(task).is_ok_and(|seen| seen.view.mode.descriptor_sense);
        Reply { descriptor_sense, ..Reply::good(task.transfer_bytes) }
    }
}

impl Drop for Nexus {
    /// I_T nexus loss: what belongs to the nexus alone ends, registrations stay.
    fn drop(&mut self) {
        self.units.detach(self.id);
    }
}

fn has_operation(cdb: &[u8; CDB_BYTES], blocks: &Blocks) -> bool {
    Operation::find(cdb).is_ok_and(|operation| blocks.unit.supports(operation))
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
