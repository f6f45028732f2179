//! What the connections of one server share: exports, and who is there. For the cold path only.

use super::server::NbdLimits;
use crate::export::listen::Homes;
use crate::export::mailbox;
use crate::export::seats::Seats;
use crate::export::serving::Named;
use crate::limits::{NBD_TRANSFER_BYTES_MAX, POOL_PARTS};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weft_block::{BlockDevice, units};
use weft_io::limits::BUF_BYTES_MIN;
use weft_proto::nbd::code::TransmissionFlags;
use weft_proto::nbd::server::{Listed, Offer};
use weft_proto::nbd::{BlockSizes, ExportInfo};

/// What a server tells its connections.
pub(super) enum Message {
    /// Take no more requests, let those under way end, then close.
    Drain,
    /// Take no more requests, end what the device has, then close.
    Stop,
}

/// The mailbox of one connection.
pub(super) type Mailbox = mailbox::Mailbox<Message>;

/// Smallest block size preferred: clients write whole ones where they can.
const PREFERRED_BYTES: u32 = 4096;

/// See the module.
pub(super) struct Shared {
    devices: Vec<Named>,
    /// What LIST tells, in the same order.
    pub(super) exports: Arc<[Listed]>,
    pub(super) limits: NbdLimits,
    pub(super) homes: Homes,
    pub(super) seats: Arc<Seats>,
    /// Longest payload, bytes.
    payload_max: u32,
    members: Mutex<Vec<Weak<Mailbox>>>,
    stopping: AtomicBool,
    transmitting: AtomicUsize,
}

/// Counts a connection that has chosen its export.
pub(super) struct Transmitting(Arc<Shared>);

impl Drop for Transmitting {
    fn drop(&mut self) {
        self.0.transmitting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    pub(super) fn new(devices: Vec<Named>, limits: NbdLimits, pool_bytes: usize, homes: Homes) -> Self {
        let describe = |named: &Named| {
            let size = units::format_size(named.device.geometry().bytes());
            Listed { name: named.name.clone(), description: format!("{size}, by weft") }
        };
        let part = (pool_bytes / POOL_PARTS).clamp(BUF_BYTES_MIN, NBD_TRANSFER_BYTES_MAX as usize);
        Self {
            exports: devices.iter().map(describe).collect(),
            devices,
            limits,
            homes,
            seats: Seats::new(limits.connections),
            payload_max: 1 << part.ilog2(),
            members: Mutex::default(),
            stopping: AtomicBool::new(false),
            transmitting: AtomicUsize::new(0),
        }
    }

    pub(super) fn bare_devices(&self) -> Vec<Arc<dyn BlockDevice>> {
        self.devices.iter().map(|named| Arc::clone(&named.device)).collect()
    }

    /// The export that a client calls `name`, and its device.
    pub(super) fn find(&self, name: &str) -> Option<(Offer<'_>, &Arc<dyn BlockDevice>)> {
        let wanted = |listed: &Listed| name.is_empty() || listed.name == name;
        let at = self.exports.iter().position(wanted)?;
        let device = &self.devices[at].device;
        Some((Offer { listed: &self.exports[at], info: self.info(device.as_ref()) }, device))
    }

    fn info(&self, device: &dyn BlockDevice) -> ExportInfo {
        let (geometry, features) = (device.geometry(), device.features());
        let flags = TransmissionFlags::HAS_FLAGS
            .with(TransmissionFlags::SEND_FLUSH)
            .with(TransmissionFlags::SEND_FUA)
            .with(TransmissionFlags::CAN_MULTI_CONN)
            .with_if(TransmissionFlags::READ_ONLY, !features.write)
            .with_if(TransmissionFlags::SEND_TRIM, features.write && features.discard)
            .with_if(TransmissionFlags::SEND_WRITE_ZEROES, features.write && features.write_zeroes)
            .with_if(TransmissionFlags::SEND_FAST_ZERO, features.write && features.write_zeroes);
        let optimal = geometry.optimal_blocks.saturating_mul(geometry.block_bytes);
        let optimal = if optimal.is_power_of_two() { optimal } else { geometry.block_bytes };
        let preferred = optimal.max(PREFERRED_BYTES).min(self.payload_max).max(geometry.block_bytes);
        let sizes = BlockSizes { minimum: geometry.block_bytes, preferred, payload_max: self.payload_max.max(preferred) };
        ExportInfo { size_bytes: geometry.bytes(), flags, sizes }
    }

    fn members(&self) -> MutexGuard<'_, Vec<Weak<Mailbox>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a connection. It leaves by dropping its mailbox.
    pub(super) fn enter(&self, mailbox: &Arc<Mailbox>) {
        let mut members = self.members();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(mailbox));
        if self.stopping.load(Ordering::Acquire) {
            mailbox.post(Message::Stop);
        }
    }

    /// Counts a connection that has chosen its export.
    pub(super) fn transmit(self: &Arc<Self>) -> Transmitting {
        self.transmitting.fetch_add(1, Ordering::AcqRel);
        Transmitting(Arc::clone(self))
    }

    /// Connections that have chosen their export.
    pub(super) fn transmitting(&self) -> usize {
        self.transmitting.load(Ordering::Acquire)
    }

    fn tell_all(&self, message: impl Fn() -> Message) {
        self.members().iter().filter_map(Weak::upgrade).for_each(|mailbox| mailbox.post(message()));
    }

    /// Has everybody finish and close.
    pub(super) fn drain(&self) {
        // Under the lock that whoever enters takes: it is either told here or sees that the server stops.
        let members = self.members();
        self.stopping.store(true, Ordering::Release);
        drop(members);
        self.tell_all(|| Message::Drain);
    }

    /// Has everybody close.
    pub(super) fn stop(&self) {
        self.tell_all(|| Message::Stop);
    }
}
