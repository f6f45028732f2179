//! State that the connections of one server share: its exports, and the clients that are there. For
//! the cold path only.

use crate::export::hosts::{ConnectedHost, HostProtocol};
use crate::export::listen::Homes;
use crate::export::mailbox::Mailbox;
use crate::export::members::{Members, Message};
use crate::export::origin::origin;
use crate::inventory::{self, Follower, Inventory, LiveInventory, Namespace, Subsystem};
use std::sync::{Arc, Weak};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::units;
use weft_connection::limits::{
    CONNECTIONS_MAX, NBD_PREFERRED_BYTES, NBD_TRANSFER_BYTES_MAX, POOL_PARTS,
};
use weft_connection::statistics::{ConnectionName, Meter, NamespaceName};
use weft_io::limits::BUF_BYTES_MIN;
use weft_proto::limits::HANDSHAKE_S;
use weft_proto::nbd::code::TransmissionFlags;
use weft_proto::nbd::server::Listed;
use weft_proto::nbd::{BlockSizes, ExportInfo};
use weft_proto::nvme::types::Nqn;

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct NbdLimits {
    /// Connections; see [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// Time from accepting a connection to its choice of an export; see [`HANDSHAKE_S`].
    pub handshake: Duration,
}

impl Default for NbdLimits {
    fn default() -> Self {
        Self { connections: CONNECTIONS_MAX, handshake: Duration::from_secs(HANDSHAKE_S) }
    }
}

/// Connections of NBD are independent and send each other no messages.
pub(super) enum Nothing {}

/// State that all connections of one server share.
pub(super) struct ServerState {
    pub(super) inventory: Arc<LiveInventory>,
    pub(super) limits: NbdLimits,
    pub(super) homes: Homes,
    pub(super) members: Arc<Members<Nothing>>,
    /// Longest payload, bytes.
    payload_max: u32,
    chosen: Lock<Vec<Choice>>,
}

/// What a connection has chosen: the subsystem, and the namespace as it was then.
struct Choice {
    mailbox: Weak<MailboxOf>,
    nqn: Nqn,
    namespace: Arc<Namespace>,
    peer: String,
}

type MailboxOf = Mailbox<Message<Nothing>>;

impl ServerState {
    pub(super) fn new(
        inventory: Arc<LiveInventory>,
        limits: NbdLimits,
        pool_bytes: usize,
        homes: Homes,
    ) -> Arc<Self> {
        let part = (pool_bytes / POOL_PARTS).clamp(BUF_BYTES_MIN, NBD_TRANSFER_BYTES_MAX as usize);
        let live = Arc::clone(&inventory);
        live.join(|_| {
            let members = Members::new(limits.connections);
            Arc::new(Self {
                inventory,
                limits,
                homes,
                members,
                payload_max: 1 << part.ilog2(),
                chosen: Lock::default(),
            })
        })
    }

    /// What LIST tells: the namespaces that have a name. The first is also the default export.
    pub(super) fn exports(&self) -> Arc<[Listed]> {
        let now = self.look();
        now.namespaces()
            .filter(|namespace| namespace.served().is_some())
            .filter_map(|namespace| listed(namespace))
            .collect()
    }

    /// The export that a client knows as `name`: its negotiated properties, and the namespace.
    pub(super) fn find(&self, name: &str) -> Option<(Listed, ExportInfo, Arc<Namespace>)> {
        let now = self.look();
        let wanted = |namespace: &&Arc<Namespace>| {
            namespace.name.as_ref().is_some_and(|known| name.is_empty() || known == name)
        };
        let namespace =
            now.namespaces().filter(|namespace| namespace.served().is_some()).find(wanted)?;
        Some((listed(namespace)?, self.info(namespace), Arc::clone(namespace)))
    }

    /// What is served. Devices may have changed while no queue was there to tell of it.
    fn look(&self) -> Arc<Inventory> {
        self.inventory.look_at_devices();
        self.inventory.now()
    }

    /// The connection of `mailbox` serves this namespace from now on. The subsystem that has it;
    /// `None`: it is not what it was when it was found.
    pub(super) fn choose(
        &self,
        mailbox: &Arc<MailboxOf>,
        namespace: &Arc<Namespace>,
        peer: &str,
    ) -> Option<Nqn> {
        let mut chosen = self.chosen.lock();
        // Under the lock that whoever follows the inventory takes: a change of after this is told.
        let now = self.inventory.now();
        let holds = |subsystem: &&Arc<Subsystem>| {
            subsystem.namespace(namespace.nsid).is_some_and(|it| Arc::ptr_eq(it, namespace))
        };
        let subsystem = now.subsystems().iter().find(holds)?;
        chosen.retain(|choice| choice.mailbox.strong_count() > 0);
        let (mailbox, nqn) = (Arc::downgrade(mailbox), subsystem.nqn.clone());
        chosen.push(Choice {
            mailbox,
            nqn,
            namespace: Arc::clone(namespace),
            peer: peer.to_owned(),
        });
        Some(subsystem.nqn.clone())
    }

    /// Counts the requests of a client at `peer`, which has chosen a namespace. A client is known
    /// by its address.
    pub(super) fn meter(&self, peer: &str, namespace: NamespaceName) -> Meter {
        let host = origin(peer).map_or_else(|| "local".to_owned(), |address| address.to_string());
        let name =
            ConnectionName { protocol: "nbd", host, peer: peer.to_owned(), queue: None, tls: None };
        let mut meter = self.inventory.statistics().enter(name, 0);
        meter.follow([Some(namespace)].into_iter());
        meter
    }

    /// The clients that have chosen an export.
    pub(super) fn hosts(&self) -> Vec<ConnectedHost> {
        let alive = |choice: &&Choice| choice.mailbox.strong_count() > 0;
        let host = |choice: &Choice| {
            let (name, subsystem, namespaces) =
                (choice.peer.clone(), choice.nqn.clone(), vec![choice.namespace.nsid]);
            ConnectedHost { protocol: HostProtocol::Nbd, name, subsystem, namespaces }
        };
        self.chosen.lock().iter().filter(alive).map(host).collect()
    }

    fn info(&self, namespace: &Namespace) -> ExportInfo {
        let (geometry, features) = (namespace.device.geometry(), namespace.device.features());
        let flags = TransmissionFlags::HAS_FLAGS
            .with(TransmissionFlags::SEND_FLUSH)
            .with(TransmissionFlags::SEND_FUA)
            .with(TransmissionFlags::CAN_MULTI_CONN)
            .with_if(TransmissionFlags::READ_ONLY, !features.write)
            .with_if(TransmissionFlags::SEND_TRIM, features.write && features.discard)
            .with_if(TransmissionFlags::SEND_WRITE_ZEROES, features.write && features.write_zeroes)
            .with_if(TransmissionFlags::SEND_FAST_ZERO, features.write && features.write_zeroes);
        // Blocks are written in part by compare-and-write, towards which nobody's writes are lost.
        // Clients as libnbd send nothing shorter than the minimum, so it is told.
        let minimum = if features.compare || !features.write { 1 } else { geometry.block_bytes };
        let optimal = geometry.optimal_blocks.saturating_mul(geometry.block_bytes);
        let optimal = if optimal.is_power_of_two() { optimal } else { geometry.block_bytes };
        let preferred =
            optimal.max(NBD_PREFERRED_BYTES).min(self.payload_max).max(geometry.block_bytes);
        let sizes = BlockSizes { minimum, preferred, payload_max: self.payload_max.max(preferred) };
        ExportInfo { size_bytes: size_bytes(namespace), flags, sizes }
    }
}

/// Bytes that clients are told: NBD has no blocks, so the padding of the last one is left out.
fn size_bytes(namespace: &Namespace) -> u64 {
    namespace.device.geometry().of_first(namespace.blocks).data_bytes()
}

fn listed(namespace: &Namespace) -> Option<Listed> {
    Some(Listed {
        name: namespace.name.clone()?,
        description: format!("{}, by weft", units::format_size(size_bytes(namespace))),
    })
}

/// Whether a client that has chosen a namespace can go on with what it has become: it was told its
/// size once and for all.
fn can_go_on(chosen: &Namespace, now: Option<&Arc<Namespace>>) -> bool {
    now.is_some_and(|now| {
        let same = now.is_same_data(chosen) && Arc::ptr_eq(&now.device, &chosen.device);
        same && now.served().is_some() && now.name.is_some() && now.blocks >= chosen.blocks
    })
}

impl Follower for ServerState {
    fn follow(&self, now: &Arc<Inventory>, _: &[inventory::Change]) {
        self.chosen.lock().retain(|Choice { mailbox, nqn, namespace, .. }| {
            let Some(mailbox) = mailbox.upgrade() else { return false };
            let stays = can_go_on(namespace, now.namespace(nqn, namespace.nsid));
            if !stays {
                mailbox.post(Message::Drain);
            }
            stays
        });
    }
}
