//! Constant properties of a subsystem and one of its controllers, and the Identify Controller data
//! with them.

use core::fmt;
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    admin::{
        features,
        support::{ControllerKind, Optional, VERSION, volatile_cache},
    },
    instance::Instance,
    io::copy_command::COPY_FORMATS,
    namespace::NamespaceMap,
};
use crate::{
    limits::{
        ABORTS_MAX, ADMIN_QUEUE_ENTRIES_MAX, ANA_GROUPS_MAX, ANA_TRANSITION_S, ASYNC_EVENTS_MAX,
        CONTROLLER_QUIESCE_MS, CONTROLLERS_MAX, CROSS_RESETS_EXECUTED_MAX, ERROR_ENTRIES_MAX,
        IO_QUEUES_MAX, KEEP_ALIVE_GRANULARITY_MS, NAMESPACES_MAX, QUEUE_ENTRIES_MAX,
        READY_TIMEOUT_MS, TRANSFER_MAX_BYTES,
    },
    nvme::{
        identify::{ControllerType, IdentifyController},
        log_page::TransportType,
        sqe::HostMemory,
        types::{Cntlid, Id128, Nqn},
        wire::{Ascii, NqnField},
    },
};

/// Allocation of controllers to hosts (Base §3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerModel {
    /// Each association gets a controller made for it.
    Dynamic,
    /// There are controllers 1 to this number, and a host may ask for a certain one.
    Static(u16),
}

/// Identity and limits of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// With or without namespaces.
    pub kind: ControllerKind,
    /// Name; for a discovery subsystem one of its own, or [`Nqn::discovery`], by which it is
    /// reached in any case.
    pub nqn: Nqn,
    /// Serial number, up to 20 ASCII characters.
    pub serial: String,
    /// Model number, up to 40 ASCII characters.
    pub model: String,
    /// Firmware revision, up to 8 ASCII characters.
    pub firmware: String,
    /// Allocation of controllers.
    pub controllers: ControllerModel,
    /// Identifiers that are given out in the dynamic model, the lowest and the highest: several
    /// processes that serve one subsystem have ranges of their own.
    pub cntlids: (u16, u16),
    /// Milliseconds for which a controller may go on with commands after its keep alive timer has
    /// run out (CQT); 0: not told.
    pub quiesce_ms: u16,
    /// A random number of this process, from which the instances of controllers have theirs (CIRN).
    pub seed: u64,
    /// Controllers in the dynamic model, at most.
    pub controllers_max: u16,
    /// I/O queues of a controller, at most.
    pub io_queues_max: u16,
    /// Entries of an I/O queue, at most: 2 to [`QUEUE_ENTRIES_MAX`].
    pub queue_entries: u16,
    /// Entries of an admin queue, at most: 2 to [`ADMIN_QUEUE_ENTRIES_MAX`].
    pub admin_queue_entries: u16,
    /// Data of one command in bytes, at most (MDTS): rounded down to a power of two, and at least 8
    /// KiB.
    pub transfer_bytes_max: u32,
    /// Hosts that may connect; `None` means all.
    pub hosts: Option<Vec<Nqn>>,
}

impl SubsystemConfig {
    /// A subsystem in the dynamic model, open to all hosts, with the limits of [`crate::limits`].
    pub fn new(kind: ControllerKind, nqn: Nqn) -> Self {
        Self {
            kind,
            nqn,
            serial: String::new(),
            model: String::from("weft"),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            controllers: ControllerModel::Dynamic,
            cntlids: (1, CNTLID_MAX),
            quiesce_ms: CONTROLLER_QUIESCE_MS,
            seed: 0,
            controllers_max: CONTROLLERS_MAX,
            io_queues_max: IO_QUEUES_MAX,
            queue_entries: QUEUE_ENTRIES_MAX,
            admin_queue_entries: ADMIN_QUEUE_ENTRIES_MAX,
            transfer_bytes_max: TRANSFER_MAX_BYTES,
            hosts: None,
        }
    }

    /// Returns whether a host that connects to this name means the subsystem: every discovery
    /// subsystem has the well-known name in addition to its own (Base §3.1.3.3; TP 8013).
    pub fn is_called(&self, nqn: &Nqn) -> bool {
        self.nqn == *nqn
            || (self.kind == ControllerKind::Discovery && nqn.as_str() == Nqn::DISCOVERY)
    }

    /// The same with all limits in their ranges.
    pub(super) fn in_range(mut self) -> Self {
        self.io_queues_max = self.io_queues_max.clamp(1, 0xfffe);
        self.queue_entries = self.queue_entries.clamp(2, QUEUE_ENTRIES_MAX);
        self.admin_queue_entries = self.admin_queue_entries.clamp(2, ADMIN_QUEUE_ENTRIES_MAX);
        self.transfer_bytes_max = 1 << self.transfer_bytes_max.max(8192).ilog2();
        let first = self.cntlids.0.clamp(1, CNTLID_MAX);
        self.cntlids = (first, self.cntlids.1.clamp(first, CNTLID_MAX));
        if let ControllerModel::Static(count) = &mut self.controllers {
            *count = (*count).clamp(1, CNTLID_MAX);
        }
        self
    }
}

/// The highest controller identifier: the rest has meanings of its own.
pub const CNTLID_MAX: u16 = 0xffef;

/// Through what a host has come to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Identifier of the port, as the discovery log has it.
    pub id: u16,
    /// Form in which its commands name the host's memory.
    pub host_memory: HostMemory,
    /// The address that the listener was given, by which ANA groups may differ in their states
    /// ([`super::AnaStates`]); `None`: it has none.
    pub listener: Option<SocketAddr>,
    /// Data that a command capsule of an I/O queue may carry, in bytes (IOCCSZ tells it to the
    /// host); a multiple of 16.
    pub in_capsule_bytes: u32,
    /// Address by which the host reached the port; `None`: not an IP address.
    pub came_by: Option<CameBy>,
}

/// The way by which a host reached a port: what discovery tells it of a listener at all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameBy {
    /// The transport.
    pub transport: TransportType,
    /// The address of this machine to which the host connected.
    pub ip: IpAddr,
}

/// A host as it named itself in Connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// HOSTNQN. `None`: the host gave none, which not all do; it gets what every host gets, and
    /// nothing that depends on who it is.
    pub nqn: Option<Nqn>,
    /// HOSTID.
    pub id: Id128,
}

impl fmt::Display for HostIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.nqn {
            Some(nqn) => nqn.fmt(f),
            None => f.write_str("without a name"),
        }
    }
}

/// One controller, as far as it is fixed by Connect.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub start: Arc<AtomicU64>,
    pub config: Arc<SubsystemConfig>,
    pub cntlid: Cntlid,
    pub port: Port,
    pub host: HostIdentity,
}

/// SGLS: without alignment, with offsets into the capsule, and the transport's own forms.
const fn sgls(memory: HostMemory) -> u32 {
    let moved = match memory {
        HostMemory::Transport => IdentifyController::SGLS_TRANSPORT,
        HostMemory::Keyed => IdentifyController::SGLS_KEYED,
    };
    IdentifyController::SGLS_ANY_ALIGNMENT | IdentifyController::SGLS_OFFSET | moved
}

/// One read-only firmware slot.
const FIRMWARE_SLOTS: u8 = 1 | 1 << 1;

impl Identity {
    /// Identify Controller (Base §5.17.2.1).
    pub fn identify(&self, namespaces: &NamespaceMap, instance: Instance) -> IdentifyController {
        let common = self.common();
        match self.config.kind {
            ControllerKind::Io => self.io(common, namespaces, instance),
            ControllerKind::Discovery => common,
        }
    }

    fn common(&self) -> IdentifyController {
        let config = &self.config;
        IdentifyController {
            sn: Ascii::new(&config.serial),
            mn: Ascii::new(&config.model),
            fr: Ascii::new(&config.firmware),
            mdts: (config.transfer_bytes_max / 4096).ilog2() as u8,
            cntlid: self.cntlid,
            ver: VERSION.0,
            rtd3e: READY_TIMEOUT_MS * 1000,
            oaes: features::event_bits(config.kind),
            ctratt: IdentifyController::CTRATT_HOST_ID_128,
            cntrltype: match config.kind {
                ControllerKind::Io => ControllerType::IO,
                ControllerKind::Discovery => ControllerType::DISCOVERY,
            },
            aerl: ASYNC_EVENTS_MAX as u8 - 1,
            lpa: IdentifyController::LPA_EFFECTS
                | IdentifyController::LPA_EXTENDED
                | IdentifyController::LPA_SUPPORTED_PAGES,
            kas: (KEEP_ALIVE_GRANULARITY_MS / 100) as u16,
            maxcmd: config.queue_entries,
            sgls: sgls(self.port.host_memory),
            subnqn: NqnField::from(&config.nqn),
            ioccsz: (64 + self.port.in_capsule_bytes) / 16,
            iorcsz: 1,
            fcatt: if matches!(config.controllers, ControllerModel::Static(_)) {
                IdentifyController::FCATT_STATIC
            } else {
                0
            },
            msdbd: 1,
            ..IdentifyController::default()
        }
    }

    fn io(
        &self,
        common: IdentifyController,
        namespaces: &NamespaceMap,
        instance: Instance,
    ) -> IdentifyController {
        let (oncs, fuses) = optional_commands(namespaces);
        let cache = if volatile_cache(namespaces) { IdentifyController::VWC_PRESENT } else { 0 };
        let mut io = IdentifyController {
            rab: 6,
            ciu: instance.ciu,
            cirn: instance.cirn,
            cqt: self.config.quiesce_ms,
            ccrl: CROSS_RESETS_EXECUTED_MAX,
            cmic: IdentifyController::CMIC_PORTS
                | IdentifyController::CMIC_CONTROLLERS
                | IdentifyController::CMIC_ANA,
            anatt: ANA_TRANSITION_S,
            anacap: IdentifyController::ANACAP_STATES,
            anagrpmax: ANA_GROUPS_MAX,
            nanagrpid: ANA_GROUPS_MAX,
            acl: ABORTS_MAX as u8 - 1,
            frmw: FIRMWARE_SLOTS,
            elpe: (ERROR_ENTRIES_MAX - 1) as u8,
            wctemp: features::WARNING_TEMPERATURE,
            cctemp: features::CRITICAL_TEMPERATURE,
            sqes: 0x66,
            cqes: 0x44,
            nn: namespaces.highest(),
            mnan: NAMESPACES_MAX,
            oncs,
            fuses,
            cdfs: COPY_FORMATS,
            vwc: cache | IdentifyController::VWC_FLUSH_ALL,
            ..common
        };
        io.set_start_number(self.start.load(Relaxed));
        io
    }
}

fn optional_commands(namespaces: &NamespaceMap) -> (u16, u16) {
    let optional = Optional::of(namespaces);
    let bit = |on: bool, bit: u16| if on { bit } else { 0 };
    let oncs = bit(optional.compare, IdentifyController::ONCS_COMPARE)
        | bit(optional.write_zeroes, IdentifyController::ONCS_WRITE_ZEROES)
        | bit(optional.dataset_management, IdentifyController::ONCS_DATASET_MANAGEMENT)
        | bit(optional.reservations, IdentifyController::ONCS_RESERVATIONS)
        | IdentifyController::ONCS_COPY;
    (oncs, bit(optional.compare_and_write, IdentifyController::FUSES_COMPARE_AND_WRITE))
}
