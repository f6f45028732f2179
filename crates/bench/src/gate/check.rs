//! One thing that both studies have, and what its change says.

/// A relation or a count in both studies.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Lane.
    pub lane: String,
    /// Workload.
    pub workload: String,
    /// The compared quantity: `rate`, `bytes on the wire`.
    pub what: &'static str,
    /// The other side of the comparison within each study: another lane, or bare TCP; none for a
    /// count.
    pub to: Option<String>,
    /// The baseline's value, in words.
    pub before: String,
    /// The later value, in words.
    pub after: String,
    /// The change, in words.
    pub change: String,
    /// Half of the interval of the change, as a part of the baseline's value; none of a count, or
    /// where there is no part.
    pub half: Option<f64>,
    /// The verdict on the change.
    pub verdict: CheckVerdict,
}

/// The kind of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// A relation of two lanes, with an interval.
    Relation,
    /// A count, without noise.
    Count,
}

/// The verdict on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// It is worse by more than the given part, with all of its interval.
    Worse,
    /// The interval holds the given part: it may be worse by more, or not.
    Unclear,
    /// It is not worse by more than the given part.
    Kept,
    /// It is better.
    Better,
    /// A count that depends on what arrives together: shown, and not judged.
    Shown,
}

impl CheckVerdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Worse => "WORSE",
            Self::Unclear => "unclear",
            Self::Kept => "not worse",
            Self::Better => "better",
            Self::Shown => "not judged",
        }
    }
}

impl Check {
    /// Returns the kind: a relation or a count.
    pub fn kind(&self) -> CheckKind {
        if self.to.is_some() { CheckKind::Relation } else { CheckKind::Count }
    }

    /// The two sides of the comparison: `rate : bare TCP`, `median latency : local`. The name of
    /// the check within its row; it does not depend on the measured values.
    pub fn name(&self) -> String {
        Self::named(self.what, self.to.as_deref())
    }

    /// See [`Self::name`].
    pub(super) fn named(what: &str, to: Option<&str>) -> String {
        to.map_or_else(|| what.to_owned(), |to| format!("{what} : {to}"))
    }
}

/// A part with its sign: `−1.3 %`, `+24 %`.
pub(super) fn percent(part: f64) -> String {
    let value = part * 100.0;
    let sign = if value < 0.0 { "−" } else { "+" };
    let size = value.abs();
    match size {
        _ if size < 9.95 => format!("{sign}{size:.1} %"),
        _ if size < 999.5 => format!("{sign}{size:.0} %"),
        _ => format!("{sign}{} %", crate::report::units::count(size)),
    }
}
