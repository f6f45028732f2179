//! The one driver of exports' connections.
//!
//! In each turn a connection takes what has come, hears what others have to tell it, serves commands that wait for memory, lets the
//! devices work, follows their changes, and sends. It ends when its link has ended and no device holds anything of it any more. What
//! a protocol makes of all that is its [`Service`]; nothing here knows whether a stream or messages carry the commands.

use super::listen::Homes;
use super::mailbox::Mailbox;
use super::members::{Members, Message};
use super::seats::Seat;
use crate::limits::{STARVED_RETRY_MS, WORK_PASSES_PER_TURN};
use crate::pump::Link;
use std::sync::Arc;
use std::time::Duration;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Stream};

/// What a protocol makes of one connection.
pub(crate) trait Service: Sized + 'static {
    /// What carries it.
    type Link: Link<Self>;

    /// What the protocol's connections tell each other.
    type Own: Send + 'static;

    /// Others tell it something of the protocol.
    fn told(&mut self, on: &Handle, link: &mut Self::Link, own: Self::Own);

    /// Takes no more commands and lets those under way end; closes the link then, or now if there can be none.
    fn drain(&mut self, link: &mut Self::Link);

    /// Takes no more commands and asks the devices to end what they have; closes the link then, or now if there can be nothing.
    fn stop(&mut self, link: &mut Self::Link);

    /// Looks for changes that the devices tell of.
    fn follow_devices(&mut self, link: &mut Self::Link);

    /// Whether commands wait for memory.
    fn is_starved(&self) -> bool;

    /// Serves commands that wait for memory, in order, as long as there is some.
    fn feed(&mut self, on: &Handle, link: &mut Self::Link);

    /// Whether a pause is over: there is memory, or whatever else was missing, for what comes next.
    fn may_resume(&mut self, link: &mut Self::Link) -> bool;

    /// Submits to the devices, reaps and answers, once; tells whether something happened.
    fn work(&mut self, on: &Handle, link: &mut Self::Link) -> bool;

    /// What else is to be done in a turn, while the link stands: to let a peer in, to close when all is done. Tells whether the link is
    /// to be given to [`Service::replace`].
    fn advance(&mut self, on: &Handle, link: &mut Self::Link) -> bool;

    /// Puts another link in the place of this one: with TLS, say. `None` ends the connection here: it lives on elsewhere, or nowhere.
    fn replace(&mut self, _: &Handle, link: Self::Link) -> Option<Self::Link> {
        Some(link)
    }

    /// Whether something waits for what is being sent.
    fn awaits_sending(&self, _: &Self::Link) -> bool {
        false
    }

    /// The link has ended: gives up what is under way. Tells whether no device holds anything of the connection any more.
    fn end(&mut self, link: &mut Self::Link) -> bool;

    /// Why this end closed the connection, if it did.
    fn violation(link: &mut Self::Link) -> Option<String>;
}

/// The mailbox of a connection, for whoever makes its [`Service`].
pub(crate) type MailboxOf<S> = Arc<Mailbox<Message<<S as Service>::Own>>>;

/// A running connection.
pub(crate) struct Connection<S: Service> {
    id: DriverId,
    /// Taken out while it is replaced.
    link: Option<S::Link>,
    service: S,
    mailbox: MailboxOf<S>,
    /// For memory that is waited for.
    timer: TimerSlot,
    _seat: Seat,
}

/// Takes an accepted stream to the loop whose turn it is, where `make` makes its service.
pub(crate) fn accept<S: Service>(
    stream: Box<dyn Stream>,
    members: &Arc<Members<S::Own>>,
    homes: &Homes,
    make: impl FnOnce(DriverId, Box<dyn Stream>, &MailboxOf<S>) -> (S, S::Link) + Send + 'static,
) {
    let Some(seat) = members.seat(stream.as_ref()) else { return };
    let members = Arc::clone(members);
    homes.hand_over(stream, move |on, stream| {
        let spawned = on.try_spawn(|id| {
            let mailbox = MailboxOf::<S>::default();
            let (service, mut link) = make(id, stream, &mailbox);
            link.register(on, id)?;
            mailbox.settle(on.remote(), id);
            members.enter(&mailbox);
            let timer = TimerSlot::default();
            Ok::<_, std::io::Error>(Connection { id, link: Some(link), service, mailbox, timer, _seat: seat })
        });
        if let Err(e) = spawned {
            tracing::error!("cannot watch an accepted connection: {e}");
        }
    });
}

impl<S: Service> Connection<S> {
    #[cold]
    fn hear(&mut self, on: &Handle, messages: Vec<Message<S::Own>>) {
        let Some(link) = &mut self.link else { return };
        for message in messages {
            match message {
                Message::Drain => self.service.drain(link),
                Message::Stop => self.service.stop(link),
                Message::Own(own) => self.service.told(on, link, own),
            }
        }
    }

    /// Serves commands that wait for memory; tells whether the connection takes more again.
    #[inline]
    fn feed(&mut self, on: &Handle) -> bool {
        let Some(link) = &mut self.link else { return false };
        if self.service.is_starved() {
            self.service.feed(on, link);
            if self.service.is_starved() {
                self.timer.arm(on, self.id, on.now() + Duration::from_millis(STARVED_RETRY_MS));
            }
        }
        let resumes = link.is_paused() && self.service.may_resume(link);
        if resumes {
            // What was held back is parsed by the next receive, which no readiness may announce.
            link.resume();
        }
        resumes
    }

    #[cold]
    fn replace(&mut self, on: &Handle) {
        let Some(link) = self.link.take() else { return };
        self.link = self.service.replace(on, link);
        if self.link.is_none() {
            on.remove(self.id);
        }
        // What the peer has sent meanwhile is received now: no readiness tells of it again.
        on.wake(self.id);
    }

    /// The link has ended: leaves once no device holds anything.
    #[cold]
    fn leave(&mut self, on: &Handle) {
        let Some(link) = &mut self.link else { return };
        if !self.service.end(link) {
            return;
        }
        if let Some(violation) = S::violation(link) {
            tracing::warn!("{}: {violation}; connection closed", link.peer());
        } else if let Some(e) = link.error() {
            tracing::debug!("connection ended: {e}");
        }
        on.remove(self.id);
    }
}

impl<S: Service> Driver for Connection<S> {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        let Some(link) = &mut self.link else { return Activity::Idle };
        link.receive(on, &mut self.service)
    }

    #[inline]
    fn work(&mut self, on: &Handle) -> Activity {
        let messages = self.mailbox.take();
        if !messages.is_empty() {
            self.hear(on, messages);
        }
        let mut busy = self.feed(on);
        let Some(link) = &mut self.link else { return Activity::Idle };
        for _ in 0..WORK_PASSES_PER_TURN {
            if !self.service.work(on, link) {
                break;
            }
            busy = true;
        }
        self.service.follow_devices(link);
        let was_paused = link.is_paused();
        if !link.has_ended() && self.service.advance(on, link) {
            self.replace(on);
        } else {
            busy |= was_paused && !link.is_paused();
        }
        if self.link.as_ref().is_some_and(Link::has_ended) {
            self.leave(on);
        }
        Activity::busy_if(busy)
    }

    #[inline]
    fn send(&mut self, on: &Handle) -> Activity {
        let Some(link) = &mut self.link else { return Activity::Idle };
        let activity = link.send(on, &mut self.service);
        if activity == Activity::Busy && self.service.awaits_sending(link) {
            on.wake(self.id);
        }
        activity
    }
}
