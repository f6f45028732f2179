//! Closed associations whose commands the peer may still execute, and ways to resolve them before
//! the time limit (decision 8): a living association with the same peer can reset the lost one
//! there, or a login can take its place.

use crate::limits::UNSETTLED_MAX;
use std::sync::{Arc, Weak};
use weft_base::lock::Lock;
use weft_io::Time;
use weft_proto::nvme::cross_reset::CrossControllerReset;

/// A connection that is over, with commands of unknown outcome.
pub trait Unsettled: Send + Sync {
    /// From `at` on its peer no longer executes any of them, if that was not certain before.
    fn settle(&self, at: Time);

    /// When it is settled, as far as it is known now.
    fn settled_at(&self) -> Option<Time>;
}

/// The two peers: associations with equal values can settle each other. NVMe: the host and the
/// subsystem. iSCSI: the two names and the ISID.
pub type Pair = String;

/// Asks a living association to have a controller reset.
type Ask = Box<dyn Fn(CrossControllerReset) + Send + Sync>;

struct Over {
    pair: Pair,
    /// Its name for other controllers.
    instance: Option<CrossControllerReset>,
    what: Weak<dyn Unsettled>,
    /// The association that was asked to have it reset.
    asked: Option<u64>,
    /// Associations that could not.
    refused: Vec<u64>,
}

struct Living {
    id: u64,
    pair: Pair,
    ask: Ask,
}

#[derive(Default)]
struct RegistryState {
    over: Vec<Over>,
    living: Vec<Living>,
    next: u64,
}

/// All of a control.
#[derive(Default)]
pub struct Registry(Lock<RegistryState>);

impl Registry {
    /// An association is over and not settled.
    pub fn ended(
        &self,
        pair: Pair,
        instance: Option<CrossControllerReset>,
        what: Weak<dyn Unsettled>,
        now: Time,
    ) {
        let mut inner = self.0.lock();
        inner.forget_settled(now);
        inner.add(Over { pair, instance, what, asked: None, refused: Vec::new() });
    }

    /// A process before this one has left an association.
    pub(super) fn inherited(
        &self,
        pair: Pair,
        instance: Option<CrossControllerReset>,
        what: Weak<dyn Unsettled>,
    ) {
        self.0.lock().add(Over { pair, instance, what, asked: None, refused: Vec::new() });
    }

    /// An association can have others with the same peer reset, by `ask`. Gives a name for
    /// [`Registry::leave`].
    pub fn join(&self, pair: Pair, ask: Ask) -> u64 {
        let mut inner = self.0.lock();
        inner.next += 1;
        let id = inner.next;
        inner.living.push(Living { id, pair, ask });
        inner.ask();
        id
    }

    /// Removes it: it can no longer ask.
    pub fn leave(&self, id: u64) {
        let mut inner = self.0.lock();
        inner.living.retain(|living| living.id != id);
        for over in &mut inner.over {
            over.asked.take_if(|asked| *asked == id);
        }
        inner.ask();
    }

    /// `id` was asked to reset the controller of `lost`, and did so if `stopped`. Returns true if that
    /// settled an association.
    pub fn answered(&self, id: u64, lost: CrossControllerReset, stopped: bool, now: Time) -> bool {
        let mut inner = self.0.lock();
        let asked = |over: &Over| over.asked == Some(id) && over.instance == Some(lost);
        let Some(at) = inner.over.iter().position(asked) else { return false };
        if !stopped {
            inner.over[at].asked = None;
            inner.over[at].refused.push(id);
            inner.ask();
            return false;
        }
        let what = inner.over.swap_remove(at).what;
        drop(inner);
        what.upgrade().inspect(|what| what.settle(now)).is_some()
    }

    /// The peer has ended what was over for these two, as it has taken another in its place; says
    /// whether there was any.
    pub fn replaced(&self, pair: &Pair, now: Time) -> bool {
        let mut inner = self.0.lock();
        inner.forget_settled(now);
        let over = inner.over.extract_if(.., |over| over.pair == *pair).collect::<Vec<_>>();
        drop(inner);
        over.iter().filter_map(|over| over.what.upgrade()).map(|what| what.settle(now)).count() > 0
    }
}

impl RegistryState {
    fn add(&mut self, over: Over) {
        if self.over.len() == UNSETTLED_MAX {
            // It settles by time.
            self.over.remove(0);
        }
        self.over.push(over);
        self.ask();
    }

    /// Forgets what time has settled, and what nobody waits for.
    fn forget_settled(&mut self, now: Time) {
        let waits = |what: Arc<dyn Unsettled>| what.settled_at().is_none_or(|at| at > now);
        self.over.retain(|over| over.what.upgrade().is_some_and(waits));
    }

    /// Asks for what nobody was asked for. The asked ones answer in a turn of their own.
    fn ask(&mut self) {
        for over in self.over.iter_mut().filter(|over| over.asked.is_none()) {
            let Some(lost) = over.instance else { continue };
            let can =
                |living: &&Living| living.pair == over.pair && !over.refused.contains(&living.id);
            if let Some(living) = self.living.iter().find(can) {
                over.asked = Some(living.id);
                (living.ask)(lost);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weft_proto::nvme::types::Cntlid;

    const LOST: CrossControllerReset = CrossControllerReset { icid: Cntlid(1), ciu: 2, cirn: 3 };
    const NOW: Time = Time::ZERO;

    struct Old(Lock<Time>);

    impl Unsettled for Old {
        fn settle(&self, at: Time) {
            *self.0.lock() = at;
        }

        fn settled_at(&self) -> Option<Time> {
            Some(*self.0.lock())
        }
    }

    fn old() -> Arc<Old> {
        Arc::new(Old(Lock::new(NOW + Duration::from_secs(60))))
    }

    fn weak(old: &Arc<Old>) -> Weak<dyn Unsettled> {
        let old: Arc<dyn Unsettled> = Arc::<Old>::clone(old);
        Arc::downgrade(&old)
    }

    /// A living association, and how often it was asked.
    fn join(registry: &Registry, pair: &str) -> (u64, Arc<Lock<u32>>) {
        let asked = Arc::new(Lock::new(0));
        let count = Arc::clone(&asked);
        let id = registry.join(
            pair.into(),
            Box::new(move |lost| {
                assert_eq!(lost, LOST);
                *count.lock() += 1;
            }),
        );
        (id, asked)
    }

    #[test]
    fn one_of_the_living_is_asked_and_its_answer_settles() {
        let (registry, old) = (Registry::default(), old());
        let (first, first_asked) = join(&registry, "a");
        let (second, second_asked) = join(&registry, "a");
        let (_, stranger_asked) = join(&registry, "b");
        registry.ended("a".into(), Some(LOST), weak(&old), NOW);
        assert_eq!((*first_asked.lock(), *second_asked.lock()), (1, 0));
        assert!(!registry.answered(second, LOST, true, NOW), "it was not asked");
        assert!(!registry.answered(first, LOST, false, NOW));
        assert_eq!((*first_asked.lock(), *second_asked.lock()), (1, 1), "then the other");
        assert!(registry.answered(second, LOST, true, NOW));
        assert_eq!((old.settled_at(), *stranger_asked.lock()), (Some(NOW), 0));
    }

    #[test]
    fn who_comes_later_is_asked_and_who_leaves_is_asked_no_more() {
        let (registry, old) = (Registry::default(), old());
        registry.ended("a".into(), Some(LOST), weak(&old), NOW);
        let (first, asked) = join(&registry, "a");
        assert_eq!(*asked.lock(), 1);
        let (_, later_asked) = join(&registry, "a");
        registry.leave(first);
        assert_eq!(*later_asked.lock(), 1);
    }

    #[test]
    fn what_time_has_settled_is_forgotten() {
        let (registry, old) = (Registry::default(), old());
        registry.ended("a".into(), None, weak(&old), NOW);
        let later = NOW + Duration::from_secs(61);
        assert!(!registry.replaced(&"a".into(), later));
        registry.ended("a".into(), None, weak(&old), NOW);
        assert!(registry.replaced(&"a".into(), NOW + Duration::from_secs(1)));
        assert_eq!(old.settled_at(), Some(NOW + Duration::from_secs(1)));
        assert!(registry.0.lock().over.is_empty());
    }

    #[test]
    fn there_are_never_more_than_the_limit() {
        let (registry, old) = (Registry::default(), old());
        for _ in 0..UNSETTLED_MAX + 5 {
            registry.ended("a".into(), None, weak(&old), NOW);
        }
        assert_eq!(registry.0.lock().over.len(), UNSETTLED_MAX);
    }
}
