//! Limits of hosts.

use super::desired::DesiredLimit;
use super::faults::Finder;
use super::tables::HostLimitTable;
use std::collections::HashSet;
use weft_block::limit::Limit;
use weft_endpoint::limits::HOST_LIMITS_MAX;

/// The limits that tables ask for.
pub fn limits(tables: &[HostLimitTable], finder: &mut Finder<'_>) -> Vec<DesiredLimit> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for table in tables {
        let (host, place) = (&table.host, table.host.place());
        if !seen.insert(host.as_str()) {
            finder.add(
                place.clone(),
                format!("two limits are for the host \"{}\": remove one of them", **host),
            );
        }
        if table.iops.is_none() && table.bw.is_none() {
            finder.add(
                place.clone(),
                "a limit needs iops, bw or both, as in iops = \"10k\", bw = \"100MB\"",
            );
        }
        if seen.len() == HOST_LIMITS_MAX + 1 {
            finder.add(place, format!("at most {HOST_LIMITS_MAX} hosts can have a limit"));
        }
        all.push(DesiredLimit { host: host.to_string(), limit: limit(table, finder) });
    }
    all
}

fn limit(table: &HostLimitTable, finder: &mut Finder<'_>) -> Limit {
    let mut limit = Limit::NONE;
    if let Some(iops) = &table.iops {
        let parsed = Limit::parse(&format!("iops={}", **iops));
        limit.operations = finder.take(iops.place(), parsed).unwrap_or_default().operations;
    }
    if let Some(bw) = &table.bw {
        limit.bytes = finder
            .take(bw.place(), Limit::parse(&format!("bw={}", **bw)))
            .unwrap_or_default()
            .bytes;
    }
    limit
}
