//! The driver of exports' connections, for all protocols.
//!
//! In each turn a connection receives, reads its mailbox, serves commands that wait for memory,
//! submits to and reaps the devices, handles their changes, and sends. It ends when its link has
//! ended and no device holds any of its operations. The protocol is a [`Service`]; this file does
//! not depend on whether the link carries a stream or messages.

use super::connection_limit::{ConnectionPermit, Newcomer};
use super::dialect::Dialect;
use super::listen::Homes;
use super::mailbox::Mailbox;
use super::members::{Members, Message};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use weft_connection::capture::Start;
use weft_connection::limits::{STARVED_RETRY_MS, STARVED_RETRY_MS_MAX, WORK_PASSES_PER_TURN};
use weft_connection::pump::Link;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop, Time};

/// The protocol of one connection.
pub(crate) trait Service: Sized + 'static {
    /// The link that carries the connection.
    type Link: Link<Self::Handler> + Send;

    /// The link passes commands to this: the service, or a part of it.
    type Handler;

    /// The session of a peer that has been admitted.
    type Session: Dialect<<Self::Link as Link<Self::Handler>>::Engine>;

    /// Messages between connections of the protocol.
    type Own: Send + 'static;

    /// Whether commands that were received are executed although the link has ended since.
    const FINISHES: bool = false;

    /// The receiver of commands.
    fn handler(&mut self) -> &mut Self::Handler;

    /// The session, once the peer has been admitted.
    fn session(&mut self) -> Option<&mut Self::Session>;

    /// The name of the host, once it has been admitted.
    fn host(&self, link: &Self::Link) -> Option<String>;

    /// Handles a message of the protocol.
    fn own_message(&mut self, on: &Handle, link: &mut Self::Link, own: Self::Own);

    /// Accepts no more commands and lets those in flight end; closes the link then, or at once if
    /// there can be none.
    fn drain(&mut self, link: &mut Self::Link);

    /// Accepts no more commands and cancels operations of the devices; closes the link then, or at
    /// once if there can be none.
    fn stop(&mut self, link: &mut Self::Link);

    /// Handles changes that the devices report.
    fn follow_devices(&mut self, link: &mut Self::Link);

    /// Returns whether commands wait for memory.
    #[inline]
    fn is_starved(&mut self) -> bool {
        self.session().is_some_and(|session| session.side().is_starved())
    }

    /// Serves commands that wait for memory, in order, as long as there is some.
    fn feed(&mut self, on: &Handle, link: &mut Self::Link) {
        if let Some(session) = self.session() {
            session.feed(on, link.engine());
        }
    }

    /// Whether a pause can end: the memory, or whatever else was missing, is available.
    fn may_resume(&mut self, link: &mut Self::Link) -> bool;

    /// Submits to the devices, reaps and answers, once; returns whether something happened.
    #[inline]
    fn work(&mut self, on: &Handle, link: &mut Self::Link) -> bool {
        self.session().is_some_and(|session| session.work(on, link.engine()))
    }

    /// Does the remaining work of a turn while the link exists, such as admitting a peer, or
    /// closing when everything is done. Returns whether the link is to be passed to
    /// [`Service::replace`].
    fn advance(&mut self, on: &Handle, link: &mut Self::Link) -> bool;

    /// Moves or replaces the link: see [`Place`].
    fn replace(&mut self, _: &Handle, link: Self::Link) -> Place<Self> {
        Place::Here(link)
    }

    /// Whether something waits for data being sent.
    fn awaits_sending(&self, _: &Self::Link) -> bool {
        false
    }

    /// Whether everything that it waits for wakes it: the driver then becomes settled, without
    /// polling for a while.
    fn settles(&self) -> bool {
        false
    }

    /// The link has ended: cancels operations. Returns whether no device holds any operation of the
    /// connection.
    fn end(&mut self, link: &mut Self::Link) -> bool;

    /// What is to be said of the peer when its connection has ended: why this end closed it, if it
    /// did.
    fn violation(link: &mut Self::Link) -> Option<String>;
}

/// Where a connection continues.
pub(crate) enum Place<S: Service> {
    /// On this loop, possibly with another link (for example TLS).
    Here(S::Link),
    /// On another loop, with another service and the same mailbox and permit.
    There(S::Link, RemoteLoop, Make<S>),
    /// Nowhere: it has ended.
    Nowhere,
}

/// Creates the service of a connection on its loop, where the link is already registered. On
/// failure the link is dropped.
pub(crate) type Make<S> =
    Box<dyn FnOnce(&Handle, DriverId, &mut <S as Service>::Link, &MailboxOf<S>) -> S + Send>;

/// The mailbox of a connection, for the creator of its [`Service`].
pub(crate) type MailboxOf<S> = Arc<Mailbox<Message<<S as Service>::Own>>>;

/// A running connection.
pub(crate) struct Connection<S: Service> {
    id: DriverId,
    /// `None` while it is being replaced.
    link: Option<S::Link>,
    service: S,
    mailbox: MailboxOf<S>,
    /// For retries when memory is missing.
    timer: TimerSlot,
    /// The next retry without another reason, and the pause before it.
    retry: Retry,
    /// Moved along with the connection.
    permit: Option<ConnectionPermit>,
}

/// The time of the next attempt to get memory, and the pause before it.
pub(crate) type Retry = (Time, Duration);

/// See [`next_retry`].
pub(crate) const NO_RETRY: Retry = (Time::ZERO, Duration::ZERO);

/// The time of the next attempt to get memory, and the pause before it, after a failed one. An
/// attempt that came early, because the connection had something else to do, changes nothing.
pub(crate) fn next_retry((at, pause): Retry, now: Time) -> Retry {
    if now < at {
        return (at, pause);
    }
    let (least, most) =
        (Duration::from_millis(STARVED_RETRY_MS), Duration::from_millis(STARVED_RETRY_MS_MAX));
    let pause = (pause * 2).clamp(least, most);
    (now + pause, pause)
}

/// A connection without a driver: newly accepted, or on its way to another loop.
struct Homeless<S: Service> {
    link: S::Link,
    mailbox: MailboxOf<S>,
    permit: ConnectionPermit,
}

/// Takes an accepted connection to the next loop in turn, where `make` creates its service. The
/// service drops the [`Newcomer`] when the peer is admitted.
pub(crate) fn accept<S: Service>(
    on: &Handle,
    link: S::Link,
    members: &Arc<Members<S::Own>>,
    homes: &Homes,
    make: impl FnOnce(DriverId, &mut S::Link, &MailboxOf<S>, Newcomer) -> S + Send + 'static,
) {
    let Some((connection, newcomer)) = Homeless::<S>::new(on, link, members) else { return };
    let members = Arc::clone(members);
    homes.next().post(move |on| {
        connection.enter(on, &members, |_, id, link, mailbox| make(id, link, mailbox, newcomer))
    });
}

/// Like [`accept`], but on this loop.
pub(crate) fn accept_on<S: Service>(
    on: &Handle,
    link: S::Link,
    members: &Arc<Members<S::Own>>,
    make: impl FnOnce(DriverId, &mut S::Link, &MailboxOf<S>, Newcomer) -> S,
) {
    if let Some((connection, newcomer)) = Homeless::<S>::new(on, link, members) {
        connection.enter(on, members, |_, id, link, mailbox| make(id, link, mailbox, newcomer));
    }
}

impl<S: Service> Homeless<S> {
    /// An accepted connection, if there is a free permit.
    fn new(on: &Handle, mut link: S::Link, members: &Members<S::Own>) -> Option<(Self, Newcomer)> {
        let (permit, newcomer) = members.permit(on.now().since_epoch(), &link.peer())?;
        if let Some(capture) = members.captured_by() {
            link.capture(&capture, Start::First);
        }
        Some((Self { link, mailbox: MailboxOf::<S>::default(), permit }, newcomer))
    }

    /// Makes the connection receive messages to all connections.
    fn enter(
        self,
        on: &Handle,
        members: &Members<S::Own>,
        make: impl FnOnce(&Handle, DriverId, &mut S::Link, &MailboxOf<S>) -> S,
    ) {
        members.enter(&self.mailbox);
        self.settle(on, make);
    }

    /// Starts the driver on this loop.
    fn settle(
        self,
        on: &Handle,
        make: impl FnOnce(&Handle, DriverId, &mut S::Link, &MailboxOf<S>) -> S,
    ) {
        let Self { mut link, mailbox, permit } = self;
        let limit = permit.limit();
        let spawned = on.try_spawn(|id| {
            link.register(on, id)?;
            let service = make(on, id, &mut link, &mailbox);
            mailbox.settle(on.remote(), id);
            let (link, permit, timer) = (Some(link), Some(permit), TimerSlot::default());
            Ok::<_, std::io::Error>(Connection {
                id,
                link,
                service,
                mailbox,
                timer,
                retry: NO_RETRY,
                permit,
            })
        });
        if let Err(e) = spawned {
            limit.refusals().log(on.now().since_epoch(), || {
                format!("cannot watch an accepted connection: {e}")
            });
        }
    }
}

impl<S: Service> Connection<S> {
    /// Takes what others have sent to this connection.
    #[inline]
    fn take_messages(&mut self, on: &Handle) {
        let messages = self.mailbox.take();
        if !messages.is_empty() {
            self.hear(on, messages);
        }
    }

    #[cold]
    fn hear(&mut self, on: &Handle, messages: Vec<Message<S::Own>>) {
        let Some(link) = &mut self.link else { return };
        for message in messages {
            match message {
                Message::Drain => self.service.drain(link),
                Message::Stop => self.service.stop(link),
                Message::Capture(capture) => {
                    if let Some(host) = self.service.host(link) {
                        link.capture(&capture, Start::Later(host));
                    }
                }
                Message::Own(own) => self.service.own_message(on, link, own),
            }
        }
    }

    /// Serves commands that wait for memory; returns whether the connection receives again.
    #[inline]
    fn feed(&mut self, on: &Handle) -> bool {
        let Some(link) = &mut self.link else { return false };
        if self.service.is_starved() {
            self.service.feed(on, link);
            match self.service.is_starved() {
                true => {
                    self.retry = next_retry(self.retry, on.now());
                    self.timer.arm(on, self.id, self.retry.0);
                }
                false => self.retry = NO_RETRY,
            }
        }
        let resumes = link.is_paused() && self.service.may_resume(link);
        if resumes {
            // The next receive parses the data held back; no readiness may announce it.
            link.resume();
        }
        resumes
    }

    #[cold]
    fn replace(&mut self, on: &Handle) {
        let Some(link) = self.link.take() else { return };
        match self.service.replace(on, link) {
            Place::Here(link) => {
                self.link = Some(link);
                // Receive now what the peer has sent meanwhile: readiness does not report it again.
                on.wake(self.id);
            }
            Place::There(link, to, make) => self.leave_for(on, link, &to, make),
            Place::Nowhere => on.remove(self.id),
        }
    }

    fn leave_for(&mut self, on: &Handle, mut link: S::Link, to: &RemoteLoop, make: Make<S>) {
        on.remove(self.id);
        let Some(permit) = self.permit.take() else { return };
        if let Err(e) = link.deregister(on, self.id) {
            permit.refusals().log(on.now().since_epoch(), || {
                format!("{}: cannot move the connection to its loop: {e}", link.peer())
            });
        }
        let connection = Homeless { link, mailbox: Arc::clone(&self.mailbox), permit };
        to.post(move |on| connection.settle(on, make));
    }

    /// The link has ended: removes the driver once no device holds any operation. Returns whether
    /// it did.
    #[cold]
    fn leave(&mut self, on: &Handle) -> bool {
        let Some(link) = &mut self.link else { return false };
        if !self.service.end(link) {
            return false;
        }
        // A peer that is slow, sends what TLS does not take, or wants what this system's TLS cannot
        // do; others went away.
        let is_told = |kind| {
            matches!(kind, ErrorKind::TimedOut | ErrorKind::InvalidData | ErrorKind::Unsupported)
        };
        let why = S::violation(link)
            .or_else(|| link.error().filter(|e| is_told(e.kind())).map(|e| e.to_string()));
        if let (Some(why), Some(permit)) = (why, &self.permit) {
            permit.refusals().log(on.now().since_epoch(), || {
                format!("{}: {why}; connection closed", link.peer())
            });
        } else if let Some(e) = link.error() {
            tracing::debug!("connection ended: {e}");
        }
        on.remove(self.id);
        true
    }
}

impl<S: Service> Driver for Connection<S> {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        // Changes come first: another connection may have told the peer of them already.
        self.take_messages(on);
        let Some(link) = &mut self.link else { return Activity::Idle };
        link.receive(on, self.service.handler()).or_busy_unless(self.service.settles())
    }

    #[inline]
    fn work(&mut self, on: &Handle) -> Activity {
        self.take_messages(on);
        if !S::FINISHES && self.link.as_ref().is_some_and(Link::has_ended) && self.leave(on) {
            // What no device has taken yet is not executed: nobody waits for it.
            return Activity::Busy;
        }
        let resumed = self.feed(on);
        let Some(link) = &mut self.link else { return Activity::Idle };
        let (mut busy, mut more) = (resumed, true);
        for _ in 0..WORK_PASSES_PER_TURN {
            more = self.service.work(on, link);
            if !more {
                break;
            }
            busy = true;
        }
        self.service.follow_devices(link);
        let was_paused = link.is_paused();
        let mut settled = !resumed && !more;
        if !link.has_ended() && self.service.advance(on, link) {
            self.replace(on);
        } else if was_paused && !link.is_paused() {
            (busy, settled) = (true, false);
        }
        if self.link.as_ref().is_some_and(Link::has_ended) {
            let _ = self.leave(on);
        }
        Activity::busy_if(busy).or_settled_if(settled && self.service.settles())
    }

    #[inline]
    fn send(&mut self, on: &Handle) -> Activity {
        let Some(link) = &mut self.link else { return Activity::Idle };
        let activity = link.send(on, self.service.handler());
        if let Some(session) = self.service.session() {
            session.side().meter.has_sent(on, || link.has_unsent());
        }
        if activity.is_some() && self.service.awaits_sending(link) {
            on.wake(self.id);
        }
        activity.or_busy_unless(self.service.settles())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_memory_in_vain_looks_ever_less_often() {
        let (mut retry, mut now, mut attempts) =
            (NO_RETRY, Time::from_epoch(Duration::from_secs(100)), 0);
        let end = now + Duration::from_secs(1);
        let first = next_retry(retry, now);
        assert_eq!(
            first,
            (
                now + Duration::from_millis(STARVED_RETRY_MS),
                Duration::from_millis(STARVED_RETRY_MS)
            )
        );
        assert_eq!(next_retry(first, now), first, "one that comes too early changes nothing");
        while now < end {
            retry = next_retry(retry, now);
            now = retry.0;
            attempts += 1;
        }
        assert!(attempts <= 1000 / STARVED_RETRY_MS_MAX + 7, "{attempts}");
    }
}
