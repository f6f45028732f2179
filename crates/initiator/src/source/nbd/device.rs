//! An export of a remote server as a block device.

use super::extents;
use super::table::{Patience, Table};
use crate::control::Control;
use crate::paths::Failover;
use crate::source::ConnectOptions;
use crate::source::idle::{Idle, take_leave};
use crate::source::queue::RemoteQueue;
use core::ops::Range;
use std::sync::Arc;
use weft_block::{
    BlockDevice, BlockQueue, Error, ErrorKind, Features, Geometry, PaddedSize, Presence, SizeAnswer,
};
use weft_connection::limits::TRANSFER_BYTES_MAX;
use weft_connection::pump::{Flow, Handler, StreamPump};
use weft_connection::url::nbd::NbdUrl;
use weft_io::{DriverId, Handle};
use weft_proto::nbd::code::TransmissionFlags;
use weft_proto::nbd::{BlockSizes, ClientEvent, ExportInfo, NbdClient};
use weft_proto::stream::Tag;

/// Smallest block of a device, bytes.
const BLOCK_BYTES_MIN: u32 = 512;

/// Maximum size of an export, bytes: servers count in signed numbers.
const SIZE_BYTES_MAX: u64 = i64::MAX as u64;

/// An export over NBD. Dropping it takes leave of the server; see [`crate::Control::finish`].
pub struct NbdDevice {
    idle: Arc<Idle<NbdClient>>,
    info: ExportInfo,
    geometry: Geometry,
    url: String,
    queues: usize,
    patience: Patience,
    /// Another one for each device: nothing tells whether the server was started anew in between.
    epoch: u64,
    failover: Failover,
    control: Control,
}

impl NbdDevice {
    pub(super) fn new(
        connections: Vec<StreamPump<NbdClient>>,
        url: &NbdUrl,
        options: &ConnectOptions,
    ) -> Result<Self, Error> {
        let (url, queues) = (url.to_string(), connections.len());
        let info = *connections
            .first()
            .map(|connection| connection.engine.export())
            .ok_or_else(|| Error::new(ErrorKind::Refused, format!("{url}: no connection")))?;
        if let Some(sizes) = connections[0].engine.strange_sizes() {
            let BlockSizes { minimum, preferred, payload_max } = sizes;
            tracing::warn!(
                "{url}: the server states block sizes against the rules ({minimum}, {preferred}, {payload_max}); they are not counted"
            );
        }
        let idle = Arc::new(Idle::new(url.clone(), options, connections));
        let geometry = geometry(&info).map_err(|why| {
            idle.close(leave);
            Error::new(ErrorKind::Unsupported, format!("{url}: {why}"))
        })?;
        options.control.late_list().began_unstoppable(url.clone(), options.quiesce_time);
        let patience = Patience { io_timeout: options.io_timeout, quiesce: options.quiesce_time };
        let epoch = u64::from_le_bytes(options.control.identities().random());
        Ok(Self {
            failover: options.paths.failover,
            idle,
            info,
            geometry,
            url,
            queues,
            patience,
            epoch,
            control: options.control.clone(),
        })
    }
}

impl Drop for NbdDevice {
    fn drop(&mut self) {
        self.idle.close(leave);
    }
}

/// The server's bytes as blocks: of 512 bytes, or more where it takes no less. What it prefers is
/// no block size, as servers state 4096 for disks of 512 bytes too; it is the optimal length.
///
/// # Errors
/// Why not all of its bytes can be read.
fn geometry(info: &ExportInfo) -> Result<Geometry, String> {
    let ExportInfo { size_bytes, sizes, .. } = *info;
    if !(1..=SIZE_BYTES_MAX).contains(&size_bytes) {
        return Err(format!(
            "the export has {size_bytes} bytes; weft opens exports of 1 to {SIZE_BYTES_MAX} bytes"
        ));
    }
    let minimum = sizes.minimum;
    if !size_bytes.is_multiple_of(minimum.into()) {
        return Err(format!(
            "the export has {size_bytes} bytes, and its server transfers only multiples of {minimum} bytes, so that the end cannot be \
             read; make it a multiple of {minimum} bytes long, or have the server accept shorter requests"
        ));
    }
    let block_bytes = minimum.max(BLOCK_BYTES_MIN);
    let PaddedSize { blocks, padding_bytes } = PaddedSize::of(size_bytes, block_bytes);
    let transfer = sizes.payload_max.min(TRANSFER_BYTES_MAX).max(block_bytes);
    Ok(Geometry {
        block_bytes,
        blocks,
        padding_bytes,
        optimal_blocks: (sizes.preferred / block_bytes).max(1),
        max_transfer_bytes: transfer - transfer % block_bytes,
        atomic: weft_block::Atomicity::ONE_BLOCK,
    })
}

/// Ends a connection in order.
fn leave(control: &Control, mut connection: StreamPump<NbdClient>) {
    connection.engine.disconnect();
    take_leave(control, connection, Farewell);
}

/// Nothing is under way any more.
struct Farewell;

impl Handler<NbdClient> for Farewell {
    fn memory_mut(&mut self, _: Tag, _: u32, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn memory(&self, _: Tag, _: u32, _: u32) -> &[u8] {
        &[]
    }

    fn event(&mut self, _: &Handle, _: &mut NbdClient, _: ClientEvent) -> Flow {
        Flow::Continue
    }

    fn released(&mut self, _: &Handle, _: &mut NbdClient, _: Tag) {}
}

impl BlockDevice for NbdDevice {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// A connection keeps the size with which it was opened. What is not flushed may be known to
    /// the connection alone that wrote it, unless the server says otherwise.
    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        let Features { write, volatile_cache, .. } = self.features();
        if write && volatile_cache && !self.info.flags.has(TransmissionFlags::CAN_MULTI_CONN) {
            let text = format!(
                "{}: the size cannot be asked for while the export is in use: the server does not say that a flush covers all connections (NBD_FLAG_CAN_MULTI_CONN)",
                self.url
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        Ok(SizeAnswer::WhenOpened)
    }

    fn features(&self) -> Features {
        let can = |flag| self.info.flags.has(flag);
        let write = !can(TransmissionFlags::READ_ONLY);
        Features {
            write,
            volatile_cache: can(TransmissionFlags::SEND_FLUSH),
            cache_unknown: false,
            discard: write && can(TransmissionFlags::SEND_TRIM),
            discard_zeroes: false,
            write_zeroes: write && can(TransmissionFlags::SEND_WRITE_ZEROES),
            compare: false,
            reservations: false,
        }
    }

    fn presence(&self) -> Presence {
        if self.idle.standing() == 0 { Presence::Gone } else { Presence::Here }
    }

    fn cache_epoch(&self) -> Option<u64> {
        Some(self.epoch)
    }

    /// What the server calls zeroes counts, not what it calls a hole: that may read as anything.
    fn data_runs(&self) -> Option<Vec<Range<u64>>> {
        let block = u64::from(self.geometry.block_bytes);
        let limit = self.patience.io_timeout;
        let mut runs = extents::ask(&self.idle, &self.control, self.geometry.data_bytes(), limit)?;
        for run in &mut runs {
            *run = run.start / block..run.end.div_ceil(block);
        }
        Some(runs)
    }

    /// A connection that was lost, while nobody used it say, is not there again.
    fn max_queues(&self) -> usize {
        self.idle.standing().clamp(1, self.queues)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let (geometry, features, limit) = (self.geometry, self.features(), self.patience);
        let table = |engine: &mut NbdClient, _| {
            Table::new(on, engine, Arc::clone(&self.idle), geometry, features, limit)
        };
        Ok(Box::new(RemoteQueue::open(on, owner, self.idle.take()?, self.failover, table)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(size_bytes: u64, minimum: u32, preferred: u32) -> Result<Geometry, String> {
        let sizes = BlockSizes { minimum, preferred, ..BlockSizes::DEFAULT };
        geometry(&ExportInfo { size_bytes, flags: TransmissionFlags::default(), sizes })
    }

    #[test]
    fn blocks_are_the_smallest_that_the_server_takes() {
        let with = |minimum, preferred| {
            let geometry = export(1 << 20, minimum, preferred).unwrap();
            (geometry.block_bytes, geometry.optimal_blocks)
        };
        assert_eq!(
            [with(1, 4096), with(512, 512), with(1, 65_536)],
            [(512, 8), (512, 1), (512, 128)]
        );
        assert_eq!([with(4096, 4096), with(4096, 1 << 20)], [(4096, 1), (4096, 256)]);
    }

    #[test]
    fn all_bytes_can_be_read_or_the_export_is_refused() {
        let sizes = |bytes, minimum| {
            let geometry = export(bytes, minimum, 4096).unwrap();
            assert_eq!(geometry.data_bytes(), bytes);
            (geometry.blocks, geometry.padding_bytes)
        };
        assert_eq!([sizes(1_000_001, 1), sizes(1, 1)], [(1954, 447), (1, 511)]);
        assert_eq!([sizes(1002, 2), sizes(8192, 4096)], [(2, 22), (2, 0)]);
        assert_eq!(sizes(SIZE_BYTES_MAX, 1), (1 << 54, 1));
        for (bytes, minimum) in [(0, 1), (1001, 2), (1_049_088, 4096), (SIZE_BYTES_MAX + 1, 1)] {
            assert!(export(bytes, minimum, 4096).is_err(), "{bytes} bytes, {minimum} at least");
        }
    }
}
