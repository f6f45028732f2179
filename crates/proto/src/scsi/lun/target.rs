//! A SCSI target device, and its nexuses.

use super::attention::Attention;
use super::name::{NexusName, TransportId};
use super::nexus::Nexus;
use super::table::UnitTable;
use super::unit::NexusId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A target.
#[derive(Debug)]
pub struct Target {
    name: Arc<str>,
    next_nexus: AtomicU64,
}

/// The reason for a new nexus, which its initiator receives as a unit attention condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// For the first time.
    New,
    /// The same initiator port was here before, and its session ended or was reinstated.
    Again,
}

impl Target {
    /// A target with the name that iSCSI has for it. The names of its ports are made from it and
    /// their numbers, which are portal group tags.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self { name: name.into(), next_nexus: AtomicU64::new(1) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The initiator port `initiator` is logged in at the target port `target_port` (its relative
    /// identifier, 1 and on), and sees `units`.
    pub fn attach(
        self: &Arc<Self>,
        initiator: TransportId,
        target_port: u16,
        arrival: Arrival,
        units: &UnitTable,
    ) -> Nexus {
        let id = NexusId(self.next_nexus.fetch_add(1, Ordering::Relaxed));
        let attention = match arrival {
            Arrival::New => Attention::PowerOn,
            Arrival::Again => Attention::NexusLoss,
        };
        Nexus::new(
            Arc::clone(&self.name),
            id,
            NexusName { initiator, target_port },
            attention,
            units,
        )
    }
}
