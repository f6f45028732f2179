//! A namespace of a remote subsystem as a block device.

use super::association::{HeldAssociation, ToAdmin};
use super::copying;
use super::queue::IoQueue;
use super::transport::ControllerLink;
use crate::source::digits::digits;
use crate::source::queue::RemoteQueue;
use core::time::Duration;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::offload::{Offload, OffloadSource};
use weft_block::{
    AccessState, Atomicity, BlockDevice, BlockQueue, Error, ErrorKind, Features, Geometry,
    Identity, Pending, Presence, SizeAnswer,
};
use weft_connection::limits::TRANSFER_BYTES_MAX;
use weft_connection::url::NvmeUrl;
use weft_io::{DriverId, Handle};
use weft_proto::nvme::host::RemoteNamespace;

/// A namespace over some transport. Dropping it ends the association in order.
pub struct NvmeDevice<L> {
    association: HeldAssociation<L>,
    namespace: RemoteNamespace,
    url: String,
    queues: usize,
}

impl<L> NvmeDevice<L> {
    pub(crate) fn new(
        association: HeldAssociation<L>,
        namespace: RemoteNamespace,
        url: String,
    ) -> Self {
        let queues = association.0.idle_queues();
        Self { association, namespace, url, queues }
    }
}

impl<L: ControllerLink> BlockDevice for NvmeDevice<L> {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        let ns = &self.namespace;
        let blocks_max = (TRANSFER_BYTES_MAX / ns.block_bytes).min(ns.transfer_blocks_max).max(1);
        Geometry {
            block_bytes: ns.block_bytes,
            blocks: self.association.0.blocks(ns.nsid).unwrap_or(ns.blocks),
            padding_bytes: 0,
            optimal_blocks: ns.preferred_write_blocks.max(1),
            max_transfer_bytes: blocks_max * ns.block_bytes,
            atomic: Atomicity {
                write_blocks: ns.atomic_write_blocks.max(1),
                power_fail_blocks: ns.atomic_power_fail_blocks.max(1),
                compare_and_write_blocks: ns.compare_and_write_blocks_max.max(1),
            },
        }
    }

    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        let failed = |why: String| {
            Error::new(ErrorKind::Io, format!("{}: its size cannot be had: {why}", self.url))
        };
        let (promise, answer) = Pending::<Result<(), String>>::promised();
        let reply = Box::new(move |outcome: Result<(), String>| promise.complete(Ok(outcome)));
        self.association.0.tell(ToAdmin::Look(reply));
        answer.wait()?.map_err(failed)?;
        match self.association.0.blocks(self.namespace.nsid) {
            Some(_) => Ok(SizeAnswer::Now),
            None => Err(failed("the namespace no longer exists".into())),
        }
    }

    fn features(&self) -> Features {
        let ns = &self.namespace;
        Features {
            write: !ns.write_protected,
            volatile_cache: ns.volatile_cache,
            cache_unknown: false,
            discard: ns.deallocate.is_some(),
            discard_zeroes: ns.deallocated_reads_zero,
            write_zeroes: ns.write_zeroes.is_some(),
            compare: ns.compare && ns.compare_and_write_blocks_max > 0,
            reservations: ns.reservations
                && ns.block_bytes as usize <= weft_block::limits::RESERVATION_REPORT_BYTES,
        }
    }

    fn identity(&self) -> Identity {
        let ns = &self.namespace;
        let id = &self.association.0.learned().controller.identify;
        let text = |text: String| Some(text).filter(|t| !t.is_empty());
        let nguid = ns.nguid.map(|id| ("NGUID", digits(&id.0)));
        let eui64 = ns.eui64.map(|id| ("EUI-64", digits(&id)));
        let subsystem = NvmeUrl::parse(&self.url).ok().and_then(|url| url.subsystem);
        Identity {
            uuid: ns.uuid.or(ns.nguid).map(|id| Uuid::from_bytes(id.0)),
            passing: None,
            names: nguid.into_iter().chain(eui64).collect(),
            target: subsystem.map(|nqn| format!("{}/{}", nqn.as_str(), ns.nsid.0)),
            serial: text(id.sn.text()),
            serial_of_target: true,
            model: text(id.mn.text()),
            firmware: text(id.fr.text()),
        }
    }

    fn used_blocks(&self) -> Option<u64> {
        Some(self.namespace.identify.nuse)
    }

    fn presence(&self) -> Presence {
        self.association.0.presence()
    }

    fn access_state(&self) -> AccessState {
        self.association.0.access()
    }

    fn cache_epoch(&self) -> Option<u64> {
        self.association.0.learned().controller.cache_epoch()
    }

    fn late_writes_bound(&self) -> Option<Duration> {
        Some(self.association.0.settle_bound())
    }

    fn served(&self) -> Option<OffloadSource> {
        copying::served(&self.association.0, &self.namespace)
    }

    fn offload(&self, from: &OffloadSource) -> Option<Arc<dyn Offload>> {
        copying::begin(&self.association.0, &self.url, &self.namespace, from)
    }

    fn max_queues(&self) -> usize {
        self.queues
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let association = &self.association.0;
        let connection = association.take_idle().ok_or_else(|| {
            if association.is_over() {
                let why = association.why_ended();
                return Error::new(ErrorKind::Refused, format!("the connection is over: {why}"));
            }
            let text = format!(
                "{}: all {} I/O queues are in use; ask for more with --nr-io-queues",
                self.url, self.queues
            );
            Error::new(ErrorKind::NoResources, text)
        })?;
        let qid_and_commands = (connection.qid, connection.commands);
        let queue = |_: &mut L::Engine, id| {
            IoQueue::new(on, id, association, qid_and_commands, self.namespace.clone())
        };
        Ok(Box::new(RemoteQueue::open(
            on,
            owner,
            connection,
            association.options.paths.failover,
            queue,
        )?))
    }
}
