//! Work of a gateway's process for its group: [`Gateway`] with its surroundings, and still no I/O,
//! no clock and no thread.
//!
//! Its driver gives it events ([`GatewayProcess::take`]) and executes its orders
//! ([`GatewayProcess::next`]): it asks the cluster, and serves hosts. The driver must never wait
//! for the cluster, so that a gateway that does not reach it stops serving when its lease ends.

use crate::exchange::{
    AnaAccess, Ending, GatewayOutput, GatewayRole, GatewaySettings, GroupAnswer, GroupRequest, Wish,
};
use crate::gateway::Gateway;
use crate::isolation::{Isolation, IsolationStep};
use crate::name::GatewayName;
use crate::placement::Weights;
use crate::record::GroupRecord;
use core::time::Duration;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayEvent {
    /// The answer to [`GroupRequest::Read`] or [`GroupRequest::Write`].
    Record(GroupAnswer),
    /// The answer to [`GroupRequest::Beat`].
    Beats(GroupAnswer),
    /// The answer to [`GroupRequest::Fence`].
    Fence(GroupAnswer),
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
    /// An administrator orders this; [`GatewayOrder::CarriedOut`] with the same number follows when
    /// it is in the record.
    Wish(u64, Wish),
    /// The gateway gives away all that it serves; [`GatewayOrder::Resigned`] follows.
    Leave,
    /// No operation of this gateway can be executed any longer; [`GatewayOrder::End`] follows.
    Closed,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayOrder {
    /// Ask the store.
    Ask(GroupRequest),
    /// Ask the monitors whether they are there, which may take as long as it takes.
    AskMonitors,
    /// The gateway belongs to the group; its controllers have these identifiers.
    Joined {
        /// The first and the last one.
        cntlids: (u16, u16),
    },
    /// Serve hosts like this from now on, as soon as there are any; [`GatewayEvent::Served`]
    /// answers it. A later role replaces it.
    Serve(GatewayRole),
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
    name: GatewayName,
    gateway: Gateway,
    isolation: Isolation,
    /// When the isolation is to be looked at again.
    looks_at: Option<Duration>,
    role: Option<GatewayRole>,
    /// Orders that are not in the record yet.
    wishes: Vec<(u64, Wish)>,
    trouble: Option<String>,
    has_ended: bool,
}

impl GatewayProcess {
    /// A gateway that is about to join. One that does not serve ends after `silence` without a word
    /// of the monitors.
    pub fn new(settings: GatewaySettings, silence: Duration) -> Self {
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
    pub fn take(&mut self, now: Duration, event: GatewayEvent) {
        if let GatewayEvent::Record(GroupAnswer::Failed(why))
        | GatewayEvent::Beats(GroupAnswer::Failed(why))
        | GatewayEvent::Fence(GroupAnswer::Failed(why)) = &event
        {
            self.trouble = Some(why.clone());
        }
        match event {
            GatewayEvent::Record(answer) => self.gateway.record_answered(now, answer),
            GatewayEvent::Beats(answer) => self.gateway.beat_answered(now, answer),
            GatewayEvent::Fence(answer) => self.gateway.fence_answered(now, answer),
            GatewayEvent::Monitors(reached) => self.isolation.answered(now, reached),
            GatewayEvent::Changed => self.gateway.changed(),
            GatewayEvent::Weights(weights) => self.gateway.set_weights(weights),
            GatewayEvent::Ready => self.gateway.set_ready(),
            GatewayEvent::Served => self.served(),
            GatewayEvent::Wish(number, wish) => {
                self.gateway.wish(wish.clone());
                self.wishes.push((number, wish));
            }
            GatewayEvent::Leave => self.gateway.leave(),
            GatewayEvent::Closed => self.gateway.closed(),
        }
    }

    /// Returns the next order. To be called until it returns `None`: after every event, and when
    /// [`Self::deadline`] has come.
    pub fn next(&mut self, now: Duration) -> Option<GatewayOrder> {
        if self.has_ended {
            return None;
        }
        let order = (self.gateway.next(now).map(Self::ordered))
            .or_else(|| self.carried_out())
            .or_else(|| self.unreadable())
            .or_else(|| self.look_after_monitors(now));
        match &order {
            Some(GatewayOrder::Serve(role)) => self.role = Some(role.clone()),
            Some(GatewayOrder::End(_)) => self.has_ended = true,
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
    pub fn record(&self) -> Option<&GroupRecord> {
        self.gateway.record()
    }

    /// Returns whether hosts may use this gateway: its lease runs.
    pub fn serves(&self) -> bool {
        self.role.as_ref().is_some_and(|role| {
            role.access.values().any(|access| *access != AnaAccess::Inaccessible)
        })
    }

    /// Returns the last failure.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    fn ordered(output: GatewayOutput) -> GatewayOrder {
        match output {
            GatewayOutput::Request(request) => GatewayOrder::Ask(request),
            GatewayOutput::Joined { cntlids } => GatewayOrder::Joined { cntlids },
            GatewayOutput::Serve(role) => GatewayOrder::Serve(role),
            GatewayOutput::Resigned => GatewayOrder::Resigned,
            GatewayOutput::End(ending) => GatewayOrder::End(ending),
        }
    }

    /// Others may have what this gateway is not optimized for.
    fn served(&mut self) {
        let Self { role: Some(role), gateway, .. } = self else { return };
        let is_other = |access: &AnaAccess| *access != AnaAccess::Optimized;
        let others = role.access.iter().filter(|(_, access)| is_other(access));
        others.for_each(|(group, _)| gateway.released(*group));
    }

    /// An administrator's order that is in the record now.
    fn carried_out(&mut self) -> Option<GatewayOrder> {
        let record = self.gateway.record()?;
        let is_in = |(_, wish): &(u64, Wish)| match wish {
            Wish::Pin(group, to) => {
                record.groups.get(group).is_some_and(|group| group.pinned == *to)
            }
            Wish::Forget(name) => !record.gateways.contains_key(name),
        };
        let at = self.wishes.iter().position(is_in)?;
        Some(GatewayOrder::CarriedOut(self.wishes.remove(at).0))
    }

    /// Tells once why the record cannot be followed.
    fn unreadable(&mut self) -> Option<GatewayOrder> {
        let why = self.gateway.unreadable()?.to_string();
        if self.trouble.as_ref() == Some(&why) {
            return None;
        }
        self.trouble = Some(why.clone());
        Some(GatewayOrder::Unreadable(why))
    }

    /// Asks the monitors while this gateway may not serve, and ends it when they are silent.
    fn look_after_monitors(&mut self, now: Duration) -> Option<GatewayOrder> {
        let is_other = |record: &GroupRecord| {
            record.members().any(|(of, member)| *of != self.name && member.ready)
        };
        let has_company = self.gateway.record().is_some_and(is_other);
        let step = self.isolation.look(now, self.serves(), has_company);
        self.looks_at = None;
        match step {
            IsolationStep::Nothing => None,
            IsolationStep::Ask => Some(GatewayOrder::AskMonitors),
            IsolationStep::Wait(until) => {
                self.looks_at = Some(until);
                None
            }
            IsolationStep::End => Some(GatewayOrder::End(Ending::Lost)),
        }
    }
}

#[cfg(test)]
mod tests;
