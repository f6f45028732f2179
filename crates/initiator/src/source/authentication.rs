//! Secrets and algorithms with which a host authenticates to NVMe subsystems (DH-HMAC-CHAP).

use std::fmt;
use weft_connection::renewal::Renewed;
use weft_proto::nvme::auth::{Concatenation, DhchapSecret, Group, Hash, HostKeys};
use weft_proto::nvme::types::Nqn;

/// Secrets, and what is accepted.
#[derive(Clone)]
pub struct HostSecrets {
    /// This host's, for subsystems that ask for it.
    pub host: Option<DhchapSecret>,
    /// The controllers'. With it they have to prove who they are, whether they ask for
    /// authentication or not.
    pub controller: Option<DhchapSecret>,
    /// Hash functions that are accepted, the preferred one first.
    pub hashes: Vec<Hash>,
    /// Diffie-Hellman groups that are accepted, the preferred one first.
    pub groups: Vec<Group>,
    /// Source from which all this is read again before each association; none: it stays as it is.
    pub renewal: Option<Renewed<Self>>,
}

impl Default for HostSecrets {
    /// No secret; every hash function and every group. Without a group an exchange that was
    /// recorded can be tried against guesses, which is of no use against a secret that is random,
    /// as all those are that `weft gen-dhchap-key` makes.
    fn default() -> Self {
        let groups =
            Group::ALL.into_iter().filter(|group| *group != Group::Null).chain([Group::Null]);
        Self {
            host: None,
            controller: None,
            hashes: Hash::ALL.to_vec(),
            groups: groups.collect(),
            renewal: None,
        }
    }
}

impl HostSecrets {
    /// What they are now, for one association.
    pub(crate) fn now(&self) -> Self {
        self.renewal.as_ref().map_or_else(|| self.clone(), |renewal| renewal.now(self))
    }

    /// What the engine is to know; `None`: this host has no secret.
    pub(crate) fn keys(
        &self,
        host: &Nqn,
        subsystem: &Nqn,
        concatenation: Concatenation,
    ) -> Option<HostKeys> {
        Some(HostKeys {
            hostnqn: host.as_str().to_owned(),
            subnqn: subsystem.as_str().to_owned(),
            secret: self.host.clone()?,
            controller: self.controller.clone(),
            hashes: self.hashes.clone(),
            groups: self.groups.clone(),
            concatenation,
        })
    }
}

impl fmt::Debug for HostSecrets {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = (self.host.is_some(), self.controller.is_some());
        f.debug_struct("HostSecrets")
            .field("has", &has)
            .field("hashes", &self.hashes)
            .field("groups", &self.groups)
            .finish()
    }
}
