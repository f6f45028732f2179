//! Reservations of one namespace as the standards describe them, for whoever checks a target:
//! written apart from the target's own code.
//!
//! Every host has one key, and never names another's type of protocol: [`ModelAction`] has the
//! differences between NVMe and SCSI.

/// A host, or a nexus: by number.
pub type Who = usize;

/// The type of a reservation, by its code in NVMe (Base 2.1, "Reservation Type Encoding").
pub type Kind = u8;

/// Types 1 to 6.
pub const KINDS: [Kind; 6] = [1, 2, 3, 4, 5, 6];

/// Request of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelAction {
    /// Registers its key.
    Register,
    /// Takes the registration back. Without one, it succeeds by SCSI (`idle`) and conflicts by
    /// NVMe.
    Unregister {
        /// It succeeds without a registration.
        idle: bool,
    },
    /// Becomes the holder.
    Acquire(Kind),
    /// Ends the reservation.
    Release(Kind),
    /// Takes the registration of another away, and the reservation if it was that one's.
    Preempt {
        /// Who loses its registration.
        victim: Who,
        /// The type of what is taken over.
        kind: Kind,
        /// Commands of the victim are aborted.
        abort: bool,
    },
    /// Ends everything.
    Clear,
    /// Asks what the state is.
    Report,
}

/// Answer of a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelAnswer {
    /// Success.
    Done,
    /// Reservation conflict.
    Conflict,
    /// Something in the command is wrong.
    Invalid,
    /// The state.
    Shows(ModelState),
}

/// Registrants and the reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelState {
    registered: Vec<Who>,
    /// Where all registrants hold it, nobody is named.
    held: Option<(Kind, Option<Who>)>,
}

/// All registrants are holders.
const fn all_hold(kind: Kind) -> bool {
    kind >= 5
}

impl ModelState {
    /// These hosts are registered, and this is reserved; where all registrants hold it, by nobody
    /// in particular.
    pub fn new(mut registered: Vec<Who>, held: Option<(Kind, Option<Who>)>) -> Self {
        registered.sort_unstable();
        Self {
            registered,
            held: held.map(|(kind, holder)| (kind, holder.filter(|_| !all_hold(kind)))),
        }
    }

    /// Returns whether somebody is registered.
    pub fn is_registered(&self, who: Who) -> bool {
        self.registered.contains(&who)
    }

    /// Returns whether nobody is registered.
    pub fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    fn holds(&self, who: Who) -> bool {
        self.held.is_some_and(|(_, holder)| {
            holder.map_or(self.is_registered(who), |holder| holder == who)
        })
    }

    /// Returns whether somebody (`None`: one that can be neither registered nor holder) may write,
    /// or read.
    pub fn allows(&self, who: Option<Who>, writes: bool) -> bool {
        let Some((kind, _)) = self.held else { return true };
        // 1, 3, 5: write exclusive. 2, 4, 6: exclusive access. From 3 on registrants share it.
        let is_open = !writes && kind % 2 == 1;
        is_open || who.is_some_and(|who| self.holds(who) || kind >= 3 && self.is_registered(who))
    }

    fn remove(&mut self, who: Who) {
        self.registered.retain(|other| *other != who);
        let is_over = |(kind, holder): (Kind, Option<Who>)| match all_hold(kind) {
            true => self.registered.is_empty(),
            false => holder == Some(who),
        };
        if self.held.is_some_and(is_over) {
            self.held = None;
        }
    }

    fn hold(&mut self, who: Who, kind: Kind) {
        self.held = Some((kind, (!all_hold(kind)).then_some(who)));
    }

    /// Returns the answer, and the state after it.
    pub fn after(&self, by: Who, action: ModelAction) -> (ModelAnswer, Self) {
        if action == ModelAction::Report {
            return (ModelAnswer::Shows(self.clone()), self.clone());
        }
        let mut next = self.clone();
        match next.apply(by, action) {
            ModelAnswer::Done => (ModelAnswer::Done, next),
            answer => (answer, self.clone()),
        }
    }

    fn apply(&mut self, by: Who, action: ModelAction) -> ModelAnswer {
        match action {
            ModelAction::Report => {}
            ModelAction::Register if self.is_registered(by) => return ModelAnswer::Done,
            ModelAction::Register => {
                self.registered.push(by);
                self.registered.sort_unstable();
                return ModelAnswer::Done;
            }
            ModelAction::Unregister { idle: true } if !self.is_registered(by) => {
                return ModelAnswer::Done;
            }
            _ if !self.is_registered(by) => return ModelAnswer::Conflict,
            ModelAction::Unregister { .. } => self.remove(by),
            ModelAction::Acquire(kind) => match self.held {
                Some((held, _)) if held != kind || !self.holds(by) => return ModelAnswer::Conflict,
                _ => self.hold(by, kind),
            },
            ModelAction::Release(kind) => match self.held {
                Some((held, _)) if self.holds(by) && held != kind => return ModelAnswer::Invalid,
                Some(_) if self.holds(by) => self.held = None,
                _ => {}
            },
            ModelAction::Preempt { victim, .. } if !self.is_registered(victim) => {
                return ModelAnswer::Conflict;
            }
            ModelAction::Preempt { victim, kind, .. } => {
                let takes_over = self.held.is_some_and(|(_, holder)| holder == Some(victim));
                self.remove(victim);
                if takes_over {
                    self.hold(by, kind);
                }
            }
            ModelAction::Clear => *self = Self::default(),
        }
        ModelAnswer::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(actions: &[(Who, ModelAction)]) -> ModelState {
        actions.iter().fold(ModelState::default(), |state, (by, action)| {
            let (answer, next) = state.after(*by, *action);
            assert_eq!(answer, ModelAnswer::Done, "{action:?} of {by}");
            next
        })
    }

    const REGISTERED: [(Who, ModelAction); 2] =
        [(0, ModelAction::Register), (1, ModelAction::Register)];

    #[test]
    fn each_type_allows_what_it_is_for() {
        // What registrants and others may do: write, read.
        let wanted = [
            (1, [false, true], [false, true]),
            (2, [false, false], [false, false]),
            (3, [true, true], [false, true]),
            (4, [true, true], [false, false]),
            (5, [true, true], [false, true]),
            (6, [true, true], [false, false]),
        ];
        for (kind, registrants, others) in wanted {
            let state = state(&[&REGISTERED[..], &[(0, ModelAction::Acquire(kind))]].concat());
            let may = |who| [true, false].map(|writes| state.allows(who, writes));
            assert_eq!(
                (may(Some(0)), may(Some(1)), may(Some(2)), may(None)),
                ([true; 2], registrants, others, others),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_holder_that_leaves_ends_what_it_holds_alone() {
        let leave = (0, ModelAction::Unregister { idle: false });
        let alone = state(&[&REGISTERED[..], &[(0, ModelAction::Acquire(1)), leave]].concat());
        let shared = state(&[&REGISTERED[..], &[(0, ModelAction::Acquire(6)), leave]].concat());
        assert!(
            alone.allows(None, true)
                && !shared.allows(Some(0), false)
                && shared.allows(Some(1), true)
        );
    }

    #[test]
    fn preempting_takes_over_from_the_holder_alone() {
        let preempt = |kind| (1, ModelAction::Preempt { victim: 0, kind, abort: false });
        let taken = state(&[&REGISTERED[..], &[(0, ModelAction::Acquire(1)), preempt(2)]].concat());
        assert!(taken.allows(Some(1), true) && !taken.allows(Some(0), false));
        let free = state(&[&REGISTERED[..], &[preempt(2)]].concat());
        assert!(free.allows(None, true) && !free.is_registered(0));
        assert_eq!(free.after(1, preempt(1).1).0, ModelAnswer::Conflict, "there is nobody left");
    }

    #[test]
    fn refusals_change_nothing() {
        let held = state(&[&REGISTERED[..], &[(0, ModelAction::Acquire(3))]].concat());
        let refused = [
            (1, ModelAction::Acquire(3), ModelAnswer::Conflict),
            (2, ModelAction::Clear, ModelAnswer::Conflict),
            (2, ModelAction::Unregister { idle: false }, ModelAnswer::Conflict),
            (0, ModelAction::Release(1), ModelAnswer::Invalid),
        ];
        for (by, action, answer) in refused {
            assert_eq!(held.after(by, action), (answer, held.clone()));
        }
    }
}
