//! An export of a remote server as a block device.

use super::extents;
use super::table::{Patience, Table};
use crate::control::Control;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::paths::Failover;
use crate::pump::{Flow, Handler, StreamPump};
use crate::source::ConnectOptions;
use crate::source::idle::{Idle, take_leave};
use crate::source::queue::RemoteQueue;
use crate::url::nbd::NbdUrl;
use core::ops::Range;
use std::sync::Arc;
use weft_block::{BlockDevice, BlockQueue, Error, ErrorKind, Features, Geometry, Presence};
use weft_io::{DriverId, Handle};
use weft_proto::nbd::code::TransmissionFlags;
use weft_proto::nbd::{BlockSizes, Client, ClientEvent, ExportInfo};
use weft_proto::stream::Tag;

/// Smallest block of a device, bytes.
const BLOCK_BYTES_MIN: u32 = 512;

/// An export over NBD. Dropping it takes leave of the server; see [`crate::Control::finish`].
pub struct NbdDevice {
    idle: Arc<Idle<Client>>,
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
        connections: Vec<StreamPump<Client>>,
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
        let idle = Arc::new(Idle::new(url.clone(), &options.control, connections));
        let geometry = geometry(&info);
        if geometry.blocks == 0 {
            idle.close(leave);
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("{url}: the export has {} bytes, no block", info.size_bytes),
            ));
        }
        tracing::warn!(
            "{url}: NBD exports have no lasting names; if another one of the same size takes its place, that is not noticed"
        );
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
/// no block size, as servers state 4096 for disks of 512 bytes too; it is the optimal length. Bytes
/// beyond the last whole block are not reached.
fn geometry(info: &ExportInfo) -> Geometry {
    let block_bytes = info.sizes.minimum.max(BLOCK_BYTES_MIN);
    let transfer = info.sizes.payload_max.min(TRANSFER_BYTES_MAX).max(block_bytes);
    Geometry {
        block_bytes,
        blocks: info.size_bytes / u64::from(block_bytes),
        optimal_blocks: (info.sizes.preferred / block_bytes).max(1),
        max_transfer_bytes: transfer - transfer % block_bytes,
        atomic: weft_block::Atomicity::ONE_BLOCK,
    }
}

/// Ends a connection in order.
fn leave(control: &Control, mut connection: StreamPump<Client>) {
    connection.engine.disconnect();
    take_leave(control, connection, Farewell);
}

/// Nothing is under way any more.
struct Farewell;

impl Handler<Client> for Farewell {
    fn memory_mut(&mut self, _: Tag, _: u32, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn memory(&self, _: Tag, _: u32, _: u32) -> &[u8] {
        &[]
    }

    fn event(&mut self, _: &Handle, _: &mut Client, _: ClientEvent) -> Flow {
        Flow::Continue
    }

    fn released(&mut self, _: &Handle, _: &mut Client, _: Tag) {}
}

impl BlockDevice for NbdDevice {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.geometry
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
        let Geometry { block_bytes, blocks, .. } = self.geometry;
        let block = u64::from(block_bytes);
        let limit = self.patience.io_timeout;
        let mut runs = extents::ask(&self.idle, &self.control, blocks * block, limit)?;
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
        let table = |engine: &mut Client, _| {
            Table::new(on, engine, Arc::clone(&self.idle), geometry, features, limit)
        };
        Ok(Box::new(RemoteQueue::open(on, owner, self.idle.take()?, self.failover, table)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_smallest_that_the_server_takes() {
        let with = |minimum, preferred| {
            let sizes = BlockSizes { minimum, preferred, ..BlockSizes::DEFAULT };
            let geometry = geometry(&ExportInfo {
                size_bytes: 1 << 20,
                flags: TransmissionFlags::default(),
                sizes,
            });
            (geometry.block_bytes, geometry.optimal_blocks)
        };
        assert_eq!(
            [with(1, 4096), with(512, 512), with(1, 65_536)],
            [(512, 8), (512, 1), (512, 128)]
        );
        assert_eq!([with(4096, 4096), with(4096, 1 << 20)], [(4096, 1), (4096, 256)]);
    }
}
