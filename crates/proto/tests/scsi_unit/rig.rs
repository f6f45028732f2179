//! A target with a disk in memory, and hosts that send it commands. What a nexus asks of its owner
//! is checked on the way.

use std::sync::{Arc, LazyLock};

use weft_proto::limits::SCSI_RESPONSE_BYTES_MAX;
use weft_proto::reservation::{Registrant, Reservations};
use weft_proto::scsi::cdb::{CDB_BYTES, Command};
use weft_proto::scsi::lun::{
    Arrival, DeviceOutcome, LogicalUnit, Nexus, Reply, Step, Target, Task, TransportId, UnitConfig,
    UnitFeatures, UnitGeometry, UnitIdentity, UnitRequest, UnitRequestKind, UnitTable,
};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};

/// Bytes of a block.
pub const BLOCK: usize = 512;
/// Blocks of the disk.
pub const BLOCKS: u64 = 2048;
/// Longest transfer, in blocks.
pub const TRANSFER_BLOCKS: u32 = 256;

/// The disk as it begins: each block begins with its number.
static INITIAL: LazyLock<Vec<u8>> = LazyLock::new(|| (0..BLOCKS).flat_map(block).collect());

/// A disk that does everything.
pub const ALL: UnitFeatures = UnitFeatures {
    write: true,
    volatile_cache: true,
    discard: true,
    discard_zeroes: true,
    write_zeroes: true,
    compare: true,
};

/// Outcome of a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// Status.
    pub status: ScsiStatus,
    /// Sense data.
    pub sense: Option<Sense>,
    /// Data that the initiator got.
    pub data: Vec<u8>,
    /// Bytes that the command moves.
    pub transfer_bytes: u32,
}

impl Ended {
    /// Returns whether the status is GOOD.
    pub fn is_good(&self) -> bool {
        self.status == ScsiStatus::GOOD
    }
}

/// The disk, and what it was asked.
pub struct Disk {
    /// Its content.
    pub bytes: Vec<u8>,
    /// All requests, in order.
    pub requests: Vec<UnitRequest>,
    /// Results of the next requests.
    pub faults: Vec<(ScsiStatus, Option<Sense>)>,
}

impl Disk {
    fn execute(&mut self, request: UnitRequest, memory: &mut Vec<u8>) -> DeviceOutcome {
        self.requests.push(request);
        if let Some((status, sense)) = self.faults.pop() {
            return DeviceOutcome::Failed(status, sense);
        }
        let from = usize::try_from(request.lba).unwrap() * BLOCK;
        let range = from..from + request.blocks as usize * BLOCK;
        assert!(range.end <= self.bytes.len(), "{request:?} leaves the disk");
        assert_eq!(request.blocks == 0, request.kind == UnitRequestKind::Flush);
        let bytes = request.bytes as usize;
        let moved = match request.kind {
            UnitRequestKind::Flush
            | UnitRequestKind::WriteZeroes { .. }
            | UnitRequestKind::Discard => 0,
            UnitRequestKind::CompareAndWrite => 2 * range.len(),
            _ => range.len(),
        };
        assert_eq!(bytes, moved, "{request:?}");
        if matches!(request.kind, UnitRequestKind::WriteRepeated | UnitRequestKind::CompareRepeated)
        {
            memory.truncate(BLOCK);
            *memory = memory.repeat(request.blocks as usize);
        }
        let disk = &mut self.bytes[range.clone()];
        let is_same = match request.kind {
            UnitRequestKind::Read => {
                *memory = disk.to_vec();
                true
            }
            UnitRequestKind::Verify => {
                memory.clear();
                true
            }
            UnitRequestKind::Write | UnitRequestKind::WriteRepeated => {
                disk.copy_from_slice(&memory[..bytes]);
                true
            }
            UnitRequestKind::Compare | UnitRequestKind::CompareRepeated => *disk == memory[..bytes],
            UnitRequestKind::CompareAndWrite => {
                let is_same = *disk == memory[..bytes / 2];
                if is_same {
                    disk.copy_from_slice(&memory[bytes / 2..bytes]);
                }
                is_same
            }
            UnitRequestKind::WriteZeroes { .. } | UnitRequestKind::Discard => {
                disk.fill(0);
                true
            }
            UnitRequestKind::Flush => true,
        };
        match is_same {
            true => DeviceOutcome::Done,
            false => {
                let sense =
                    Sense::new(SenseKey::MISCOMPARE, AdditionalSense::MISCOMPARE_DURING_VERIFY);
                DeviceOutcome::Failed(ScsiStatus::CHECK_CONDITION, Some(sense))
            }
        }
    }
}

/// A target with one logical unit.
pub struct Rig {
    /// The target.
    pub target: Arc<Target>,
    /// Its logical units.
    pub units: UnitTable,
    /// The one of number 0.
    pub unit: Arc<LogicalUnit>,
    /// Registrants whose commands the last change of its reservations aborts.
    pub aborted: Vec<Registrant>,
    /// The disk behind it.
    pub disk: Disk,
}

impl Default for Rig {
    fn default() -> Self {
        Self::with(ALL)
    }
}

impl Rig {
    /// A disk that does all.
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk with these features.
    pub fn with(features: UnitFeatures) -> Self {
        Self::of(config(features))
    }

    /// The disk of a logical unit like this.
    pub fn of(config: UnitConfig) -> Self {
        Self::reserving(config, Reservations::volatile())
    }

    /// The same with these reservations.
    pub fn reserving(config: UnitConfig, reservations: Arc<Reservations>) -> Self {
        let target = Target::new("iqn.2026-11.example:t");
        let unit = LogicalUnit::new(config, Some(reservations));
        let mut units = UnitTable::default();
        units.insert(0, unit.clone()).unwrap();
        Self {
            target,
            units,
            unit,
            aborted: Vec::new(),
            disk: Disk { bytes: INITIAL.clone(), requests: Vec::new(), faults: Vec::new() },
        }
    }

    /// A host that has seen all unit attentions.
    pub fn host(&self, isid: u8) -> Nexus {
        let mut nexus = self.new_host(isid);
        let mut task = Task::new();
        let step = nexus.start(&mut task, 0, &Command::TestUnitReady.encode().bytes, 0);
        assert!(matches!(step, Step::Reply(Reply { status: ScsiStatus::CHECK_CONDITION, .. })));
        nexus
    }

    /// A host that has just come.
    pub fn new_host(&self, isid: u8) -> Nexus {
        self.new_host_at(1, isid)
    }

    /// A host that has just come by a target port.
    pub fn new_host_at(&self, port: u16, isid: u8) -> Nexus {
        let initiator = TransportId::iscsi("iqn.2026-11.example:i", [0, 0, 0, 0, 0, isid]);
        self.target.attach(initiator, port, Arrival::New, &self.units)
    }

    /// Sends a command that comes with this data.
    pub fn run(&mut self, nexus: &mut Nexus, command: Command, data: &[u8]) -> Ended {
        self.send(nexus, 0, &command.encode().bytes, data)
    }

    /// Sends a CDB.
    pub fn send(
        &mut self,
        nexus: &mut Nexus,
        lun: u64,
        cdb: &[u8; CDB_BYTES],
        data: &[u8],
    ) -> Ended {
        let mut task = Task::new();
        let mut memory = Vec::new();
        let mut step = nexus.start(&mut task, lun, cdb, data.len() as u32);
        loop {
            step = match step {
                Step::Fetch { bytes } => {
                    assert!(
                        bytes > 0 && bytes as usize <= data.len(),
                        "{bytes} bytes are asked for"
                    );
                    memory = data[..bytes as usize].to_vec();
                    nexus.data(&mut task, &memory)
                }
                Step::Respond { bytes } => {
                    assert!(bytes > 0 && bytes as usize <= SCSI_RESPONSE_BYTES_MAX);
                    memory = vec![0xee; bytes as usize];
                    Step::Reply(nexus.respond(&mut task, &mut memory))
                }
                Step::Submit(request) => {
                    assert_eq!((request.unit, task.unit()), (0, 0));
                    let outcome = self.disk.execute(request, &mut memory);
                    nexus.finished(&mut task, outcome, &memory)
                }
                Step::Reserve => {
                    let operation = nexus.take_operation().expect("it is there once");
                    let outcome = nexus
                        .reservations(&task)
                        .expect("there are reservations")
                        .execute(&operation);
                    self.aborted = outcome
                        .as_ref()
                        .map_or_else(|_| Vec::new(), |changes| changes.aborted.clone());
                    nexus.reserved(&mut task, outcome.map(|_| ()))
                }
                Step::Reply(reply) => return ended(reply, memory),
            }
        }
    }
}

fn ended(reply: Reply, mut memory: Vec<u8>) -> Ended {
    let Reply { status, sense, transfer_bytes, data_in_bytes, .. } = reply;
    assert_eq!(sense.is_some(), status == ScsiStatus::CHECK_CONDITION, "{reply:?}");
    assert!(data_in_bytes as usize <= memory.len(), "{reply:?}");
    assert!(status == ScsiStatus::GOOD || data_in_bytes == 0, "{reply:?}");
    memory.truncate(data_in_bytes as usize);
    Ended { status, sense, data: memory, transfer_bytes }
}

/// The logical unit.
pub fn config(features: UnitFeatures) -> UnitConfig {
    UnitConfig {
        geometry: UnitGeometry {
            block_bytes: BLOCK as u32,
            blocks: BLOCKS,
            optimal_blocks: 8,
            max_transfer_bytes: TRANSFER_BLOCKS * BLOCK as u32,
            max_operation_bytes: TRANSFER_BLOCKS * BLOCK as u32,
            compare_and_write_blocks: u32::MAX,
        },
        features,
        identity: UnitIdentity {
            vendor: "weft".into(),
            product: "disk".into(),
            revision: "1.0".into(),
            serial: "SERIAL-1".into(),
            uuid: core::array::from_fn(|at| at as u8),
            nguid: None,
            naa: Vec::new(),
            t10: None,
        },
    }
}

/// The block of this number, as the disk begins.
pub fn block(number: u64) -> Vec<u8> {
    let mut block = vec![0xa5; BLOCK];
    block[..8].copy_from_slice(&number.to_be_bytes());
    block
}
