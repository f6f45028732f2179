//! Choice of the optimized gateway for each ANA group.
//!
//! 1. A group that is pinned belongs to that gateway while it is there.
//! 2. Others stay where they are, if that gateway stays.
//! 3. Those without a gateway go to the one that has least.
//! 4. Then groups move from the gateway that has most to the one that has least, as long as that
//!    makes them more even.
//!
//! What a gateway *has* is the number of namespaces in its groups. The result depends on nothing
//! but the record and these numbers, so all gateways come to the same.

use crate::limits::ANA_GROUPS;
use crate::name::GatewayName;
use crate::record::GroupRecord;
use std::collections::BTreeMap;
use weft_proto::crc32c::crc32c;
use weft_proto::nvme::types::Nqn;

/// Namespaces by ANA group. A group that is missing has none.
pub type Weights = BTreeMap<u32, u32>;

/// The ANA group of a namespace for which none is configured: namespaces are spread over all of
/// them.
pub fn default_ana_group(nqn: &Nqn, nsid: u32) -> u32 {
    crc32c(nqn.as_str().as_bytes()).wrapping_add(nsid) % ANA_GROUPS + 1
}

/// The gateways that may have groups.
fn candidates(record: &GroupRecord) -> impl Iterator<Item = &GatewayName> {
    record
        .members()
        .filter(|(_, member)| member.ready && !member.leaving && !member.condemned)
        .map(|(name, _)| name)
}

/// The gateway for each ANA group; none where nobody may have one.
pub fn wanted(record: &GroupRecord, weights: &Weights) -> BTreeMap<u32, GatewayName> {
    let gateways: Vec<&GatewayName> = candidates(record).collect();
    let mut all = BTreeMap::new();
    if !gateways.is_empty() {
        let weight = |group: u32| weights.get(&group).copied().unwrap_or(0);
        let (used, empty): (Vec<u32>, Vec<u32>) =
            (1..=ANA_GROUPS).partition(|group| weight(*group) > 0);
        // Empty ones are spread by themselves, so that what is used does not move for them.
        for (groups, weight) in [(used, &weight as &dyn Fn(u32) -> u32), (empty, &|_| 1)] {
            spread(record, &gateways, &groups, weight, &mut all);
        }
    }
    all
}

/// Spreads some of the groups.
fn spread(
    record: &GroupRecord,
    gateways: &[&GatewayName],
    groups: &[u32],
    weight: &dyn Fn(u32) -> u32,
    into: &mut BTreeMap<u32, GatewayName>,
) {
    let mut loads: BTreeMap<&GatewayName, u32> = gateways.iter().map(|name| (*name, 0)).collect();
    let mut placed: BTreeMap<u32, &GatewayName> = BTreeMap::new();
    let mut movable = Vec::new();
    for &group in groups {
        let Some(now) = record.groups.get(&group) else { continue };
        let here = |name: &Option<GatewayName>| {
            name.as_ref().and_then(|name| loads.get_key_value(name)).map(|(name, _)| *name)
        };
        let pinned = here(&now.pinned);
        if let Some(name) = pinned.or_else(|| here(&now.next)).or_else(|| here(&now.owner)) {
            placed.insert(group, name);
            *loads.get_mut(name).expect("a candidate") += weight(group);
            movable.extend(pinned.is_none().then_some(group));
        }
    }
    let mut homeless: Vec<u32> =
        groups.iter().copied().filter(|group| !placed.contains_key(group)).collect();
    homeless.sort_by_key(|group| core::cmp::Reverse(weight(*group)));
    for group in homeless {
        let least = *loads.iter().min_by_key(|(_, load)| **load).expect("a candidate").0;
        placed.insert(group, least);
        *loads.get_mut(least).expect("a candidate") += weight(group);
        movable.push(group);
    }
    even_out(&mut placed, &mut loads, &movable, weight);
    into.extend(placed.into_iter().map(|(group, name)| (group, name.clone())));
}

/// Moves groups from the gateway that has most to the one that has least.
fn even_out<'a>(
    placed: &mut BTreeMap<u32, &'a GatewayName>,
    loads: &mut BTreeMap<&'a GatewayName, u32>,
    movable: &[u32],
    weight: &dyn Fn(u32) -> u32,
) {
    // Each move makes the loads more equal, so they end; the bound is for certainty.
    for _ in 0..movable.len() * movable.len() {
        let (&most, &high) = loads.iter().max_by_key(|(_, load)| **load).expect("a candidate");
        let (&least, &low) = loads.iter().min_by_key(|(_, load)| **load).expect("a candidate");
        let fits = |group: &&u32| placed[*group] == most && weight(**group) < high - low;
        let Some(&group) = movable
            .iter()
            .filter(fits)
            .min_by_key(|group| (weight(**group) * 2).abs_diff(high - low))
        else {
            return;
        };
        placed.insert(group, least);
        *loads.get_mut(most).expect("a candidate") -= weight(group);
        *loads.get_mut(least).expect("a candidate") += weight(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{AnaGroup, GatewayRecord, Member};
    use proptest::prelude::*;

    fn name(n: usize) -> GatewayName {
        GatewayName::new(&format!("gw{n}")).unwrap()
    }

    fn of(gateways: usize) -> GroupRecord {
        let mut record = GroupRecord::default();
        for n in 0..gateways {
            let member = Member {
                instance: n as u64,
                client: format!("c{n}"),
                listeners: Vec::new(),
                ready: true,
                leaving: false,
                condemned: false,
                knows: 1,
            };
            record.gateways.insert(name(n), GatewayRecord { slot: n as u16, member: Some(member) });
        }
        record
    }

    fn settle(record: &mut GroupRecord, weights: &Weights) -> usize {
        let wanted = wanted(record, weights);
        let changed = |group: &u32| {
            record.groups.get(group).and_then(|it| it.owner.as_ref()) != wanted.get(group)
        };
        let moves = (1..=ANA_GROUPS).filter(changed).count();
        for (group, owner) in wanted {
            record.groups.entry(group).or_default().owner = Some(owner);
        }
        moves
    }

    fn loads(record: &GroupRecord, weights: &Weights) -> Vec<u32> {
        let sum = |of: &GatewayName| {
            record
                .groups
                .iter()
                .filter(|(_, it)| it.owner.as_ref() == Some(of))
                .map(|(group, _)| weights.get(group).unwrap_or(&0))
                .sum()
        };
        candidates(record).map(sum).collect()
    }

    #[test]
    fn groups_are_spread_and_stay() {
        let weights: Weights = (1..=ANA_GROUPS).map(|group| (group, 10)).collect();
        let mut record = of(3);
        assert_eq!(settle(&mut record, &weights), ANA_GROUPS as usize);
        assert_eq!(loads(&record, &weights), [160, 160, 160]);
        assert_eq!(settle(&mut record, &weights), 0);
        // One more gateway takes its part of all others, and nothing else moves.
        record.gateways.extend(of(4).gateways.split_off(&name(3)));
        assert_eq!(settle(&mut record, &weights), 12);
        assert_eq!(loads(&record, &weights), [120; 4]);
        // What a lost one had goes to all others.
        record.gateways.get_mut(&name(1)).unwrap().member = None;
        assert_eq!(settle(&mut record, &weights), 12);
        assert_eq!(loads(&record, &weights), [160; 3]);
    }

    #[test]
    fn who_leaves_is_condemned_or_is_not_ready_gets_nothing() {
        let weights = Weights::new();
        let mut record = of(4);
        record.member_mut(&name(0)).unwrap().leaving = true;
        record.member_mut(&name(1)).unwrap().condemned = true;
        record.member_mut(&name(2)).unwrap().ready = false;
        assert!(wanted(&record, &weights).values().all(|it| *it == name(3)));
        record.member_mut(&name(3)).unwrap().ready = false;
        assert!(wanted(&record, &weights).is_empty());
    }

    #[test]
    fn a_pinned_group_goes_home_when_its_gateway_comes_back() {
        let mut record = of(2);
        record
            .groups
            .insert(7, AnaGroup { owner: Some(name(0)), next: None, pinned: Some(name(1)) });
        assert_eq!(wanted(&record, &Weights::from([(7, 1000)]))[&7], name(1));
        record.gateways.get_mut(&name(1)).unwrap().member = None;
        assert_eq!(wanted(&record, &Weights::new())[&7], name(0));
    }

    proptest! {
        #![proptest_config(weft_testing::properties!())]

        #[test]
        fn the_rule_comes_to_rest_and_is_even(gateways in 1usize..20, weights in proptest::collection::btree_map(1..=ANA_GROUPS, 0u32..500, 0..48)) {
            let mut record = of(gateways);
            settle(&mut record, &weights);
            prop_assert_eq!(settle(&mut record, &weights), 0);
            let loads = loads(&record, &weights);
            let largest = weights.values().max().copied().unwrap_or(0);
            let spread = loads.iter().max().unwrap() - loads.iter().min().unwrap();
            prop_assert!(spread <= largest + 1, "{:?} with at most {} in a group", loads, largest);
        }
    }
}
