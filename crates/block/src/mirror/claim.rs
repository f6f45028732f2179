//! Decides whether a leg may be reserved, from the reports of its target, without I/O.
//!
//! Each opening of a mirror registers with a key of its own. The upper half of a key is the
//! mirror's, so that the keys of other openers are known from those of hosts that have nothing to
//! do with it.

use crate::reservation::{ReservationHolder, ReservationReport, opener_of};
use uuid::Uuid;

/// Action for a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be reserved, once these keys of openers before this one are removed; which of them
    /// holds it.
    Take { keys: Vec<u64>, holder: Option<u64> },
    /// Another opener has it since this one had it.
    Taken,
    /// It stays absent, for this reason.
    Refuse(String),
}

/// This process's knowledge of a leg.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimContext {
    pub(super) mirror: Uuid,
    pub(super) opening: Uuid,
    /// This opening has reserved it before.
    pub(super) was_held: bool,
    /// Its label is of a later run than this one.
    pub(super) is_newer: bool,
}

/// 32 bits of a name.
fn half(name: Uuid) -> u64 {
    let folded = name.as_u128();
    let folded = (folded >> 64) as u64 ^ folded as u64;
    u64::from((folded >> 32) as u32 ^ folded as u32)
}

/// Returns the key of an opening; never 0, which means no key.
pub(super) fn key(mirror: Uuid, opening: Uuid) -> u64 {
    half(mirror) << 32 | half(opening).max(1)
}

/// Returns the host identifier of an opening for the targets of legs.
pub(super) fn name(opening: Uuid) -> Uuid {
    opener_of(half(opening).max(1))
}

fn is_of(mirror: Uuid, key: u64) -> bool {
    key >> 32 == half(mirror)
}

pub(super) fn judge(report: &ReservationReport, known: ClaimContext) -> Verdict {
    let own = key(known.mirror, known.opening);
    let is_other = |registrant: &&ReservationHolder| {
        registrant.key != own && is_of(known.mirror, registrant.key)
    };
    let holder =
        report.registrants.iter().find(|registrant| registrant.holds && registrant.key != own);
    let is_held = holder.is_some_and(|holder| is_other(&holder));
    if known.was_held && (is_held || known.is_newer) {
        return Verdict::Taken;
    }
    if report.is_cut {
        return Verdict::Refuse(
            "more hosts are registered at it than weft looks at; remove those registrations that are not used".into(),
        );
    }
    let is_unknown =
        report.kind.is_some() && !report.registrants.iter().any(|registrant| registrant.holds);
    match holder {
        _ if is_unknown => {
            Verdict::Refuse("it is reserved, and its target does not tell by whom; release that reservation".into())
        }
        Some(other) if !is_other(&other) => Verdict::Refuse(format!(
            "another host has reserved it (host identifier {}, key {:#x}), which is not an opener of this mirror; release that reservation there",
            Uuid::from_bytes(other.host),
            other.key
        )),
        Some(_) if known.is_newer => Verdict::Refuse(
            "it is reserved by an opener that has taken it after this one opened the mirror; close the mirror there, or here"
                .into(),
        ),
        _ => {
            let mut keys: Vec<u64> = report.registrants.iter().filter(is_other).map(|other| other.key).collect();
            keys.sort_unstable();
            keys.dedup();
            Verdict::Take { keys, holder: holder.map(|holder| holder.key) }
        }
    }
}
