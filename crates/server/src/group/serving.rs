//! Has hosts served as the group says.

use std::sync::Arc;
use weft_block::AccessState;
use weft_endpoint::inventory::{LiveInventory, OtherGateway};
use weft_group::{AnaAccess, GatewayRole, Other};

/// The role of a gateway, and what hosts are served by.
#[derive(Default)]
pub struct GroupServing {
    inventory: Option<Arc<LiveInventory>>,
    role: Option<GatewayRole>,
}

impl GroupServing {
    /// Serves hosts by this inventory. On return they are notified of the present role.
    pub fn begin(&mut self, inventory: Arc<LiveInventory>) {
        self.inventory = Some(inventory);
        self.tell_hosts();
    }

    /// Takes this role from now on. On return connected hosts are notified.
    pub fn serve(&mut self, role: GatewayRole) {
        self.role = Some(role);
        self.tell_hosts();
    }

    fn tell_hosts(&self) {
        let Self { inventory: Some(inventory), role: Some(role) } = self else { return };
        let other = |other: &Other| OtherGateway {
            first_cntlid: other.cntlids.0,
            urls: other.listeners.clone(),
        };
        let others: Vec<_> = role.others.iter().map(other).collect();
        let changed = inventory.change(|builder| {
            builder.set_others(&others);
            role.access.iter().try_for_each(|(group, access)| {
                let state = match access {
                    AnaAccess::Optimized => AccessState::Optimized,
                    AnaAccess::NonOptimized => AccessState::NonOptimized,
                    AnaAccess::Inaccessible => AccessState::Inaccessible,
                };
                builder.set_access_state(*group, None, state).map(drop)
            })
        });
        if let Err(e) = changed {
            tracing::error!("the ANA states that the group asks for cannot be set: {e}");
        }
        let count = |of: AnaAccess| role.access.values().filter(|access| **access == of).count();
        let (optimized, none) = (count(AnaAccess::Optimized), count(AnaAccess::Inaccessible));
        tracing::info!(
            "this gateway is optimized for {optimized} of {} ANA groups, {none} are inaccessible",
            role.access.len()
        );
    }
}
