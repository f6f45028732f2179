//! What a gate says.

/// One comparison.
pub struct Check {
    /// What was counted.
    pub what: String,
    /// What was found, and what may be.
    pub found: String,
    /// Whether that is good enough.
    pub good: bool,
}

impl Check {
    /// That `found` is at most `limit`.
    pub fn at_most(what: String, found: f64, limit: f64, unit: &str) -> Self {
        Self { what, found: format!("{found:.3} {unit}, at most {limit:.3}"), good: found <= limit }
    }
}
