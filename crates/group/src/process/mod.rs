//! Work of a gateway's process for its group: [`Gateway`] with its surroundings, and still no I/O,
//! no clock and no thread.
//!
//! Its driver gives it events ([`GatewayProcess::take`]) and executes its orders
//! ([`GatewayProcess::next`]): it asks the cluster, and serves hosts. The driver must never wait
//! for the cluster, so that a gateway that does not reach it stops serving when its lease ends.

use crate::exchange::{Access, Answer, Ending, Output, Request, Role, Settings, Wish};
use crate::gateway::Gateway;
use crate::isolation::{Isolation, IsolationStep};
use crate::name::Name;
use crate::placement::Weights;
use crate::record::Record;
use core::time::Duration;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The answer to [`Request::Read`] or [`Request::Write`].
    Record(Answer),
    /// The answer to [`Request::Beat`].
    Beats(Answer),
    /// The answer to [`Request::Fence`].
    Fence(Answer),
    /// The monitors have answered, or could not be asked.
    Monitors(bool),
    /// Others say that the record has changed.
    Changed,
    /// The namespaces of each ANA group have changed.
    Weights(Weights),
    /// Hosts can be served from now on.
    Ready,
    /// The role that was ordered last is in force: hosts have been told, if there are any.
    Served,
    /// An administrator orders this; [`Order::CarriedOut`] with the same number follows when it is
    /// in the record.
    Wish(u64, Wish),
    /// Everything is to be given away; [`Order::Resigned`] follows.
    Leave,
    /// Nothing of this gateway can be executed any more; [`Order::End`] follows.
    Closed,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ask the store.
    Ask(Request),
    /// Ask the monitors whether they are there, which may take as long as it takes.
    AskMonitors,
    /// The gateway belongs to the group; its controllers have these identifiers.
    Joined {
        /// The first and the last one.
        cntlids: (u16, u16),
    },
    /// Serve hosts like this from now on, as soon as there are any; [`Event::Served`] answers it. A
    /// later role replaces it.
    Serve(Role),
    /// The administrator's order of this number is in the record.
    CarriedOut(u64),
    /// The record cannot be followed at present, for this reason; the gateway goes on with what it
    /// has.
    Unreadable(String),
    /// The others have what this gateway served, and it may close it.
    Resigned,
    /// End at once. Nothing follows.
    End(Ending),
}

/// See the module. Times are since an epoch of the caller's choice and never go back.
pub struct GatewayProcess {
    name: Name,
    gateway: Gateway,
    isolation: Isolation,
    /// When the isolation is to be looked at again.
    looks_at: Option<Duration>,
    role: Option<Role>,
    /// Orders that are not in the record yet.
    wishes: Vec<(u64, Wish)>,
    trouble: Option<String>,
    has_ended: bool,
}

impl GatewayProcess {
    /// A gateway that is about to join. One that does not serve ends after `silence` without a word
    /// of the monitors.
    pub fn new(settings: Settings, silence: Duration) -> Self {
        Self {
            name: settings.name.clone(),
            gateway: Gateway::new(settings),
            isolation: Isolation::new(silence),
            looks_at: None,
            role: None,
            wishes: Vec::new(),
            trouble: None,
            has_ended: false,
        }
    }

    /// Tells it what has happened.
    pub fn take(&mut self, now: Duration, event: Event) {
        if let Event::Record(Answer::Failed(why))
        | Event::Beats(Answer::Failed(why))
        | Event::Fence(Answer::Failed(why)) = &event
        {
            self.trouble = Some(why.clone());
        }
        match event {
            Event::Record(answer) => self.gateway.record_answered(now, answer),
            Event::Beats(answer) => self.gateway.beat_answered(now, answer),
            Event::Fence(answer) => self.gateway.fence_answered(now, answer),
            Event::Monitors(reached) => self.isolation.answered(now, reached),
            Event::Changed => self.gateway.changed(),
            Event::Weights(weights) => self.gateway.set_weights(weights),
            Event::Ready => self.gateway.set_ready(),
            Event::Served => self.served(),
            Event::Wish(number, wish) => {
                self.gateway.wish(wish.clone());
                self.wishes.push((number, wish));
            }
            Event::Leave => self.gateway.leave(),
            Event::Closed => self.gateway.closed(),
        }
    }

    /// Returns the next order. To be called until it returns `None`: after every event, and when
    /// [`Self::deadline`] has come.
    pub fn next(&mut self, now: Duration) -> Option<Order> {
        if self.has_ended {
            return None;
        }
        let order = (self.gateway.next(now).map(Self::ordered))
            .or_else(|| self.carried_out())
            .or_else(|| self.unreadable())
            .or_else(|| self.look_after_monitors(now));
        match &order {
            Some(Order::Serve(role)) => self.role = Some(role.clone()),
            Some(Order::End(_)) => self.has_ended = true,
            _ => {}
        }
        order
    }

    /// When [`Self::next`] has to be called again at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        let deadline = self.gateway.deadline().into_iter().chain(self.looks_at).min();
        deadline.filter(|_| !self.has_ended)
    }

    /// The record, as it was read last.
    pub fn record(&self) -> Option<&Record> {
        self.gateway.record()
    }

    /// Returns whether hosts may use this gateway: its lease runs.
    pub fn serves(&self) -> bool {
        self.role
            .as_ref()
            .is_some_and(|role| role.access.values().any(|access| *access != Access::Inaccessible))
    }

    /// Returns the last failure.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    fn ordered(output: Output) -> Order {
        match output {
            Output::Request(request) => Order::Ask(request),
            Output::Joined { cntlids } => Order::Joined { cntlids },
            Output::Serve(role) => Order::Serve(role),
            Output::Resigned => Order::Resigned,
            Output::End(ending) => Order::End(ending),
        }
    }

    /// Others may have what this gateway is not optimized for.
    fn served(&mut self) {
        let Self { role: Some(role), gateway, .. } = self else { return };
        let is_other = |access: &Access| *access != Access::Optimized;
        let others = role.access.iter().filter(|(_, access)| is_other(access));
        others.for_each(|(group, _)| gateway.released(*group));
    }

    /// An administrator's order that is in the record now.
    fn carried_out(&mut self) -> Option<Order> {
        let record = self.gateway.record()?;
        let is_in = |(_, wish): &(u64, Wish)| match wish {
            Wish::Pin(group, to) => {
                record.groups.get(group).is_some_and(|group| group.pinned == *to)
            }
            Wish::Forget(name) => !record.gateways.contains_key(name),
        };
        let at = self.wishes.iter().position(is_in)?;
        Some(Order::CarriedOut(self.wishes.remove(at).0))
    }

    /// Tells once why the record cannot be followed.
    fn unreadable(&mut self) -> Option<Order> {
        let why = self.gateway.unreadable()?.to_string();
        if self.trouble.as_ref() == Some(&why) {
            return None;
        }
        self.trouble = Some(why.clone());
        Some(Order::Unreadable(why))
    }

    /// Asks the monitors while this gateway may not serve, and ends it when they are silent.
    fn look_after_monitors(&mut self, now: Duration) -> Option<Order> {
        let is_other =
            |record: &Record| record.members().any(|(of, member)| *of != self.name && member.ready);
        let has_company = self.gateway.record().is_some_and(is_other);
        let step = self.isolation.look(now, self.serves(), has_company);
        self.looks_at = None;
        match step {
            IsolationStep::Nothing => None,
            IsolationStep::Ask => Some(Order::AskMonitors),
            IsolationStep::Wait(until) => {
                self.looks_at = Some(until);
                None
            }
            IsolationStep::End => Some(Order::End(Ending::Lost)),
        }
    }
}

#[cfg(test)]
mod tests;
