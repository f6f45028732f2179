//! The Identify command (Base §5.17, NVM §4.1.5): the data structures, and their contents about
//! namespaces.

use super::super::access;
use super::super::connect::assignable;
use super::super::fault::{Fault, at};
use super::super::identity::Identity;
use super::super::instance::Instance;
use super::super::io::copy_command;
use super::super::namespace::{Namespace, NamespaceMap};
use super::support::ControllerKind;
use crate::limits::COPY_RANGES_MAX;
use crate::nvme::identify::{
    Cns, CommandSetCombinations, Csi, IdentifyIndependentNamespace, IdentifyNamespace,
    IdentifyNvmController, IdentifyNvmNamespace, LbaFormat, NamespaceDescriptors, NamespaceList,
};
use crate::nvme::log_page::AnaState;
use crate::nvme::reservation::ReservationCapabilities;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::{Cntlid, Nsid};

/// A checked Identify command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) struct IdentifyRequest {
    cns: Cns,
    nsid: Nsid,
}

impl IdentifyRequest {
    /// Checks the command against what there is.
    pub fn parse(
        sqe: &Sqe,
        kind: ControllerKind,
        namespaces: &NamespaceMap,
    ) -> Result<Self, Fault> {
        let cns = Cns(sqe.dword(10) as u8);
        let nsid = sqe.nsid();
        if kind == ControllerKind::Discovery && cns != Cns::CONTROLLER {
            return Err(Fault::field(at::CDW10));
        }
        match cns {
            // The field CNTID of CNS 1Ch is not looked at: all controllers of a subsystem have the
            // same command sets.
            Cns::CONTROLLER | Cns::COMMAND_SETS => {}
            // FFFFFFFFh would ask for what all namespaces have in common, which goes with Namespace
            // Management.
            Cns::NAMESPACE | Cns::INDEPENDENT_NAMESPACE => valid(nsid, namespaces)?,
            Cns::ACTIVE_NAMESPACES => above(nsid)?,
            Cns::NAMESPACE_DESCRIPTORS => active(nsid, namespaces)?,
            Cns::COMMAND_SET_NAMESPACE => nvm(sqe).and(valid(nsid, namespaces))?,
            Cns::COMMAND_SET_CONTROLLER => nvm(sqe)?,
            Cns::COMMAND_SET_ACTIVE_NAMESPACES => nvm(sqe).and(above(nsid))?,
            _ => return Err(Fault::field(at::CDW10)),
        }
        Ok(Self { cns, nsid })
    }

    /// Returns whether it is about the command sets of a controller, by an identifier that none can
    /// have (CNTID).
    pub fn is_of_nobody(&self, sqe: &Sqe) -> bool {
        let cntid = Cntlid((sqe.dword(10) >> 16) as u16);
        self.cns == Cns::COMMAND_SETS && cntid != Cntlid::DYNAMIC && !assignable(cntid)
    }

    /// Fills in the data structure; all zero where it is about a namespace that is not active.
    pub fn fill(
        &self,
        identity: &Identity,
        instance: Instance,
        namespaces: &NamespaceMap,
        out: &mut [u8],
    ) {
        out.fill(0);
        let namespace = namespaces.find(self.nsid).map(|(_, namespace)| namespace);
        match (self.cns, namespace) {
            (Cns::CONTROLLER, _) => identity.identify(namespaces, instance).put(out),
            (Cns::ACTIVE_NAMESPACES | Cns::COMMAND_SET_ACTIVE_NAMESPACES, _) => {
                NamespaceList::above(namespaces.iter().map(|namespace| namespace.nsid), self.nsid)
                    .put(out);
            }
            // No limits beyond MDTS, and none at all for commands that move no data.
            (Cns::COMMAND_SET_CONTROLLER, _) => IdentifyNvmController::default().put(out),
            (Cns::COMMAND_SETS, _) => command_sets().put(out),
            (Cns::NAMESPACE, Some(namespace)) => identify_namespace(namespace).put(out),
            (Cns::NAMESPACE_DESCRIPTORS, Some(namespace)) => {
                out.copy_from_slice(&descriptors(namespace).encode())
            }
            (Cns::COMMAND_SET_NAMESPACE, Some(_)) => IdentifyNvmNamespace::default().put(out),
            (Cns::INDEPENDENT_NAMESPACE, Some(namespace)) => independent(namespace).put(out),
            _ => {}
        }
    }
}

/// A namespace identifier that could be in use.
fn valid(nsid: Nsid, namespaces: &NamespaceMap) -> Result<(), Fault> {
    if nsid.0 == 0 || nsid.0 > namespaces.highest() { Err(Fault::namespace()) } else { Ok(()) }
}

fn active(nsid: Nsid, namespaces: &NamespaceMap) -> Result<(), Fault> {
    namespaces.find(nsid).map(|_| ()).ok_or(Fault::namespace())
}

/// A namespace identifier that a list starts above.
fn above(nsid: Nsid) -> Result<(), Fault> {
    if nsid.0 >= 0xffff_fffe { Err(Fault::namespace()) } else { Ok(()) }
}

/// The NVM command set is the only one.
fn nvm(sqe: &Sqe) -> Result<(), Fault> {
    let csi = Csi((sqe.dword(11) >> 24) as u8);
    if csi == Csi::NVM { Ok(()) } else { Err(Fault::at(Status::INVALID_FIELD, at::CDW11)) }
}

/// One combination: the NVM command set alone.
fn command_sets() -> CommandSetCombinations {
    let mut combinations = CommandSetCombinations::default();
    combinations.vectors[0] = 1 << Csi::NVM.0;
    combinations
}

fn protected(namespace: &Namespace) -> u8 {
    if namespace.read_only { IdentifyNamespace::NSATTR_WRITE_PROTECTED } else { 0 }
}

fn features(namespace: &Namespace) -> u8 {
    let preferred = namespace.preferred != Default::default();
    IdentifyNamespace::NSFEAT_ATOMIC
        | if preferred { IdentifyNamespace::NSFEAT_PREFERRED } else { 0 }
}

/// Returns whether a controller in the state of the namespace's group reports how much of it is
/// used: nvmet does while it changes, too.
fn is_told(namespace: &Namespace) -> bool {
    access::is_accessible(namespace.ana_state) || namespace.ana_state == AnaState::CHANGE
}

/// A size in a field of 16 bits that counts from zero.
fn zero_based(blocks: u32) -> u16 {
    u16::try_from(blocks.saturating_sub(1)).unwrap_or(u16::MAX)
}

fn identify_namespace(namespace: &Namespace) -> IdentifyNamespace {
    let preferred = namespace.preferred;
    let zeroes = if namespace.support.discarded_reads_zero {
        IdentifyNamespace::DLFEAT_READS_ZERO
    } else {
        0
    };
    let deallocates =
        if namespace.support.write_zeroes { IdentifyNamespace::DLFEAT_WRITE_ZEROES } else { 0 };
    let mut id = IdentifyNamespace {
        nsze: namespace.blocks,
        ncap: namespace.blocks,
        nuse: if is_told(namespace) { namespace.blocks } else { 0 },
        nsfeat: features(namespace),
        nmic: IdentifyNamespace::NMIC_SHARED,
        rescap: reservation_capabilities(namespace),
        dlfeat: zeroes | deallocates,
        nawun: zero_based(namespace.atomic_blocks),
        nawupf: zero_based(namespace.atomic_power_fail_blocks),
        nacwu: zero_based(namespace.compare_write_blocks),
        noiob: u16::try_from(preferred.io_boundary).unwrap_or(0),
        nvmcap: u128::from(namespace.blocks) * u128::from(namespace.block_bytes),
        npwg: zero_based(preferred.write_granularity),
        npwa: zero_based(preferred.write_alignment),
        npdg: zero_based(preferred.discard_granularity),
        npda: zero_based(preferred.discard_alignment),
        nows: zero_based(preferred.write_size),
        mssrl: copy_command::range_blocks_max(namespace) as u16,
        mcl: copy_command::blocks_max(namespace),
        msrc: (COPY_RANGES_MAX - 1) as u8,
        anagrpid: namespace.ana_group,
        nsattr: protected(namespace),
        nguid: namespace.nguid,
        eui64: namespace.eui64,
        ..IdentifyNamespace::default()
    };
    id.lbaf[0] = LbaFormat { ms: 0, ds: namespace.block_bytes.ilog2() as u8, rp: 0 };
    id
}

fn independent(namespace: &Namespace) -> IdentifyIndependentNamespace {
    IdentifyIndependentNamespace {
        nmic: IdentifyNamespace::NMIC_SHARED,
        rescap: reservation_capabilities(namespace),
        anagrpid: namespace.ana_group,
        nsattr: protected(namespace),
        nstat: if namespace.ready { IdentifyIndependentNamespace::NSTAT_READY } else { 0 },
        ..IdentifyIndependentNamespace::default()
    }
}

/// RESCAP: all types, and what else the owner of the reservations can do.
fn reservation_capabilities(namespace: &Namespace) -> u8 {
    let Some(reservations) = &namespace.reservations else { return 0 };
    let persists = if reservations.can_persist() { ReservationCapabilities::PERSIST } else { 0 };
    ReservationCapabilities::ALL_TYPES | ReservationCapabilities::IGNORE_KEY_1_3 | persists
}

fn descriptors(namespace: &Namespace) -> NamespaceDescriptors {
    NamespaceDescriptors {
        eui64: (namespace.eui64 != [0; 8]).then_some(namespace.eui64),
        nguid: (!namespace.nguid.is_zero()).then_some(namespace.nguid),
        uuid: (!namespace.uuid.is_zero()).then_some(namespace.uuid),
        csi: Some(Csi::NVM),
    }
}
