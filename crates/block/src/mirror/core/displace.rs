//! Legs whose target lets no other session of this host take what an earlier opener of the mirror
//! has reserved: Linux' LIO knows who is registered by the name of the host as soon as the session
//! that asks is not the one that holds. There the new opener connects under the earlier one's name,
//! which ends that one's session, gives the reservation back, and asks for it again as itself.

use super::Core;
use super::leg::Phase;
use super::port::{ActionPurpose, Port};
use super::reserve::Hold;
use crate::opening::Opening;
use crate::reservation::{ReserveAction, opener_of};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

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
    pub(super) fn holder(&mut self, key: Option<u64>) {
        self.holder = key;
    }
}

impl Phase {
    /// Returns whether the device is being opened under another name.
    pub(super) fn is_displacing(&self) -> bool {
        matches!(self, Self::Reserving(reserving) if reserving.displacing.opening.is_some())
    }
}

impl Core {
    /// The target refuses the reservation, though the holder's was preempted. Returns whether there
    /// is another way.
    pub(super) fn displace(&mut self, place: usize) -> bool {
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
    pub(super) fn give_up_displacing(&mut self, place: usize) {
        let leg = &mut self.legs[place];
        let (Phase::Reserving(reserving), Some(port)) = (&mut leg.phase, &mut leg.port) else {
            return;
        };
        reserving.displacing.opening = None;
        port.ask(ReserveAction::Unregister { key: reserving.own() }, ActionPurpose::GiveBack);
    }
}
