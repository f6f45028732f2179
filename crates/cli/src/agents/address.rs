//! `HOST[:PORT][@sha256:FINGERPRINT]`: an agent, as a user names it.

use weft_endpoint::url::HostPort;

use super::PORT;
use crate::output::hex::unhex;

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAddress {
    /// The address at which it listens.
    pub place: HostPort,
    /// The fingerprint that the user gives, in lower case.
    pub fingerprint: Option<String>,
}

impl AgentAddress {
    /// Reads a value of `--agents`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (place, fingerprint) = match text.split_once('@') {
            Some((place, fingerprint)) => (place, Some(fingerprint.to_ascii_lowercase())),
            None => (text, None),
        };
        let is_one = |text: &String| text.strip_prefix("sha256:").and_then(unhex).is_some();
        if fingerprint.as_ref().is_some_and(|text| !is_one(text)) {
            return Err(
                "a fingerprint is sha256: and 64 hexadecimal digits, as weft agent prints it"
                    .into(),
            );
        }
        let place = HostPort::parse(place, PORT).map_err(|e| e.to_string())?;
        Ok(Self { place, fingerprint })
    }

    /// Host and port: its name in messages and results.
    pub fn name(&self) -> String {
        self.place.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_a_host_with_or_without_port_and_fingerprint() {
        let digits = "0A".repeat(32);
        let parsed = AgentAddress::parse(&format!("rack1@sha256:{digits}")).unwrap();
        assert_eq!(
            (parsed.name(), parsed.fingerprint),
            ("rack1:4430".into(), Some(format!("sha256:{}", digits.to_lowercase())))
        );
        assert_eq!(AgentAddress::parse("[fd00::1]:99").unwrap().name(), "[fd00::1]:99");
        for wrong in ["", "a@", "a@sha256:00", "a@md5:00", "a@sha256:zz", "a:b"] {
            assert!(AgentAddress::parse(wrong).is_err(), "{wrong}");
        }
    }
}
