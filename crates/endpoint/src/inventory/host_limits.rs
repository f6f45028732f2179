//! Limits of hosts: how many operations and bytes per second one may use, of all devices together.

use crate::limits::HOST_LIMITS_MAX;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_block::limit::{Limit, Rate};

/// The limits of hosts by name: the host NQN of NVMe, the initiator name of iSCSI, the address of
/// an NBD client without its port.
#[derive(Debug, Default)]
pub struct HostLimits(Mutex<HashMap<String, Arc<Rate>>>);

impl HostLimits {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Rate>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits a host. A limit that it has changes at once; a first one applies to connections that
    /// it makes from now on. [`Limit::NONE`] removes the limit.
    ///
    /// # Errors
    /// [`HOST_LIMITS_MAX`] hosts have one.
    pub fn set(&self, host: &str, limit: Limit) -> Result<(), String> {
        let mut limits = self.lock();
        if let Some(rate) = limits.get(host) {
            rate.set(limit);
        } else if limit != Limit::NONE {
            if limits.len() == HOST_LIMITS_MAX {
                // Of those that were removed, some are still used by connections.
                limits.retain(|_, rate| rate.limit() != Limit::NONE || Arc::strong_count(rate) > 1);
            }
            if limits.len() == HOST_LIMITS_MAX {
                return Err(format!(
                    "{HOST_LIMITS_MAX} hosts have a limit; remove another one first"
                ));
            }
            limits.insert(host.to_owned(), Arc::new(Rate::new(limit)));
        }
        Ok(())
    }

    /// What a host may use; `None`: all there is.
    pub(crate) fn of(&self, host: &str) -> Option<Arc<Rate>> {
        self.lock().get(host).cloned()
    }
}
