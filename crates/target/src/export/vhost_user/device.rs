//! The device as the guest is to see it: features, configuration, queues, and what is in flight.

use super::guest::Guest;
use super::socket_record::SocketDiskRecord;
use super::vring::{Shared, Vring};
use crate::export::local::hosts::NamespaceView;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use weft_block::{Op, OpKind, Outcome};
use weft_connection::limits::LOCAL_COMMANDS_MAX;
use weft_io::guest::mapping::Mapping;
use weft_io::guest::memory::GuestMemory;
use weft_io::guest::messages::SideChannel;
use weft_proto::limits::{VHOST_USER_QUEUES_MAX, VIRTIO_SEGMENTS_MAX};
use weft_proto::vhost_user::protocol_feature;
use weft_proto::virtio::block::{BlockConfig, SECTOR_BYTES};
use weft_proto::virtio::feature::FeatureBits;
use weft_proto::virtio::ring::record_bytes;

/// Largest part of a request that is announced, bytes.
const SEGMENT_BYTES: u32 = 1 << 20;

/// The records of what is in flight.
pub(super) struct Records {
    pub mapping: Mapping,
    /// Entries of each queue.
    pub queue_size: u16,
    pub queues: u16,
}

/// See the module.
pub(super) struct Device {
    pub guest: Rc<Guest>,
    pub view: NamespaceView,
    pub offered: FeatureBits,
    pub features: FeatureBits,
    pub protocol: u64,
    pub writeback: bool,
    pub vrings: Vec<Vring>,
    pub records: Option<Records>,
    pub channel: Option<SideChannel>,
    /// The driver was not notified of a change of the configuration yet.
    pub is_news: bool,
    /// Made for the front end, which gives it back.
    pub record_file: Option<OwnedFd>,
    /// Of the socket.
    pub kept: Option<Arc<SocketDiskRecord>>,
    pub last_flush: LastFlush,
    /// Lines to log about the driver and its disk.
    pub remarks: Vec<String>,
}

impl Device {
    pub(super) fn new(
        guest: Rc<Guest>,
        view: NamespaceView,
        kept: Option<Arc<SocketDiskRecord>>,
    ) -> Self {
        let (features, writes) = (view.features, view.features.write);
        let offered = FeatureBits::VERSION_1
            .with(FeatureBits::INDIRECT_DESC)
            .with(FeatureBits::EVENT_IDX)
            .with(FeatureBits::RING_PACKED)
            .with(FeatureBits::PROTOCOL_FEATURES)
            .with(FeatureBits::LOG_ALL)
            .with(FeatureBits::BLK_SIZE_MAX)
            .with(FeatureBits::BLK_SEG_MAX)
            .with(FeatureBits::BLK_SIZE)
            .with(FeatureBits::BLK_TOPOLOGY)
            .with(FeatureBits::BLK_MQ)
            .with(FeatureBits::BLK_FLUSH)
            .with(FeatureBits::BLK_CONFIG_WCE)
            .with_if(FeatureBits::BLK_RO, !writes)
            .with_if(FeatureBits::BLK_DISCARD, writes && features.discard)
            .with_if(FeatureBits::BLK_WRITE_ZEROES, writes && features.write_zeroes);
        Self {
            guest,
            offered,
            features: FeatureBits::default(),
            protocol: 0,
            writeback: features.volatile_cache,
            vrings: (0..VHOST_USER_QUEUES_MAX).map(|_| Vring::default()).collect(),
            records: None,
            channel: None,
            is_news: false,
            record_file: None,
            kept,
            last_flush: LastFlush::default(),
            remarks: Vec::new(),
            view,
        }
    }

    /// Returns whether a protocol feature was negotiated.
    pub(super) fn speaks(&self, feature: u64) -> bool {
        self.protocol & feature != 0
    }

    /// The configuration as the driver sees it.
    pub(super) fn config(&self) -> BlockConfig {
        let geometry = &self.view.geometry;
        BlockConfig {
            capacity: geometry.bytes() / u64::from(SECTOR_BYTES),
            size_max: SEGMENT_BYTES,
            seg_max: VIRTIO_SEGMENTS_MAX,
            block_bytes: geometry.block_bytes,
            optimal_blocks: geometry.optimal_blocks,
            writeback: self.writeback,
            queues: VHOST_USER_QUEUES_MAX,
            may_unmap: self.view.features.discard,
        }
    }

    /// Returns whether writes must be durable when they complete: the driver does not know of a
    /// cache, or has switched it off.
    pub(super) fn writes_through(&self) -> bool {
        self.view.features.volatile_cache
            && !(self.writeback && self.features.has(FeatureBits::BLK_FLUSH))
    }

    /// Returns whether this flush of a queue fails, because a previous process may have lost
    /// writes.
    pub(super) fn fails_flush(&self, queue: u16) -> bool {
        let running = (0..).zip(&self.vrings).filter(|(_, vring)| vring.is_running());
        let running = running.map(|(index, _)| index);
        self.kept.as_ref().is_some_and(|kept| kept.fails_flush(queue, running))
    }

    /// A queue, and the memory for it.
    pub(super) fn vring<R>(
        &mut self,
        index: u16,
        with: impl FnOnce(&mut Vring, Shared<'_>) -> R,
    ) -> Option<R> {
        let record = self.records.as_ref().filter(|of| index < of.queues);
        let record = record.map(|of| (&of.mapping, u64::from(index) * record_bytes(of.queue_size)));
        let vring = self.vrings.get_mut(usize::from(index))?;
        let fits = self.records.as_ref().is_none_or(|of| vring.size <= of.queue_size);
        let memory: &GuestMemory = &self.guest.memory.borrow();
        Some(with(vring, Shared { memory, record: record.filter(|_| fits) }))
    }

    /// Returns whether the requests in flight of a queue are in a record that outlives this
    /// process.
    pub(super) fn has_record(&self, index: u16) -> bool {
        self.records.as_ref().is_some_and(|of| index < of.queues)
    }

    /// Tells the front end of a change of the configuration, if there is one and it listens.
    pub(super) fn tell(&mut self) {
        use weft_proto::vhost_user::Header;
        use weft_proto::vhost_user::backend_message::CONFIG_CHANGE;
        if !self.is_news || !self.speaks(protocol_feature::CONFIG) {
            return;
        }
        match self.channel.as_ref().map(|channel| channel.send(&Header::of_backend(CONFIG_CHANGE)))
        {
            Some(Ok(true)) | None => self.is_news = false,
            // The next turn tries again.
            Some(Ok(false)) => {}
            Some(Err(_)) => (self.channel, self.is_news) = (None, false),
        }
    }

    /// The queue has come to rest.
    pub(super) fn stop(&mut self, index: u16) -> u32 {
        let record = self.records.as_ref().filter(|of| index < of.queues).map(|of| &of.mapping);
        self.vrings.get_mut(usize::from(index)).map_or(0, |vring| vring.stop(record))
    }

    /// Returns whether mapped memory was truncated while it was in use.
    pub(super) fn is_lost(&self) -> bool {
        let records = self.records.as_ref().is_some_and(|of| of.mapping.is_lost());
        records || self.guest.memory.borrow().is_lost()
    }
}

/// Bytes of the records of so many queues.
pub(super) fn records_bytes(queues: u16, queue_size: u16) -> u64 {
    u64::from(queues) * record_bytes(queue_size)
}

/// Its name: no request has this slot.
const NAME: u64 = u16::MAX as u64;

const _: () = assert!((LOCAL_COMMANDS_MAX as u64) < NAME);

/// The flush before a queue stops. Another device goes on with the queue then, as after a live
/// migration, and does not know what the source has not made durable of this one's writes: were
/// the source to lose that, the other device could not tell the driver.
#[derive(Debug, Default)]
pub(super) struct LastFlush {
    /// Something was written since the last one was submitted.
    is_owed: bool,
    is_under_way: bool,
}

impl LastFlush {
    /// An operation of a request has ended.
    pub(super) fn saw(&mut self, kind: OpKind, outcome: Outcome) {
        use OpKind::{Discard, Write, WriteZeroes};
        let is_cached =
            matches!(kind, Write { fua: false } | WriteZeroes { fua: false, .. } | Discard);
        self.is_owed |= is_cached && outcome.is_success();
    }

    /// Returns the operation, if one must be submitted now.
    pub(super) fn take(&mut self) -> Option<Op> {
        let is_due = self.is_owed && !self.is_under_way;
        is_due.then(|| {
            (self.is_owed, self.is_under_way) = (false, true);
            Op::bare(OpKind::Flush, 0, 0, NAME)
        })
    }

    /// Takes a completion. Returns whether it is that of this flush.
    pub(super) fn ended(&mut self, user: u64) -> bool {
        let is_this = user == NAME;
        self.is_under_way &= !is_this;
        is_this
    }

    /// The name of the operation that is under way.
    pub(super) fn under_way(&self) -> Option<u64> {
        self.is_under_way.then_some(NAME)
    }
}
