//! A server's demands on its hosts before it serves them, for a process that takes over from it.

use crate::config::Desired;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use weft_endpoint::inventory::Inventory;
use weft_endpoint::url::NVME_SCHEMES;

/// Authentication that hosts need. Demands at a port where nothing listens count as well.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Demands {
    /// The NVMe subsystems whose hosts authenticate with DH-HMAC-CHAP.
    pub dhchap: BTreeSet<String>,
    /// The NVMe subsystems that are served.
    subsystems: BTreeSet<String>,
    /// NVMe/TCP is encrypted, with keys that are agreed on before or made by DH-HMAC-CHAP.
    pub tls: bool,
    /// iSCSI initiators log in with CHAP.
    pub chap: bool,
    /// NBD clients have certificates.
    pub certificates: bool,
    /// The schemes of the URLs at which it listens.
    schemes: BTreeSet<String>,
}

impl Demands {
    /// Those of a server that is to start.
    pub fn of(desired: &Desired) -> Self {
        let name = |nqn: &dyn ToString| nqn.to_string();
        let is_demanding = desired.subsystems.iter().filter(|of| of.authentication.is_some());
        Self {
            dhchap: is_demanding.map(|of| name(&of.nqn)).collect(),
            subsystems: desired.subsystems.iter().map(|of| name(&of.nqn)).collect(),
            tls: desired.tls.psk.is_some() || desired.tls.concat,
            chap: !desired.iscsi.chap.is_empty(),
            certificates: desired.tls.ca.is_some(),
            schemes: desired.listen.iter().map(|url| scheme(url)).collect(),
        }
    }

    /// These as they are now, with what was changed since the server started.
    pub fn now(&self, inventory: &Inventory) -> Self {
        let all = inventory.subsystems().iter();
        let is_demanding = all.clone().filter(|of| of.authentication.is_some());
        Self {
            dhchap: is_demanding.map(|of| of.nqn.to_string()).collect(),
            subsystems: all.map(|of| of.nqn.to_string()).collect(),
            ..self.clone()
        }
    }

    /// The first thing that another server demands and this one does not, although it serves the
    /// same protocol; and how to demand it.
    pub fn lacks(&self, other: &Self) -> Option<(&'static str, &'static str)> {
        let listens = |schemes: &[&str]| self.schemes.iter().any(|own| schemes.contains(&&**own));
        let is_open = |nqn: &String| self.subsystems.contains(nqn) && !self.dhchap.contains(nqn);
        let dhchap = other.dhchap.iter().any(is_open)
            || (self.dhchap.is_empty() && !other.dhchap.is_empty() && !self.subsystems.is_empty());
        let all = [
            (dhchap && listens(&NVME_SCHEMES), "DH-HMAC-CHAP", "give --dhchap-secret-file"),
            (other.tls && !self.tls && listens(&["nvme+tcp://"]), "TLS", "give --tls or --concat"),
            (
                other.chap && !self.chap && listens(&["iscsi://"]),
                "CHAP",
                "give --login-user and --login-secret-file",
            ),
            (
                other.certificates && !self.certificates && listens(&["nbds://"]),
                "certificates",
                "give --tls-ca-file",
            ),
        ];
        all.into_iter().find(|(is_lacking, ..)| *is_lacking).map(|(_, what, how)| (what, how))
    }
}

/// That of a URL to listen at, with what separates it from the address.
fn scheme(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://"),
        None => url.split(':').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demands(listen: &str, dhchap: &[&str], subsystems: &[&str]) -> Demands {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Demands {
            dhchap: set(dhchap),
            subsystems: set(subsystems),
            schemes: [scheme(listen)].into(),
            ..Demands::default()
        }
    }

    #[test]
    fn what_is_not_demanded_any_more_is_found() {
        let at = "nvme+tcp://127.0.0.1:4420";
        let old = demands(at, &["a"], &["a", "b"]);
        let lacks = |new: Demands| new.lacks(&old).map(|(what, _)| what);
        assert_eq!(lacks(demands(at, &["a"], &["a", "b"])), None);
        assert_eq!(lacks(demands(at, &["b"], &["a", "b"])), Some("DH-HMAC-CHAP"));
        assert_eq!(lacks(demands(at, &[], &["c"])), Some("DH-HMAC-CHAP"), "by another name");
        assert_eq!(lacks(demands(at, &["c"], &["c"])), None);
        assert_eq!(lacks(demands("iscsi://127.0.0.1:3260", &[], &["a"])), None);
    }

    #[test]
    fn each_protocol_has_its_own() {
        let all = Demands { tls: true, chap: true, certificates: true, ..Demands::default() };
        for (at, what) in [
            ("nvme+tcp://127.0.0.1:4420", "TLS"),
            ("iscsi://127.0.0.1:3260", "CHAP"),
            ("nbds://127.0.0.1:10809", "certificates"),
        ] {
            assert_eq!(demands(at, &[], &["a"]).lacks(&all).unwrap().0, what);
        }
        for at in ["nbd://127.0.0.1:10809", "nvme+rdma://127.0.0.1:4420", "ublk:"] {
            assert!(demands(at, &[], &["a"]).lacks(&all).is_none(), "{at}");
        }
    }
}
