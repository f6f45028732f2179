//! Names of gateways.

use crate::limits::NAME_BYTES_MAX;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Name of a gateway in its group: 1 to 64 of the letters, digits, `.`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GatewayName(String);

/// A text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a name of a gateway: use 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and underscores"
)]
pub struct InvalidName(String);

impl GatewayName {
    /// A name.
    ///
    /// # Errors
    /// The text is not a valid name.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name = (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(fits);
        if is_name { Ok(Self(text.to_owned())) } else { Err(InvalidName(text.to_owned())) }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for GatewayName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(&text)
    }
}

impl From<GatewayName> for String {
    fn from(name: GatewayName) -> Self {
        name.0
    }
}

impl fmt::Display for GatewayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        assert_eq!(GatewayName::new("gw-1.example").unwrap().as_str(), "gw-1.example");
        for wrong in ["", "a b", "ü", "a/b", &"a".repeat(65)] {
            assert!(GatewayName::new(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<GatewayName>("\"a b\"").is_err());
    }
}
