//! The served state, as it was asked for.

use crate::config::desired::{
    Desired, DesiredAnaState, DesiredLimit, DesiredNamespace, DesiredSubsystem,
};
use crate::management::protocol::{FaultCode, RequestFault};
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_endpoint::TlsPsk;
use weft_endpoint::inventory::Authentication;
use weft_endpoint::url::nbd::NBD_SCHEMES;
use weft_proto::nvme::auth::PskKeys;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

/// The contents of a server, and its listeners.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedState {
    /// URLs to listen at.
    pub listen: Vec<String>,
    /// Subsystems with their namespaces.
    pub subsystems: Vec<DesiredSubsystem>,
    /// Proofs demanded of hosts for discovery.
    pub discovery: Option<Authentication>,
    /// Pre-shared keys of NVMe/TCP hosts; `None`: no TLS, or a keyring.
    pub psk: Option<Arc<PskKeys>>,
    /// ANA states; a group of which nothing is said keeps its own.
    pub states: Vec<DesiredAnaState>,
    /// Limits of hosts.
    pub limits: Vec<DesiredLimit>,
    /// Identifiers of NVMe hosts.
    pub identifiers: BTreeMap<Nqn, Id128>,
}

impl ServedState {
    /// The desired state.
    pub fn of(desired: &Desired) -> Self {
        let Desired { listen, subsystems, discovery, states, limits, identifiers, tls, .. } =
            desired;
        let mut once: Vec<String> = Vec::with_capacity(listen.len());
        listen.iter().for_each(|url| {
            if !once.contains(url) {
                once.push(url.clone());
            }
        });
        let (subsystems, discovery) = (subsystems.clone(), discovery.clone());
        let psk = tls.psk.as_ref().map(TlsPsk::keys).filter(|keys| !keys.is_empty());
        let (states, limits, identifiers) = (states.clone(), limits.clone(), identifiers.clone());
        Self { listen: once, subsystems, discovery, psk, states, limits, identifiers }
    }

    /// Has a server that starts serve this.
    pub fn put_into(self, desired: &mut Desired) {
        let Self { listen, subsystems, discovery, psk, states, limits, identifiers } = self;
        (desired.listen, desired.subsystems, desired.discovery) = (listen, subsystems, discovery);
        (desired.states, desired.limits, desired.identifiers) = (states, limits, identifiers);
        // The keys themselves are shared with the server that has ended.
        drop(psk);
    }

    /// All namespaces with the names of their subsystems.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Nqn, &DesiredNamespace)> {
        self.subsystems.iter().flat_map(|of| of.namespaces.iter().map(move |it| (&of.nqn, it)))
    }

    /// A sentence about addresses of NBD at which clients find no export although there are
    /// namespaces: only those with a name are exports.
    pub fn nameless(&self) -> Option<String> {
        let is_nbd = |url: &&String| NBD_SCHEMES.iter().any(|scheme| url.starts_with(scheme));
        let listen: Vec<&str> = self.listen.iter().filter(is_nbd).map(String::as_str).collect();
        let mut namespaces = self.namespaces().peekable();
        let has_any = namespaces.peek().is_some();
        if listen.is_empty() || !has_any || namespaces.any(|(_, of)| of.name.is_some()) {
            return None;
        }
        Some(format!(
            "{} has no export, because no namespace has a name; give each namespace for NBD clients \
             one, as in name = \"disk\"",
            listen.join(", ")
        ))
    }

    /// A subsystem.
    pub fn subsystem(&self, nqn: &Nqn) -> Option<&DesiredSubsystem> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn == *nqn)
    }

    /// The subsystem that is named; the only one if none is.
    ///
    /// # Errors
    /// [`FaultCode::NotFound`]; [`FaultCode::Invalid`] if it is not clear which is meant.
    pub fn named_or_only(
        &mut self,
        nqn: Option<&Nqn>,
    ) -> Result<&mut DesiredSubsystem, RequestFault> {
        let many = self.subsystems.len() > 1;
        match nqn {
            Some(nqn) => {
                let found = self.subsystems.iter_mut().find(|subsystem| subsystem.nqn == *nqn);
                found.ok_or_else(|| {
                    RequestFault::new(FaultCode::NotFound, format!("there is no subsystem {nqn}"))
                })
            }
            None if many => {
                let names: Vec<String> =
                    self.subsystems.iter().map(|subsystem| subsystem.nqn.to_string()).collect();
                let text = format!(
                    "there are several subsystems: choose one with --subsystem: {}",
                    names.join(", ")
                );
                Err(RequestFault::new(FaultCode::Invalid, text))
            }
            None => {
                let none = || {
                    RequestFault::new(
                        FaultCode::NotFound,
                        "there is no subsystem; `weft apply` adds one",
                    )
                };
                self.subsystems.first_mut().ok_or_else(none)
            }
        }
    }
}

impl DesiredSubsystem {
    /// A namespace.
    pub fn namespace(&self, nsid: Nsid) -> Option<&DesiredNamespace> {
        self.namespaces.iter().find(|namespace| namespace.nsid == nsid)
    }

    /// A namespace to be changed.
    ///
    /// # Errors
    /// [`FaultCode::NotFound`].
    pub fn namespace_mut(&mut self, nsid: Nsid) -> Result<&mut DesiredNamespace, RequestFault> {
        let none = RequestFault::new(
            FaultCode::NotFound,
            format!("the subsystem {} has no namespace {nsid}", self.nqn),
        );
        self.namespaces.iter_mut().find(|namespace| namespace.nsid == nsid).ok_or(none)
    }
}
