//! The value of `--peers`, and what is chosen by it.

use super::device::Device;
use super::installed::missing;
use super::load::Load;
use super::peer::{Peer, Wish};
use super::registry::{LOADS, TARGETS};
use crate::exit::Failure;
use std::net::{Ipv4Addr, SocketAddr};
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
    let known = || TARGETS.iter().map(|peer| peer.name).chain(LOADS.iter().map(|load| load.name));
    let mut named = Vec::new();
    for name in text.split(',') {
        let Some(found) = known().find(|known| *known == name) else {
            let all: Vec<&str> = known().collect();
            return Err(format!(
                "there is no peer \"{name}\": use auto, none, all, or some of {}",
                all.join(", ")
            ));
        };
        if !named.contains(&found) || TARGETS.iter().any(|peer| peer.name == found) {
            named.push(found);
        }
    }
    Ok(Peers::Named(named))
}

/// What is measured.
#[derive(Default)]
pub struct Choice {
    /// The targets.
    pub targets: Vec<&'static Peer>,
    /// The load generators.
    pub loads: Vec<&'static Load>,
    /// What `all` does not find or cannot use.
    pub skipped: Vec<Skipped>,
}

impl Peers {
    /// Chooses targets for a device, or for the reason why only weft serves it; `lanes` are the
    /// protocols of weft's own lanes.
    ///
    /// # Errors
    /// One that is named is not installed, or cannot be used here. Nothing was started.
    pub fn choose(
        &self,
        device: Result<&Device, &str>,
        lanes: &[Through],
    ) -> Result<Choice, Failure> {
        let usable = |peer: &Peer| match device {
            Ok(device) => missing(peer.programs).or_else(|| refusal(peer, device)),
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
            Self::Named(names) => named(names, usable, lanes),
        }
    }
}

fn named(
    names: &[&'static str],
    usable: impl Fn(&Peer) -> Option<String>,
    lanes: &[Through],
) -> Result<Choice, Failure> {
    let refused = |name: &str, why: String| {
        Failure::of(ErrorKind::Usage, format!("--peers {name} is not possible here: {why}"))
    };
    let is_named = |name: &str| names.contains(&name);
    let mut choice = Choice::default();
    let times = |name: &str| names.iter().filter(|it| **it == name).count();
    for peer in TARGETS.into_iter().filter(|peer| is_named(peer.name)) {
        match usable(peer) {
            None => choice.targets.extend(std::iter::repeat_n(peer, times(peer.name))),
            Some(why) => return Err(refused(peer.name, why)),
        }
    }
    let protocols = || choice.targets.iter().map(|peer| peer.through).chain(lanes.iter().copied());
    for load in LOADS.into_iter().filter(|load| is_named(load.name)) {
        if let Some(why) = missing(&[load.program]) {
            return Err(refused(load.name, why));
        }
        let lacking: Vec<Option<String>> =
            protocols().filter(|through| (load.reaches)(*through)).map(load.lacks).collect();
        if lacking.iter().all(Option::is_some) {
            let none = "it reaches no lane of the study: add a target that it can drive, or a protocol to --lanes";
            let why = lacking.into_iter().flatten().next();
            return Err(refused(load.name, why.unwrap_or_else(|| none.to_owned())));
        }
        choice.loads.push(load);
    }
    let is_same = choice.targets.windows(2).any(|two| two[0].name == two[1].name);
    if choice.loads.is_empty() && !is_same {
        // A comparison of different targets needs a generator that is neither's.
        let protocols: Vec<Through> = choice.targets.iter().map(|peer| peer.through).collect();
        let first = |through: &Through| {
            LOADS.into_iter().find(|load| {
                (load.reaches)(*through)
                    && missing(&[load.program]).is_none()
                    && (load.lacks)(*through).is_none()
            })
        };
        for load in protocols.iter().filter_map(first) {
            if !choice.loads.iter().any(|chosen| chosen.name == load.name) {
                choice.loads.push(load);
            }
        }
    }
    Ok(choice)
}

impl Choice {
    fn skip(&mut self, name: &str, why: &str, cell: Cell) {
        let why = format!("{why}.");
        self.skipped.push(Skipped { lane: name.to_owned(), why, cell: Some(cell) });
    }
}

/// A place among the targets and initiators of a protocol.
pub fn cell(through: Through, target: Option<&str>, initiator: Option<&str>) -> Cell {
    Cell::new(through.title(), target, initiator)
}

/// Why a target cannot serve a device.
fn refusal(peer: &Peer, device: &Device) -> Option<String> {
    let wish = Wish {
        device,
        memory: "/memory",
        address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1),
        directory: "/directory",
        name: "name",
        cpus: &[0],
    };
    (peer.plan)(&wish).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_others_refused() {
        assert_eq!(parse("auto"), Ok(Peers::Auto));
        assert_eq!(parse("none"), Ok(Peers::None));
        assert_eq!(parse("fio,tgt,fio"), Ok(Peers::Named(vec!["fio", "tgt"])));
        assert_eq!(parse("tgt,tgt"), Ok(Peers::Named(vec!["tgt", "tgt"])));
        for wrong in ["", "kernel", "tgt,,fio", "auto,tgt"] {
            let said = parse(wrong).unwrap_err();
            assert!(said.contains("use auto, none, all, or some of spdk, nbdkit"), "{said}");
        }
    }

    #[test]
    fn a_device_that_a_target_cannot_serve_is_refused_by_name() {
        let null = Device::Null(1 << 30);
        let why = |name: &str, device: &Device| {
            let peer = TARGETS.into_iter().find(|peer| peer.name == name).unwrap();
            refusal(peer, device)
        };
        assert!(why("tgt", &null).is_some_and(|why| why.contains("null device")));
        assert!(why("nbd-server", &null).is_some() && why("nbdkit", &null).is_none());
        assert!(TARGETS.iter().all(|peer| refusal(peer, &Device::Ram(1 << 20)).is_none()));
        let file = |direct, path: &str| Device::File { path: path.into(), direct };
        let direct = file(true, "/d/x");
        assert!(why("nbdkit", &direct).is_some_and(|why| why.contains("direct=off")));
        assert!(why("tgt", &direct).is_none() && why("qemu-nbd", &direct).is_none());
        assert!(why("tgt", &file(true, "/d/x,y")).is_some());
        assert!(why("nbd-server", &file(false, "/d/x%s")).is_some());
    }

    #[test]
    fn what_only_weft_serves_has_no_other_targets() {
        let all = |peers: Peers| peers.choose(Err("it is a mirror"), &[]);
        assert!(all(Peers::Auto).is_ok_and(|choice| choice.targets.is_empty()));
        let choice = all(Peers::All).unwrap();
        assert!(choice.targets.is_empty() && choice.skipped.len() >= TARGETS.len());
        let said = all(Peers::Named(vec!["tgt"])).err().unwrap().to_string();
        assert_eq!(said, "--peers tgt is not possible here: it is a mirror");
    }
}
