//! The way from a gateway's machine to the cluster and back: messages take a while, and what a
//! partition holds back arrives behind it, also that of a process that is dead.

use super::cluster::Cluster;
use super::objects::Client;
use core::time::Duration;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_group::{GatewayEvent, GatewayName, GroupAnswer, GroupRequest};
use weft_io::Time;
use weft_io::sim::Rng;

/// Longest way to the cluster or back.
pub const WAY: Duration = Duration::from_millis(40);

/// Returns the time of a message to the cluster or back.
pub fn way(rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.within(1_000_000, WAY.as_nanos() as u64))
}

/// Something on its way to the cluster, or back.
enum Message {
    /// And when.
    Asked(GroupRequest, Time),
    Answered(GroupRequest, GroupAnswer, Time),
}

/// See the module.
pub struct ClusterLink {
    cluster: Arc<Lock<Cluster>>,
    name: GatewayName,
    /// The cluster is not reached until then; its monitors may be.
    cut_until: Time,
    /// The monitors are not reached until then.
    monitors_cut_until: Time,
    /// When it arrives, and of which process it is.
    messages: Vec<(Time, Client, Message)>,
    /// The same for questions to the monitors, and whether it is the answer.
    questions: Vec<(Time, Client, bool)>,
    /// For the ways of these.
    rng: Rng,
}

impl ClusterLink {
    /// That of the gateway of this name.
    pub fn new(cluster: &Arc<Lock<Cluster>>, name: GatewayName, rng: Rng) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            name,
            cut_until: Time::ZERO,
            monitors_cut_until: Time::ZERO,
            messages: Vec::new(),
            questions: Vec::new(),
            rng,
        }
    }

    /// Nothing but the monitors is reached until then.
    pub fn cut_storage(&mut self, until: Time) {
        self.cut_until = until;
    }

    /// Nothing is reached until then.
    pub fn cut(&mut self, until: Time) {
        (self.cut_until, self.monitors_cut_until) = (until, until);
    }

    /// Everything is reached again.
    pub fn heal(&mut self, now: Time) {
        self.cut_until = self.cut_until.min(now);
        self.monitors_cut_until = self.monitors_cut_until.min(now);
    }

    /// Returns whether the part with the record and the blocks cannot be reached.
    pub fn is_cut(&self, now: Time) -> bool {
        now < self.cut_until
    }

    /// The monitors are not reached.
    pub fn are_monitors_cut(&self, now: Time) -> bool {
        now < self.monitors_cut_until
    }

    /// A process asks; the question arrives at this time, if it is not held back.
    pub fn ask(&mut self, client: Client, request: GroupRequest, (now, at): (Time, Time)) {
        self.messages.push((at, client, Message::Asked(request, now)));
    }

    /// A process asks the monitors whether they are there.
    pub fn ask_monitors(&mut self, client: Client, now: Time) {
        self.questions.push((now + way(&mut self.rng), client, false));
    }

    /// Carries messages to the cluster, which answers.
    pub fn carry(&mut self, now: Time, rng: &mut Rng) {
        if !self.are_monitors_cut(now) {
            for (at, _, is_answer) in &mut self.questions {
                if *at <= now && !*is_answer {
                    (*at, *is_answer) = (now + way(&mut self.rng), true);
                }
            }
        }
        let is_cut = self.is_cut(now);
        let (due, later) =
            core::mem::take(&mut self.messages).into_iter().partition(|(at, _, message)| {
                *at <= now && !is_cut && matches!(message, Message::Asked(..))
            });
        self.messages = later;
        for (_, client, message) in Vec::into_iter(due) {
            let Message::Asked(asked, sent) = message else { continue };
            let answer = self.cluster.lock().execute((&self.name, client), &asked);
            let at = now + way(rng);
            self.messages.push((at, client, Message::Answered(asked, answer, sent)));
        }
    }

    /// Returns the messages that have arrived for a process, and the times of the answered
    /// requests.
    pub fn arrived(&mut self, client: Client, now: Time) -> Vec<(GatewayEvent, Time)> {
        let (is_cut, are_monitors_cut) = (self.is_cut(now), self.are_monitors_cut(now));
        let is_due = |(at, _, message): &mut (Time, Client, Message)| {
            *at <= now && !is_cut && matches!(message, Message::Answered(..))
        };
        let answers = self.messages.extract_if(.., is_due).filter(|(_, of, _)| *of == client);
        let mut arrived: Vec<_> = answers.filter_map(|(_, _, message)| event(message)).collect();
        let is_due = |(at, _, is_answer): &mut (Time, Client, bool)| {
            *at <= now && !are_monitors_cut && *is_answer
        };
        let answers = self.questions.extract_if(.., is_due).filter(|(_, of, _)| *of == client);
        arrived.extend(answers.map(|(at, ..)| (GatewayEvent::Monitors(true), at)));
        arrived
    }
}

/// What a gateway is told by an answer, and when it had asked.
fn event(message: Message) -> Option<(GatewayEvent, Time)> {
    let Message::Answered(asked, answer, sent) = message else { return None };
    let event = match asked {
        GroupRequest::Read | GroupRequest::Write { .. } => GatewayEvent::Record(answer),
        GroupRequest::Beat(_) => GatewayEvent::Beats(answer),
        GroupRequest::Fence(_) => GatewayEvent::Fence(answer),
    };
    Some((event, sent))
}
