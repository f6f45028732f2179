//! The claim of a mirror as a reservation: a leg that can be reserved is, before anything but its
//! label is read or written. Whoever opened the mirror before is shut out by that, and notices when
//! it next writes ([`crate::mirror::engine::Halt::Fenced`]).
//!
//! The steps at a leg: the report of its target, registration, removal of the registrations of
//! openers before this one, and the reservation. Then the area is read again, as a superseded
//! opener may have written to it until then.

use super::Core;
use super::leg::Phase;
use super::port::{ActionPurpose, Port, memory};
use crate::limits::RESERVATION_REPORT_BYTES;
use crate::mirror::claim::{ClaimContext, Verdict, judge, key};
use crate::mirror::record::LEGS_MAX;
use crate::mirror::start::MirrorStart;
use crate::op::{Completion, OpKind};
use crate::outcome::status::StatusKind;
use crate::reservation::{ReservationKind, ReservationReport, ReserveAction, opener_of};
use crate::url::opening::Opening;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::sync::Arc;
use uuid::Uuid;
use weft_io::Segments;

/// A leg has one session, so nobody else needs to write.
const KIND: ReservationKind = ReservationKind::WriteExclusive;

/// Reason why a leg that another opener has reserved no longer belongs to this one.
pub(super) fn reserved(leg: &str) -> String {
    format!("{leg} is reserved by it, and refuses what this one writes")
}

/// Reservation of the port of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mirror) enum Hold {
    /// Nobody has asked yet.
    Unknown,
    /// Nothing: its target has no reservations.
    Nothing,
    /// The leg, with this key.
    Leg(u64),
    /// The leg, which is given back.
    Leaving,
}

/// Progress of a reservation.
pub(in crate::mirror) struct Reserving {
    known: ClaimContext,
    steps: VecDeque<ReserveAction>,
    /// Another opener has held the leg until now.
    is_taken_over: bool,
    displacing: Displacing,
}

impl Reserving {
    /// The key of this opening.
    pub(super) fn own(&self) -> u64 {
        key(self.known.mirror, self.known.opening)
    }
}

impl Port {
    pub(super) fn ask_report(&mut self, pool: &weft_io::Pool) {
        let blocks = RESERVATION_REPORT_BYTES as u32 / self.block_bytes;
        self.send(
            OpKind::ReservationReport,
            0,
            blocks,
            memory(pool, RESERVATION_REPORT_BYTES),
            ActionPurpose::Reserve,
        );
    }

    pub(super) fn ask(&mut self, action: ReserveAction, what: ActionPurpose) {
        self.send(OpKind::Reserve(action), 0, 0, Segments::new(), what);
    }
}

impl Core {
    /// Begins to reserve the legs that the mirror starts with; `false` if all of them are, or
    /// cannot be.
    pub(super) fn reserve_members(&mut self, start: &MirrorStart) -> bool {
        let members = (0..LEGS_MAX)
            .filter(|leg| start.members >> leg & 1 != 0)
            .filter_map(|leg| start.places[leg]);
        members.fold(false, |some, place| some | self.reserve(place, start.record.mirror, false))
    }

    /// Begins to reserve a leg whose label was read; `false` if it is reserved, or cannot be.
    pub(super) fn reserve(&mut self, place: usize, mirror: Uuid, is_newer: bool) -> bool {
        let (opening, pool) = (self.opening, self.pool.clone());
        let leg = &mut self.legs[place];
        let Some(port) = leg.port.as_mut().filter(|_| leg.hold == Hold::Unknown) else {
            return false;
        };
        if !has_reservations(port) {
            leg.hold = Hold::Nothing;
            return false;
        }
        let known = ClaimContext { mirror, opening, was_held: leg.was_held, is_newer };
        port.ask_report(&pool);
        let displacing = Displacing::default();
        leg.phase = Phase::Reserving(Reserving {
            known,
            steps: VecDeque::new(),
            is_taken_over: false,
            displacing,
        });
        true
    }

    /// A step has ended.
    pub(super) fn reserve_on(&mut self, place: usize, completion: &Completion) {
        let leg = &mut self.legs[place];
        let Phase::Reserving(reserving) = &mut leg.phase else { return };
        let known = reserving.known;
        if leg.hold == Hold::Leaving {
            let key = key(known.mirror, known.opening);
            return leg.port.iter_mut().for_each(|port| {
                port.ask(ReserveAction::Unregister { key }, ActionPurpose::GiveBack)
            });
        }
        let why = completion.outcome.status().kind;
        if !completion.outcome.is_success() {
            return match why {
                StatusKind::Unsupported | StatusKind::Invalid => {
                    self.reserved(place, Hold::Nothing)
                }
                // Nobody is registered with that key any more. Whether somebody else holds the leg
                // is seen next.
                StatusKind::ReservationConflict if is_preempt(completion.op.kind) => {
                    self.next_step(place)
                }
                StatusKind::ReservationConflict
                    if is_acquire(completion.op.kind) && self.displace(place) => {}
                _ => self.refuse_leg_in_words(place, &format!("it cannot be reserved ({why:?})")),
            };
        }
        if completion.op.kind == OpKind::ReservationReport {
            let bytes: Vec<u8> =
                completion.op.data.iter().flat_map(|segment| segment.iter().copied()).collect();
            let verdict = match ReservationReport::decode(&bytes) {
                Some(report) => judge(&report, known),
                None => Verdict::Refuse(
                    "its target reports reservations of a type that weft does not know".into(),
                ),
            };
            match verdict {
                Verdict::Take { keys, holder } => {
                    let key = key(known.mirror, known.opening);
                    let preempt = |of| ReserveAction::Preempt { key, of, kind: KIND };
                    reserving.is_taken_over |= holder.is_some();
                    reserving.displacing.holder(holder);
                    reserving.steps.push_back(ReserveAction::Register { key });
                    reserving.steps.extend(keys.into_iter().map(preempt));
                    reserving.steps.push_back(ReserveAction::Acquire { key, kind: KIND });
                }
                Verdict::Taken => {
                    self.retire(place);
                    return self.superseded(&reserved(&self.legs[place].source.url.clone()));
                }
                Verdict::Refuse(why) => return self.refuse_leg_in_words(place, &why),
            }
        }
        self.next_step(place);
    }

    fn next_step(&mut self, place: usize) {
        let leg = &mut self.legs[place];
        let Phase::Reserving(reserving) = &mut leg.phase else { return };
        let known = reserving.known;
        match reserving.steps.pop_front() {
            Some(action) => {
                leg.port.iter_mut().for_each(|port| port.ask(action, ActionPurpose::Reserve))
            }
            None => self.reserved(place, Hold::Leg(key(known.mirror, known.opening))),
        }
    }

    pub(super) fn refuse_leg_in_words(&mut self, place: usize, why: &str) {
        let text = format!("{}: {why}", self.legs[place].source.url);
        self.refuse_leg(place, &text);
    }

    /// The area of a leg is read again, at once unless its target may have something of another
    /// opener.
    fn reserved(&mut self, place: usize, hold: Hold) {
        let (until, pool) = (self.on.now() + self.bound, self.pool.clone());
        let is_late = !self.bound.is_zero();
        let leg = &mut self.legs[place];
        let Phase::Reserving(reserving) = &leg.phase else { return };
        leg.hold = hold;
        leg.was_held |= matches!(hold, Hold::Leg(_));
        if reserving.is_taken_over && is_late {
            tracing::warn!(
                "{}: another opener of the mirror had reserved it, and is shut out now; it is used in {:.0} s, when its target has certainly ended \
                 what that one sent",
                leg.source.url,
                self.bound.as_secs_f64().ceil()
            );
            leg.phase = Phase::Quiet(until);
        } else {
            leg.phase = Phase::Reading;
            leg.port.iter_mut().for_each(|port| port.read_area(&pool));
        }
    }

    /// Begins to give back what is reserved; `false` if nothing is.
    pub(super) fn gives_back(&mut self) -> bool {
        for place in 0..self.legs.len() {
            let leg = &mut self.legs[place];
            match (&mut leg.port, leg.hold) {
                // Whoever unregisters holds nothing any more.
                (Some(port), Hold::Leg(key)) => {
                    port.ask(ReserveAction::Unregister { key }, ActionPurpose::GiveBack)
                }
                (Some(_), Hold::Unknown) if leg.phase.is_displacing() => {
                    self.give_up_displacing(place)
                }
                // When the step under way has ended.
                (Some(_), Hold::Unknown) if matches!(leg.phase, Phase::Reserving(_)) => {}
                _ => continue,
            }
            self.legs[place].hold = Hold::Leaving;
        }
        self.is_leaving()
    }

    fn is_leaving(&self) -> bool {
        self.legs.iter().any(|leg| leg.hold == Hold::Leaving)
    }

    /// A leg is given back, or cannot be: it no longer belongs to this opener.
    pub(super) fn given_back(&mut self, place: usize) {
        self.legs[place].hold = Hold::Unknown;
    }

    /// The end, when every leg is given back or cannot be reached.
    pub(super) fn leave_legs(&mut self) -> bool {
        for place in 0..self.legs.len() {
            if self.legs[place].port.as_mut().is_some_and(Port::look) {
                self.retire(place);
            }
        }
        let is_over = !self.is_leaving();
        if is_over {
            self.end();
        }
        is_over
    }
}

fn is_preempt(kind: OpKind) -> bool {
    matches!(kind, OpKind::Reserve(ReserveAction::Preempt { .. }))
}

fn is_acquire(kind: OpKind) -> bool {
    matches!(kind, OpKind::Reserve(ReserveAction::Acquire { .. }))
}

fn has_reservations(port: &Port) -> bool {
    port.device.features().reservations
}

// Legs whose target lets no other session of this host take what an earlier opener of the mirror
// has reserved: Linux' LIO knows who is registered by the name of the host as soon as the session
// that asks is not the one that holds. There the new opener connects under the earlier one's name,
// which ends that one's session, gives the reservation back, and asks for it again as itself.

/// Progress of a displacement.
#[derive(Default)]
pub(super) struct Displacing {
    /// The key of the opener that holds the leg.
    holder: Option<u64>,
    /// The device, under the name of the opener with this key.
    opening: Option<(u64, Opening)>,
    was_tried: bool,
}

impl Displacing {
    /// Sets the holder of the leg.
    fn holder(&mut self, key: Option<u64>) {
        self.holder = key;
    }
}

impl Phase {
    /// Returns whether the device is being opened under another name.
    fn is_displacing(&self) -> bool {
        matches!(self, Self::Reserving(reserving) if reserving.displacing.opening.is_some())
    }
}

impl Core {
    /// The target refuses the reservation, though the holder's was preempted. Returns whether there
    /// is another way.
    fn displace(&mut self, place: usize) -> bool {
        let leg = &mut self.legs[place];
        let Phase::Reserving(reserving) = &mut leg.phase else { return false };
        let displacing = &mut reserving.displacing;
        let Some(key) = displacing.holder.filter(|_| !displacing.was_tried) else { return false };
        let Ok(opening) = (leg.source.open)(opener_of(key)) else { return false };
        tracing::warn!(
            "{}: its target lets nobody take the reservation of an earlier opener; weft connects in that one's place and gives it back",
            leg.source.url
        );
        (displacing.opening, displacing.was_tried) = (Some((key, opening)), true);
        self.on.wake(self.id);
        true
    }

    /// Takes it further. Returns whether something came of it.
    pub(super) fn displace_on(&mut self, place: usize) -> bool {
        let (waker, most) = (self.waker.clone(), self.most);
        let Some(leg) = self.legs.get_mut(place) else { return false };
        let Phase::Reserving(reserving) = &mut leg.phase else { return false };
        let Some((key, opening)) = &mut reserving.displacing.opening else { return false };
        let Poll::Ready(opened) = Pin::new(opening).poll(&mut Context::from_waker(&waker)) else {
            return false;
        };
        let key = *key;
        reserving.displacing.opening = None;
        let (counts, on) = (Arc::clone(&leg.counts), (&self.on, self.id));
        match opened.and_then(|device| Port::open(device, false, most, &counts, on)) {
            Ok(mut port) => {
                port.ask(ReserveAction::Unregister { key }, ActionPurpose::Displace);
                leg.old.push(port);
            }
            Err(e) => self.refuse_leg_in_words(
                place,
                &format!("it cannot be reserved in the place of an earlier opener: {e}"),
            ),
        }
        true
    }

    /// The earlier opener's registration has ended, or cannot be ended: asks the target again.
    pub(super) fn displaced(&mut self, place: usize) {
        let pool = self.pool.clone();
        let Some(leg) = self.legs.get_mut(place) else { return };
        let (Phase::Reserving(reserving), Some(port)) = (&mut leg.phase, &mut leg.port) else {
            return;
        };
        reserving.steps.clear();
        match leg.hold {
            Hold::Leaving => port
                .ask(ReserveAction::Unregister { key: reserving.own() }, ActionPurpose::GiveBack),
            _ => port.ask_report(&pool),
        }
    }

    /// The mirror is closed in the meantime: the leg is given back.
    fn give_up_displacing(&mut self, place: usize) {
        let leg = &mut self.legs[place];
        let (Phase::Reserving(reserving), Some(port)) = (&mut leg.phase, &mut leg.port) else {
            return;
        };
        reserving.displacing.opening = None;
        port.ask(ReserveAction::Unregister { key: reserving.own() }, ActionPurpose::GiveBack);
    }
}
