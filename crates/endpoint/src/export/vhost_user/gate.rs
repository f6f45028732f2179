//! One front end at a time: the next one begins when no device has anything of the one before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The gate of a socket.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<AtomicBool>);

/// Held by the front end that is served.
pub(super) struct Pass(Arc<AtomicBool>);

impl Gate {
    /// Lets a front end in, unless another one is there.
    pub fn enter(&self) -> Option<Pass> {
        let entered = self.0.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        entered.ok().map(|_| Pass(Arc::clone(&self.0)))
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let gate = Gate::default();
        let pass = gate.enter();
        assert!(pass.is_some() && gate.enter().is_none());
        drop(pass);
        assert!(gate.enter().is_some());
    }
}
