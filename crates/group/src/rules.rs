//! Changes of the record by a gateway, rule by rule. Each rule is right by itself, whoever applies
//! it and however often.

use crate::exchange::{GatewaySettings, Wish};
use crate::limits::{ANA_GROUPS, LISTENERS_MAX};
use crate::name::GatewayName;
use crate::placement::{Weights, wanted};
use crate::record::{AnaGroup, FORMAT, GatewayRecord, GroupRecord, Member, RecordError};

/// Enters a process as the gateway of its name. One that is there already has to be fenced first.
///
/// # Errors
/// All slots are taken, or it has too many addresses.
pub fn enter(record: &mut GroupRecord, of: &GatewaySettings) -> Result<(), RecordError> {
    if of.listeners.len() > LISTENERS_MAX {
        return Err(RecordError::Listeners);
    }
    let slot = match record.gateways.get(&of.name) {
        Some(known) if known.member.is_some() => return Ok(()),
        Some(known) => known.slot,
        None => record.free_slot()?,
    };
    if record.members().next().is_none() {
        record.life += 1;
    }
    let member = Member {
        instance: of.instance,
        client: of.client.clone(),
        listeners: of.listeners.clone(),
        ready: false,
        leaving: false,
        condemned: false,
        knows: FORMAT,
    };
    record.gateways.insert(of.name.clone(), GatewayRecord { slot, member: Some(member) });
    Ok(())
}

/// Takes a process for dead. From then on it may not come back.
pub fn condemn(record: &mut GroupRecord, name: &GatewayName, instance: u64) {
    if let Some(member) = record.member_mut(name).filter(|member| member.instance == instance) {
        member.condemned = true;
    }
}

/// Takes a process out that is condemned and fenced. Its ANA groups belong to nobody then.
pub fn bury(record: &mut GroupRecord, name: &GatewayName, instance: u64) {
    if record.member(name).is_some_and(|member| member.condemned && member.instance == instance) {
        take_out(record, name);
    }
}

/// Takes the own process out, which no longer serves.
pub fn take_out(record: &mut GroupRecord, name: &GatewayName) {
    if let Some(gateway) = record.gateways.get_mut(name) {
        gateway.member = None;
    }
    for group in record.groups.values_mut() {
        for place in [&mut group.owner, &mut group.next] {
            if place.as_ref() == Some(name) {
                *place = None;
            }
        }
    }
}

/// Gives an own ANA group, for which this gateway is no longer optimized, to its new owner.
pub fn hand_over(record: &mut GroupRecord, group: u32, from: &GatewayName) {
    let Some(now) = record.groups.get(&group).filter(|group| group.owner.as_ref() == Some(from))
    else {
        return;
    };
    let is_there = |name: &GatewayName| {
        record.member(name).is_some_and(|member| member.ready && !member.condemned)
    };
    if let Some(to) = now.next.clone().filter(is_there) {
        record
            .groups
            .insert(group, AnaGroup { owner: Some(to), next: None, pinned: now.pinned.clone() });
    }
}

/// Carries out an administrator's order.
pub fn grant(record: &mut GroupRecord, wish: &Wish) {
    match wish {
        Wish::Pin(group, to) if (1..=ANA_GROUPS).contains(group) => {
            record.groups.entry(*group).or_default().pinned = to.clone()
        }
        Wish::Pin(..) => {}
        Wish::Forget(name) => {
            if record.gateways.get(name).is_some_and(|gateway| gateway.member.is_none()) {
                record.gateways.remove(name);
            }
        }
    }
}

/// Gives ANA groups that belong to nobody to gateways, and asks owners to give away what others are
/// to have.
pub fn place(record: &mut GroupRecord, weights: &Weights) {
    for (number, to) in wanted(record, weights) {
        let is_candidate =
            |name: &GatewayName| record.member(name).is_some_and(|member| !member.condemned);
        let group = record.groups.get(&number).cloned().unwrap_or_default();
        let next = match &group.owner {
            // What it has is not given away before it is fenced.
            Some(owner) if !is_candidate(owner) => continue,
            Some(owner) if *owner == to => None,
            Some(_) => Some(to.clone()),
            None => None,
        };
        let owner = group.owner.clone().or(Some(to));
        if (&owner, &next) != (&group.owner, &group.next) {
            let group = record.groups.entry(number).or_default();
            (group.owner, group.next) = (owner, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn settings(name: &str, instance: u64) -> GatewaySettings {
        let name = GatewayName::new(name).unwrap();
        GatewaySettings {
            client: format!("client-{instance}"),
            name,
            instance,
            listeners: Vec::new(),
            beat: Duration::from_secs(1),
            lease: Duration::from_secs(8),
        }
    }

    fn two() -> (GroupRecord, GatewayName, GatewayName) {
        let mut record = GroupRecord::default();
        for (name, instance) in [("a", 1), ("b", 2)] {
            enter(&mut record, &settings(name, instance)).unwrap();
            record.member_mut(&GatewayName::new(name).unwrap()).unwrap().ready = true;
        }
        (record, GatewayName::new("a").unwrap(), GatewayName::new("b").unwrap())
    }

    #[test]
    fn a_gateway_keeps_its_slot_and_does_not_push_out_another_process() {
        let (mut record, a, b) = two();
        assert_eq!([&a, &b].map(|name| record.gateways[name].slot), [0, 1]);
        enter(&mut record, &settings("a", 9)).unwrap();
        assert_eq!(record.member(&a).unwrap().instance, 1);
        take_out(&mut record, &a);
        enter(&mut record, &settings("c", 3)).unwrap();
        enter(&mut record, &settings("a", 9)).unwrap();
        assert_eq!((record.gateways[&a].slot, record.member(&a).unwrap().instance), (0, 9));
    }

    #[test]
    fn a_life_of_the_group_ends_when_nobody_is_there() {
        let (mut record, a, b) = two();
        assert_eq!(record.life, 1);
        take_out(&mut record, &a);
        enter(&mut record, &settings("a", 9)).unwrap();
        assert_eq!(record.life, 1);
        take_out(&mut record, &a);
        take_out(&mut record, &b);
        enter(&mut record, &settings("b", 10)).unwrap();
        assert_eq!(record.life, 2);
    }

    #[test]
    fn nothing_of_a_condemned_gateway_is_given_away_before_it_is_fenced() {
        let (mut record, a, b) = two();
        place(&mut record, &Weights::new());
        let of = |record: &GroupRecord, name: &GatewayName| {
            record.groups.values().filter(|it| it.owner.as_ref() == Some(name)).count()
        };
        assert_eq!((of(&record, &a), of(&record, &b)), (24, 24));
        bury(&mut record, &a, 1);
        assert!(record.member(&a).is_some(), "it is not condemned");
        condemn(&mut record, &a, 7);
        assert!(!record.member(&a).unwrap().condemned, "another process is");
        condemn(&mut record, &a, 1);
        place(&mut record, &Weights::new());
        assert_eq!((of(&record, &a), of(&record, &b)), (24, 24));
        assert!(record.groups.values().all(|it| it.next.is_none()));
        bury(&mut record, &a, 1);
        place(&mut record, &Weights::new());
        assert_eq!(of(&record, &b), 48);
    }

    #[test]
    fn a_group_goes_from_owner_to_owner_by_the_owner_alone() {
        let (mut record, a, b) = two();
        record
            .groups
            .insert(1, AnaGroup { owner: Some(a.clone()), next: None, pinned: Some(b.clone()) });
        place(&mut record, &Weights::new());
        assert_eq!(
            (record.groups[&1].owner.as_ref(), record.groups[&1].next.as_ref()),
            (Some(&a), Some(&b))
        );
        hand_over(&mut record, 1, &b);
        assert_eq!(record.groups[&1].owner.as_ref(), Some(&a));
        hand_over(&mut record, 1, &a);
        assert_eq!(
            (record.groups[&1].owner.as_ref(), record.groups[&1].next.as_ref()),
            (Some(&b), None)
        );
    }
}
