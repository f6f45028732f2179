//! Comparison of the data of a path to another target with the data of the paths in use.
//!
//! Names do not decide that alone: two targets may have given one UUID to different disks. So a
//! path to another target is used only if samples of its data are the same as those of a path in
//! use, or if the user says that they are. They are read at both targets by connections of their
//! own, as the queues of the device in use may all be taken, and those of the new one must be free
//! when it is used.

use super::super::admit::{are_apart, contradiction};
use super::super::samples::{Comparison, Verdict, compare};
use super::{Keeper, Phase};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use uuid::Uuid;
use weft_block::{BlockDevice, Device, Error, Identity};
use weft_io::Handle;

impl Keeper {
    /// A path in use that leads to another target than a device does, as far as their names tell.
    fn counterpart(&self, path: usize, device: &dyn BlockDevice) -> Option<(usize, Device)> {
        let identity = device.identity();
        self.group.paths().into_iter().enumerate().find_map(|(other, (_, live))| {
            let live = live.filter(|live| Self::is_usable(Some(live)))?.device;
            let is_one = other != path && are_apart(&live.identity(), &identity);
            is_one.then_some((other, live))
        })
    }

    /// What is known of the target of a device: as a path last opened it there, or as the first one
    /// was. `None`: all paths have led to other targets.
    fn at_same_target(&self, identity: &Identity) -> Option<&Identity> {
        let opened = self.paths.iter().filter_map(|path| path.identity.as_ref());
        opened.chain([&self.group.base.identity]).find(|known| !are_apart(known, identity))
    }

    /// Why a device is another one than those of the other paths, beyond what must stay the same
    /// anyhow.
    pub(super) fn contradiction(&self, path: usize, device: &dyn BlockDevice) -> Option<String> {
        let (identity, blocks) = (device.identity(), device.geometry().blocks);
        let counterpart = self.counterpart(path, device).map(|(_, live)| live);
        let (known, size) = match &counterpart {
            Some(live) => (live.identity(), Some(live.geometry().blocks)),
            None if self.paths[path].again => return None,
            None => match self.at_same_target(&identity) {
                // It may have been resized.
                Some(known) => (known.clone(), None),
                None => (self.group.base.identity.clone(), Some(self.group.blocks())),
            },
        };
        let by_size = || {
            // It is opened once more because it may have another size now.
            let is_renewed = self.paths[path].renewal.is_some();
            let size = size.filter(|size| *size != blocks && !is_renewed)?;
            Some(format!("it has {blocks} blocks instead of {size}"))
        };
        contradiction(&known, &identity).or_else(by_size)
    }

    /// Begins to compare the data of a path. `None`: that was done before, or the path leads to no
    /// other target than those in use, or than one that was used before.
    ///
    /// # Errors
    /// Why it cannot be compared now: no path that it is compared with is in use, or one of the two
    /// targets cannot be connected to.
    pub(super) fn begin_comparison(
        &self,
        path: usize,
        device: &dyn BlockDevice,
    ) -> Result<Option<Comparison>, String> {
        let Some((other, _)) = self.counterpart(path, device) else {
            let is_known = self.paths[path].compared || self.paths[path].again;
            if !is_known && self.at_same_target(&device.identity()).is_none() {
                return Err("no other path can be used now".to_owned());
            }
            return Ok(None);
        };
        if self.paths[path].compared && self.paths[other].compared {
            return Ok(None);
        }
        // What is registered with a target must not be taken for these connections.
        let own = || Uuid::from_bytes(self.group.control.identities().random());
        let beside = |of: usize| self.paths[of].opener.begin_beside(self.group.key.map(|_| own()));
        let openings: Result<_, Error> = [other, path].into_iter().map(beside).collect();
        match openings {
            Ok(openings) => Ok(Some(Comparison::Connecting(openings, Vec::new()))),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Goes on with a comparison. Returns whether there may be more to do at once.
    pub(super) fn compare_further(&mut self, on: &Handle, path: usize) -> bool {
        let Phase::Comparing(device, comparison) = &mut self.paths[path].phase else {
            return false;
        };
        let device = Arc::clone(device);
        let unclear = match comparison {
            Comparison::Connecting(openings, open) => {
                let opening = openings.front_mut().map(Pin::new);
                let opened = opening.map(|it| it.poll(&mut Context::from_waker(&self.waker)));
                match opened {
                    Some(Poll::Pending) => return false,
                    Some(Poll::Ready(Err(e))) => e.to_string(),
                    Some(Poll::Ready(Ok(device))) => {
                        openings.pop_front();
                        open.push(device);
                        return true;
                    }
                    None => match compare(on, core::mem::take(open), self.id) {
                        Ok(compared) => {
                            *comparison = Comparison::Reading(compared);
                            return true;
                        }
                        Err(e) => e.to_string(),
                    },
                }
            }
            Comparison::Reading(compared) => {
                let verdict = compared.lock().take();
                match verdict {
                    None => return false,
                    Some(Verdict::Alike) => {
                        self.paths[path].compared = true;
                        return self.accept(on, path, device);
                    }
                    Some(Verdict::Different(lba)) => {
                        let difference = format!("its data differs at block {lba}");
                        return self.refuse(on, path, &difference);
                    }
                    Some(Verdict::Unclear(why)) => why,
                }
            }
        };
        self.not_compared(on, path, device, &unclear)
    }

    /// Refuses a path to another target whose data could not be compared: with equal names it may
    /// be another disk nevertheless. It is used only if the user says that it is not.
    pub(super) fn not_compared(
        &mut self,
        on: &Handle,
        path: usize,
        device: Device,
        why: &str,
    ) -> bool {
        let text = format!("its data could not be compared with that of the other paths: {why}");
        if !self.group.options.same_data {
            let why = format!(
                "{text}. It is not used until that works, or with --same-data, which says that it leads to the same data"
            );
            // If no path can be used, operations wait until somebody decides that.
            return self.failed(on, path, why, self.has_usable_path());
        }
        tracing::warn!("{}: {text}; weft trusts its UUID and size", self.name(path));
        self.accept(on, path, device)
    }
}
