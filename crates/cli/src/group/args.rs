//! `--cluster`, `--group`, `--gateway`.

use super::{Group, Joined};
use crate::config::Desired;
use crate::config::check::listen_place;
use crate::exit::Failure;
use clap::Args;
use std::net::{SocketAddr, UdpSocket};
use weft_block::{ErrorKind, grammar};
use weft_ceph::Access;
use weft_endpoint::url::{ISCSI, ISCSI_PORT, IscsiUrl, NVME_SCHEMES, NvmeUrl};
use weft_group::limits::LISTENERS_MAX;
use weft_group::{Name, RecordError};

/// Options of `weft serve` for a gateway of a group.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Several gateways in front of one Ceph cluster")]
pub struct GroupArgs {
    /// Ceph cluster that holds what the group of gateways shares: its configuration file, the user,
    /// and the pool in which the objects of the group are
    #[arg(
        long,
        value_name = "CONF[,id=USER][,keyring=FILE][,pool=POOL][,namespace=NAME]",
        requires = "group"
    )]
    cluster: Option<String>,
    /// Name of the group of gateways, which serve the same subsystems; weft apply, weft namespace
    /// and weft host at any of them change what all serve
    #[arg(long, value_name = "NAME", requires = "cluster", conflicts_with_all = OF_GROUP)]
    group: Option<String>,
    /// Name of this gateway, the same after each start [default: the name of this machine]
    #[arg(long, value_name = "NAME", requires = "group")]
    gateway: Option<String>,
    /// Address at which hosts reach this gateway, where --listen names all addresses of the
    /// machine; may be repeated [default: the one of the way to the cluster]
    #[arg(long, value_name = "ADDR", requires = "group")]
    advertise: Vec<std::net::IpAddr>,
}

/// What the group says, so the command line does not.
const OF_GROUP: [&str; 17] = [
    "source",
    "config",
    "name",
    "nqn",
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

/// What a group is joined with.
#[derive(Clone, Debug, PartialEq)]
pub struct Joining {
    /// Name of the group.
    pub group: Name,
    /// Name of this gateway.
    pub gateway: Name,
    /// As whom the cluster is used.
    pub access: Access,
    /// The pool of the group's objects.
    pub pool: String,
    /// The namespace of the pool; empty for the default one.
    pub namespace: String,
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::of(ErrorKind::Usage, text)
}

impl GroupArgs {
    /// Whether this server is a gateway of a group.
    pub fn is_given(&self) -> bool {
        self.group.is_some()
    }

    /// Joins the group, if one is named, and puts what it serves into what is desired.
    pub fn join(&self, desired: &mut Desired) -> Result<Joined, Failure> {
        let Some(joining) = self.joining()? else { return Ok(Joined(None)) };
        let listeners = desired
            .listen
            .iter()
            .map(|url| self.advertised(url))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        if listeners.len() > LISTENERS_MAX {
            return Err(usage(RecordError::Listeners.to_string()));
        }
        let group = Group::join(&joining, desired.listen.clone(), listeners)?;
        group.fill(desired);
        desired.cntlids = Some(group.cntlids);
        Ok(Joined(Some(group)))
    }

    fn joining(&self) -> Result<Option<Joining>, Failure> {
        let (Some(cluster), Some(group)) = (&self.cluster, &self.group) else { return Ok(None) };
        let name = |text: &str| Name::new(text).map_err(|e| usage(e.to_string()));
        let gateway = self.gateway.clone().map_or_else(machine, Ok)?;
        let (conf, options) = grammar::options(cluster);
        let mut joining = Joining {
            group: name(group)?,
            gateway: name(&gateway)?,
            access: Access { conf: Some(conf.into()), ..Access::default() },
            pool: POOL.into(),
            namespace: String::new(),
        };
        for (option, value) in options {
            match option {
                "id" => joining.access.id = Some(value.into()),
                "keyring" => joining.access.keyring = Some(value.into()),
                "pool" => joining.pool = value.into(),
                "namespace" => joining.namespace = value.into(),
                _ => {
                    return Err(usage(format!(
                        "--cluster: there is no option {option}=; use id=, keyring=, pool= or namespace="
                    )));
                }
            }
        }
        if conf.is_empty() || joining.pool.is_empty() {
            return Err(usage(
                "--cluster names the cluster's configuration file, as in --cluster /etc/ceph/ceph.conf,id=weft",
            ));
        }
        Ok(Some(joining))
    }

    /// The URLs at which others reach one that this server listens at.
    fn advertised(&self, url: &str) -> Result<Vec<String>, Failure> {
        let Some(at) = place(url)? else { return Ok(Vec::new()) };
        if at.port() == 0 {
            return Err(usage(format!(
                "{url}: a gateway of a group has a port that stays the same, so that hosts find it again"
            )));
        }
        let scheme = url.split("://").next().unwrap_or_default();
        if !at.ip().is_unspecified() {
            return Ok(vec![format!("{scheme}://{at}")]);
        }
        if url.starts_with(ISCSI) && self.advertise.len() > 1 {
            return Err(usage(format!(
                "{url}: an iSCSI port that is told of has one address: give one --advertise, or each address a --listen of its own"
            )));
        }
        let all =
            if self.advertise.is_empty() { vec![outward(at)?] } else { self.advertise.clone() };
        Ok(all
            .into_iter()
            .map(|ip| format!("{scheme}://{}", SocketAddr::new(ip, at.port())))
            .collect())
    }
}

/// Where a URL has this server listen, with the port that it means and the address that a name
/// stands for. `None`: nowhere in the network.
fn place(url: &str) -> Result<Option<SocketAddr>, Failure> {
    let address = if NVME_SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        NvmeUrl::parse(url)?.address
    } else if url.starts_with(ISCSI) {
        IscsiUrl::parse(url, ISCSI_PORT)?.address
    } else {
        return Ok(listen_place(url));
    };
    Ok(Some(address.resolve_first()?))
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

/// The address from which this machine reaches others. Nothing is sent.
fn outward(like: SocketAddr) -> Result<std::net::IpAddr, Failure> {
    let (any, far) =
        if like.is_ipv4() { ("0.0.0.0:0", "192.0.2.1:9") } else { ("[::]:0", "[2001:db8::1]:9") };
    let own = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(far)?;
        socket.local_addr()
    });
    own.map(|own| own.ip()).map_err(|_| {
        usage(format!(
            "{like} is every address of this machine; say which one hosts use with --advertise"
        ))
    })
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
        let joining = args("/etc/ceph/ceph.conf,id=weft,pool=meta").joining().unwrap().unwrap();
        assert_eq!((joining.access.id.as_deref(), joining.pool.as_str()), (Some("weft"), "meta"));
        assert_eq!(args("/etc/ceph/ceph.conf").joining().unwrap().unwrap().pool, POOL);
        for wrong in ["", ",id=weft", "/etc/ceph/ceph.conf,key=x", "/etc/ceph/ceph.conf,pool="] {
            assert!(args(wrong).joining().is_err(), "{wrong}");
        }
        assert!(GroupArgs { group: Some("a b".into()), ..args("x") }.joining().is_err());
    }

    #[test]
    fn others_are_told_addresses_that_they_can_use() {
        let more = GroupArgs {
            advertise: ["192.0.2.7", "192.0.2.8"].map(|ip| ip.parse().unwrap()).to_vec(),
            ..args("x")
        };
        let args = args("x");
        assert_eq!(
            args.advertised("nvme+tcp://0.0.0.0:4420").unwrap(),
            ["nvme+tcp://192.0.2.7:4420"]
        );
        assert_eq!(args.advertised("iscsi://192.0.2.1:3260").unwrap(), ["iscsi://192.0.2.1:3260"]);
        assert_eq!(
            args.advertised("nvme+rdma://192.0.2.1").unwrap(),
            ["nvme+rdma://192.0.2.1:4420"]
        );
        assert_eq!(
            args.advertised("iscsi://[2001:db8::1]").unwrap(),
            ["iscsi://[2001:db8::1]:3260"]
        );
        assert_eq!(more.advertised("nvme+tcp://0.0.0.0").unwrap().len(), 2);
        assert!(
            more.advertised("iscsi://0.0.0.0").is_err(),
            "its portal group would be another one than it says itself"
        );
        assert!(args.advertised("nvme+tcp://192.0.2.1:0").is_err());
        assert!(args.advertised("nbd+unix:///?socket=/run/x").unwrap().is_empty());
    }
}
