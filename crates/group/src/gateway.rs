//! One gateway's part in its group.

use crate::exchange::{
    AnaAccess, Ending, GatewayOutput, GatewayRole, GatewaySettings, GroupAnswer, GroupRequest,
    Other, Wish,
};
use crate::limits::{ANA_GROUPS, GATEWAYS_MAX};
use crate::liveness::{Beat, Liveness};
use crate::name::GatewayName;
use crate::placement::Weights;
use crate::record::{FORMAT, GroupRecord, RecordError};
use crate::rules;
use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

/// One gateway's part. Times are since an epoch of the driver's choice and never go back.
pub struct Gateway {
    settings: GatewaySettings,
    known: Option<(u64, GroupRecord)>,
    /// When this version was read.
    known_since: Duration,
    weights: Weights,
    liveness: Liveness,
    outputs: VecDeque<GatewayOutput>,
    /// A read or write of the record is under way.
    is_busy: bool,
    /// What is being written, and how many of the wishes are in it.
    writing: Option<(GroupRecord, usize)>,
    /// The record is to be read.
    is_stale: bool,
    /// Why it could not be read last.
    unreadable: Option<RecordError>,
    /// When the beat was sent that is under way.
    beating: Option<Duration>,
    next_beat: Duration,
    beats: u64,
    /// Until when the gateway may serve.
    serves_until: Option<Duration>,
    /// The process that is being fenced.
    fencing: Option<(GatewayName, u64)>,
    fenced: BTreeSet<(GatewayName, u64)>,
    role: Option<GatewayRole>,
    /// ANA groups for which hosts may still take this gateway for optimized.
    optimized: BTreeSet<u32>,
    wishes: Vec<Wish>,
    has_joined: bool,
    is_ready: bool,
    is_leaving: bool,
    /// [`GatewayOutput::Resigned`] was given.
    has_resigned: bool,
    /// Nothing of this process can be executed any more.
    is_closed: bool,
    ended: Option<Ending>,
    /// After a failure nothing is asked before then.
    retry_at: Duration,
}

impl Gateway {
    /// A gateway that is about to join.
    pub fn new(settings: GatewaySettings) -> Self {
        Self {
            settings,
            known: None,
            known_since: Duration::ZERO,
            weights: Weights::new(),
            liveness: Liveness::default(),
            outputs: VecDeque::new(),
            is_busy: false,
            writing: None,
            is_stale: true,
            unreadable: None,
            beating: None,
            next_beat: Duration::ZERO,
            beats: 0,
            serves_until: None,
            fencing: None,
            fenced: BTreeSet::new(),
            role: None,
            optimized: BTreeSet::new(),
            wishes: Vec::new(),
            has_joined: false,
            is_ready: false,
            is_leaving: false,
            has_resigned: false,
            is_closed: false,
            ended: None,
            retry_at: Duration::ZERO,
        }
    }

    /// Returns the next action. To be called until it returns `None`: after every input, and when
    /// [`Self::deadline`] has come.
    pub fn next(&mut self, now: Duration) -> Option<GatewayOutput> {
        if self.ended.is_none() {
            self.look(now);
        }
        self.outputs.pop_front()
    }

    /// When [`Self::next`] has to be called again at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        if self.ended.is_some() {
            return None;
        }
        let beat = (self.has_joined && self.beating.is_none()).then_some(self.next_beat);
        let lease = self.serves_until.filter(|_| self.role.as_ref().is_some_and(serves));
        let retry = (self.is_stale && !self.is_busy).then_some(self.retry_at);
        [beat, lease, retry].into_iter().flatten().min()
    }

    /// Somebody says that the record has changed.
    pub fn changed(&mut self) {
        self.is_stale = true;
    }

    /// The namespaces of each ANA group.
    pub fn set_weights(&mut self, weights: Weights) {
        self.weights = weights;
    }

    /// From now on this gateway serves, and can be given ANA groups.
    pub fn set_ready(&mut self) {
        self.is_ready = true;
    }

    /// Gives all ANA groups away; [`GatewayOutput::Resigned`] follows. The gateway belongs to the
    /// group until [`Self::closed`]: if it dies before, what it has under way is kept out of the
    /// store.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Everything that this gateway serves is closed, and none of its I/O is in flight: ends with
    /// [`Ending::Left`].
    pub fn closed(&mut self) {
        (self.is_leaving, self.is_closed) = (true, true);
    }

    /// Hosts have been notified, since the last [`GatewayOutput::Serve`], that this gateway is no
    /// longer optimized for an ANA group.
    pub fn released(&mut self, group: u32) {
        let access = self.role.as_ref().and_then(|role| role.access.get(&group));
        if access != Some(&AnaAccess::Optimized) {
            self.optimized.remove(&group);
        }
    }

    /// Carries out an administrator's order when the record can be changed.
    pub fn wish(&mut self, wish: Wish) {
        self.wishes.push(wish);
    }

    /// The record, as it was read last.
    pub fn record(&self) -> Option<&GroupRecord> {
        self.known.as_ref().map(|(_, record)| record)
    }

    /// Why the record cannot be followed at present.
    pub fn unreadable(&self) -> Option<&RecordError> {
        self.unreadable.as_ref()
    }

    /// An answer to [`GroupRequest::Read`] or [`GroupRequest::Write`].
    pub fn record_answered(&mut self, now: Duration, answer: GroupAnswer) {
        self.is_busy = false;
        match (answer, self.writing.take()) {
            (GroupAnswer::Record(found), _) => {
                self.is_stale = false;
                match found.map_or_else(
                    || Ok((0, GroupRecord::default())),
                    |(version, text)| Ok((version, GroupRecord::parse(&text)?)),
                ) {
                    Ok((version, record)) => {
                        self.unreadable = None;
                        self.adopt(now, version, record);
                    }
                    // Nothing is taken from a gateway that cannot read it, unless it is fenced.
                    Err(e) if self.has_joined => {
                        self.retry_at = now + self.settings.beat;
                        (self.is_stale, self.unreadable) = (true, Some(e));
                    }
                    Err(e) => self.end(Ending::Record(e)),
                }
            }
            (GroupAnswer::Written(version), Some((record, granted))) => {
                self.wishes.drain(..granted);
                self.adopt(now, version, record);
            }
            (GroupAnswer::Blocklisted, _) => self.end(Ending::Blocklisted),
            (GroupAnswer::Failed(_), _) => {
                (self.is_stale, self.retry_at) = (true, now + self.settings.beat)
            }
            _ => self.is_stale = true,
        }
    }

    /// An answer to [`GroupRequest::Beat`].
    pub fn beat_answered(&mut self, now: Duration, answer: GroupAnswer) {
        let Some(sent) = self.beating.take() else { return };
        match answer {
            GroupAnswer::Beats(version, beats) => {
                let Some((known, record)) = &self.known else { return };
                self.is_stale |= version != *known;
                self.liveness.saw(record, &beats, (sent, now));
                // A clock may be a little wrong, and so may be the moment in which a loop looks at
                // it.
                self.serves_until = Some(sent + self.settings.lease - self.settings.lease / 8);
            }
            GroupAnswer::Blocklisted => self.end(Ending::Blocklisted),
            _ => self.next_beat = now + self.settings.beat,
        }
    }

    /// An answer to [`GroupRequest::Fence`].
    pub fn fence_answered(&mut self, now: Duration, answer: GroupAnswer) {
        match (self.fencing.take(), answer) {
            (Some(of), GroupAnswer::Fenced) => _ = self.fenced.insert(of),
            (_, GroupAnswer::Blocklisted) => self.end(Ending::Blocklisted),
            _ => (self.is_stale, self.retry_at) = (true, now + self.settings.beat),
        }
    }

    fn end(&mut self, why: Ending) {
        if self.ended.is_none() {
            self.serve(false);
            self.outputs.push_back(GatewayOutput::End(why.clone()));
            self.ended = Some(why);
        }
    }

    /// Takes a version of the record as the truth.
    fn adopt(&mut self, now: Duration, version: u64, record: GroupRecord) {
        let GatewaySettings { name, instance, .. } = &self.settings;
        let own = record.member(name).map(|member| (member.instance, member.condemned));
        match own {
            Some((of, _)) if of != *instance && self.has_joined => {
                return self.end(Ending::Replaced(name.clone()));
            }
            Some((of, true)) if of == *instance => return self.end(Ending::Condemned),
            None if self.has_joined => {
                return self.end(if self.is_leaving { Ending::Left } else { Ending::Condemned });
            }
            Some((of, false)) if of == *instance && !self.has_joined => {
                self.has_joined = true;
                self.outputs
                    .push_back(GatewayOutput::Joined { cntlids: record.gateways[name].cntlids() });
            }
            _ => {}
        }
        self.fenced
            .retain(|(name, of)| record.member(name).is_some_and(|member| member.instance == *of));
        if self.known.as_ref().is_none_or(|(known, _)| *known != version) {
            self.known_since = now;
        }
        self.known = Some((version, record));
    }

    /// Does what time and the record ask for.
    fn look(&mut self, now: Duration) {
        let serves = self.serves_until.is_some_and(|until| now < until);
        self.serve(serves);
        self.resign();
        if self.beating.is_none() && now >= self.next_beat && self.has_joined {
            (self.beating, self.next_beat) = (Some(now), now + self.settings.beat);
            self.beats += 1;
            let beat = Beat { instance: self.settings.instance, count: self.beats };
            self.outputs.push_back(GatewayOutput::Request(GroupRequest::Beat(beat)));
        }
        if !self.is_busy && now >= self.retry_at {
            if self.is_stale {
                self.is_busy = true;
                self.outputs.push_back(GatewayOutput::Request(GroupRequest::Read));
            } else {
                self.change(now);
            }
        }
    }

    /// Says that others have all that this gateway served, if it leaves.
    fn resign(&mut self) {
        let Some((_, record)) =
            self.known.as_ref().filter(|_| self.has_joined && !self.has_resigned)
        else {
            return;
        };
        if self.gives_up(record) && self.optimized.is_empty() {
            self.has_resigned = true;
            self.outputs.push_back(GatewayOutput::Resigned);
        }
    }

    /// Says how to serve, if that has changed.
    fn serve(&mut self, may: bool) {
        let Some((_, record)) = self.known.as_ref().filter(|_| self.has_joined) else { return };
        let own = Some(&self.settings.name);
        let gives_up = self.gives_up(record);
        let access = |group: u32| match record.groups.get(&group) {
            _ if !may || self.ended.is_some() => AnaAccess::Inaccessible,
            _ if gives_up => AnaAccess::NonOptimized,
            Some(it) if it.owner.as_ref() == own && it.next.is_none() => AnaAccess::Optimized,
            _ => AnaAccess::NonOptimized,
        };
        let others = record.members().filter(|(name, member)| Some(*name) != own && member.ready);
        let role = GatewayRole {
            access: (1..=ANA_GROUPS).map(|group| (group, access(group))).collect(),
            others: others
                .map(|(name, member)| Other {
                    listeners: member.listeners.clone(),
                    cntlids: record.gateways[name].cntlids(),
                })
                .collect(),
        };
        if self.role.as_ref() != Some(&role) {
            self.optimized.extend(
                role.access
                    .iter()
                    .filter(|(_, access)| **access == AnaAccess::Optimized)
                    .map(|(group, _)| group),
            );
            self.role = Some(role.clone());
            self.outputs.push_back(GatewayOutput::Serve(role));
        }
    }

    /// Changes the record, if a rule asks for it.
    fn change(&mut self, now: Duration) {
        let Some((version, record)) = &self.known else { return };
        let mut wanted = record.clone();
        if let Err(e) = self.edit(&mut wanted, now) {
            return self.end(Ending::Record(e));
        }
        if wanted != *record {
            wanted.generation += 1;
            self.is_busy = true;
            let (version, text) = (*version, wanted.text());
            if let Err(e) = GroupRecord::parse(&text) {
                // What nobody could read is never written.
                return self.end(Ending::Record(e));
            }
            self.writing = Some((wanted, self.wishes.len()));
            self.outputs.push_back(GatewayOutput::Request(GroupRequest::Write { version, text }));
        } else {
            if self.has_joined {
                self.wishes.clear();
            }
            self.fence(now);
        }
    }

    fn edit(&self, record: &mut GroupRecord, now: Duration) -> Result<(), RecordError> {
        let GatewaySettings { name, instance, .. } = &self.settings;
        for (dead, of) in &self.fenced {
            rules::bury(record, dead, *of);
        }
        match record.member(name).map(|member| member.instance) {
            None => rules::enter(record, &self.settings)?,
            // Whoever starts again under its name takes the place of the process before.
            Some(before) if before != *instance => rules::condemn(record, name, before),
            Some(_) => self.edit_as_member(record, now),
        }
        record.update_format();
        Ok(())
    }

    fn edit_as_member(&self, record: &mut GroupRecord, now: Duration) {
        let name = &self.settings.name;
        if let Some(own) = record.member_mut(name) {
            (own.ready, own.leaving, own.knows) = (self.is_ready, self.is_leaving, FORMAT);
        }
        let is_released = |group: &u32| !self.optimized.contains(group);
        (1..=ANA_GROUPS)
            .filter(is_released)
            .for_each(|group| rules::hand_over(record, group, name));
        let is_closed = self.is_closed;
        if is_closed && self.gives_up(record) && self.optimized.is_empty() {
            rules::take_out(record, name);
        }
        self.wishes.iter().for_each(|wish| rules::grant(record, wish));
        // Those who come first do it at once; the others wait for them.
        let turn = self.settings.beat * self.rank(record);
        let patience = self.settings.lease + self.settings.lease / 4 + turn;
        let is_silent = |of: &GatewayName, instance: u64| {
            of != name && self.liveness.silence(of, instance) > patience
        };
        let members = record.members().map(|(of, member)| (of.clone(), member.instance));
        let silent: Vec<_> = members.filter(|(of, instance)| is_silent(of, *instance)).collect();
        silent.into_iter().for_each(|(of, instance)| rules::condemn(record, &of, instance));
        if now >= self.known_since + turn || !self.fenced.is_empty() {
            rules::place(record, &self.weights);
        }
    }

    /// Returns whether this gateway leaves what it has, as nobody takes it.
    fn gives_up(&self, record: &GroupRecord) -> bool {
        self.is_leaving && !self.waits_for_others(record)
    }

    /// Returns whether a gateway that leaves still has ANA groups that others will take.
    fn waits_for_others(&self, record: &GroupRecord) -> bool {
        let name = &self.settings.name;
        let others = record
            .members()
            .any(|(of, member)| of != name && member.ready && !member.leaving && !member.condemned);
        others && record.groups.values().any(|group| group.owner.as_ref() == Some(name))
    }

    /// How many gateways come before this one.
    fn rank(&self, record: &GroupRecord) -> u32 {
        let own =
            record.gateways.get(&self.settings.name).map_or(GATEWAYS_MAX, |gateway| gateway.slot);
        let is_alive = |name: &GatewayName, instance: u64| {
            self.liveness.silence(name, instance) <= self.settings.lease
        };
        let is_before = |name: &GatewayName, instance: u64| {
            record.gateways[name].slot < own && is_alive(name, instance)
        };
        record.members().filter(|(name, member)| is_before(name, member.instance)).count() as u32
    }

    /// Keeps those out who are condemned. Members do it by turns; whoever is about to join waits
    /// for nobody else.
    fn fence(&mut self, now: Duration) {
        let Some((_, record)) = self.known.as_ref().filter(|_| self.fencing.is_none()) else {
            return;
        };
        if self.has_joined && now < self.known_since + self.settings.beat * self.rank(record) {
            return;
        }
        let is_new =
            |name: &GatewayName, instance: u64| !self.fenced.contains(&(name.clone(), instance));
        let found = record
            .members()
            .find(|(name, member)| member.condemned && is_new(name, member.instance));
        if let Some((name, member)) = found {
            self.fencing = Some((name.clone(), member.instance));
            let client = member.client.clone();
            self.outputs.push_back(GatewayOutput::Request(GroupRequest::Fence(client)));
        }
    }
}

fn serves(role: &GatewayRole) -> bool {
    role.access.values().any(|access| *access != AnaAccess::Inaccessible)
}
