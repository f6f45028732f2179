//! Commands that report on the logical unit or the target: contents and maximum length of each
//! response.

use super::access::{AccessState, PortAccess, is_accessible};
use super::address::lun_of;
use super::attention::Attention;
use super::mode::ModeRequest;
use super::name::NexusName;
use super::nexus_units::NexusUnits;
use super::unit::{LogicalUnit, NexusId, UnitState};
use super::writer::Writer;
use super::{inquiry, reservation};
use crate::limits::{ANA_TRANSITION_S, SCSI_PORTS_MAX, SCSI_RESPONSE_BYTES_MAX, SCSI_UNITS_MAX};
use crate::scsi::cdb::table::Operation;
use crate::scsi::cdb::{Command, ReportingOptions};
use crate::scsi::opcode::OpCode;
use crate::scsi::sense::{SENSE_BYTES_MAX, Sense};
use crate::scsi::status::{AdditionalSense, SenseKey};

/// Bytes of any response that has no bound of its own below.
const COMMON_BYTES: usize = 4096;

const _: () =
    assert!(8 + 8 * SCSI_UNITS_MAX <= COMMON_BYTES && COMMON_BYTES <= SCSI_RESPONSE_BYTES_MAX);

// The ports that are known, and the initiator's own.
const _: () = assert!(HEAD_BYTES + GROUP_BYTES * (SCSI_PORTS_MAX + 1) <= COMMON_BYTES);

/// ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, TARGET RESET (SPC-4 §6.36).
const TASK_MANAGEMENT: u8 = 0xda;

/// Initiator and unit of a report.
pub(super) struct Report<'a> {
    /// Name of the target.
    pub target: &'a str,
    /// The logical units that the initiator sees.
    pub units: &'a NexusUnits,
    pub name: &'a NexusName,
    pub id: NexusId,
    /// `None` where there is no logical unit.
    pub unit: Option<&'a LogicalUnit>,
}

impl Report<'_> {
    /// Bytes that the response takes at most: no more than the initiator allocated.
    pub fn bytes_max(command: &Command) -> u32 {
        let (allocation, bound) = match *command {
            Command::ReadCapacity10 => (8, 8),
            Command::RequestSense { allocation, .. } => (allocation, SENSE_BYTES_MAX),
            Command::ReserveIn { action, allocation } => {
                (allocation, reservation::response_bytes(action))
            }
            Command::Inquiry { allocation, .. }
            | Command::ReportLuns { allocation, .. }
            | Command::ReadCapacity16 { allocation }
            | Command::ModeSense { allocation, .. }
            | Command::LogSense { allocation, .. }
            | Command::LbaStatus { allocation, .. }
            | Command::ReportTargetPortGroups { allocation, .. }
            | Command::ReportOpCodes { allocation, .. }
            | Command::ReportTaskManagement { allocation, .. } => (allocation, COMMON_BYTES),
            _ => (0, 0),
        };
        allocation.min(bound as u32)
    }

    /// Writes the response to the front of `memory`, as far as it fits and was allocated, and
    /// returns its bytes.
    pub fn write(&self, command: &Command, memory: &mut [u8]) -> Result<u32, Sense> {
        let room = memory.len().min(Self::bytes_max(command) as usize);
        let mut out = Writer::new(&mut memory[..room]);
        match *command {
            Command::Inquiry { page, .. } => inquiry::Inquiry {
                target: self.target,
                port: self.name.target_port,
                unit: self.unit,
            }
            .write(page, &mut out)?,
            Command::ReportLuns { select, .. } => self.luns(select, &mut out)?,
            Command::RequestSense { descriptor, .. } => self.sense(descriptor, &mut out),
            _ => self.write_of(self.unit.ok_or(NO_UNIT)?, command, &mut out)?,
        }
        Ok(out.written())
    }

    fn write_of(
        &self,
        unit: &LogicalUnit,
        command: &Command,
        out: &mut Writer,
    ) -> Result<(), Sense> {
        match *command {
            Command::ReadCapacity10 => {
                let geometry = unit.geometry();
                out.number(4, geometry.blocks.saturating_sub(1).min(u32::MAX.into()));
                out.number(4, geometry.block_bytes.into());
            }
            Command::ReadCapacity16 { .. } => capacity(unit, out),
            Command::ModeSense { .. } => {
                let request = ModeRequest::of(command).ok_or(NO_UNIT)?;
                request.check()?;
                let mode = unit.lock().mode;
                request.report(mode, &unit.geometry(), unit.features(), out);
            }
            Command::LogSense { page, subpage, parameter, .. } => {
                log_page(page, subpage, parameter, out)?
            }
            Command::LbaStatus { lba, .. } => lba_status(unit, lba, out)?,
            Command::ReserveIn { action, .. } => {
                let reported = unit
                    .reservations()
                    .map(|reservations| reservation::report(reservations, action, out));
                // It has changed while the command waited for memory; asked again it waits for the
                // others.
                reported
                    .flatten()
                    .ok_or(Sense::new(SenseKey::ABORTED_COMMAND, AdditionalSense::NONE))?;
            }
            Command::ReportTargetPortGroups { extended, .. } => {
                unit.lock().report_groups(self.name.target_port, extended, out);
            }
            Command::ReportOpCodes { options, timeouts, .. } => {
                opcodes(unit, options, timeouts, out)?
            }
            Command::ReportTaskManagement { extended, .. } => {
                out.bytes(&[TASK_MANAGEMENT, 0, 0, if extended { 12 } else { 0 }]);
                out.zeroes(if extended { 12 } else { 0 });
            }
            _ => {}
        }
        Ok(())
    }

    /// REPORT LUNS (SPC-4 §6.33). There are no well-known logical units. Who reads it knows what
    /// has changed.
    fn luns(&self, select: u8, out: &mut Writer) -> Result<(), Sense> {
        if select > 2 {
            return Err(Sense::cdb_byte(2));
        }
        out.zeroes(8);
        for (number, unit) in self.units.iter() {
            if select != 1 {
                out.number(8, lun_of(number));
            }
            if let Some(nexus) = unit.change().nexus(self.id) {
                nexus.attentions.remove(Attention::LunsChanged);
            }
        }
        out.set(0, 4, out.len() as u64 - 8);
        Ok(())
    }

    /// REQUEST SENSE (SPC-4 §6.39) takes a unit attention condition with it.
    fn sense(&self, descriptor: bool, out: &mut Writer) {
        let attention = || self.unit?.change().nexus(self.id)?.attentions.take();
        let sense = match self.unit {
            None => NO_UNIT,
            Some(_) => attention().map_or(Sense::default(), Attention::sense),
        };
        let mut bytes = [0; SENSE_BYTES_MAX];
        let length =
            if descriptor { sense.put_descriptor(&mut bytes) } else { sense.put_fixed(&mut bytes) };
        out.bytes(&bytes[..length]);
    }
}

/// The answer where there is no logical unit.
const NO_UNIT: Sense = Sense::illegal(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED);

/// READ CAPACITY(16) (SBC-3 §5.16).
fn capacity(unit: &LogicalUnit, out: &mut Writer) {
    let (geometry, features) = (unit.geometry(), unit.features());
    out.number(8, geometry.blocks.saturating_sub(1));
    out.number(4, geometry.block_bytes.into());
    // No protection information; a physical block is a logical one. LBPME, LBPRZ.
    let provisioning = u8::from(features.discard) << 7
        | u8::from(features.discard && features.discard_zeroes) << 6;
    out.bytes(&[0, 0, provisioning, 0]);
    out.zeroes(16);
}

/// GET LBA STATUS (SBC-3 §5.4): everything from the block on is mapped, because no source reports
/// its allocation.
fn lba_status(unit: &LogicalUnit, lba: u64, out: &mut Writer) -> Result<(), Sense> {
    let blocks = unit.geometry().blocks;
    let left = blocks.checked_sub(lba).filter(|&left| left > 0);
    let left =
        left.ok_or(Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE).with_information(lba))?;
    out.number(4, 4 + 16);
    out.zeroes(4);
    out.number(8, lba);
    out.number(4, left.min(u32::MAX.into()));
    // Mapped, or a status that is unknown.
    out.zeroes(4);
    Ok(())
}

/// The log pages that there are: which there are, and informational exceptions.
const LOG_PAGES: [u8; 2] = [0x00, INFORMATIONAL_EXCEPTIONS];

const INFORMATIONAL_EXCEPTIONS: u8 = 0x2f;

const ALL_SUBPAGES: u8 = 0xff;

/// LOG SENSE (SPC-4 §6.8, §7.3). The bit SPF is that of pages with a subpage.
fn log_page(page: u8, subpage: u8, parameter: u16, out: &mut Writer) -> Result<(), Sense> {
    match (page, subpage) {
        (0x00, 0x00 | ALL_SUBPAGES) | (INFORMATIONAL_EXCEPTIONS, 0x00) => {}
        (page, _) if !LOG_PAGES.contains(&page) => return Err(Sense::cdb_bit(2, 5)),
        _ => return Err(Sense::cdb_byte(3)),
    }
    if parameter > 0 {
        return Err(Sense::cdb_byte(5));
    }
    out.bytes(&[page | if subpage == 0 { 0 } else { 0x40 }, subpage, 0, 0]);
    match (page, subpage) {
        (0x00, 0x00) => out.bytes(&LOG_PAGES),
        (0x00, _) => [[0, 0], [0, ALL_SUBPAGES], [INFORMATIONAL_EXCEPTIONS, 0]]
            .iter()
            .for_each(|pair| out.bytes(pair)),
        // Parameter 0000h, in binary: no exception, and nobody knows how warm it is (SPC-4 §7.3.8).
        _ => out.bytes(&[0, 0, 0x03, 4, 0, 0, 0xff, 0]),
    }
    out.set(2, 2, out.len() as u64 - 4);
    Ok(())
}

/// REPORT SUPPORTED OPERATION CODES (SPC-4 §6.35).
fn opcodes(
    unit: &LogicalUnit,
    options: ReportingOptions,
    timeouts: bool,
    out: &mut Writer,
) -> Result<(), Sense> {
    let known =
        |opcode: u8| Operation::of(OpCode(opcode)).filter(|operation| unit.supports(operation));
    let has_actions = |opcode| known(opcode).any(|operation| operation.service_action.is_some());
    let with_action = |opcode, action| {
        known(opcode).find(|operation| operation.service_action.map(u16::from) == Some(action))
    };
    let operation = match options {
        ReportingOptions::All => {
            all_opcodes(unit, timeouts, out);
            return Ok(());
        }
        ReportingOptions::OpCode(opcode) if has_actions(opcode) => {
            return Err(Sense::cdb_bit(2, 2));
        }
        ReportingOptions::OpCode(opcode) => known(opcode).next(),
        ReportingOptions::ServiceAction(opcode, _)
            if known(opcode).next().is_some() && !has_actions(opcode) =>
        {
            return Err(Sense::cdb_bit(2, 2));
        }
        ReportingOptions::ServiceAction(opcode, action) => with_action(opcode, action),
        ReportingOptions::Either(opcode, action) if has_actions(opcode) => {
            with_action(opcode, action)
        }
        ReportingOptions::Either(opcode, 0) => known(opcode).next(),
        ReportingOptions::Either(..) => None,
    };
    one_opcode(operation, timeouts, out);
    Ok(())
}

fn all_opcodes(unit: &LogicalUnit, timeouts: bool, out: &mut Writer) {
    out.zeroes(4);
    for operation in Operation::all().iter().filter(|operation| unit.supports(operation)) {
        let flags = u8::from(timeouts) << 1 | u8::from(operation.service_action.is_some());
        out.bytes(&[
            operation.opcode.0,
            0,
            0,
            operation.service_action.unwrap_or(0),
            0,
            flags,
            0,
            operation.bytes,
        ]);
        put_timeouts(timeouts, out);
    }
    out.set(0, 4, out.len() as u64 - 4);
}

fn one_opcode(operation: Option<&Operation>, timeouts: bool, out: &mut Writer) {
    let Some(operation) = operation else { return out.bytes(&[0, 0x01, 0, 0]) };
    // 3: as the standard wants it.
    out.bytes(&[0, u8::from(timeouts) << 7 | 0x03, 0, operation.bytes]);
    out.bytes(&operation.usage[..usize::from(operation.bytes)]);
    put_timeouts(timeouts, out);
}

/// A command timeouts descriptor without anything to say.
fn put_timeouts(wanted: bool, out: &mut Writer) {
    if wanted {
        out.bytes(&[0, 10]);
        out.zeroes(10);
    }
}

// The target port groups of a logical unit, as initiators see them (SPC-5 §6.36).

/// T_SUP, O_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP: all states may be met.
const SUPPORTED: u8 = 0xcf;

/// STATUS CODE: the state changes by itself.
const IMPLICIT: u8 = 0x02;

/// RTPG_FMT of the extended header.
const EXTENDED: u8 = 0x10;

/// Bytes of the head of the response to REPORT TARGET PORT GROUPS, and of a group of one port.
const HEAD_BYTES: usize = 8;

const GROUP_BYTES: usize = 12;

impl UnitState {
    /// The state that was set for a port.
    pub(super) fn state_at(&self, port: u16) -> AccessState {
        self.ports
            .iter()
            .find(|known| known.port == port)
            .map_or(AccessState::OPTIMIZED, |known| known.state)
    }

    /// Returns whether initiators must get notice of a changed state of a port.
    pub(super) fn differs(&self, ports: &[PortAccess], is_reached: bool) -> bool {
        let moved = |now: &PortAccess| {
            self.ports.iter().any(|was| was.port == now.port && was.state != now.state)
        };
        self.is_reached != is_reached || ports.iter().any(moved)
    }

    /// Returns the ports that are reported to an initiator that came by `own`.
    fn reported_ports(&self, own: u16) -> impl Iterator<Item = (u16, AccessState)> {
        let is_known = self.ports.iter().any(|known| known.port == own);
        let unknown = (!is_known).then_some((own, AccessState::OPTIMIZED));
        let known = self.ports.iter().filter(move |known| known.is_open || known.port == own);
        unknown.into_iter().chain(known.map(|known| (known.port, known.state)))
    }

    /// Returns the number of ports that are reported to an initiator that came by `own`.
    pub(super) fn reported_ports_count(&self, own: u16) -> usize {
        self.reported_ports(own).count()
    }

    /// The response to REPORT TARGET PORT GROUPS (SPC-5 §6.36) for an initiator that came by `own`.
    fn report_groups(&self, own: u16, extended: bool, out: &mut Writer) {
        out.zeroes(4);
        if extended {
            out.bytes(&[EXTENDED, ANA_TRANSITION_S, 0, 0]);
        }
        for (port, state) in self.reported_ports(own) {
            let state = if !self.is_reached && is_accessible(state) {
                AccessState::UNAVAILABLE
            } else {
                state
            };
            out.bytes(&[state.0, SUPPORTED]);
            out.number(2, port.into());
            // One port.
            out.bytes(&[0, IMPLICIT, 0, 1, 0, 0]);
            out.number(2, port.into());
        }
        out.set(0, 4, out.len() as u64 - 4);
    }
}
