//! The value of `--peers`, and what is chosen by it.

use super::device::PeerDevice;
use super::installed::missing;
use super::kernel::initiator::KernelInitiator;
use super::kernel::needs;
use super::kernel::steps::CONFIGFS;
use super::load::Load;
use super::peer::{DeviceWish, NbdGateway, PeerTarget, StartMethod};
use super::registry::{GATEWAYS, INITIATORS, KERNEL_TARGETS, LOADS, TARGETS};
use crate::commands::internal::study_kernel::modules;
use crate::process::exit::Failure;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use weft_bench::results::{Cell, Skipped};
use weft_bench::suite::Through;
use weft_block::ErrorKind;

/// A value of `--peers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// The first target that is installed, measured by weft.
    Auto,
    /// None.
    None,
    /// All that are installed.
    All,
    /// These. A target may be named several times: each is a lane of its own.
    Named(Vec<&'static str>),
}

/// All parts of the kernel in one word; nbd-client only where it is installed and there is a lane
/// of NBD, ublk only where the kernel has it.
const KERNEL: &str = "kernel";

/// Parses a value of `--peers`.
///
/// # Errors
/// A name that is not known, with those that are.
pub fn parse(text: &str) -> Result<Peers, String> {
    match text {
        "auto" => return Ok(Peers::Auto),
        "none" => return Ok(Peers::None),
        "all" => return Ok(Peers::All),
        _ => {}
    }
    let known = || {
        let loads = LOADS.iter().map(|load| load.name);
        let initiators = INITIATORS.iter().map(|it| it.name);
        let gateways = GATEWAYS.iter().map(|it| it.name);
        targets()
            .map(|peer| peer.name)
            .chain(loads)
            .chain([KERNEL])
            .chain(initiators)
            .chain(gateways)
    };
    let mut named = Vec::new();
    for name in text.split(',') {
        let Some(found) = known().find(|known| *known == name) else {
            let all: Vec<&str> = known().collect();
            return Err(format!(
                "there is no peer \"{name}\": use auto, none, all, or some of {}",
                all.join(", ")
            ));
        };
        if !named.contains(&found) || targets().any(|peer| peer.name == found) {
            named.push(found);
        }
    }
    Ok(Peers::Named(named))
}

/// All targets, also those of the kernel.
fn targets() -> impl Iterator<Item = &'static PeerTarget> {
    TARGETS.into_iter().chain(KERNEL_TARGETS)
}

/// The peers to measure.
#[derive(Default)]
pub struct Choice {
    /// The targets.
    pub targets: Vec<&'static PeerTarget>,
    /// The load generators.
    pub loads: Vec<&'static Load>,
    /// The gateways.
    pub gateways: Vec<&'static NbdGateway>,
    /// The initiators of the kernel.
    pub initiators: Vec<&'static KernelInitiator>,
    /// The peers that `all` does not find or cannot use.
    pub skipped: Vec<Skipped>,
}

impl Peers {
    /// Chooses targets for a device, or for the reason why only weft serves it; `lanes` are the
    /// protocols of weft's own lanes, and targets listen at the address.
    ///
    /// # Errors
    /// One that is named is not installed, or cannot be used here. Nothing was started.
    pub fn choose(
        &self,
        device: Result<&PeerDevice, &str>,
        lanes: &[Through],
        address: IpAddr,
    ) -> Result<Choice, Failure> {
        let usable = |peer: &PeerTarget| match device {
            Ok(device) => missing(peer.programs).or_else(|| refusal(peer, device, address)),
            Err(why) => Some(why.to_owned()),
        };
        match self {
            Self::None => Ok(Choice::default()),
            Self::Auto => {
                let first = TARGETS.into_iter().find(|peer| usable(peer).is_none());
                Ok(Choice { targets: first.into_iter().collect(), ..Choice::default() })
            }
            Self::All => {
                let mut choice = Choice::default();
                for peer in TARGETS {
                    match usable(peer) {
                        None => choice.targets.push(peer),
                        Some(why) => {
                            choice.skip(peer.name, &why, cell(peer.through, Some(peer.name), None));
                        }
                    }
                }
                for load in LOADS {
                    match missing(&[load.program]) {
                        None => choice.loads.push(load),
                        Some(why) => {
                            for through in Through::ALL.into_iter().filter(|it| (load.reaches)(*it))
                            {
                                choice.skip(load.name, &why, cell(through, None, Some(load.name)));
                            }
                        }
                    }
                }
                Ok(choice)
            }
            Self::Named(names) => {
                let names = expanded(names, lanes);
                check_kernel(&names, address)?;
                let mut choice = Choice::default();
                choice.name_targets(&names, usable)?;
                choice.name_initiators(&names, lanes)?;
                choice.name_gateways(&names, device)?;
                choice.name_loads(&names, lanes)?;
                Ok(choice)
            }
        }
    }
}

/// The reason to refuse an initiator or a load generator that would have nothing to do.
const NO_LANE: &str =
    "it reaches no lane of the study: add a target that it can drive, or a protocol to --lanes";

/// The names with those of the kernel's parts in place of [`KERNEL`].
fn expanded(names: &[&'static str], lanes: &[Through]) -> Vec<&'static str> {
    let is_there = |initiator: &KernelInitiator| {
        missing(initiator.programs).is_none()
            && initiator.modules.iter().all(|it| modules::is_there(it))
    };
    let is_needed = |initiator: &KernelInitiator| {
        let targets = KERNEL_TARGETS.iter().map(|peer| &peer.through);
        let is_reached = targets.chain(lanes).any(|through| *through == initiator.through);
        is_reached && (!initiator.is_optional || is_there(initiator))
    };
    let parts = || {
        let initiators = INITIATORS.into_iter().filter(|it| is_needed(it)).map(|it| it.name);
        KERNEL_TARGETS.iter().map(|peer| peer.name).chain(initiators)
    };
    let of = |name: &&'static str| match *name {
        KERNEL => parts().collect(),
        name => vec![name],
    };
    names.iter().flat_map(of).collect()
}

/// The refusal of a peer that is named.
fn refused(name: &str, why: &str) -> Failure {
    Failure::of(ErrorKind::Usage, format!("--peers {name} is not possible here: {why}"))
}

impl Choice {
    /// Returns whether something is changed in the kernel.
    pub fn needs_kernel(&self) -> bool {
        let is_kernel = |peer: &&PeerTarget| matches!(peer.how, StartMethod::Kernel { .. });
        !self.initiators.is_empty() || self.targets.iter().any(is_kernel)
    }

    /// The initiators of the kernel for a protocol.
    pub fn initiators_of(
        &self,
        through: Through,
    ) -> impl Iterator<Item = &'static KernelInitiator> {
        self.initiators.iter().copied().filter(move |it| it.through == through)
    }

    fn name_targets(
        &mut self,
        names: &[&'static str],
        usable: impl Fn(&PeerTarget) -> Option<String>,
    ) -> Result<(), Failure> {
        let times = |name: &str| names.iter().filter(|it| **it == name).count();
        for peer in targets().filter(|peer| names.contains(&peer.name)) {
            match usable(peer) {
                None => self.targets.extend(std::iter::repeat_n(peer, times(peer.name))),
                Some(why) => return Err(refused(peer.name, &why)),
            }
        }
        Ok(())
    }

    fn name_gateways(
        &mut self,
        names: &[&'static str],
        device: Result<&PeerDevice, &str>,
    ) -> Result<(), Failure> {
        for gateway in GATEWAYS.into_iter().filter(|it| names.contains(&it.name)) {
            let unusable = match device {
                Ok(PeerDevice::File { .. }) => Some(
                    "its target has a device of its own, which takes a RAM disk or a null device \
                     as the source of the study"
                        .to_owned(),
                ),
                Ok(_) => None,
                Err(why) => Some(why.to_owned()),
            };
            let why = unusable.or_else(|| missing(gateway.programs)).or_else(gateway.lacks);
            if let Some(why) = why {
                return Err(refused(gateway.name, &why));
            }
            self.gateways.push(gateway);
        }
        Ok(())
    }

    fn name_initiators(
        &mut self,
        names: &[&'static str],
        lanes: &[Through],
    ) -> Result<(), Failure> {
        let reached = self.protocols(lanes);
        for initiator in INITIATORS.into_iter().filter(|it| names.contains(&it.name)) {
            if !reached.contains(&initiator.through) {
                return Err(refused(initiator.name, NO_LANE));
            }
            self.initiators.push(initiator);
        }
        Ok(())
    }

    fn name_loads(&mut self, names: &[&'static str], lanes: &[Through]) -> Result<(), Failure> {
        for load in LOADS.into_iter().filter(|load| names.contains(&load.name)) {
            if let Some(why) = missing(&[load.program]) {
                return Err(refused(load.name, &why));
            }
            let reached = self.protocols(lanes).into_iter().filter(|it| (load.reaches)(*it));
            let lacking: Vec<Option<String>> = reached.map(load.lacks).collect();
            let has_disk = load.disks && !self.initiators.is_empty();
            if !has_disk && lacking.iter().all(Option::is_some) {
                let why = lacking.into_iter().flatten().next();
                return Err(refused(load.name, &why.unwrap_or_else(|| NO_LANE.to_owned())));
            }
            self.loads.push(load);
        }
        let is_same = self.targets.windows(2).any(|two| two[0].name == two[1].name);
        if self.loads.is_empty() && self.initiators.is_empty() && !is_same {
            self.add_loads();
        }
        Ok(())
    }

    /// Adds a load generator for each protocol of the targets: a comparison of different ones needs
    /// one that is neither's.
    fn add_loads(&mut self) {
        let protocols: Vec<Through> = self.targets.iter().map(|peer| peer.through).collect();
        let first = |through: &Through| {
            LOADS.into_iter().find(|load| {
                (load.reaches)(*through)
                    && missing(&[load.program]).is_none()
                    && (load.lacks)(*through).is_none()
            })
        };
        for load in protocols.iter().filter_map(first) {
            if !self.loads.iter().any(|chosen| chosen.name == load.name) {
                self.loads.push(load);
            }
        }
    }

    /// The protocols of the targets, and those of weft's own lanes.
    fn protocols(&self, lanes: &[Through]) -> Vec<Through> {
        self.targets.iter().map(|peer| peer.through).chain(lanes.iter().copied()).collect()
    }

    fn skip(&mut self, name: &str, why: &str, cell: Cell) {
        let why = format!("{why}.");
        self.skipped.push(Skipped { lane: name.to_owned(), why, cell: Some(cell) });
    }
}

/// A place among the targets and initiators of a protocol.
pub fn cell(through: Through, target: Option<&str>, initiator: Option<&str>) -> Cell {
    Cell::new(through.title(), target, initiator)
}

/// Returns why a target cannot serve a device.
fn refusal(peer: &PeerTarget, device: &PeerDevice, address: IpAddr) -> Option<String> {
    let wish = DeviceWish {
        device,
        memory: "/memory",
        address: SocketAddr::new(address, 1),
        directory: "/directory",
        name: "name",
        cpus: &[0],
    };
    peer.refusal(&wish)
}

/// Refuses parts of the kernel that cannot be used, with all that is missing.
fn check_kernel(names: &[&'static str], address: IpAddr) -> Result<(), Failure> {
    let initiators = || INITIATORS.into_iter().filter(|it| names.contains(&it.name));
    let targets = || KERNEL_TARGETS.into_iter().filter(|it| names.contains(&it.name));
    let parts: Vec<&str> =
        targets().map(|it| it.name).chain(initiators().map(|it| it.name)).collect();
    if parts.is_empty() {
        return Ok(());
    }
    let programs = targets().map(|it| it.programs).chain(initiators().map(|it| it.programs));
    let modules = targets().map(PeerTarget::modules).chain(initiators().map(|it| it.modules));
    let mut why = needs::missing(
        &programs.flatten().copied().collect::<Vec<_>>(),
        &modules.flatten().copied().collect::<Vec<_>>(),
    );
    if targets().next().is_some() {
        why.extend(needs::no_configfs());
    }
    why.extend(targets().filter_map(|it| it.serves(Path::new(CONFIGFS))));
    why.extend(initiators().filter_map(|it| (it.refusal)(address)));
    if why.is_empty() { Ok(()) } else { Err(refused(&parts.join(","), &why.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn the_kernel_is_its_parts() {
        let mut all = expanded(&["kernel", "fio"], &[Through::Iscsi, Through::NvmeTcp]);
        // Some kernels have it.
        all.retain(|name| *name != "ublk");
        assert_eq!(all, ["nvmet", "lio", "nvme-tcp", "open-iscsi", "fio"]);
        // nbd-client belongs to it where it is installed.
        let with_nbd = expanded(&["kernel"], &[Through::Nbd]);
        assert!(with_nbd.starts_with(&["nvmet", "lio", "nvme-tcp", "open-iscsi"]));
        assert_eq!(expanded(&["nvmet"], &[]), ["nvmet"]);
    }

    #[test]
    fn an_initiator_needs_a_lane() {
        let mut choice = Choice::default();
        let said = choice.name_initiators(&["nvme-tcp"], &[Through::Nbd]).err().unwrap();
        assert!(said.to_string().ends_with(NO_LANE), "{said}");
        choice.name_initiators(&["nvme-tcp"], &[Through::NvmeTcp]).unwrap();
        assert!(choice.needs_kernel());
    }

    #[test]
    fn names_are_parsed_and_others_refused() {
        assert_eq!(parse("auto"), Ok(Peers::Auto));
        assert_eq!(parse("none"), Ok(Peers::None));
        assert_eq!(parse("fio,tgt,fio"), Ok(Peers::Named(vec!["fio", "tgt"])));
        assert_eq!(parse("tgt,tgt"), Ok(Peers::Named(vec!["tgt", "tgt"])));
        assert_eq!(parse("kernel,fio"), Ok(Peers::Named(vec!["kernel", "fio"])));
        for wrong in ["", "nvme", "tgt,,fio", "auto,tgt", "all,kernel"] {
            let said = parse(wrong).unwrap_err();
            assert!(said.contains("use auto, none, all, or some of spdk, nbdkit"), "{said}");
        }
    }

    #[test]
    fn a_device_that_a_target_cannot_serve_is_refused_by_name() {
        let null = PeerDevice::Null(1 << 30);
        let why = |name: &str, device: &PeerDevice| {
            let peer = targets().find(|peer| peer.name == name).unwrap();
            refusal(peer, device, LOCALHOST)
        };
        assert!(why("tgt", &null).is_some_and(|why| why.contains("null device")));
        assert!(why("nbd-server", &null).is_some() && why("nbdkit", &null).is_none());
        assert!(
            targets().all(|peer| refusal(peer, &PeerDevice::Ram(1 << 20), LOCALHOST).is_none())
        );
        let file = |direct, path: &str| PeerDevice::File { path: path.into(), direct };
        let direct = file(true, "/d/x");
        assert!(why("nbdkit", &direct).is_some_and(|why| why.contains("direct=off")));
        assert!(why("tgt", &direct).is_none() && why("qemu-nbd", &direct).is_none());
        assert!(why("tgt", &file(true, "/d/x,y")).is_some());
        assert!(why("nbd-server", &file(false, "/d/x%s")).is_some());
    }

    #[test]
    fn what_only_weft_serves_has_no_other_targets() {
        let all = |peers: Peers| peers.choose(Err("it is a mirror"), &[], LOCALHOST);
        assert!(all(Peers::Auto).is_ok_and(|choice| choice.targets.is_empty()));
        let choice = all(Peers::All).unwrap();
        assert!(choice.targets.is_empty() && choice.skipped.len() >= TARGETS.len());
        let said = all(Peers::Named(vec!["tgt"])).err().unwrap().to_string();
        assert_eq!(said, "--peers tgt is not possible here: it is a mirror");
    }
}
