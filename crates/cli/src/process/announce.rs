//! Ways in which hosts find a server: referrals of its discovery log, and its announcement in the
//! local network.

use crate::mdns::MdnsAnnouncement;
use crate::process::exit::Failure;
use clap::Args;
use std::net::SocketAddr;
use weft_endpoint::url::{NVME_TCP, NvmeTransport, NvmeUrl};
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme::types::Nqn;
use weft_proto::nvme_rdma::RdmaProvider;
use weft_proto::{nvme_rdma, nvme_tcp};

/// Options of discovery.
#[derive(Args, Clone, Debug, Default)]
pub struct AnnounceArgs {
    /// Announce the discovery controllers of the NVMe/TCP addresses in the local network (mDNS)
    /// [needs: a build with --features full]
    #[arg(long)]
    mdns: bool,
    /// Another discovery controller that discovery reports to hosts; may be repeated
    #[arg(long, value_name = "nvme+tcp://ADDR:PORT", value_parser = referral)]
    referral: Vec<TransportAddress>,
    /// Name of the discovery subsystem in addition to the well-known one; give each server a
    /// different one, so that hosts that keep connections can distinguish the servers
    #[arg(long, value_name = "NQN", value_parser = name)]
    discovery_nqn: Option<Nqn>,
}

impl AnnounceArgs {
    /// Other discovery controllers that are reported to hosts.
    pub fn referrals(&self) -> &[TransportAddress] {
        &self.referral
    }

    /// Name of the discovery subsystem in addition to the well-known one.
    pub fn discovery_nqn(&self) -> Option<&Nqn> {
        self.discovery_nqn.as_ref()
    }

    /// Announces a server that is reached at `urls` and listens at `listen`, if that is wanted.
    pub fn start(
        &self,
        urls: &[String],
        listen: &[String],
    ) -> Result<Option<MdnsAnnouncement>, Failure> {
        self.mdns.then(|| MdnsAnnouncement::start(urls, listen)).transpose()
    }
}

/// Parses `--discovery-nqn`.
fn name(text: &str) -> Result<Nqn, String> {
    Nqn::new(text).map_err(|e| e.to_string())
}

/// Parses `--referral`.
fn referral(text: &str) -> Result<TransportAddress, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("{NVME_TCP}{text}") };
    let NvmeUrl { transport, address, .. } =
        NvmeUrl::parse_discovery(&url).map_err(|e| e.to_string())?;
    let (host, port) = (address.host(), address.port());
    let ip = host.parse().map_err(|_| {
        format!("\"{host}\" is not an IP address: discovery reports addresses, not names")
    })?;
    let address = SocketAddr::new(ip, port);
    Ok(match transport {
        NvmeTransport::Tcp => nvme_tcp::transport_address(address),
        NvmeTransport::Rdma => nvme_rdma::transport_address(address, RdmaProvider::NOT_SPECIFIED),
    })
}
