//! Log messages about names that do not have the form that NVMe requires and are used anyway, and
//! about other tolerated deviations of peers.

use crate::limits::REMARKED_HOSTS_MAX;
use std::collections::HashMap;
use weft_base::lock::Lock;

use weft_proto::nvme::controller::HostIdentity;
use weft_proto::nvme::deviation::Deviations;
use weft_proto::nvme::types::Nqn;

/// Logs that the name of `what` does not have the form that Base §4.7 requires. Call it at the
/// first use of the name.
pub fn remark(what: &str, nqn: &Nqn) {
    if !nqn.is_qualified() {
        tracing::warn!(
            "{what} \"{nqn}\" does not have the form nqn.YYYY-MM.DOMAIN:NAME; using it unchanged"
        );
    }
}

/// Logs the deviations of a peer that are tolerated although the specification does not allow them.
#[cold]
pub fn remark_all(peer: &dyn std::fmt::Display, noted: Deviations) {
    noted.iter().for_each(|deviation| tracing::warn!("{peer} {deviation}"));
}

/// The deviations of its hosts that a target has logged: each once per host name, however often the
/// host connects.
#[derive(Default)]
pub struct HostRemarks(Lock<HashMap<Option<Nqn>, Deviations>>);

impl HostRemarks {
    /// A host deviates in these ways.
    #[cold]
    pub fn on(&self, host: &HostIdentity, noted: Deviations) {
        remark_all(&format_args!("host {host}"), self.unsaid(host.nqn.as_ref(), noted));
    }

    /// The deviations that were not logged for this host yet. Above a number of hosts all others
    /// count as one, so that invented names fill neither memory nor the log.
    fn unsaid(&self, host: Option<&Nqn>, noted: Deviations) -> Deviations {
        let mut said = self.0.lock();
        let key = host.cloned();
        let known = said.contains_key(&key) || said.len() < REMARKED_HOSTS_MAX;
        said.entry(if known { key } else { None }).or_default().add(noted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::nvme::deviation::Deviation;

    fn said(remarks: &HostRemarks, host: Option<&str>, deviation: Deviation) -> usize {
        let host = host.map(|name| Nqn::new(name).unwrap());
        remarks.unsaid(host.as_ref(), Deviations::from_iter([deviation])).iter().count()
    }

    #[test]
    fn each_thing_is_said_once_per_host() {
        let remarks = HostRemarks::default();
        for (host, deviation, expected) in [
            (Some("a"), Deviation::HostName, 1),
            (Some("a"), Deviation::HostName, 0),
            (Some("a"), Deviation::LastPdu, 1),
            (Some("b"), Deviation::HostName, 1),
            (None, Deviation::NoHostName, 1),
            (None, Deviation::NoHostName, 0),
        ] {
            assert_eq!(said(&remarks, host, deviation), expected, "{host:?}: {deviation:?}");
        }
    }

    #[test]
    fn names_without_end_do_not_fill_the_log() {
        let remarks = HostRemarks::default();
        let lines = (0..3 * REMARKED_HOSTS_MAX)
            .map(|n| said(&remarks, Some(&format!("host{n}")), Deviation::HostName));
        assert_eq!(lines.sum::<usize>(), REMARKED_HOSTS_MAX + 1);
        assert!(remarks.0.lock().len() <= REMARKED_HOSTS_MAX + 1);
        assert_eq!(said(&remarks, Some("host7"), Deviation::LastPdu), 1);
    }
}
