//! A namespace as a host sees it: geometry, names, features and limits, derived from what Identify
//! returned.

use super::command::{BLOCKS_MAX, RANGES_MAX};
use super::remote::RemoteController;
use crate::nvme::identify::{Csi, IdentifyController, IdentifyNamespace, NamespaceDescriptors};
use crate::nvme::reservation::ReservationCapabilities;
use crate::nvme::status::Status;
use crate::nvme::types::{Id128, Nsid};
use crate::nvme::wire::DecodeError;

/// Why a namespace that the controller lists cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceProblem {
    /// Identify failed.
    #[error("the controller does not describe it: {0}")]
    Refused(Status),
    /// Its data cannot be read.
    #[error("its description is malformed: {0}")]
    Malformed(DecodeError),
    /// Another command set than NVM.
    #[error("it uses the {0}; weft supports only the NVM Command Set")]
    CommandSet(Csi),
    /// FLBAS names a format that is not there.
    #[error("its format is not in its list of formats")]
    Format,
    /// Blocks carry metadata.
    #[error("its blocks have {0} bytes of metadata, which weft does not support")]
    Metadata(u16),
    /// End-to-end protection is on.
    #[error("it uses end-to-end protection of type {0}, which weft does not support")]
    Protection(u8),
    /// LBADS, as a power of two.
    #[error("its blocks have 2^{0} bytes; weft supports 512 to 65,536")]
    BlockSize(u8),
    /// More bytes than 64 bits count.
    #[error("it reports {blocks} blocks of {block_bytes} bytes, more than can be addressed")]
    Size {
        /// NSZE.
        blocks: u64,
        /// Bytes of a block.
        block_bytes: u32,
    },
}

impl NamespaceProblem {
    /// Returns whether it is known that there is a namespace of another format; otherwise nothing
    /// is known of it.
    pub fn is_format(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::Malformed(_))
    }
}

/// In what a namespace is another one than the one that had its identifier before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// Another UUID, or one that appeared or disappeared.
    #[error("it has another UUID")]
    Uuid,
    /// The same of the NGUID.
    #[error("it has another NGUID")]
    Nguid,
    /// The same of the EUI-64.
    #[error("it has another EUI-64")]
    Eui64,
    /// It was formatted again.
    #[error("its blocks have {is} bytes, and had {was}")]
    BlockSize {
        /// Bytes of a block before.
        was: u32,
        /// Bytes of a block now.
        is: u32,
    },
}

/// Write Zeroes on a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteZeroes {
    /// Blocks in a command, at most.
    pub blocks_max: u32,
    /// True if a command may free the blocks (the bit Deallocate).
    pub deallocate: bool,
}

/// Dataset Management with Deallocate on a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deallocate {
    /// Ranges in a command, at most: 1 to 256.
    pub ranges_max: u16,
    /// Blocks in a range, at most.
    pub range_blocks_max: u32,
    /// Blocks in a command, at most.
    pub blocks_max: u64,
    /// Preferred size of a range, in blocks.
    pub granularity_blocks: u32,
    /// Preferred alignment of a range, in blocks.
    pub alignment_blocks: u32,
}

/// A namespace that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteNamespace {
    /// Its identifier in this subsystem.
    pub nsid: Nsid,
    /// Size in blocks; at least 1.
    pub blocks: u64,
    /// Bytes of a block: a power of two from 512 to 65,536.
    pub block_bytes: u32,
    /// UUID, where it has one.
    pub uuid: Option<Id128>,
    /// NGUID, where it has one.
    pub nguid: Option<Id128>,
    /// EUI-64, where it has one.
    pub eui64: Option<[u8; 8]>,
    /// Other controllers may be attached too.
    pub shared: bool,
    /// It takes no writes at present.
    pub write_protected: bool,
    /// Writes are durable only after Flush or with Force Unit Access.
    pub volatile_cache: bool,
    /// Deallocated blocks are known to read as zeroes.
    pub deallocated_reads_zero: bool,
    /// Blocks in a command that moves data, at most: 1 to 65,536.
    pub transfer_blocks_max: u32,
    /// Blocks whose write never mixes with other commands (NAWUN, or AWUN).
    pub atomic_write_blocks: u32,
    /// Blocks whose write is never torn, not even by a loss of power (NAWUPF, or AWUPF).
    pub atomic_power_fail_blocks: u32,
    /// Preferred size of a write, in blocks; 1 where it tells none.
    pub preferred_write_blocks: u32,
    /// A command should not cross a multiple of this many blocks; 0 where it does not matter.
    pub boundary_blocks: u32,
    /// Compare is there.
    pub compare: bool,
    /// Blocks in a fused Compare and Write, at most; 0 where that is not there.
    pub compare_and_write_blocks_max: u32,
    /// Write Zeroes, where it is there.
    pub write_zeroes: Option<WriteZeroes>,
    /// It can be reserved.
    pub reservations: bool,
    /// Registrations may persist through power loss.
    pub reservations_persist: bool,
    /// Deallocate, where it is there.
    pub deallocate: Option<Deallocate>,
    /// Data of Identify Namespace.
    pub identify: Box<IdentifyNamespace>,
}

impl RemoteNamespace {
    /// Reads the structures of a namespace. `Ok(None)` where the namespace is not active (a
    /// structure full of zeroes).
    pub fn derive(
        nsid: Nsid,
        id: IdentifyNamespace,
        names: &NamespaceDescriptors,
        controller: &RemoteController,
    ) -> Result<Option<Self>, NamespaceProblem> {
        if id.nsze == 0 {
            return Ok(None);
        }
        let block_bytes = block_bytes(&id)?;
        let supports = |bits| controller.supports(bits);
        let transfer_blocks_max =
            (controller.transfer_bytes_max() / block_bytes).clamp(1, BLOCKS_MAX);
        Ok(Some(Self {
            nsid,
            blocks: id.nsze,
            block_bytes,
            uuid: names.uuid.filter(|id| !id.is_zero()),
            nguid: names.nguid.or(Some(id.nguid)).filter(|id| !id.is_zero()),
            eui64: names.eui64.or(Some(id.eui64)).filter(|id| *id != [0; 8]),
            shared: id.nmic & IdentifyNamespace::NMIC_SHARED != 0,
            write_protected: id.nsattr & IdentifyNamespace::NSATTR_WRITE_PROTECTED != 0,
            volatile_cache: controller.identify.vwc & IdentifyController::VWC_PRESENT != 0,
            deallocated_reads_zero: id.dlfeat & 7 == IdentifyNamespace::DLFEAT_READS_ZERO,
            transfer_blocks_max,
            atomic_write_blocks: atomic(&id, id.nawun, controller.identify.awun),
            atomic_power_fail_blocks: atomic(&id, id.nawupf, controller.identify.awupf),
            preferred_write_blocks: preferred(&id, id.npwg),
            boundary_blocks: u32::from(id.noiob),
            compare: supports(IdentifyController::ONCS_COMPARE),
            compare_and_write_blocks_max: compare_and_write(&id, controller)
                .min(transfer_blocks_max),
            write_zeroes: supports(IdentifyController::ONCS_WRITE_ZEROES).then(|| WriteZeroes {
                blocks_max: controller.write_zeroes_blocks_max(block_bytes),
                deallocate: id.dlfeat & IdentifyNamespace::DLFEAT_WRITE_ZEROES != 0,
            }),
            reservations: id.rescap & ReservationCapabilities::ALL_TYPES != 0,
            reservations_persist: id.rescap & ReservationCapabilities::PERSIST != 0,
            deallocate: supports(IdentifyController::ONCS_DATASET_MANAGEMENT)
                .then(|| deallocate(&id, controller)),
            identify: Box::new(id),
        }))
    }

    /// In what `now` is another namespace than this one, whose identifier it has. All lasting names
    /// have to be the same, and to be there or not be there alike; so has the format. Of a
    /// namespace without any name only the format is compared: a size may change.
    pub fn difference(&self, now: &Self) -> Option<Difference> {
        if self.uuid != now.uuid {
            return Some(Difference::Uuid);
        }
        if self.nguid != now.nguid {
            return Some(Difference::Nguid);
        }
        if self.eui64 != now.eui64 {
            return Some(Difference::Eui64);
        }
        (self.block_bytes != now.block_bytes)
            .then_some(Difference::BlockSize { was: self.block_bytes, is: now.block_bytes })
    }

    /// Returns whether it has a name that no other namespace has.
    pub fn has_name(&self) -> bool {
        self.uuid.is_some() || self.nguid.is_some() || self.eui64.is_some()
    }

    /// Adds the names of `before` where there are none: the list of names could not be read this
    /// time.
    pub(super) fn keep_names(&mut self, before: &Self) {
        self.uuid = self.uuid.or(before.uuid);
        self.nguid = self.nguid.or(before.nguid);
        self.eui64 = self.eui64.or(before.eui64);
    }
}

/// Bytes of a block, if blocks of this format are nothing but data.
fn block_bytes(id: &IdentifyNamespace) -> Result<u32, NamespaceProblem> {
    let format = id.format().ok_or(NamespaceProblem::Format)?;
    if !(9..=16).contains(&format.ds) {
        return Err(NamespaceProblem::BlockSize(format.ds));
    }
    if format.ms != 0 {
        return Err(NamespaceProblem::Metadata(format.ms));
    }
    if id.dps & 7 != 0 {
        return Err(NamespaceProblem::Protection(id.dps & 7));
    }
    let block_bytes = 1u32 << format.ds;
    match id.nsze.checked_mul(u64::from(block_bytes)) {
        Some(_) => Ok(block_bytes),
        None => Err(NamespaceProblem::Size { blocks: id.nsze, block_bytes }),
    }
}

/// An atomic unit in blocks: the namespace's own where it has one, else the controller's.
fn atomic(id: &IdentifyNamespace, own: u16, of_controller: u16) -> u32 {
    let own_counts = id.nsfeat & IdentifyNamespace::NSFEAT_ATOMIC != 0 && own != 0;
    u32::from(if own_counts { own } else { of_controller }) + 1
}

/// A preferred size in blocks; 1 where the namespace tells none.
fn preferred(id: &IdentifyNamespace, field: u16) -> u32 {
    if id.nsfeat & IdentifyNamespace::NSFEAT_PREFERRED != 0 { u32::from(field) + 1 } else { 1 }
}

fn compare_and_write(id: &IdentifyNamespace, controller: &RemoteController) -> u32 {
    if controller.identify.fuses & IdentifyController::FUSES_COMPARE_AND_WRITE == 0 {
        return 0;
    }
    atomic(id, id.nacwu, controller.identify.acwu)
}

fn deallocate(id: &IdentifyNamespace, controller: &RemoteController) -> Deallocate {
    let limits = controller.nvm.clone().unwrap_or_default();
    let limited = |limit: u64, otherwise: u64| if limit == 0 { otherwise } else { limit };
    Deallocate {
        ranges_max: limited(limits.dmrl.into(), RANGES_MAX.into()) as u16,
        range_blocks_max: limited(limits.dmrsl.into(), u32::MAX.into()) as u32,
        blocks_max: limited(limits.dmsl, u64::MAX),
        granularity_blocks: preferred(id, id.npdg),
        alignment_blocks: preferred(id, id.npda),
    }
}
