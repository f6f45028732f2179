//! Result of a gate.

/// One comparison.
pub struct Check {
    /// Name of the count.
    pub what: String,
    /// The count, and its limit.
    pub found: String,
    /// True if that is good enough.
    pub good: bool,
}

impl Check {
    /// That `found` is at most `limit`.
    pub fn at_most(what: String, found: f64, limit: f64, unit: &str) -> Self {
        Self { what, found: format!("{found:.3} {unit}, at most {limit:.3}"), good: found <= limit }
    }
}
