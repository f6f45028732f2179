//! The other processes that serve the same subsystems, and their addresses, which discovery reports
//! in addition to those of this process.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use weft_connection::limits::OTHER_PORTS_MAX;
use weft_connection::url::{
    HostPort, ISCSI, ISCSI_PORT, IscsiUrl, NVME_SCHEMES, NvmeTransport, NvmeUrl,
};

/// Another process that serves the same subsystems, as [`super::ControllerRange::sharing`] has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherGateway {
    /// The first controller identifier of its range ([`super::ControllerRange::cntlids`]), with
    /// which the numbers of its ports begin.
    pub first_cntlid: u16,
    /// The URL of each of its listeners, in the order in which it opened them, with an address of
    /// the network where it listens at a name or at all addresses. Discovery does not report other
    /// URLs.
    pub urls: Vec<String>,
}

/// Ports of the others in discovery: at most [`OTHER_PORTS_MAX`].
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OtherPorts {
    given: Vec<OtherGateway>,
    nvme: Vec<(u16, NvmeTransport, SocketAddr)>,
    iscsi: Arc<[(String, u16)]>,
    iscsi_far: Arc<[(String, u16)]>,
}

impl OtherPorts {
    pub(super) fn new(given: &[OtherGateway]) -> Self {
        let (mut nvme, mut iscsi) = (Vec::new(), Vec::new());
        for gateway in given {
            let of = |schemes: &[&str]| {
                let is_one = |url: &&String| schemes.iter().any(|scheme| url.starts_with(scheme));
                let numbered = gateway.urls.iter().filter(is_one).enumerate();
                numbered
                    .map(|(index, url)| (port_number(gateway.first_cntlid, index), url.clone()))
                    .collect::<Vec<_>>()
            };
            nvme.extend(of(&NVME_SCHEMES).iter().filter_map(|(number, url)| {
                let NvmeUrl { transport, address, .. } = NvmeUrl::parse(url).ok()?;
                Some((*number, transport, place(&address)?))
            }));
            iscsi.extend(of(&[ISCSI]).iter().filter_map(|(number, url)| {
                let address = IscsiUrl::parse(url, ISCSI_PORT).ok()?.address;
                Some((*number, place(&address)?))
            }));
        }
        nvme.truncate(OTHER_PORTS_MAX);
        iscsi.truncate(OTHER_PORTS_MAX);
        let portal = |(number, at): &(u16, SocketAddr)| (at.to_string(), *number);
        let far = iscsi.iter().filter(|(_, at)| !at.ip().is_loopback());
        Self {
            given: given.to_vec(),
            nvme,
            iscsi_far: far.map(portal).collect(),
            iscsi: iscsi.iter().map(portal).collect(),
        }
    }

    /// The processes of which it tells.
    pub(super) fn given(&self) -> &[OtherGateway] {
        &self.given
    }

    /// The number, the transport and the address of each port of NVMe.
    pub(crate) fn nvme(&self) -> impl Iterator<Item = (u16, NvmeTransport, SocketAddr)> {
        self.nvme.iter().copied()
    }

    /// `HOST:PORT` and the number of each port of iSCSI; `near`: also of those that only hosts on
    /// this machine reach.
    pub(crate) fn iscsi(&self, near: bool) -> Arc<[(String, u16)]> {
        Arc::clone(if near { &self.iscsi } else { &self.iscsi_far })
    }
}

/// The number of a port among those of all processes that serve the same subsystems: of the process
/// whose ports begin with `first`, the one with this index.
pub(crate) fn port_number(first: u16, index: usize) -> u16 {
    let number =
        (usize::from(first).wrapping_sub(1).wrapping_add(index)) % usize::from(u16::MAX) + 1;
    number as u16
}

/// An address that means the same everywhere in the network, or on this machine.
fn place(address: &HostPort) -> Option<SocketAddr> {
    let ip: IpAddr = address.host().parse().ok()?;
    (!ip.is_unspecified() && address.port() != 0).then_some(SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(first_cntlid: u16, urls: &[&str]) -> OtherGateway {
        OtherGateway { first_cntlid, urls: urls.iter().map(|url| (*url).to_owned()).collect() }
    }

    #[test]
    fn ports_have_the_numbers_that_their_gateway_gives_them() {
        let mixed = [
            "iscsi://192.0.2.1",
            "nvme+tcp://192.0.2.1",
            "nbd://192.0.2.1",
            "nvme+rdma://[fd00::1]:9",
            "iscsi://127.0.0.1:7",
        ];
        let others =
            OtherPorts::new(&[gateway(1001, &mixed), gateway(2001, &["nvme+tcp://192.0.2.2:1"])]);
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (tcp, rdma) = (NvmeTransport::Tcp, NvmeTransport::Rdma);
        let told: Vec<_> = others.nvme().collect();
        assert_eq!(
            told,
            [
                (1001, tcp, at("192.0.2.1:4420")),
                (1002, rdma, at("[fd00::1]:9")),
                (2001, tcp, at("192.0.2.2:1"))
            ]
        );
        let all = [("192.0.2.1:3260".to_owned(), 1001), ("127.0.0.1:7".to_owned(), 1002)];
        assert_eq!((&*others.iscsi(true), &*others.iscsi(false)), (&all[..], &all[..1]));
    }

    #[test]
    fn what_is_of_no_use_to_hosts_is_left_out_and_counted() {
        let urls = [
            "nvme+tcp://0.0.0.0:1",
            "nvme+tcp://[::]:1",
            "nvme+tcp://a.name:1",
            "nvme+tcp://192.0.2.1:0",
            "nvme+tcp://",
            "x",
        ];
        let others =
            OtherPorts::new(&[gateway(1, &[&urls[..], &["nvme+tcp://192.0.2.1:1"]].concat())]);
        assert_eq!(others.nvme().map(|(number, ..)| number).collect::<Vec<_>>(), [6]);
        let many: Vec<_> = (0..=OTHER_PORTS_MAX)
            .map(|n| gateway(1, &[&format!("iscsi://192.0.2.1:{}", n + 1)]))
            .collect();
        assert_eq!(OtherPorts::new(&many).iscsi(true).len(), OTHER_PORTS_MAX);
    }

    #[test]
    fn numbers_stay_within_sixteen_bits_and_are_not_zero() {
        assert_eq!(
            [port_number(1, 0), port_number(1001, 7), port_number(65519, 63), port_number(0, 0)],
            [1, 1008, 47, 1]
        );
    }
}
