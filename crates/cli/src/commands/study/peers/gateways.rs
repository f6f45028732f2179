//! Lanes to gateways of other projects, whose device is that of weft's target over another
//! protocol.

use super::super::serving::{scheme, serve, url_of};
use super::super::setup::StudySetup;
use super::device::PeerDevice;
use super::peer::NbdGateway;
use super::running::RunningTarget;
use super::wanted::{Choice, cell};
use crate::commands::internal::child::Spawned;
use crate::process::exit::Failure;
use std::rc::Rc;
use weft_bench::results::{Cell, Skipped};
use weft_bench::study::{self, ForeignTarget, StudyLane};
use weft_bench::suite::{LaneTemplate, Through};

/// The protocol of gateways.
const FRONT: Through = Through::Nbd;

/// A gateway, and the target behind it, which ends after it.
struct Pair {
    gateway: RunningTarget,
    _target: Spawned,
}

impl ForeignTarget for Pair {
    fn wake(&self) {
        self.gateway.wake();
    }

    fn rest(&self) {
        self.gateway.rest();
    }
}

impl StudySetup<'_> {
    /// Adds the lanes of gateways, and those of weft in their place. One that does not start costs
    /// only its lane.
    ///
    /// # Errors
    /// One of weft's targets cannot be started.
    pub fn gateways(
        &self,
        choice: &Choice,
        device: Option<&PeerDevice>,
        lanes: &mut Vec<StudyLane>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<(), Failure> {
        let Some(device) = device else { return Ok(()) };
        for gateway in &choice.gateways {
            let behind = gateway.behind.title();
            if !lanes.iter().any(|lane| lane.name == gateway.own) {
                lanes.push(self.composed(&LaneTemplate {
                    name: gateway.own.to_owned(),
                    title: Some(format!("NBD to a process that is the initiator of {behind}")),
                    behind: Some(gateway.behind),
                    ..LaneTemplate::plain(FRONT)
                })?);
            }
            match self.through(gateway, device) {
                Ok(lane) => lanes.push(lane),
                Err(why) => skipped.push(Skipped {
                    lane: gateway.name.to_owned(),
                    why: format!("{}.", why.trim_end_matches('.')),
                    cell: Some(cell(FRONT, Some(gateway.name), None)),
                }),
            }
        }
        Ok(())
    }

    fn through(&self, gateway: &NbdGateway, device: &PeerDevice) -> Result<StudyLane, String> {
        let failed = |failure: Failure| failure.to_string();
        let schemes = [scheme(gateway.behind)];
        let far = serve(&self.source, &schemes, self.address(), self.cores).map_err(failed)?;
        let plain = LaneTemplate::plain(gateway.behind);
        let url = url_of(&far, &plain, &self.source).map_err(failed)?;
        let near = RunningTarget::start(
            gateway.name,
            |wish| (gateway.plan)(wish, &url),
            device,
            self.address(),
            &self.cores.target,
        )?;
        let template = LaneTemplate {
            name: gateway.name.to_owned(),
            title: Some(format!(
                "NBD to QEMU’s block layer, the initiator of {}",
                gateway.behind.title()
            )),
            ..LaneTemplate::plain(FRONT)
        };
        let lane = self
            .remote(&template, &self.options, &near.url, None, Some(Through::Local))
            .map_err(failed)?;
        let setup = [vec![far.command().to_owned()], near.setup.clone()].concat();
        Ok(StudyLane {
            // As of weft's gateway, the processor time is that of the process in the middle.
            target_pids: near.pids(),
            target_cpus: self.cores.target.clone(),
            peer: study::LanePeer {
                rival: Some(gateway.own.to_owned()),
                setup,
                polls: near.polls,
                cell: Some(cell(FRONT, Some(gateway.name), Some(Cell::OWN))),
                process: Some(Rc::new(Pair { gateway: near, _target: far })),
            },
            ..lane
        })
    }
}
