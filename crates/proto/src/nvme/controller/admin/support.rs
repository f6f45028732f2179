//! Supported features of a controller: one table each for admin commands, log pages and features.
//! Admission of commands and the log pages that describe the controller both use them, so that
//! description and behaviour cannot differ.
//!
//! # Why version 2.0 is reported
//!
//! What each version makes mandatory for an I/O controller and a discovery controller of a fabric
//! (M mandatory, o optional, – prohibited or unknown), and what it costs here. Discovery
//! controllers take explicit persistent connections (Base §3.1.2.3), which makes the features,
//! Asynchronous Event Request and Keep Alive mandatory for them.
//!
//! | item | 1.4 I/O | 1.4 disc. | 2.x I/O | 2.x disc. | cost |
//! |---|---|---|---|---|---|
//! | Identify CNS 00h 02h 03h | M | – | M | – | needed anyway |
//! | Identify CNS 01h | M | M | M | M | needed anyway |
//! | Identify CNS 05h 06h 07h (CSI 00h), 08h | – | – | M | – | a fill-in of known values each |
//! | Get Log Page, Identify | M | M | M | M | needed anyway |
//! | Get/Set Features, Asynchronous Event Request, Keep Alive | M | M | M | M | needed anyway |
//! | Abort | M | o | M | o | needed anyway; not for discovery |
//! | log pages 01h 02h 03h | M | 01h o | M | 01h o | needed anyway |
//! | log page 00h Supported Log Pages | – | – | M | M | from the table below |
//! | log page 05h Commands Supported and Effects | o | o | M | M | from the table below |
//! | log page 12h Feature Identifiers Supported and Effects | – | – | M | M | from the table below
//! |
//! | log page 13h NVMe-MI Commands Supported and Effects | – | – | M where LPA bit 5 | o | all zero
//! |
//! | log page 70h Discovery | – | M | – | M | needed anyway |
//! | features 01h 02h 04h 05h 07h 0Ah | M | – | M | – | a stored number each |
//! | features 0Bh 0Fh | M | M | M | M | needed anyway |
//! | Identify CNS 1Ch, feature 19h, CC.CSS 110b | – | – | o | – | one vector and one number; Linux
//! and SPDK use CC.CSS 110b |
//! | properties CAP VS CC CSTS | M | M | M | M | needed anyway |
//! | property CRTO, CAP.CRMS | – | – | M | reserved | a constant; see below |
//!
//! The whole difference is four derived log pages, four Identify structures and one property: 2.0
//! it is. Optional and supported as well: log page 04h (Changed Namespace List, for Namespace
//! Attribute Notices), log page 0Ch (Asymmetric Namespace Access), log page 80h (Reservation
//! Notification), features 82h and 83h where a namespace can be reserved, feature 06h where there
//! is a volatile write cache, feature 16h (Host Behavior Support, for formats of Copy), feature 81h
//! (Host Identifier; reading only, as Connect sets it).
//!
//! Discovery controllers answer CRTO too: CAP.CRMS has to be set from 2.0 on, and Linux reads CRTO
//! wherever it is set and gives the connection up when that fails.

use super::super::namespace::NamespaceMap;
use crate::nvme::feature::FeatureId;
use crate::nvme::log_page::{EffectsLog, FeatureEffectsLog, LogPageId, SupportedLogPages};
use crate::nvme::opcode::{AdminOpcode, NvmOpcode};
use crate::nvme::property::Version;

/// The version that controllers report.
pub(in crate::nvme::controller) const VERSION: Version = Version::V2_0;

/// Kind of a controller (Base §3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerKind {
    /// Has namespaces and I/O queues.
    Io,
    /// Lists the subsystems.
    Discovery,
}

/// A code, and which kinds of controller support it.
struct Row<C> {
    code: C,
    io: bool,
    discovery: bool,
    /// Scope of a feature.
    scope: u32,
}

const fn both<C>(code: C) -> Row<C> {
    Row { code, io: true, discovery: true, scope: FeatureEffectsLog::SCOPE_CONTROLLER }
}

const fn io<C>(code: C) -> Row<C> {
    Row { code, io: true, discovery: false, scope: FeatureEffectsLog::SCOPE_CONTROLLER }
}

impl<C> Row<C> {
    fn of(&self, kind: ControllerKind) -> bool {
        match kind {
            ControllerKind::Io => self.io,
            ControllerKind::Discovery => self.discovery,
        }
    }
}

const ADMIN_COMMANDS: [Row<AdminOpcode>; 9] = [
    both(AdminOpcode::GET_LOG_PAGE),
    both(AdminOpcode::IDENTIFY),
    io(AdminOpcode::ABORT),
    both(AdminOpcode::SET_FEATURES),
    both(AdminOpcode::GET_FEATURES),
    both(AdminOpcode::ASYNC_EVENT_REQUEST),
    both(AdminOpcode::KEEP_ALIVE),
    io(AdminOpcode::CROSS_CONTROLLER_RESET),
    both(AdminOpcode::FABRICS),
];
const LOG_PAGES: [Row<LogPageId>; 12] = [
    both(LogPageId::SUPPORTED_PAGES),
    io(LogPageId::ERROR_INFORMATION),
    io(LogPageId::SMART),
    io(LogPageId::FIRMWARE_SLOT),
    io(LogPageId::CHANGED_NAMESPACES),
    both(LogPageId::COMMAND_EFFECTS),
    io(LogPageId::ANA),
    io(LogPageId::CROSS_CONTROLLER_RESET),
    io(LogPageId::RESERVATION_NOTIFICATION),
    both(LogPageId::FEATURE_EFFECTS),
    both(LogPageId::MI_COMMAND_EFFECTS),
    Row { io: false, ..both(LogPageId::DISCOVERY) },
];
const FEATURES: [Row<FeatureId>; 14] = [
    io(FeatureId::ARBITRATION),
    io(FeatureId::POWER_MANAGEMENT),
    io(FeatureId::TEMPERATURE_THRESHOLD),
    Row { scope: FeatureEffectsLog::SCOPE_NAMESPACE, ..io(FeatureId::ERROR_RECOVERY) },
    io(FeatureId::VOLATILE_WRITE_CACHE),
    io(FeatureId::NUMBER_OF_QUEUES),
    io(FeatureId::WRITE_ATOMICITY_NORMAL),
    both(FeatureId::ASYNC_EVENT_CONFIGURATION),
    both(FeatureId::KEEP_ALIVE_TIMER),
    io(FeatureId::HOST_BEHAVIOR_SUPPORT),
    io(FeatureId::COMMAND_SET_PROFILE),
    io(FeatureId::HOST_IDENTIFIER),
    Row {
        scope: FeatureEffectsLog::SCOPE_NAMESPACE,
        ..io(FeatureId::RESERVATION_NOTIFICATION_MASK)
    },
    Row { scope: FeatureEffectsLog::SCOPE_NAMESPACE, ..io(FeatureId::RESERVATION_PERSISTENCE) },
];

fn find<C: PartialEq>(rows: &[Row<C>], kind: ControllerKind, code: C) -> Option<&Row<C>> {
    rows.iter().find(|row| row.code == code && row.of(kind))
}

pub(in crate::nvme::controller) fn admin_command(
    kind: ControllerKind,
    opcode: AdminOpcode,
) -> bool {
    find(&ADMIN_COMMANDS, kind, opcode).is_some()
}

pub(super) fn log_page(kind: ControllerKind, page: LogPageId) -> bool {
    find(&LOG_PAGES, kind, page).is_some()
}

/// Scope of a feature that is supported.
pub(super) fn feature(
    kind: ControllerKind,
    id: FeatureId,
    namespaces: &NamespaceMap,
) -> Option<u32> {
    let row = find(&FEATURES, kind, id)?;
    let is_there = match id {
        FeatureId::VOLATILE_WRITE_CACHE => volatile_cache(namespaces),
        FeatureId::RESERVATION_NOTIFICATION_MASK | FeatureId::RESERVATION_PERSISTENCE => {
            reservations(namespaces)
        }
        _ => true,
    };
    is_there.then_some(row.scope)
}

/// Returns whether there is a volatile write cache behind any namespace.
pub(in crate::nvme::controller) fn volatile_cache(namespaces: &NamespaceMap) -> bool {
    namespaces.iter().any(|namespace| namespace.support.volatile_cache)
}

/// Returns whether any namespace can be reserved.
pub(super) fn reservations(namespaces: &NamespaceMap) -> bool {
    namespaces.iter().any(|namespace| namespace.reservations.is_some())
}

/// Optional commands, as the namespaces can execute them: whether they are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) struct Optional {
    pub compare: bool,
    pub compare_and_write: bool,
    pub write_zeroes: bool,
    pub dataset_management: bool,
    pub reservations: bool,
}

impl Optional {
    /// Without namespaces everything is announced: hosts look again when one appears.
    pub fn of(namespaces: &NamespaceMap) -> Self {
        let compare = namespaces.iter().all(|namespace| namespace.support.compare);
        Self {
            compare,
            compare_and_write: compare
                && namespaces.iter().all(|namespace| namespace.compare_write_blocks > 0),
            write_zeroes: namespaces.iter().all(|namespace| namespace.support.write_zeroes),
            dataset_management: namespaces.iter().any(|namespace| namespace.support.discard),
            reservations: reservations(namespaces),
        }
    }
}

pub(in crate::nvme::controller) fn supported_pages(kind: ControllerKind) -> SupportedLogPages {
    let mut log = SupportedLogPages::default();
    for row in LOG_PAGES.iter().filter(|row| row.of(kind)) {
        log.pages[usize::from(row.code.0)] = SupportedLogPages::SUPPORTED;
    }
    log
}

pub(in crate::nvme::controller) fn command_effects(
    kind: ControllerKind,
    namespaces: &NamespaceMap,
) -> EffectsLog {
    let mut log = EffectsLog::default();
    for row in ADMIN_COMMANDS.iter().filter(|row| row.of(kind)) {
        log.admin[usize::from(row.code.0)] = EffectsLog::SUPPORTED;
    }
    if kind == ControllerKind::Io {
        let optional = Optional::of(namespaces);
        let commands = [
            (NvmOpcode::FLUSH, true, 0),
            (NvmOpcode::WRITE, true, EffectsLog::CONTENT_CHANGE),
            (NvmOpcode::READ, true, 0),
            (NvmOpcode::COMPARE, optional.compare, 0),
            (NvmOpcode::WRITE_ZEROES, optional.write_zeroes, EffectsLog::CONTENT_CHANGE),
            (
                NvmOpcode::DATASET_MANAGEMENT,
                optional.dataset_management,
                EffectsLog::CONTENT_CHANGE,
            ),
            (NvmOpcode::COPY, true, EffectsLog::CONTENT_CHANGE),
            (NvmOpcode::RESERVATION_REGISTER, optional.reservations, 0),
            (NvmOpcode::RESERVATION_REPORT, optional.reservations, 0),
            (NvmOpcode::RESERVATION_ACQUIRE, optional.reservations, 0),
            (NvmOpcode::RESERVATION_RELEASE, optional.reservations, 0),
        ];
        for (opcode, _, effects) in commands.into_iter().filter(|(_, supported, _)| *supported) {
            log.io[usize::from(opcode.0)] = EffectsLog::SUPPORTED | effects;
        }
    }
    log
}

pub(in crate::nvme::controller) fn feature_effects(
    kind: ControllerKind,
    namespaces: &NamespaceMap,
) -> FeatureEffectsLog {
    let mut log = FeatureEffectsLog::default();
    for row in &FEATURES {
        if let Some(scope) = feature(kind, row.code, namespaces) {
            log.features[usize::from(row.code.0)] = FeatureEffectsLog::SUPPORTED | scope;
        }
    }
    log
}
