//! The faults to inject, and their rate.

use crate::op::OpKind;
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use crate::outcome::status::StatusKind;
use crate::random::Random;
use crate::units::parse_duration;
use crate::url::parts::UrlParts;
use core::time::Duration;

/// The corruption of an operation that succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Corruption {
    BitFlip,
    Zero,
    Misplaced,
    Stale,
}

/// The fault of an affected operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Fails(StatusKind),
    /// It does not complete until it is cancelled.
    Held,
    /// It does not complete for this time, whatever happens; `None`: forever. Then it is executed.
    Hangs(Option<Duration>),
    /// The device is gone from now on.
    Vanishes,
    /// Only the first half of the blocks is read or written.
    Short,
    Corrupted(Corruption),
}

/// The options of the filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    fault: Fault,
    strikes: Operations,
    /// The rate, as a fraction of 2^64.
    rate: u128,
    /// Operations of each queue that are not affected at first.
    pub(super) after: u64,
    /// Operations of all queues that are affected at most.
    pub(super) count: Option<u64>,
    pub(super) seed: u64,
}

/// The operations that may be affected.
#[derive(Clone, Copy, Debug, Default)]
struct Operations {
    read: bool,
    write: bool,
    discard: bool,
    flush: bool,
}

impl Operations {
    fn parse(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        for name in text.split('+') {
            match name {
                "read" => all.read = true,
                "write" => all.write = true,
                "discard" => all.discard = true,
                "flush" => all.flush = true,
                _ => {
                    return Err(
                        "use read, write, discard or flush, or several of them separated by +"
                            .into(),
                    );
                }
            }
        }
        Ok(all)
    }

    const fn include(self, kind: OpKind) -> bool {
        match kind {
            OpKind::Read | OpKind::Compare => self.read,
            OpKind::Write { .. } | OpKind::WriteZeroes { .. } | OpKind::CompareAndWrite { .. } => {
                self.write
            }
            OpKind::Discard => self.discard,
            OpKind::Flush => self.flush,
            OpKind::Reserve(_) | OpKind::ReservationReport => false,
        }
    }
}

fn failure(text: &str) -> Result<Fault, String> {
    let kind = match text {
        "timeout" => return Ok(Fault::Held),
        "hang" => return Ok(Fault::Hangs(None)),
        "vanish" => return Ok(Fault::Vanishes),
        "short" => return Ok(Fault::Short),
        "media" => StatusKind::Media,
        "nospace" | "enospc" => StatusKind::NoSpace,
        "protected" => StatusKind::WriteProtected,
        "busy" => StatusKind::Busy,
        "transport" => StatusKind::Transport,
        "path" => StatusKind::Path,
        "gone" => StatusKind::Gone,
        "internal" => StatusKind::Internal,
        _ => {
            return Err(
                "use media, nospace, protected, busy, transport, path, gone, internal, short, vanish, hang or timeout".into()
            );
        }
    };
    Ok(Fault::Fails(kind))
}

fn corruption(text: &str) -> Result<Fault, String> {
    Ok(Fault::Corrupted(match text {
        "bitflip" => Corruption::BitFlip,
        "zero" => Corruption::Zero,
        "misplaced" => Corruption::Misplaced,
        "stale" => Corruption::Stale,
        _ => return Err("use bitflip, zero, misplaced or stale".into()),
    }))
}

fn rate(text: &str) -> Result<u128, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.map(|rate| (rate * 2f64.powi(64)) as u128).ok_or_else(|| "use a number from 0 to 1".into())
}

/// `kind=`, with `for=`.
fn lasting(spec: &mut UrlParts<'_>) -> Result<Option<Fault>, Error> {
    let kind = spec.parsed("kind", failure)?;
    let lasts = spec.parsed("for", |text| parse_duration(text).map_err(|e| e.to_string()))?;
    match (kind, lasts) {
        (Some(Fault::Hangs(_)), lasts) => Ok(Some(Fault::Hangs(lasts))),
        (_, Some(_)) => Err(spec
            .wrong(Refusal::Contradiction { why: "only kind=hang lasts for a time; omit for=" })),
        (kind, None) => Ok(kind),
    }
}

impl Plan {
    pub(super) fn parse(spec: &mut UrlParts<'_>) -> Result<Self, Error> {
        let rate = spec.parsed("rate", rate)?.ok_or_else(|| {
            spec.wrong(Refusal::OptionMissing { name: "rate", example: "rate=0.01" })
        })?;
        let failure = lasting(spec)?;
        let corruption = spec.parsed("corrupt", corruption)?;
        let mut number =
            |name| spec.parsed(name, |text| text.parse().map_err(|_| "use a whole number".into()));
        let (seed, after) = (number("seed")?.unwrap_or(0), number("after")?.unwrap_or(0));
        let count = number("count")?;
        let strikes = spec.parsed("ops", Operations::parse)?;
        let fault = match (failure, corruption) {
            (Some(_), Some(_)) => {
                return Err(spec.wrong(Refusal::Contradiction {
                    why: "an operation can either fail or be corrupted; use kind= or corrupt=",
                }));
            }
            (failure, corruption) => {
                failure.or(corruption).unwrap_or(Fault::Fails(StatusKind::Media))
            }
        };
        let stale = fault == Fault::Corrupted(Corruption::Stale);
        let usual = Operations { read: !stale, write: true, ..Operations::default() };
        let strikes = strikes.unwrap_or(usual);
        if stale && strikes.read {
            return Err(spec.wrong(Refusal::Contradiction {
                why: "stale blocks come from dropped writes; omit ops= or use ops=write",
            }));
        }
        if matches!(fault, Fault::Corrupted(_)) && (strikes.discard || strikes.flush) {
            return Err(spec.wrong(Refusal::Contradiction {
                why: "only reads and writes can be corrupted; use ops=read, ops=write or both",
            }));
        }
        Ok(Self { fault, strikes, rate, after, count, seed })
    }

    /// Returns whether operations of this kind may be left incomplete.
    pub(super) fn may_hold(&self, kind: OpKind) -> bool {
        matches!(self.fault, Fault::Held | Fault::Hangs(_)) && self.strikes.include(kind)
    }

    /// The fault of the next operation, which is of this kind.
    pub(super) fn strike(&self, random: &mut Random, kind: OpKind) -> Option<Fault> {
        let struck = u128::from(random.next()) < self.rate && self.strikes.include(kind);
        let applies = match self.fault {
            Fault::Short => kind.data_factor() == 1,
            Fault::Corrupted(_) => matches!(kind, OpKind::Read | OpKind::Write { .. }),
            _ => true,
        };
        (struck && applies).then_some(self.fault)
    }
}
