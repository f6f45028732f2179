//! Which hosts have to authenticate (DH-HMAC-CHAP), and by which secrets.

use std::collections::BTreeMap;
use std::fmt;
use weft_connection::limits::AUTHENTICATION_GROUP_BITS;
use weft_proto::nvme::auth::{ControllerKeys, DhchapSecret, Group, Hash, SecureChannel};
use weft_proto::nvme::types::Nqn;

/// Demands of a subsystem on all its hosts.
#[derive(Clone, PartialEq)]
pub struct Authentication {
    /// The secrets of hosts by their names; several while one is changed.
    pub hosts: BTreeMap<Nqn, Vec<DhchapSecret>>,
    /// Those of all hosts that are not among them. With none, such hosts are refused.
    pub others: Vec<DhchapSecret>,
    /// The secret of the subsystem's controllers, by which they prove to hosts who they are.
    pub controller: Option<DhchapSecret>,
    /// Hash functions that are accepted, the preferred one first.
    pub hashes: Vec<Hash>,
    /// Diffie-Hellman groups that are accepted, the preferred one first.
    pub groups: Vec<Group>,
    /// Keys for TLS by authentications (secure channel concatenation), which only NVMe/TCP exports
    /// use that expect it.
    pub channel: SecureChannel,
}

impl Default for Authentication {
    /// Without any secret, with every hash function, and with every group of moderate cost that is
    /// one: an exchange that was recorded is of no use for guessing, and strangers cannot choose
    /// what costs most.
    fn default() -> Self {
        Self {
            hosts: BTreeMap::new(),
            others: Vec::new(),
            controller: None,
            hashes: Hash::ALL.to_vec(),
            groups: Group::ALL
                .into_iter()
                .filter(|group| (1..=AUTHENTICATION_GROUP_BITS).contains(&group.bits()))
                .collect(),
            channel: SecureChannel::None,
        }
    }
}

impl Authentication {
    /// The secrets of all hosts.
    pub fn all_secrets(&self) -> impl Iterator<Item = &DhchapSecret> {
        self.hosts.values().flatten().chain(&self.others)
    }

    /// Keys for a host that gives the name `host` and connects to the name `subsystem`.
    pub(crate) fn keys(
        &self,
        host: Option<&Nqn>,
        subsystem: &Nqn,
        is_admin: bool,
    ) -> ControllerKeys {
        let secrets = host.and_then(|host| self.hosts.get(host)).unwrap_or(&self.others);
        ControllerKeys {
            hostnqn: host.map(|host| host.as_str().to_owned()).unwrap_or_default(),
            subnqn: subsystem.as_str().to_owned(),
            // A host without a name has no secret, either.
            secrets: if host.is_some() { secrets.clone() } else { Vec::new() },
            controller: self.controller.clone(),
            hashes: self.hashes.clone(),
            groups: self.groups.clone(),
            is_admin,
            has_tls: false,
            channel: self.channel,
        }
    }
}

impl fmt::Debug for Authentication {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> =
            self.hosts.iter().map(|(host, secrets)| (host, secrets.len())).collect();
        f.debug_struct("Authentication")
            .field("hosts", &hosts)
            .field("others", &self.others.len())
            .field("controller", &self.controller.is_some())
            .field("hashes", &self.hashes)
            .field("groups", &self.groups)
            .field("channel", &self.channel)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nqn(name: &str) -> Nqn {
        Nqn::new(&format!("nqn.2026-01.example.weft:{name}")).unwrap()
    }

    #[test]
    fn a_host_has_its_own_secrets_or_those_of_others() {
        let secret = |byte| DhchapSecret::of_key(&[byte; 32], None).unwrap();
        let hosts = BTreeMap::from([(nqn("one"), vec![secret(1), secret(2)])]);
        let demanded =
            Authentication { hosts, others: vec![secret(3)], ..Authentication::default() };
        let secrets =
            |host: Option<&Nqn>| demanded.keys(host, &nqn("subsystem"), true).secrets.len();
        assert_eq!(
            (secrets(Some(&nqn("one"))), secrets(Some(&nqn("other"))), secrets(None)),
            (2, 1, 0)
        );
        assert!(!demanded.groups.contains(&Group::Null));
        let text = format!("{demanded:?}");
        assert!(!text.contains("DHHC") && text.contains("one"), "{text}");
    }
}
