//! A logical unit of a target as a block device.

use super::device_state::DeviceState;
use super::session_names::SessionNames;
use super::size_asking;
use super::table::{Table, Unit, compares_blocks, discards};
use crate::control::Control;
use crate::source::ConnectOptions;
use crate::source::digits::digits;
use crate::source::idle::Idle;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;
use weft_block::{
    AccessState, Atomicity, BlockDevice, BlockQueue, Error, Features, Geometry, Identity, Presence,
    SizeAnswer,
};
use weft_connection::limits::TRANSFER_BYTES_MAX;
use weft_connection::url::{ISCSI_PORT, IscsiUrl};
use weft_io::{DriverId, Handle};
use weft_proto::iscsi::initiator::Initiator;
use weft_proto::iscsi::pdu::Lun;
use weft_proto::scsi::initiator::ScsiDisk;

/// A logical unit over iSCSI, with a session for each queue. Dropping it logs its sessions out; see
/// [`crate::Control::finish`].
pub struct IscsiDevice {
    url: String,
    disk: ScsiDisk,
    lun: Lun,
    shared: Arc<DeviceState>,
    sessions: usize,
    closing: Arc<AtomicBool>,
    control: Control,
    idle_driver: DriverId,
    bound: Duration,
}

/// The parts of a device.
pub(super) struct Parts {
    pub(super) url: String,
    pub(super) disk: ScsiDisk,
    pub(super) lun: Lun,
    pub(super) isids: Arc<SessionNames>,
    pub(super) idle: Arc<Idle<Initiator>>,
    pub(super) closing: Arc<AtomicBool>,
    pub(super) idle_driver: DriverId,
    /// How long the target may go on with what the sessions have sent, once they are lost.
    pub(super) bound: Duration,
}

impl IscsiDevice {
    pub(super) fn new(parts: Parts, options: &ConnectOptions) -> Self {
        let Parts { url, disk, lun, isids, idle, closing, idle_driver, bound } = parts;
        if disk.identity.page().is_none() {
            tracing::warn!(
                "{url}: the logical unit has no names; if another one takes its place, that is not noticed"
            );
        }
        let sessions = idle.standing();
        let shared = Arc::new(DeviceState::new(idle, isids, options, &disk));
        Self {
            url,
            shared,
            disk,
            lun,
            sessions,
            closing,
            control: options.control.clone(),
            idle_driver,
            bound,
        }
    }
}

impl IscsiDevice {
    fn unit(&self) -> Unit {
        Unit { disk: self.disk.clone(), lun: self.lun, url: self.url.as_str().into() }
    }
}

impl Drop for IscsiDevice {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        self.control.wake(self.idle_driver);
    }
}

impl BlockDevice for IscsiDevice {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        let disk = &self.disk;
        let most = if disk.transfer_blocks_max == 0 { u32::MAX } else { disk.transfer_blocks_max };
        let blocks_max = (TRANSFER_BYTES_MAX / disk.block_bytes).min(most).max(1);
        Geometry {
            block_bytes: disk.block_bytes,
            blocks: self.shared.blocks(),
            padding_bytes: 0,
            optimal_blocks: disk.physical_blocks.max(disk.granularity_blocks).max(1),
            max_transfer_bytes: blocks_max * disk.block_bytes,
            atomic: Atomicity {
                compare_and_write_blocks: u32::from(disk.compare_and_write_blocks).max(1),
                ..Atomicity::ONE_BLOCK
            },
        }
    }

    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        size_asking::ask(&self.control, &self.shared, self.unit()).map(|()| SizeAnswer::Now)
    }

    fn features(&self) -> Features {
        let disk = &self.disk;
        Features {
            write: !disk.write_protected,
            volatile_cache: disk.volatile_cache,
            cache_unknown: disk.cache_unknown,
            discard: discards(disk),
            discard_zeroes: discards(disk) && disk.unmapped_zeroes,
            write_zeroes: disk.write_same,
            compare: compares_blocks(disk),
            reservations: disk.reservations,
        }
    }

    fn identity(&self) -> Identity {
        let identity = &self.disk.identity;
        let model = format!("{} {}", identity.vendor, identity.product);
        let names = identity.designators.iter().filter_map(|(_, kind, value)| {
            let kind = match kind {
                0x02 => "EUI-64",
                0x03 => "NAA",
                0x08 => "SCSI name",
                0x0a => "UUID",
                // Targets put what names themselves into that of a T10 vendor.
                _ => return None,
            };
            Some((kind, digits(value)))
        });
        let target = IscsiUrl::parse(&self.url, ISCSI_PORT).ok().and_then(|url| url.target);
        Identity {
            uuid: identity.uuid.map(Uuid::from_bytes),
            passing: None,
            names: names.collect(),
            target: target.map(|name| format!("{name}/{:x}", self.lun.0)),
            serial_of_target: false,
            serial: identity.serial.clone(),
            model: Some(model.trim().to_owned()).filter(|model| !model.is_empty()),
            firmware: Some(identity.revision.clone()).filter(|revision| !revision.is_empty()),
        }
    }

    fn late_writes_bound(&self) -> Option<Duration> {
        Some(self.bound)
    }

    fn presence(&self) -> Presence {
        self.shared.presence()
    }

    fn access_state(&self) -> AccessState {
        self.shared.access()
    }

    fn cache_epoch(&self) -> Option<u64> {
        Some(self.shared.isids.epoch())
    }

    fn max_queues(&self) -> usize {
        self.sessions
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(Table::open(on, owner, self.unit(), &self.shared)?))
    }
}
