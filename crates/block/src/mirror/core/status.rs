//! View of a mirror for other threads: whether it works, and the state of its legs.

use super::Core;
use super::leg::Leg;
use crate::device::Presence;
use crate::mirror::engine::{LegRole, MirrorEngine};
use crate::mirror::record::LEGS_MAX;
use crate::path::{AccessState, PathState, PathStatus};
use std::sync::Arc;

impl Core {
    pub(super) fn see(&self, presence: Presence) {
        self.seen.lock().presence = presence;
    }

    pub(super) fn see_loss(&self) {
        self.seen.lock().losses += 1;
    }

    pub(super) fn see_legs(&self) {
        let legs = self.legs.iter().map(|leg| status(leg, self.engine.as_ref())).collect();
        self.seen.lock().legs = legs;
    }

    pub(super) fn see_devices(&self) {
        let devices = self
            .legs
            .iter()
            .filter_map(|leg| leg.port.as_ref())
            .map(|port| Arc::downgrade(&port.device))
            .collect();
        self.seen.lock().devices = devices;
    }
}

/// Returns a text with the blocks that no leg can be read from.
fn unreadable(engine: &MirrorEngine) -> Option<String> {
    let unreadable = engine.unreadable();
    let first = unreadable.ranges().next()?.0;
    Some(format!(
        "{} blocks can be read from no leg until they are written, the first is block {first}",
        unreadable.blocks()
    ))
}

/// The status of a leg without its counts ([`MirrorStatus::paths`]).
fn status(leg: &Leg, engine: Option<&MirrorEngine>) -> PathStatus {
    let number = leg.phase.number().filter(|number| *number < LEGS_MAX);
    let (state, why) =
        match engine.zip(number).map(|(engine, number)| (engine, number, engine.roles()[number])) {
            Some((engine, _, LegRole::Member)) => (PathState::Live, unreadable(engine)),
            Some((_, _, LegRole::Greeted)) => {
                (PathState::Connecting, Some("is about to be made equal".into()))
            }
            Some((engine, number, LegRole::Copying)) => {
                let (left, all) = (engine.backlog()[number], engine.regions());
                let equal = 100.0 * (all - left.min(all)) as f64 / all.max(1) as f64;
                // Never 100 while anything is left.
                let equal = (equal * 10.0).floor() / 10.0;
                (
                    PathState::Connecting,
                    Some(format!(
                        "is being made equal: {equal:.1} % are, {left} of {all} regions are left"
                    )),
                )
            }
            _ => (PathState::Waiting, leg.complaint.as_ref().map(|it| it.text.clone())),
        };
    PathStatus {
        url: leg.source.url.clone(),
        state,
        access: AccessState::Optimized,
        operations: 0,
        bytes: 0,
        errors: 0,
        retries: 0,
        reconnects: 0,
        latency: None,
        why,
        epoch: None,
    }
}
