//! Follows the paths of a queue's device: those that are opened and lost, and the changes that they
//! report.

use super::super::flights::LEAVING;
use super::super::path_group::Live;
use super::super::route::Route;
use super::{Leaving, PathsQueue};
use weft_block::{DeviceChange, Error, Presence};

impl PathsQueue {
    /// Looks at what has changed in the group, if something has.
    #[inline]
    pub(super) fn look(&mut self) {
        if self.group.version() != self.seen {
            self.look_around();
        }
    }

    #[cold]
    fn look_around(&mut self) {
        self.seen = self.group.version();
        // Paths that are retired now were lost before a replay that begins now: the number of
        // before counts for them.
        let replays = self.group.replays();
        let is_gated = self.group.is_gated();
        self.look_at_paths();
        (self.is_gated, self.replays) = (is_gated, replays);
        if self.flights.is_empty() {
            self.report_quiet();
        }
        let (blocks, presence) = (self.group.blocks(), self.group.presence());
        if core::mem::replace(&mut self.blocks, blocks) != blocks {
            self.changes.add(DeviceChange::Resized { blocks });
        }
        if core::mem::replace(&mut self.presence, presence) != presence {
            self.changes.add(match presence {
                Presence::Here => DeviceChange::Back,
                Presence::Away => DeviceChange::Away,
                Presence::Gone => DeviceChange::Gone,
            });
        }
    }

    /// Follows what became of the paths; returns the last problem.
    pub(super) fn look_at_paths(&mut self) -> Option<Error> {
        let mut problem = None;
        for (path, (generation, live)) in self.group.paths().into_iter().enumerate() {
            if path == self.routes.len() {
                self.routes.push(Route::new(&self.group, path));
            }
            if self.routes[path].generation != generation {
                self.retire(path);
                self.routes[path].generation = generation;
                self.routes[path].paused_until = None;
                problem = live.and_then(|live| self.open_route(path, &live)).or(problem);
            } else if self.routes[path].wants_queue {
                problem = live.and_then(|live| self.open_route(path, &live)).or(problem);
            }
        }
        problem
    }

    fn open_route(&mut self, path: usize, live: &Live) -> Option<Error> {
        let route = &mut self.routes[path];
        let e = route.open(live, &self.on, self.owner).err()?;
        if route.wants_queue {
            self.arm();
        } else {
            self.group.lose(path, route.generation);
        }
        Some(e)
    }

    /// The queue of a path is used no more. Operations that it has come back in time; those that
    /// change data are unresolved.
    fn retire(&mut self, path: usize) {
        let Some(open) = self.routes[path].open.take() else { return };
        self.routes[path].in_flight = 0;
        for (name, flight) in
            self.flights.iter_mut().filter(|(_, flight)| usize::from(flight.place) == path)
        {
            flight.place = LEAVING;
            if flight.kind.is_write() && !flight.unresolved {
                flight.unresolved = true;
                self.group.unresolved.add((self.name, name), flight.lba, flight.blocks);
            }
        }
        self.leaving.push(Leaving { open, replays: (!self.is_gated).then_some(self.replays) });
    }

    #[cold]
    pub(super) fn path_changed(&mut self, path: usize, change: DeviceChange) {
        let Some(open) = &mut self.routes[path].open else { return };
        match change {
            DeviceChange::Resized { blocks } => self.group.resize(blocks),
            DeviceChange::Away => open.is_away = true,
            DeviceChange::Back => {
                open.is_away = false;
                let blocks = open.live.device.geometry().blocks;
                self.group.resize(blocks);
            }
            DeviceChange::Access(access) => open.access = access,
            DeviceChange::Gone => {
                let generation = self.routes[path].generation;
                self.retire(path);
                self.group.lose(path, generation);
            }
        }
        self.group.bump();
    }
}
