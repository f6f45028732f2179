//! Lanes to targets of other projects, and lanes on which their load generators put the load.

use super::super::options::StudyArgs;
use super::super::serving::{is_real, scheme, serve, url_of};
use super::super::setup::StudySetup;
use super::device::PeerDevice;
use super::kernel::session::{KernelGroup, KernelSession};
use super::load::{Load, LoadDevice};
use super::peer::{DeviceWish, PeerTarget, StartMethod};
use super::running::{RunningTarget, hold};
use super::wanted::{Choice, Peers, cell};
use crate::limits::{PEER_KEEP_ALIVE_S, PEER_OUTAGE_S};
use crate::process::exit::Failure;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_bench::results::{Cell, Skipped};
use weft_bench::study::{ForeignTarget, StudyLane};
use weft_bench::suite::{LaneTemplate, Suite, Through};
use weft_bench::{results, study, suite};

/// The lanes that `--peers` adds to a study.
#[derive(Default)]
pub struct PeerLanes {
    choice: Choice,
    device: Option<PeerDevice>,
    /// One further lane, and nothing else.
    only_one: bool,
    /// weft's lanes at a distance, with their protocols.
    far: Vec<(Through, String)>,
}

impl StudyArgs {
    /// The value of `--peers`, or that of the suite. What the user chooses to measure stays as it
    /// is, and other projects' targets listen on the loopback, unless they are asked for.
    fn wanted_peers(&self, suite: &Suite) -> Peers {
        let chosen = !self.lanes.is_empty() || self.target.is_some() || self.address.is_some();
        match (&self.peers, suite.peers) {
            (Some(peers), _) => peers.clone(),
            (None, suite::SuitePeers::Auto) if !chosen => Peers::Auto,
            (None, suite::SuitePeers::All) if !chosen => Peers::All,
            (None, _) => Peers::None,
        }
    }
}

impl StudySetup<'_> {
    /// Chooses the peers to measure in addition to the `lanes` of the study. Nothing is started.
    ///
    /// # Errors
    /// A peer that is named is not installed, or cannot be used here.
    pub fn choose_peers(
        &self,
        args: &StudyArgs,
        suite: &Suite,
        lanes: &[&LaneTemplate],
    ) -> Result<PeerLanes, Failure> {
        let peers = args.wanted_peers(suite);
        if peers == Peers::None {
            return Ok(PeerLanes::default());
        }
        let geometry = weft_endpoint::open(&self.source, &self.options)?.geometry();
        let device = PeerDevice::of(&self.source, geometry);
        if peers == Peers::Auto && is_real(&self.source) {
            return Ok(PeerLanes::default());
        }
        let device_of = device.as_ref().map_err(String::as_str);
        let protocols: Vec<Through> = lanes.iter().map(|lane| lane.through).collect();
        let choice = peers.choose(device_of, &protocols, self.address())?;
        if !choice.targets.is_empty() {
            self.refuse_data(&self.source)?;
        }
        let far = lanes.iter().filter(|lane| lane.is_far());
        let far = far.map(|lane| (lane.through, lane.name.clone())).collect();
        Ok(PeerLanes { choice, device: device.ok(), only_one: peers == Peers::Auto, far })
    }

    /// Starts the targets and adds their lanes. One that does not start costs only its lanes.
    ///
    /// # Errors
    /// weft's own target cannot be started.
    pub fn peers(
        &self,
        others: &PeerLanes,
        lanes: &mut Vec<StudyLane>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<(), Failure> {
        let choice = &others.choice;
        skipped.extend(choice.skipped.iter().cloned());
        let kernel = choice.needs_kernel().then(|| self.kernel()).transpose()?;
        for through in others.protocols(lanes) {
            let loads: Vec<&Load> =
                choice.loads.iter().copied().filter(|load| (load.reaches)(through)).collect();
            if !others.only_one {
                let own = self.own_lane(through, lanes)?;
                let mut more = self.loaded(&lanes[own], through.name(), &loads, skipped);
                more.extend(self.attached(&lanes[own], through, choice, kernel, skipped));
                let far = others.far(through, lanes);
                more.extend(far.flat_map(|it| self.loaded(it, &it.name, &loads, skipped)));
                lanes.extend(more);
            }
            for (at, peer) in choice.targets.iter().enumerate() {
                if peer.through != through {
                    continue;
                }
                let before = &choice.targets[..at];
                let name = match before.iter().filter(|it| it.name == peer.name).count() {
                    0 => peer.name.to_owned(),
                    before => format!("{}-{}", peer.name, before + 1),
                };
                // Two of a kind are compared with each other.
                let rival = match name == peer.name {
                    true => rival(through, lanes),
                    false => Some(peer.name.to_owned()),
                };
                match self.foreign(peer, &name, others.device.as_ref(), rival, kernel) {
                    Ok(lane) => {
                        let mut more = self.loaded(&lane, through.name(), &loads, skipped);
                        more.extend(self.attached(&lane, through, choice, kernel, skipped));
                        lanes.extend(std::iter::once(lane).chain(more));
                    }
                    Err(why) => {
                        let names = loads.iter().map(|load| name_of(&name, load.name));
                        let attached = choice.initiators_of(through);
                        let names = names.chain(attached.map(|it| name_of(&name, it.name)));
                        let cell = Some(cell(through, Some(&name), None));
                        skipped.extend(std::iter::once(name.clone()).chain(names).map(|lane| {
                            Skipped { lane, why: format!("{why}."), cell: cell.clone() }
                        }));
                    }
                }
            }
        }
        self.gateways(choice, others.device.as_ref(), lanes, skipped)
    }

    /// The number of the lane to weft's target over a protocol. If the study has none, it gets one.
    fn own_lane(&self, through: Through, lanes: &mut Vec<StudyLane>) -> Result<usize, Failure> {
        if let Some(at) = lanes.iter().position(|lane| lane.name == through.name()) {
            return Ok(at);
        }
        let template = LaneTemplate::plain(through);
        let target = Rc::new(serve(&self.source, &[scheme(through)], self.address(), self.cores)?);
        let url = url_of(&target, &template, &self.source)?;
        lanes.push(self.remote(
            &template,
            &self.options,
            &url,
            Some(&target),
            Some(Through::Local),
        )?);
        Ok(lanes.len() - 1)
    }

    /// A lane to a target of another project, with weft's initiator.
    fn foreign(
        &self,
        peer: &PeerTarget,
        name: &str,
        device: Option<&PeerDevice>,
        rival: Option<String>,
        kernel: Option<&Rc<KernelSession>>,
    ) -> Result<StudyLane, String> {
        let device = device.ok_or_else(|| "its device is not known".to_owned())?;
        let started = StartedTarget::new(peer, device, self.address(), &self.cores.target, kernel)?;
        let mut options = self.options.clone();
        options.paths.fast_io_fail_timeout = Some(Duration::from_secs(PEER_OUTAGE_S));
        if started.polls {
            // It does not answer while others are measured.
            options.keep_alive_ms = PEER_KEEP_ALIVE_S * 1000;
        }
        let template = LaneTemplate {
            name: name.to_owned(),
            title: Some(format!("{name}, {}", peer.through.title())),
            ..LaneTemplate::plain(peer.through)
        };
        let lane = self
            .remote(&template, &options, &started.url, None, Some(Through::Local))
            .map_err(|failure| failure.to_string().trim_end_matches('.').to_owned())?;
        started.process.rest();
        Ok(StudyLane {
            target_pids: started.pids,
            target_cpus: self.cores.target.clone(),
            peer: study::LanePeer {
                rival,
                setup: started.setup,
                polls: started.polls,
                cell: Some(cell(peer.through, Some(name), Some(Cell::OWN))),
                process: Some(started.process),
            },
            ..lane
        })
    }

    /// The lanes of load generators on the device of another lane. Those to another project's
    /// target have those on the lane `against` as rivals.
    pub fn loaded(
        &self,
        on: &StudyLane,
        against: &str,
        loads: &[&Load],
        skipped: &mut Vec<Skipped>,
    ) -> Vec<StudyLane> {
        let mut lanes = Vec::new();
        for load in loads {
            let name = name_of(&on.name, load.name);
            let subject = LoadDevice {
                url: &on.url,
                geometry: on.device.geometry(),
                twin: &on.name,
                pids: &on.target_pids,
                polls: on.peer.polls,
            };
            let cell = on.peer.cell.clone().map(|cell| driven(cell, load.name));
            let generator = match (load.on)(&subject) {
                Ok(generator) => generator,
                Err(failure) => {
                    let why = format!("{}.", failure.to_string().trim_end_matches('.'));
                    skipped.push(Skipped { lane: name, why, cell });
                    continue;
                }
            };
            lanes.push(StudyLane {
                name,
                title: format!("{}, load by {}", on.title, load.name),
                url: on.url.clone(),
                device: Arc::clone(&on.device),
                target_pids: Vec::new(),
                target_counters: None,
                home_counters: None,
                initiator_cpus: self.cores.initiator.clone(),
                target_cpus: on.target_cpus.clone(),
                base: on.base.clone(),
                real: on.real,
                generator: Some(generator),
                prepared_by: Some(on.name.clone()),
                peer: study::LanePeer {
                    rival: on.peer.rival.as_ref().map(|_| name_of(against, load.name)),
                    setup: on.peer.setup.clone(),
                    polls: on.peer.polls,
                    cell,
                    process: on.peer.process.clone(),
                },
            });
        }
        lanes
    }
}

impl PeerLanes {
    /// weft's lanes at a distance over a protocol.
    fn far<'a>(
        &self,
        through: Through,
        lanes: &'a [StudyLane],
    ) -> impl Iterator<Item = &'a StudyLane> {
        let names = self.far.iter().filter(move |(of, _)| *of == through);
        let names: Vec<String> = names.map(|(_, name)| name.clone()).collect();
        lanes.iter().filter(move |lane| names.contains(&lane.name))
    }

    /// The protocols of the targets, and those of weft's lanes that a chosen generator drives.
    fn protocols(&self, lanes: &[StudyLane]) -> Vec<Through> {
        let reached = |through: &Through| {
            let is_there = lanes.iter().any(|lane| lane.name == through.name())
                || self.far.iter().any(|(of, _)| of == through);
            is_there
                && (self.choice.loads.iter().any(|load| (load.reaches)(*through))
                    || self.choice.initiators_of(*through).next().is_some())
        };
        let has = |through: &Through| {
            self.choice.targets.iter().any(|peer| peer.through == *through) || reached(through)
        };
        Through::ALL.into_iter().filter(has).collect()
    }
}

/// The lane to weft's target with which one to another project's is compared: over the same
/// protocol, else over NVMe/TCP.
fn rival(through: Through, lanes: &[StudyLane]) -> Option<String> {
    let named = |name: &str| lanes.iter().any(|lane| lane.name == name).then(|| name.to_owned());
    named(through.name()).or_else(|| named(results::Lane::NVME_TCP))
}

/// The name of a lane on the device of another lane.
pub fn name_of(on: &str, by: &str) -> String {
    format!("{on}-{by}")
}

/// The place of a lane by a load generator. An initiator of the kernel is named with it.
fn driven(on: Cell, load: &str) -> Cell {
    let initiator = on.initiator.as_deref().filter(|name| *name != Cell::OWN);
    let initiator = initiator.map_or(load.to_owned(), |name| name_of(name, load));
    Cell { initiator: Some(initiator), ..on }
}

// A target of another project, or of the kernel, that was started.

/// A target that serves a device.
pub struct StartedTarget {
    /// Ends it when it is dropped.
    pub process: Rc<dyn ForeignTarget>,
    /// URL of its device.
    pub url: String,
    /// Commands and configuration.
    pub setup: Vec<String>,
    /// It uses its cores even while it is idle.
    pub polls: bool,
    /// Its processes; none if their processor time is not known from outside.
    pub pids: Vec<u32>,
}

impl StartedTarget {
    /// Starts a target on a free port. One of the kernel is configured by the supervisor.
    ///
    /// # Errors
    /// The reason, without a full stop.
    pub fn new(
        peer: &PeerTarget,
        device: &PeerDevice,
        address: IpAddr,
        cpus: &[usize],
        kernel: Option<&Rc<KernelSession>>,
    ) -> Result<Self, String> {
        let plan = match (&peer.how, kernel) {
            (StartMethod::Program(plan), _) => {
                let running = RunningTarget::start(peer.name, plan, device, address, cpus)?;
                return Ok(Self {
                    url: running.url.clone(),
                    setup: running.setup.clone(),
                    polls: running.polls,
                    pids: if running.forks { Vec::new() } else { running.pids() },
                    process: Rc::new(running),
                });
            }
            (StartMethod::Kernel { plan, .. }, Some(session)) => (plan, session),
            (StartMethod::Kernel { .. }, None) => {
                return Err("the kernel is not prepared".to_owned());
            }
        };
        let (plan, session) = plan;
        // The kernel listens before the port is let go.
        let (_port, address) = hold(address).map_err(|e| format!("no port is free: {e}"))?;
        let name = uuid::Uuid::new_v4().to_string();
        let wish = DeviceWish { device, memory: "", address, directory: "", name: &name, cpus };
        let plan = plan(&wish)?;
        let group = KernelGroup::new(session, None);
        let setup = plan.steps.iter().map(ToString::to_string).collect();
        group.perform(plan.steps)?;
        let process = Rc::new(group);
        Ok(Self { process, url: plan.url, setup, polls: false, pids: Vec::new() })
    }
}
