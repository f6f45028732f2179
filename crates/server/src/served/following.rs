//! Changes at a gateway of a group: all gateways serve the same, so each follows the changes of
//! the others.

use super::{ChangeMode, Changed, Served, ServedState};
use crate::config::desired::concatenate;
use crate::config::group::GroupConfig;
use crate::group::{GroupMembership, NewConfiguration, threads};
use crate::management::protocol::{FaultCode, RequestFault};
use std::sync::Arc;
use std::time::Duration;
use weft_block::Error;
use weft_endpoint::inventory::Inventory;
use weft_group::placement::Weights;

/// Time after which a gateway looks by itself whether the configuration has changed.
const LOOK: Duration = Duration::from_secs(5);

/// Number of tries of a change when others were faster.
const TRIES: usize = 10;

impl Served {
    /// Begins to follow what other gateways of the group change.
    pub(crate) fn follow_others(
        self: &Arc<Self>,
        group: &Arc<GroupMembership>,
    ) -> Result<(), Error> {
        let Some(looks) = group.configuration.looks() else { return Ok(()) };
        let (served, group) = (Arc::downgrade(self), Arc::downgrade(group));
        let follow = move || {
            let mut weights = None;
            while let (Some(served), Some(group)) = (served.upgrade(), group.upgrade()) {
                served.follow(&group);
                served.listen_late(&group);
                let now = weights_of(&served.inventory.now());
                if weights.as_ref() != Some(&now) {
                    group.weigh(now.clone());
                    weights = Some(now);
                }
                drop((served, group));
                // Looks again after this time even without a notification.
                let _ = looks.recv_timeout(LOOK);
            }
        };
        threads::start("follow", follow)
    }

    /// Serves what the cluster has, if that is something else.
    fn follow(&self, group: &GroupMembership) {
        let configuration = &group.configuration;
        let serve =
            |news: &NewConfiguration| self.serve_news(group, news).map_err(|fault| fault.message);
        match configuration.news().and_then(|news| news.map_or(Ok(None), |news| serve(&news))) {
            Ok(Some(changed)) => tracing::info!(
                "the group's configuration was followed: {} changes",
                changed.changes.len()
            ),
            Ok(None) => {}
            Err(why) => {
                if configuration.fell_behind(&why) {
                    tracing::error!(
                        "this gateway cannot follow the group's configuration, and tries again: {why}"
                    );
                }
            }
        }
    }

    /// Serves what another gateway has asked for. `None`: something newer is served already.
    fn serve_news(
        &self,
        group: &GroupMembership,
        news: &NewConfiguration,
    ) -> Result<Option<Changed>, RequestFault> {
        let mut is_followed = false;
        let how = ChangeMode { force: true, dry_run: false };
        let edit = |state: &mut ServedState| {
            is_followed = group.configuration.is_news(news);
            if is_followed {
                self.put(state, &news.config);
            }
            Ok(())
        };
        let commit = |_: &ServedState, _| {
            group.configuration.adopt(news);
            Ok(())
        };
        let changed = self.change_here(how, edit, commit)?;
        Ok(is_followed.then_some(changed))
    }

    /// Makes a change that depends on what is served, again if another gateway was faster.
    pub(super) fn retried<T>(
        &self,
        group: &GroupMembership,
        mut change: impl FnMut() -> Result<T, RequestFault>,
    ) -> Result<T, RequestFault> {
        // Takes the changes of others, even if this gateway was not notified.
        self.follow(group);
        for _ in 1..TRIES {
            match change() {
                Err(fault) if fault.code == FaultCode::Conflict => self.follow(group),
                other => return other,
            }
        }
        change()
    }

    /// Listens at those addresses of a gateway that need a subsystem, once there is one.
    fn listen_late(&self, group: &GroupMembership) {
        let edit = |state: &mut ServedState| {
            if !state.subsystems.is_empty() {
                state.listen.clone_from(&group.listen);
            }
            Ok(())
        };
        if let Err(fault) = self.change_here(ChangeMode::default(), edit, |_, _| Ok(())) {
            tracing::error!("this gateway cannot listen: {}", fault.message);
        }
    }

    /// Puts what a group serves into what is served here.
    pub(super) fn put(
        &self,
        state: &mut ServedState,
        GroupConfig { subsystems, discovery, limits, identifiers }: &GroupConfig,
    ) {
        (state.subsystems, state.discovery, state.limits) =
            (subsystems.clone(), discovery.clone(), limits.clone());
        state.identifiers.clone_from(identifiers);
        concatenate(&mut state.subsystems, &mut state.discovery, self.concat);
    }
}

/// The namespaces of each ANA group.
fn weights_of(inventory: &Inventory) -> Weights {
    let mut weights = Weights::new();
    inventory.namespaces().for_each(|namespace| *weights.entry(namespace.group).or_default() += 1);
    weights
}
