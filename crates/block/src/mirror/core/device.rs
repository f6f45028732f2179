//! The device as its users see it. Its queue lives on the home loop; [`crate::sharing`] takes
//! operations there from other loops.

use super::{Core, MirrorStatus};
use crate::device::{
    Atomicity, BlockDevice, BlockQueue, Device, DeviceChange, Features, Geometry, Identity,
    Presence, SizeAnswer,
};
use crate::mirror::direct::DirectDevice;
use crate::mirror::record::LEGS_MAX;
use crate::mirror::start::MirrorStart;
use crate::op::{Completion, Op};
use crate::outcome::error::{Error, ErrorKind};
use crate::path::PathStatus;
use crate::sharing::{share_on_each_loop, shared};
use crate::stats::Totals;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_io::{DriverId, Handle, RemoteLoop};

/// The mirrors of a loop, by the address of what others see of them.
#[derive(Default)]
struct OnLoop(RefCell<Vec<(usize, Weak<RefCell<Core>>)>>);

impl OnLoop {
    fn find(&self, seen: &Arc<Lock<MirrorStatus>>) -> Option<Rc<RefCell<Core>>> {
        let address = Arc::as_ptr(seen).addr();
        self.0.borrow().iter().find(|(of, _)| *of == address).and_then(|(_, core)| core.upgrade())
    }
}

/// Makes a mirror one of its loop's.
pub(in crate::mirror) fn enter(core: &Rc<RefCell<Core>>, on: &Handle) {
    let mirrors = on.local::<OnLoop>();
    let mut all = mirrors.0.borrow_mut();
    all.retain(|(_, core)| core.strong_count() > 0);
    all.push((Arc::as_ptr(&core.borrow().seen).addr(), Rc::downgrade(core)));
}

impl Core {
    /// Returns the properties of the device for its users.
    pub(super) fn shape(&self, start: &MirrorStart) -> (Geometry, Features) {
        let members = (0..LEGS_MAX)
            .filter(|leg| start.members >> leg & 1 != 0)
            .filter_map(|leg| start.places[leg]);
        let devices: Vec<&Device> = members
            .filter_map(|place| self.legs[place].port.as_ref())
            .map(|port| &port.device)
            .collect();
        let record = &start.record;
        let block_bytes = record.block_bytes;
        let all = |has: fn(&Features) -> bool| devices.iter().all(|device| has(&device.features()));
        let least = |of: fn(&Atomicity) -> u32| {
            devices.iter().map(|device| of(&device.geometry().atomic)).min().unwrap_or(1)
        };
        let most_blocks = self.most / block_bytes;
        let atomic = Atomicity {
            write_blocks: most_blocks,
            power_fail_blocks: least(|atomic| atomic.power_fail_blocks),
            compare_and_write_blocks: most_blocks,
        };
        let geometry = Geometry {
            block_bytes,
            blocks: record.data_bytes / u64::from(block_bytes),
            padding_bytes: 0,
            optimal_blocks: devices
                .iter()
                .map(|device| device.geometry().optimal_blocks)
                .max()
                .unwrap_or(1),
            max_transfer_bytes: self.most,
            atomic,
        };
        let discards = all(|features| features.discard && features.discard_zeroes);
        let features = Features {
            write: true,
            volatile_cache: !all(|features| !features.volatile_cache),
            cache_unknown: !all(|features| !features.cache_unknown),
            discard: discards,
            discard_zeroes: discards,
            write_zeroes: all(|features| features.write_zeroes),
            compare: true,
            reservations: false,
        };
        (geometry, features)
    }

    /// The device for users on any loop.
    pub(super) fn device(&self, geometry: Geometry, features: Features) -> Device {
        let uuid = self.engine.as_ref().map(|engine| engine.durable().mirror).unwrap_or_default();
        let (seen, home) = (Arc::clone(&self.seen), self.on.remote());
        let home_device = HomeDevice {
            url: self.options.url.clone(),
            geometry,
            features,
            uuid,
            seen,
            home: home.clone(),
        };
        let inner = shared(Arc::new(home_device), &[home]);
        match &self.loops.direct {
            Some(direct) => {
                let direct = Arc::clone(direct);
                share_on_each_loop(Arc::new(DirectDevice { inner, direct }))
            }
            None => inner,
        }
    }
}

struct HomeDevice {
    url: String,
    geometry: Geometry,
    features: Features,
    uuid: Uuid,
    seen: Arc<Lock<MirrorStatus>>,
    home: RemoteLoop,
}

impl BlockDevice for HomeDevice {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// That of its record. The legs are not asked: one of another size would leave the mirror.
    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        Ok(SizeAnswer::Fixed)
    }

    fn features(&self) -> Features {
        self.features
    }

    fn identity(&self) -> Identity {
        Identity { uuid: Some(self.uuid), model: Some("weft mirror".into()), ..Identity::default() }
    }

    fn presence(&self) -> Presence {
        self.seen.lock().presence
    }

    fn losses(&self) -> u64 {
        self.seen.lock().losses
    }

    fn paths(&self) -> Vec<PathStatus> {
        self.seen.lock().paths()
    }

    fn counted(&self) -> Vec<(String, Totals)> {
        let devices: Vec<_> =
            self.seen.lock().devices.iter().filter_map(std::sync::Weak::upgrade).collect();
        devices.iter().flat_map(|device| device.counted()).collect()
    }

    fn max_queues(&self) -> usize {
        1
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let Some(core) = on.local::<OnLoop>().find(&self.seen) else {
            return Err(Error::new(ErrorKind::Io, format!("{}: the mirror is closed", self.url)));
        };
        core.borrow_mut().attach(Some(owner));
        Ok(Box::new(MirrorQueue { core }))
    }
}

impl Drop for HomeDevice {
    /// It has no user: it is closed cleanly.
    fn drop(&mut self) {
        let seen = Arc::clone(&self.seen);
        self.home.post(move |on| {
            if let Some(core) = on.local::<OnLoop>().find(&seen) {
                core.borrow_mut().close();
            }
        });
    }
}

struct MirrorQueue {
    core: Rc<RefCell<Core>>,
}

impl BlockQueue for MirrorQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.core.borrow_mut().submit(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.core.borrow_mut().reap(done);
    }

    fn cancel(&mut self, user: u64) {
        self.core.borrow_mut().cancel(user);
    }

    fn in_flight(&self) -> usize {
        self.core.borrow().in_flight()
    }

    fn holds_back(&self) -> bool {
        self.core.borrow().holds_back()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.core.borrow_mut().change()
    }
}

impl Drop for MirrorQueue {
    fn drop(&mut self) {
        self.core.borrow_mut().attach(None);
    }
}
