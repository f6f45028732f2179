//! `--cluster`, `--group`, `--gateway`.

use crate::help::headings::GROUP;
use crate::process::exit::Failure;
use clap::Args;
use std::sync::Arc;
use weft_block::{ErrorKind, grammar};
use weft_ceph::CephAccess;
use weft_group::GatewayName;
use weft_server::group::Joining;
use weft_server::group::objects::CephPool;

/// Options of `weft serve` for a gateway of a group.
#[derive(Args, Debug, Default)]
pub struct GroupArgs {
    /// Ceph cluster that holds what the group of gateways shares: its configuration file, the user,
    /// and the pool in which the objects of the group are
    #[arg(
        help_heading = GROUP,
        long,
        value_name = "CONF[,id=USER][,keyring=FILE][,pool=POOL][,namespace=NAME]",
        requires = "group"
    )]
    cluster: Option<String>,
    /// Name of the group of gateways, which serve the same subsystems; weft apply, weft namespace
    /// and weft host at any of them change what all serve
    #[arg(help_heading = GROUP, long, value_name = "NAME", requires = "cluster", conflicts_with_all = OF_GROUP)]
    group: Option<String>,
    /// Name of this gateway, the same after each start [default: the name of this machine]
    #[arg(help_heading = GROUP, long, value_name = "NAME", requires = "group")]
    gateway: Option<String>,
    /// Address at which hosts reach this gateway, where --listen names all addresses of the
    /// machine; may be repeated [default: the one of the way to the cluster]
    #[arg(help_heading = GROUP, long, value_name = "ADDR", requires = "group")]
    advertise: Vec<std::net::IpAddr>,
}

/// What the group says, so the command line does not.
const OF_GROUP: [&str; 20] = [
    "source",
    "config",
    "name",
    "nqn",
    "serial",
    "model",
    "max_queues",
    "allow_host",
    "read_only",
    "no_reservations",
    "cntlid_range",
    "shared",
    "allow_initiator",
    "dhchap_secret_file",
    "dhchap_ctrl_secret_file",
    "dhchap_secret",
    "dhchap_ctrl_secret",
    "dhchap_discovery",
    "host_limit",
    "takeover",
];

/// The pool of a group's objects, if none is named: that of most images.
const POOL: &str = "rbd";

fn usage(text: impl Into<String>) -> Failure {
    Failure::of(ErrorKind::Usage, text)
}

impl GroupArgs {
    /// Returns whether this server is a gateway of a group.
    pub fn is_given(&self) -> bool {
        self.group.is_some()
    }

    /// The settings with which it joins its group, if it is one.
    pub fn joining(&self) -> Result<Option<Joining>, Failure> {
        let (Some(cluster), Some(group)) = (&self.cluster, &self.group) else { return Ok(None) };
        let name = |text: &str| GatewayName::new(text).map_err(|e| usage(e.to_string()));
        let gateway = self.gateway.clone().map_or_else(machine, Ok)?;
        let pool = pool(cluster)?;
        Ok(Some(Joining {
            group: name(group)?,
            gateway: name(&gateway)?,
            access: pool.access.clone(),
            store: Arc::new(pool),
            advertise: self.advertise.clone(),
        }))
    }
}

/// The pool that `--cluster` names.
fn pool(cluster: &str) -> Result<CephPool, Failure> {
    let (conf, options) = grammar::options(cluster);
    let access = CephAccess { conf: Some(conf.into()), ..CephAccess::default() };
    let mut named = CephPool { access, pool: POOL.into(), namespace: String::new() };
    for (option, value) in options {
        match option {
            "id" => named.access.id = Some(value.into()),
            "keyring" => named.access.keyring = Some(value.into()),
            "pool" => named.pool = value.into(),
            "namespace" => named.namespace = value.into(),
            _ => {
                return Err(usage(format!(
                    "--cluster: there is no option {option}=; use id=, keyring=, pool= or namespace="
                )));
            }
        }
    }
    if conf.is_empty() || named.pool.is_empty() {
        return Err(usage(
            "--cluster names the cluster's configuration file, as in --cluster /etc/ceph/ceph.conf,id=weft",
        ));
    }
    Ok(named)
}

/// The name of this machine.
#[cfg(unix)]
fn machine() -> Result<String, Failure> {
    Ok(rustix::system::uname().nodename().to_string_lossy().into_owned())
}

#[cfg(not(unix))]
fn machine() -> Result<String, Failure> {
    std::env::var("COMPUTERNAME").map_err(|_| usage("give --gateway, a name of this gateway"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(cluster: &str) -> GroupArgs {
        GroupArgs {
            cluster: Some(cluster.into()),
            group: Some("one".into()),
            gateway: Some("a".into()),
            advertise: vec!["192.0.2.7".parse().unwrap()],
        }
    }

    #[test]
    fn a_cluster_is_named_with_its_user() {
        let named = pool("/etc/ceph/ceph.conf,id=weft,pool=meta").unwrap();
        assert_eq!((named.access.id.as_deref(), named.pool.as_str()), (Some("weft"), "meta"));
        assert_eq!(pool("/etc/ceph/ceph.conf").unwrap().pool, POOL);
        let joining = args("/etc/ceph/ceph.conf,id=weft").joining().unwrap().unwrap();
        assert_eq!(joining.access.id.as_deref(), Some("weft"));
        for wrong in ["", ",id=weft", "/etc/ceph/ceph.conf,key=x", "/etc/ceph/ceph.conf,pool="] {
            assert!(args(wrong).joining().is_err(), "{wrong}");
        }
        assert!(GroupArgs { group: Some("a b".into()), ..args("x") }.joining().is_err());
    }
}
