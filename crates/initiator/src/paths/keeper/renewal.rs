//! Opens a path once more while it is in use, as its size can be had only so. If the device has
//! another size it takes the place of the one in use, whose operations end there.

use super::super::path_group::Live;
use super::{Keeper, Phase, Renewal};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use weft_block::{Error, ErrorKind, Geometry, units};
use weft_io::Handle;

impl Keeper {
    /// Begins to open the paths once more for which that was asked.
    pub(super) fn begin_renewals(&mut self) {
        for (path, asked) in self.group.take_renewals() {
            let name = self.name(path);
            let refuse = |why: &str| Error::new(ErrorKind::InUse, format!("{name}: {why}"));
            let state = &mut self.paths[path];
            if state.renewal.is_some() {
                asked.complete(Err(refuse("its size is being asked for already; try again")));
            } else if !matches!(state.phase, Phase::Live) {
                asked.complete(Err(refuse("it is not connected at present; try again")));
            } else {
                match state.opener.begin() {
                    Ok(opening) => state.renewal = Some(Renewal { opening: Some(opening), asked }),
                    Err(e) => asked.complete(Err(e)),
                }
            }
        }
    }

    /// What becomes of it. Returns whether there may be more to do at once.
    pub(super) fn go_on_renewing(&mut self, on: &Handle, path: usize, live: &Live) -> bool {
        let renewal = self.paths[path].renewal.as_mut();
        let Some(slot) = renewal.map(|renewal| &mut renewal.opening) else { return false };
        let Some(opening) = slot else { return false };
        let opened = match Pin::new(opening).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => return false,
            Poll::Ready(opened) => opened,
        };
        *slot = None;
        let problem = match &opened {
            Err(e) => Some(e.to_string()),
            Ok(device) => {
                let (before, now) = (live.device.geometry(), device.geometry());
                self.group.base.difference(device.as_ref()).or_else(|| shorter(before, now))
            }
        };
        match opened {
            Ok(device) if problem.is_none() => {
                if device.geometry().blocks != live.device.geometry().blocks {
                    return self.opened(on, path, device);
                }
                self.renewed(path, Ok(()));
            }
            _ => self.renewed(path, Err(problem.unwrap_or_default())),
        }
        false
    }

    /// Answers who asked for it, if somebody did.
    pub(super) fn renewed(&mut self, path: usize, outcome: Result<(), String>) {
        let Some(Renewal { asked, .. }) = self.paths[path].renewal.take() else { return };
        let name = self.name(path);
        let failed = |why: String| {
            Error::new(ErrorKind::Io, format!("{name}: its size is not taken over: {why}"))
        };
        asked.complete(outcome.map_err(failed));
    }
}

/// The reason against a device that has become shorter: hosts may use the end that is gone, as with
/// a file that is cut.
fn shorter(before: Geometry, now: Geometry) -> Option<String> {
    let size = |of: Geometry| units::format_size(of.bytes());
    (now.bytes() < before.bytes()).then(|| {
        format!(
            "it has {} instead of {}: remove what uses it and add it again",
            size(now),
            size(before)
        )
    })
}
