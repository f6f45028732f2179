//! A device over any number of paths.

use super::asking::ask_from;
use super::path_group::PathGroup;
use super::queue::PathsQueue;
use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;
use weft_block::offload::{Offload, OffloadSource};
use weft_block::path::PathStatus;
use weft_block::{
    BlockDevice, BlockQueue, Device, Error, ErrorKind, Features, Geometry, Identity, Presence,
    SizeAnswer, units,
};
use weft_io::{DriverId, Handle};

/// See [`super`]. Dropping it closes all paths, without waiting for operations.
pub(super) struct PathsDevice {
    pub(super) group: Arc<PathGroup>,
}

impl Drop for PathsDevice {
    fn drop(&mut self) {
        self.give_back();
        self.group.close();
        let group = Arc::clone(&self.group);
        if let Ok(remote) = self.group.control.remote() {
            remote.post(move |on| {
                if let Some(keeper) = group.keeper() {
                    on.remove(keeper);
                }
            });
        }
    }
}

impl PathsDevice {
    /// The devices of the paths that can be used.
    fn live(&self) -> impl Iterator<Item = Device> {
        self.group.paths().into_iter().filter_map(|(_, live)| Some(live?.device))
    }

    /// The reservation ends with the device, if a path can be used.
    fn give_back(&self) {
        let device = self.group.paths().into_iter().find_map(|(_, live)| Some(live?.device));
        if let (Some(key), Some(device)) = (self.group.key, device) {
            // It goes on by itself; what cannot be given back is taken over by the next opening of
            // this host.
            drop(ask_from(&self.group.control, &device, key.given_back()));
        }
    }
}

impl BlockDevice for PathsDevice {
    fn url(&self) -> &str {
        &self.group.url
    }

    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.group.blocks(), ..self.group.base.geometry }
    }

    /// Every path is asked, because each may check operations by the size that it knows, and the
    /// smallest size is used. A path that has to be opened again for it is, beside the one that is
    /// in use.
    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        let paths = self.group.paths().into_iter().enumerate();
        let open: Vec<(usize, Device)> =
            paths.filter_map(|(path, (_, live))| Some((path, live?.device))).collect();
        if open.is_empty() {
            let text = format!("{}: no path can be used at present", self.group.url);
            return Err(Error::new(ErrorKind::Refused, text));
        }
        self.group.hold_size();
        let ask = |(path, device): &(usize, Device)| match device.renew_size() {
            Ok(SizeAnswer::WhenOpened) => self.group.renew(*path).wait(),
            Ok(SizeAnswer::Now | SizeAnswer::Fixed) => Ok(()),
            Err(e) => Err(e),
        };
        let mut failed: Vec<Error> = open.iter().filter_map(|path| ask(path).err()).collect();
        // Some may have been opened again.
        let sizes: Vec<(String, Geometry)> =
            self.live().map(|device| (device.url().to_owned(), device.geometry())).collect();
        let blocks: Vec<u64> = sizes.iter().map(|(_, size)| size.blocks).collect();
        self.group.settle_size(&blocks);
        if failed.is_empty() && blocks.iter().any(|of| Some(of) != blocks.first()) {
            failed.push(Error::new(ErrorKind::Refused, different(&sizes)));
        }
        together(failed).map(|()| SizeAnswer::Now)
    }

    fn features(&self) -> Features {
        self.group.base.features
    }

    fn identity(&self) -> Identity {
        self.group.base.identity.clone()
    }

    fn used_blocks(&self) -> Option<u64> {
        self.live().find_map(|device| device.used_blocks())
    }

    fn presence(&self) -> Presence {
        self.group.presence()
    }

    fn losses(&self) -> u64 {
        self.group.losses()
    }

    fn paths(&self) -> Vec<PathStatus> {
        self.group.report()
    }

    fn late_writes_bound(&self) -> Option<Duration> {
        self.group
            .paths()
            .into_iter()
            .filter_map(|(_, live)| live?.device.late_writes_bound())
            .max()
    }

    fn served(&self) -> Option<OffloadSource> {
        self.live().find_map(|device| device.served())
    }

    /// It ends with the path that it uses; who uses it goes on by the queues then.
    fn offload(&self, from: &OffloadSource) -> Option<Arc<dyn Offload>> {
        self.live().find_map(|device| device.offload(from))
    }

    fn data_runs(&self) -> Option<Vec<Range<u64>>> {
        self.live().find_map(|device| device.data_runs())
    }

    fn max_queues(&self) -> usize {
        self.group.base.queues
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(PathsQueue::open(&self.group, on, owner)?))
    }
}

/// Text about paths of different sizes.
fn different(sizes: &[(String, Geometry)]) -> String {
    let each: Vec<String> = sizes
        .iter()
        .map(|(url, size)| format!("{url} has {}", units::format_size(size.bytes())))
        .collect();
    format!(
        "the paths have different sizes: {}; the smallest is used until they are asked again",
        each.join(", ")
    )
}

/// The errors of all paths as one.
fn together(mut errors: Vec<Error>) -> Result<(), Error> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => {
            let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
            Err(Error::new(errors[0].kind(), texts.join("; ")))
        }
    }
}
