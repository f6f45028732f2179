//! How hosts learn of a server: referrals of its discovery log, and its announcement in the local network.

use crate::exit::Failure;
use crate::mdns::Announcement;
use clap::Args;
use std::net::SocketAddr;
use weft_endpoint::inventory::LiveInventory;
use weft_endpoint::url::{HostPort, NVME_TCP, NVME_TCP_DISCOVERY_PORT, NvmeTcpUrl};
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme_tcp::transport_address;

/// Options of discovery.
#[derive(Args, Clone, Debug, Default)]
pub struct AnnounceArgs {
    /// Announce the discovery controllers of the NVMe/TCP addresses in the local network (mDNS)
    #[arg(long)]
    mdns: bool,
    /// Another discovery controller of which discovery tells hosts; may be repeated
    #[arg(long, value_name = "nvme+tcp://ADDR:PORT", value_parser = referral)]
    referral: Vec<TransportAddress>,
}

impl AnnounceArgs {
    /// Adds the referrals to what exports of the inventory will tell.
    pub fn refer(&self, inventory: &LiveInventory) {
        inventory.set_referrals(&self.referral);
    }

    /// Announces a server that is reached at `urls` and listens at `listen`, if that is wanted.
    pub fn start(&self, urls: &[String], listen: &[String]) -> Result<Option<Announcement>, Failure> {
        self.mdns.then(|| Announcement::start(urls, listen)).transpose()
    }
}

/// Parses `--referral`.
fn referral(text: &str) -> Result<TransportAddress, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("{NVME_TCP}{text}") };
    let HostPort { host, port } = NvmeTcpUrl::parse(&url, NVME_TCP_DISCOVERY_PORT).map_err(|e| e.to_string())?.address;
    let ip = host.parse().map_err(|_| format!("\"{host}\" is not an IP address: hosts are told addresses, not names"))?;
    Ok(transport_address(SocketAddr::new(ip, port)))
}
