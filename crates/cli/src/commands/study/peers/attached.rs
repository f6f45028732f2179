//! Lanes to disks that initiators of the kernel make of the devices of other lanes.

use super::super::setup::StudySetup;
use super::kernel::initiator::{KernelInitiator, Remote};
use super::kernel::session::{KernelGroup, KernelSession};
use super::lanes::name_of;
use super::load::Load;
use super::wanted::{Choice, cell};
use std::rc::Rc;
use weft_bench::results::{Cell, Skipped};
use weft_bench::study::{self, ForeignTarget, StudyLane};
use weft_bench::suite::{LaneTemplate, Through};

impl StudySetup<'_> {
    /// The lanes of the kernel's initiators on the device of another lane, and those of load
    /// generators on their disks. One that cannot be made costs only its lanes.
    pub fn attached(
        &self,
        on: &StudyLane,
        through: Through,
        choice: &Choice,
        kernel: Option<&Rc<KernelSession>>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<StudyLane> {
        let Some(session) = kernel else { return Vec::new() };
        let loads: Vec<&Load> = choice.loads.iter().copied().filter(|load| load.disks).collect();
        let mut lanes = Vec::new();
        for initiator in choice.initiators_of(through) {
            match self.by_kernel(on, initiator, session) {
                Ok(lane) => {
                    let rival = lane.peer.rival.clone().unwrap_or_default();
                    let loaded = self.loaded(&lane, &rival, &loads, skipped);
                    lanes.extend(std::iter::once(lane).chain(loaded));
                }
                Err(why) => {
                    let name = name_of(&on.name, initiator.name);
                    let names = loads.iter().map(|load| name_of(&name, load.name));
                    let cell = place(on, initiator);
                    skipped.extend(std::iter::once(name.clone()).chain(names).map(|lane| {
                        Skipped { lane, why: format!("{why}."), cell: Some(cell.clone()) }
                    }));
                }
            }
        }
        lanes
    }

    /// The lane of an initiator of the kernel on the device of another lane. On weft's target it is
    /// compared with weft's initiator, on another one with itself on weft's target.
    fn by_kernel(
        &self,
        on: &StudyLane,
        initiator: &KernelInitiator,
        session: &Rc<KernelSession>,
    ) -> Result<StudyLane, String> {
        let group = KernelGroup::new(session, on.peer.process.clone());
        group.wake();
        let remote = Remote {
            url: &on.url,
            queues: self.options.nr_io_queues,
            queue_size: self.options.queue_size,
            rests: on.peer.polls,
        };
        let path = (initiator.attach)(&group, &remote)?;
        let template = LaneTemplate {
            name: name_of(&on.name, initiator.name),
            title: Some(format!("{}, initiator {} of the kernel", on.title, initiator.name)),
            ..LaneTemplate::plain(Through::Given)
        };
        let lane = self
            .remote(&template, &self.options, &path, None, Some(Through::Local))
            .map_err(|failure| failure.to_string().trim_end_matches('.').to_owned())?;
        group.rest();
        let rival = match &on.peer.rival {
            None => on.name.clone(),
            Some(_) => name_of(initiator.through.name(), initiator.name),
        };
        Ok(StudyLane {
            // Threads of the kernel are a part of each end, so no processor time is comparable.
            target_pids: Vec::new(),
            target_cpus: on.target_cpus.clone(),
            prepared_by: Some(on.name.clone()),
            peer: study::LanePeer {
                rival: Some(rival),
                setup: on.peer.setup.clone(),
                polls: on.peer.polls,
                cell: Some(place(on, initiator)),
                process: Some(Rc::new(group)),
            },
            ..lane
        })
    }
}

/// The place of such a lane among targets and initiators.
fn place(on: &StudyLane, initiator: &KernelInitiator) -> Cell {
    let target = on.peer.cell.as_ref().and_then(|cell| cell.target.as_deref());
    cell(initiator.through, target, Some(initiator.name))
}
