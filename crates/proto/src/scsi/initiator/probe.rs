//! The queries to a disk before its use, as a value: it returns the next command and takes the
//! response.

use super::data::{IDENTIFICATION, PortState, SERIAL_NUMBER, ScsiDisk, page, text};
use super::reservation::can_reserve;
use super::verdict::{AttentionChange, CommandVerdict};
use crate::scsi::cdb::{Cdb, Command, Extent, PageControl, ReportingOptions};
use crate::scsi::opcode::{OpCode, ReserveIn};
use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};

/// Tries of one command while unit attentions come, at most.
const TRIES_MAX: u32 = 20;

/// Bytes that a question expects at most: enough for all the pages that are asked for.
const ANSWER_BYTES: u32 = 512;

const SUPPORTED_PAGES: u8 = 0x00;
const BLOCK_LIMITS: u8 = 0xb0;
const PROVISIONING: u8 = 0xb2;
const CACHING: u8 = 0x08;

/// A command to send; it moves no data to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeCommand {
    /// The command.
    pub cdb: Cdb,
    /// Bytes of data that the answer has at most.
    pub data_in_bytes: u32,
    /// It must be sent after a pause, because the disk was not ready for it.
    pub later: bool,
}

/// Why a disk cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// There is something else, or nothing.
    #[error("there is no disk at this LUN (peripheral {0:#04x})")]
    NoDisk(u8),
    /// It tells a size that no disk has.
    #[error("the disk reports {blocks} blocks of {block_bytes} bytes, which is not a usable size")]
    Size {
        /// Blocks.
        blocks: u64,
        /// Bytes of a block.
        block_bytes: u32,
    },
    /// It refuses a command that every disk has.
    #[error("the disk refuses {opcode}: {status}{}", sense.map(|sense| format!(", {sense}")).unwrap_or_default())]
    Refused {
        /// The command.
        opcode: OpCode,
        /// Status.
        status: ScsiStatus,
        /// Sense data, if there was any.
        sense: Option<Sense>,
    },
    /// It does not become ready.
    #[error("the disk does not become ready: {0} failed {TRIES_MAX} times")]
    NotReady(OpCode),
}

/// Questions, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeStep {
    Inquiry,
    Ready,
    Pages,
    Page(u8),
    Capacity16,
    Capacity10,
    Caching,
    WriteSame,
    CompareAndWrite,
    Verify,
    /// Of no blocks: some targets list it and do not know it.
    TryCompareAndWrite,
    Reservations,
    /// Some targets tell capabilities and have no full status.
    FullStatus,
    PortGroups,
    End,
}

/// Asks a disk what it is.
#[derive(Debug)]
pub struct Probe {
    stage: ProbeStep,
    /// Only whether the disk is ready is asked.
    greets: bool,
    /// Interesting pages that exist.
    pages: [bool; 4],
    tries: u32,
    later: bool,
    compares: bool,
    disk: ScsiDisk,
}

/// Pages of interest, in the order in which they are asked for.
const PAGES: [u8; 4] = [SERIAL_NUMBER, IDENTIFICATION, BLOCK_LIMITS, PROVISIONING];

impl Default for Probe {
    fn default() -> Self {
        Self::new()
    }
}

impl Probe {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self {
            stage: ProbeStep::Inquiry,
            greets: false,
            pages: [false; 4],
            tries: 0,
            later: false,
            compares: false,
            disk: ScsiDisk::default(),
        }
    }

    /// Asks only whether the disk is ready; another nexus knows everything else. It takes the unit
    /// attentions that each new nexus gets, so that later ones report real events.
    pub fn greeting() -> Self {
        Self { stage: ProbeStep::Ready, greets: true, ..Self::new() }
    }

    /// The next command; `None` when all has been asked and [`Self::disk`] is complete.
    pub fn question(&self) -> Option<ProbeCommand> {
        let inquiry = |page| Command::Inquiry {
            page,
            allocation: if page.is_some() { ANSWER_BYTES } else { 36 },
        };
        let supported = |opcode: OpCode| Command::ReportOpCodes {
            options: ReportingOptions::OpCode(opcode.0),
            timeouts: false,
            allocation: ANSWER_BYTES,
        };
        let command = match self.stage {
            ProbeStep::Inquiry => inquiry(None),
            ProbeStep::Ready => Command::TestUnitReady,
            ProbeStep::Pages => inquiry(Some(SUPPORTED_PAGES)),
            ProbeStep::Page(page) => inquiry(Some(page)),
            ProbeStep::Capacity16 => Command::ReadCapacity16 { allocation: 32 },
            ProbeStep::Capacity10 => Command::ReadCapacity10,
            ProbeStep::Caching => Command::ModeSense {
                ten: false,
                no_descriptors: true,
                long_lba: false,
                control: PageControl::Current,
                page: CACHING,
                subpage: 0,
                allocation: 192,
            },
            ProbeStep::WriteSame => supported(OpCode::WRITE_SAME_16),
            ProbeStep::CompareAndWrite => supported(OpCode::COMPARE_AND_WRITE),
            ProbeStep::Verify => supported(OpCode::VERIFY_16),
            ProbeStep::TryCompareAndWrite => {
                Command::CompareAndWrite { extent: Extent::default(), dpo: false, fua: false }
            }
            ProbeStep::PortGroups => {
                Command::ReportTargetPortGroups { extended: false, allocation: ANSWER_BYTES }
            }
            ProbeStep::Reservations => {
                Command::ReserveIn { action: ReserveIn::REPORT_CAPABILITIES, allocation: 8 }
            }
            ProbeStep::FullStatus => {
                Command::ReserveIn { action: ReserveIn::READ_FULL_STATUS, allocation: ANSWER_BYTES }
            }
            ProbeStep::End => return None,
        };
        let data_in_bytes = match command {
            Command::Inquiry { allocation, .. } | Command::ReadCapacity16 { allocation } => {
                allocation
            }
            Command::ReportOpCodes { allocation, .. } | Command::ModeSense { allocation, .. } => {
                allocation
            }
            Command::ReportTargetPortGroups { allocation, .. }
            | Command::ReserveIn { allocation, .. } => allocation,
            Command::ReadCapacity10 => 8,
            _ => 0,
        };
        Some(ProbeCommand { cdb: command.encode(), data_in_bytes, later: self.later })
    }

    /// The command of [`Self::question`] ended. `data` is what came with it, at most as much as was
    /// asked for.
    pub fn answer(
        &mut self,
        status: ScsiStatus,
        sense: Option<Sense>,
        data: &[u8],
    ) -> Result<(), ProbeError> {
        let verdict = CommandVerdict::of(status, sense);
        self.later = verdict == CommandVerdict::Later;
        self.disk.started |= verdict == CommandVerdict::Again(AttentionChange::Restarted);
        match verdict {
            CommandVerdict::Done => {
                self.tries = 0;
                self.accept(data)
            }
            CommandVerdict::Again(_) | CommandVerdict::Later if self.tries + 1 < TRIES_MAX => {
                self.tries += 1;
                Ok(())
            }
            CommandVerdict::Again(_) | CommandVerdict::Later => {
                Err(ProbeError::NotReady(self.opcode()))
            }
            CommandVerdict::Failed => {
                self.tries = 0;
                self.refused(status, sense)
            }
        }
    }

    /// Returns the known properties of the disk.
    pub fn disk(&self) -> &ScsiDisk {
        &self.disk
    }

    fn opcode(&self) -> OpCode {
        self.question().map_or(OpCode::default(), |question| question.cdb.opcode())
    }

    fn accept(&mut self, data: &[u8]) -> Result<(), ProbeError> {
        match self.stage {
            ProbeStep::Inquiry if !self.disk.standard(data) => {
                return Err(ProbeError::NoDisk(data.first().copied().unwrap_or(0xff)));
            }
            ProbeStep::Pages => self.find_pages(data),
            ProbeStep::Page(code) => self.read_page(code, data),
            ProbeStep::Capacity16 if !self.disk.capacity_16(data) => return Err(self.size()),
            ProbeStep::Capacity10 if !self.disk.capacity_10(data) => return Err(self.size()),
            ProbeStep::Caching => self.disk.mode(data),
            ProbeStep::WriteSame => {
                let usage = ScsiDisk::usage(data);
                self.disk.write_same = usage.is_some();
                self.disk.write_same_no_data =
                    usage.and_then(|usage| usage.get(1)).is_some_and(|byte| byte & 1 != 0);
            }
            ProbeStep::CompareAndWrite => self.compares = ScsiDisk::usage(data).is_some(),
            ProbeStep::Verify => {
                let usage = ScsiDisk::usage(data);
                self.disk.verify_compares =
                    usage.and_then(|usage| usage.get(1)).is_some_and(|byte| byte & 2 != 0);
            }
            ProbeStep::PortGroups => {
                self.disk.access =
                    self.disk.port_group.and_then(|group| PortState::of_group(data, group));
            }
            ProbeStep::Reservations => self.disk.reservations = can_reserve(data),
            ProbeStep::FullStatus => self.disk.reservations = data.len() >= 8,
            _ => {}
        }
        self.go_on();
        Ok(())
    }

    /// Most questions may be refused: then the disk does not have what they ask for.
    fn refused(&mut self, status: ScsiStatus, sense: Option<Sense>) -> Result<(), ProbeError> {
        let error = ProbeError::Refused { opcode: self.opcode(), status, sense };
        let is_elsewhere = sense.is_some_and(is_access_state);
        let is_reserved = status == ScsiStatus::RESERVATION_CONFLICT;
        match self.stage {
            // Whether there is a cache is not known: flushed in vain is better than not at all.
            ProbeStep::Caching if is_elsewhere => self.disk.volatile_cache = true,
            // The other host may have turned it on. Until the reservation goes nothing can be
            // written.
            ProbeStep::Caching if is_reserved => {
                (self.disk.volatile_cache, self.disk.cache_unknown) = (true, true)
            }
            // What the pages tell, which everyone may read, is taken to be true: the disk offers no
            // less than before it was reserved.
            ProbeStep::WriteSame if is_reserved => {
                self.disk.write_same = self.disk.tells_write_same()
            }
            ProbeStep::CompareAndWrite if is_reserved => {
                self.compares = self.disk.compare_and_write_blocks > 0
            }
            ProbeStep::TryCompareAndWrite if is_reserved => {}
            // It may be used by another path, or later.
            ProbeStep::Ready
            | ProbeStep::WriteSame
            | ProbeStep::CompareAndWrite
            | ProbeStep::Verify
                if is_elsewhere => {}
            ProbeStep::TryCompareAndWrite if is_elsewhere => {}
            ProbeStep::PortGroups => {}
            ProbeStep::Reservations | ProbeStep::FullStatus => self.disk.reservations = false,
            ProbeStep::Inquiry | ProbeStep::Ready | ProbeStep::Capacity10 => return Err(error),
            ProbeStep::TryCompareAndWrite => self.compares = false,
            // Another host's reservation forbids more than this question, but not to know the disk.
            _ if is_reserved => {}
            ProbeStep::Capacity16 => {
                self.stage = ProbeStep::Capacity10;
                return Ok(());
            }
            _ if sense.is_some_and(is_unknown_command) => {}
            // Any other failure of these tells no more about the disk than that it does not say.
            ProbeStep::Caching
            | ProbeStep::WriteSame
            | ProbeStep::CompareAndWrite
            | ProbeStep::Verify
                if is_failed_question(status, sense) => {}
            _ => return Err(error),
        }
        self.go_on();
        Ok(())
    }

    fn size(&self) -> ProbeError {
        ProbeError::Size { blocks: self.disk.blocks, block_bytes: self.disk.block_bytes }
    }

    fn find_pages(&mut self, data: &[u8]) {
        let list = page(data, SUPPORTED_PAGES).unwrap_or_default();
        self.pages = PAGES.map(|page| list.contains(&page));
    }

    fn read_page(&mut self, code: u8, data: &[u8]) {
        let Some(payload) = page(data, code) else { return };
        match code {
            SERIAL_NUMBER => {
                self.disk.identity.serial = Some(text(payload)).filter(|serial| !serial.is_empty())
            }
            IDENTIFICATION => self.disk.designators(payload),
            BLOCK_LIMITS => self.disk.limits(payload),
            _ => self.disk.provisioning(payload),
        }
    }

    fn go_on(&mut self) {
        let first = |pages: &[bool]| pages.iter().position(|&there| there);
        self.stage = match self.stage {
            ProbeStep::Inquiry => ProbeStep::Ready,
            ProbeStep::Ready if self.greets => ProbeStep::End,
            ProbeStep::Ready => ProbeStep::Pages,
            ProbeStep::Pages => first(&self.pages)
                .map_or(ProbeStep::Capacity16, |index| ProbeStep::Page(PAGES[index])),
            ProbeStep::Page(page) => {
                let done = PAGES.iter().position(|&other| other == page).unwrap_or(0) + 1;
                first(&self.pages[done..])
                    .map_or(ProbeStep::Capacity16, |index| ProbeStep::Page(PAGES[done + index]))
            }
            ProbeStep::Capacity16 | ProbeStep::Capacity10 => ProbeStep::Caching,
            ProbeStep::Caching => ProbeStep::WriteSame,
            ProbeStep::WriteSame => ProbeStep::CompareAndWrite,
            ProbeStep::CompareAndWrite => ProbeStep::Verify,
            ProbeStep::Verify if self.compares && self.disk.compare_and_write_blocks > 0 => {
                ProbeStep::TryCompareAndWrite
            }
            ProbeStep::Verify | ProbeStep::TryCompareAndWrite => {
                if !self.compares {
                    self.disk.compare_and_write_blocks = 0;
                }
                ProbeStep::Reservations
            }
            ProbeStep::Reservations if self.disk.reservations => ProbeStep::FullStatus,
            // Last, as a unit attention that tells of another state may come with any of the
            // questions before.
            ProbeStep::Reservations | ProbeStep::FullStatus
                if self.disk.asymmetric && self.disk.port_group.is_some() =>
            {
                ProbeStep::PortGroups
            }
            ProbeStep::Reservations
            | ProbeStep::FullStatus
            | ProbeStep::PortGroups
            | ProbeStep::End => ProbeStep::End,
        };
    }
}

/// Returns whether a disk that is there failed to answer.
fn is_failed_question(status: ScsiStatus, sense: Option<Sense>) -> bool {
    let is_there = |sense: Sense| {
        sense.code != Code::LOGICAL_UNIT_NOT_SUPPORTED && sense.key != Key::NOT_READY
    };
    status == ScsiStatus::CHECK_CONDITION && sense.is_none_or(is_there)
}

/// Returns whether a disk cannot be used for the access state of the port.
fn is_access_state(sense: Sense) -> bool {
    matches!(
        (sense.key, sense.code),
        (
            Key::NOT_READY,
            Code::ACCESS_STATE_TRANSITION
                | Code::ACCESS_STATE_STANDBY
                | Code::ACCESS_STATE_UNAVAILABLE
                | Code::ACCESS_STATE_OFFLINE
        )
    )
}

/// Returns whether a disk says that it does not have the command, or not in this form.
fn is_unknown_command(sense: Sense) -> bool {
    sense.key == Key::ILLEGAL_REQUEST
        && !matches!(sense.code, Code::LOGICAL_UNIT_NOT_SUPPORTED | Code::LBA_OUT_OF_RANGE)
}
