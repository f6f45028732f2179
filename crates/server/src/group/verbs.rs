//! The requests to a gateway, and their differences there.

use super::GroupMembership;
use crate::config::check::parse_state;
use crate::config::group::unfit;
use crate::management::protocol::{FaultCode, RequestFault};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_block::AccessState;
use weft_group::limits::ANA_GROUPS;
use weft_group::{GatewayName, Wish};

/// How long a change waits for the cluster to answer.
const LEASE_WAIT: Duration = Duration::from_secs(5);

/// The word of `weft ana set` for a group that belongs to no gateway by order.
pub const BY_RULE: &str = "by-rule";

/// A group of gateways, as one of them sees it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownGroup {
    /// Its name.
    pub group: String,
    /// The gateway that says so.
    pub gateway: String,
    /// It may serve: the cluster has heard of it within its lease.
    pub serves: bool,
    /// Changes of the configuration.
    pub configuration: u64,
    /// Why this gateway does not serve the last one.
    pub behind: Option<String>,
    /// All that belong to it.
    pub gateways: Vec<ShownGateway>,
}

/// A gateway.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownGateway {
    /// Its name.
    pub name: String,
    /// `serving`, `starting`, `leaving`, `dead` (it is being fenced), or `away`.
    pub state: String,
    /// Where hosts reach it, as URLs.
    pub listeners: Vec<String>,
    /// Its controller identifiers, the first and the last.
    pub cntlids: (u16, u16),
    /// ANA groups for which it is optimized.
    pub ana_groups: Vec<u32>,
    /// Those that it has by order.
    pub pinned: Vec<u32>,
    /// The client of the cluster that it is.
    pub client: Option<String>,
}

/// Parameters of `gateway.forget`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// Its name.
    pub gateway: String,
}

fn invalid(why: impl Into<String>) -> RequestFault {
    RequestFault::new(FaultCode::Invalid, why)
}

/// Refuses a source that a group cannot serve, and an ANA group that it does not have.
pub fn check_source(source: &str, ana_group: Option<u32>) -> Result<(), RequestFault> {
    if let Some(why) = unfit(source) {
        return Err(invalid(why));
    }
    match ana_group.filter(|group| !(1..=ANA_GROUPS).contains(group)) {
        Some(group) => Err(invalid(format!(
            "{group} is not an ANA group of gateways: use 1 to {ANA_GROUPS}, or none"
        ))),
        None => Ok(()),
    }
}

impl GroupMembership {
    /// Refuses a change while the cluster does not answer. One that has only just started is waited
    /// for.
    pub fn check_lease(&self) -> Result<(), RequestFault> {
        if self.status.wait_until_it_serves(LEASE_WAIT) {
            return Ok(());
        }
        let text = "the cluster has not answered this gateway for too long, so nothing can be changed here: check `ceph status`, or ask another gateway";
        Err(RequestFault::new(FaultCode::TimedOut, text))
    }

    /// The known state of all gateways.
    pub fn show(&self) -> ShownGroup {
        let (status, known) = (self.status.now(), self.configuration.known());
        let record = status.record.unwrap_or_default();
        let mut owned: BTreeMap<&GatewayName, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
        for (number, group) in &record.groups {
            if let Some(owner) = &group.owner {
                owned.entry(owner).or_default().0.push(*number);
            }
            if let Some(pinned) = &group.pinned {
                owned.entry(pinned).or_default().1.push(*number);
            }
        }
        let show = |(name, gateway): (&GatewayName, &weft_group::GatewayRecord)| {
            let (ana_groups, pinned) = owned.get(name).cloned().unwrap_or_default();
            let state = match &gateway.member {
                None => "away",
                Some(member) if member.condemned => "dead",
                Some(member) if member.leaving => "leaving",
                Some(member) if member.ready => "serving",
                Some(_) => "starting",
            };
            ShownGateway {
                name: name.to_string(),
                state: state.into(),
                listeners: gateway
                    .member
                    .iter()
                    .flat_map(|member| member.listeners.clone())
                    .collect(),
                cntlids: gateway.cntlids(),
                ana_groups,
                pinned,
                client: gateway.member.as_ref().map(|member| member.client.clone()),
            }
        };
        ShownGroup {
            group: self.name.clone(),
            gateway: self.gateway.to_string(),
            serves: status.serves,
            configuration: known.generation,
            behind: known.behind,
            gateways: record.gateways.iter().map(show).collect(),
        }
    }

    /// `weft ana set` at a gateway: `optimized` makes it the one that has the group, `by-rule`
    /// takes that back.
    pub fn set_state(
        &self,
        ana_group: u32,
        state: &str,
        listener: Option<&str>,
    ) -> Result<(), RequestFault> {
        if listener.is_some() {
            return Err(invalid(
                "in a group of gateways each gateway has one state for all of its listeners: leave out --listener",
            ));
        }
        if !(1..=ANA_GROUPS).contains(&ana_group) {
            return Err(invalid(format!(
                "{ana_group} is not an ANA group of gateways: use 1 to {ANA_GROUPS}"
            )));
        }
        let to = match state {
            BY_RULE => None,
            word if parse_state(word) == Ok(AccessState::Optimized) => Some(self.gateway.clone()),
            word => {
                let text = format!(
                    "the gateways of a group agree on who is optimized, so \"{word}\" cannot be set: set {ana_group} optimized at the gateway that is to have it, or {BY_RULE}"
                );
                return Err(invalid(text));
            }
        };
        self.wish(Wish::Pin(ana_group, to))
            .map_err(|why| RequestFault::new(FaultCode::TimedOut, why))
    }

    /// Forgets a gateway that is gone for ever.
    pub fn forget(&self, Forget { gateway }: &Forget) -> Result<(), RequestFault> {
        let name = GatewayName::new(gateway).map_err(|e| invalid(e.to_string()))?;
        let record = self.status.now().record.unwrap_or_default();
        match record.gateways.get(&name) {
            None => Err(RequestFault::new(
                FaultCode::NotFound,
                format!("the group has no gateway {name}"),
            )),
            Some(known) if known.member.is_some() => Err(RequestFault::new(
                FaultCode::InUse,
                format!("the gateway {name} belongs to the group: end it first"),
            )),
            Some(_) => self
                .wish(Wish::Forget(name))
                .map_err(|why| RequestFault::new(FaultCode::TimedOut, why)),
        }
    }
}
