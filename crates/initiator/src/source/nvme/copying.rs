//! Copies from one namespace of a subsystem to another, by the controller of the one that is
//! written: Copy with descriptor format 2h (NVM 1.1 §3.2.2).

use super::admin_command;
use super::association::Association;
use super::command_data::CommandData;
use super::passthrough;
use super::transport::ControllerLink;
use crate::source::queue::QueueGate;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::offload::{Offload, OffloadSource};
use weft_block::{Error, Outcome, Status, StatusKind};
use weft_connection::limits::OFFLOAD_BYTES_MAX;
use weft_connection::status::nvme::from_nvme;
use weft_proto::nvme::copy::{Copy, CopyFormat, CopyRange, HostBehavior};
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::host::{RemoteNamespace, command};
use weft_proto::nvme::identify::{
    Cns, IdentifyController, IdentifyNamespace, NamespaceDescriptors,
};
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Lba, Nsid};

/// The format of the source ranges: across namespaces.
const FORMAT: CopyFormat = CopyFormat::ACROSS_NAMESPACES;

/// Copies to one namespace from another one.
struct NamespaceCopy<L> {
    association: Arc<Association<L>>,
    name: String,
    from: Nsid,
    to: Nsid,
    blocks_max: u32,
    queues: usize,
}

/// What names a namespace among those of its subsystem; `None`: it has no UUID and no NGUID.
pub(super) fn served<L>(
    association: &Association<L>,
    namespace: &RemoteNamespace,
) -> Option<OffloadSource> {
    Some(OffloadSource {
        server: subsystem(association)?,
        number: namespace.nsid.0,
        uuid: uuid(namespace)?,
        block_bytes: namespace.block_bytes,
    })
}

/// A way to copy to the namespace `to` from another one, if the controller has one, and `from` is
/// there what it is on the connection on which it was opened. Waits for the controller.
pub(super) fn begin<L: ControllerLink>(
    association: &Arc<Association<L>>,
    name: &str,
    to: &RemoteNamespace,
    from: &OffloadSource,
) -> Option<Arc<dyn Offload>> {
    let most = u32::from(to.identify.mssrl).min(to.identify.mcl);
    let can_copy = {
        let learned = association.learned();
        let id = &learned.controller.identify;
        id.oncs & IdentifyController::ONCS_COPY != 0 && id.cdfs & FORMAT.bit() != 0
    };
    let queues = association.idle_queues();
    let is_ours = subsystem(association).is_some_and(|server| server == from.server)
        && from.block_bytes == to.block_bytes
        && from.number != to.nsid.0;
    if !can_copy || !is_ours || most == 0 || queues == 0 {
        return None;
    }
    let copy = NamespaceCopy {
        association: Arc::clone(association),
        name: name.to_owned(),
        from: Nsid(from.number),
        to: to.nsid,
        blocks_max: most.min((OFFLOAD_BYTES_MAX / to.block_bytes).max(1)),
        queues,
    };
    match copy.is_known(from).and_then(|known| Ok(known && copy.enable()?)) {
        Ok(is_possible) => is_possible.then(|| Arc::new(copy) as Arc<dyn Offload>),
        Err(e) => {
            tracing::debug!("{name}: no copy by the controller: {e}");
            None
        }
    }
}

fn subsystem<L>(association: &Association<L>) -> Option<String> {
    let nqn = association.learned().controller.identify.subnqn.nqn();
    nqn.ok().map(|nqn| nqn.to_string())
}

fn uuid(namespace: &RemoteNamespace) -> Option<Uuid> {
    namespace.uuid.or(namespace.nguid).map(|id| Uuid::from_bytes(id.0))
}

impl<L: ControllerLink> NamespaceCopy<L> {
    /// Whether this controller has the same namespace under its identifier.
    fn is_known(&self, from: &OffloadSource) -> Result<bool, Error> {
        let identify =
            |cns: Cns| admin_command::identify(&self.association, &self.name, cns.0, self.from);
        let Ok(id) = IdentifyNamespace::decode(&identify(Cns::NAMESPACE)?) else {
            return Ok(false);
        };
        let names = NamespaceDescriptors::decode(&identify(Cns::NAMESPACE_DESCRIPTORS)?);
        let controller = self.association.learned().controller.clone();
        let names = names.unwrap_or_default();
        let found = RemoteNamespace::derive(self.from, id, &names, &controller);
        Ok(found.ok().flatten().is_some_and(|found| {
            uuid(&found) == Some(from.uuid) && found.block_bytes == from.block_bytes
        }))
    }

    /// Enables the format of the ranges by the feature Host Behavior Support, where it is not; what
    /// else is set there stays.
    fn enable(&self) -> Result<bool, Error> {
        let feature = |opcode: AdminOpcode, data| {
            let mut sqe = Sqe::new(opcode.0, Nsid(0));
            sqe.set_dword(10, FeatureId::HOST_BEHAVIOR_SUPPORT.0.into());
            admin_command::run(&self.association, &self.name, sqe, data)
        };
        let bytes = CommandData::In(HostBehavior::BYTES as u32);
        let (cqe, data) = feature(AdminOpcode::GET_FEATURES, bytes)?;
        let Some(set) = HostBehavior::decode(&data).filter(|_| cqe.status.is_success()) else {
            return Ok(false);
        };
        if set.copy_formats & FORMAT.bit() != 0 {
            return Ok(true);
        }
        let set = HostBehavior { copy_formats: set.copy_formats | FORMAT.bit(), ..set };
        let data = CommandData::Out(set.encode().to_vec());
        let (cqe, _) = feature(AdminOpcode::SET_FEATURES, data)?;
        Ok(cqe.status.is_success())
    }

    fn run(&self, sqe: Sqe, data: CommandData) -> Outcome {
        // The namespace that is written may be another one by now.
        if self.association.gate() != QueueGate::Open {
            return Outcome::NotSent(Status::new(StatusKind::Transport));
        }
        match passthrough::run(&self.association, &self.name, sqe, data) {
            Ok((cqe, _)) => Outcome::Done(from_nvme(cqe.status, cqe.do_not_retry)),
            Err(e) => {
                tracing::debug!("a copy by the controller: {e}");
                Outcome::unsettled(Status::new(StatusKind::Transport))
            }
        }
    }
}

impl<L: ControllerLink> Offload for NamespaceCopy<L> {
    fn blocks_max(&self) -> u32 {
        self.blocks_max
    }

    fn calls_max(&self) -> usize {
        self.queues
    }

    fn copy(&self, from: u64, to: u64, blocks: u32) -> Outcome {
        let range = CopyRange { nsid: self.from, lba: Lba(from), blocks, fast_only: false };
        let copy = Copy { to: Lba(to), ranges: 1, format: FORMAT, fua: false };
        self.run(copy.encode(self.to), CommandData::Out(range.encode().to_vec()))
    }

    fn flush(&self) -> Outcome {
        self.run(command::flush(self.to), CommandData::None)
    }
}
