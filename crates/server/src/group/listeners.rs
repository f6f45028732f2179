//! Addresses at which others reach a gateway: the group reports them to hosts.

use crate::config::check::listen_place;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use weft_block::{Error, ErrorKind};
use weft_endpoint::url::{ISCSI, ISCSI_PORT, IscsiUrl, NVME_SCHEMES, NvmeUrl};
use weft_group::RecordError;
use weft_group::limits::LISTENERS_MAX;

fn usage(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, text)
}

/// The URLs at which others reach what listens at `listen`. Where that names all addresses of the
/// machine, hosts use those of `advertise`.
pub fn advertised(listen: &[String], advertise: &[IpAddr]) -> Result<Vec<String>, Error> {
    let each = listen.iter().map(|url| of_url(url, advertise)).collect::<Result<Vec<_>, _>>()?;
    let listeners = each.concat();
    if listeners.len() > LISTENERS_MAX {
        return Err(usage(RecordError::Listeners.to_string()));
    }
    Ok(listeners)
}

fn of_url(url: &str, advertise: &[IpAddr]) -> Result<Vec<String>, Error> {
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
    if url.starts_with(ISCSI) && advertise.len() > 1 {
        return Err(usage(format!(
            "{url}: SendTargets reports one address for each iSCSI port: give one --advertise, or each address a --listen of its own"
        )));
    }
    let all = if advertise.is_empty() { vec![outward(at)?] } else { advertise.to_vec() };
    Ok(all.into_iter().map(|ip| format!("{scheme}://{}", SocketAddr::new(ip, at.port()))).collect())
}

/// Where a URL has this server listen, with the port that it means and the address that a name
/// stands for. `None`: nowhere in the network.
fn place(url: &str) -> Result<Option<SocketAddr>, Error> {
    let address = if NVME_SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        NvmeUrl::parse(url)?.address
    } else if url.starts_with(ISCSI) {
        IscsiUrl::parse(url, ISCSI_PORT)?.address
    } else {
        return Ok(listen_place(url));
    };
    Ok(Some(address.resolve_first()?))
}

/// The address from which this machine reaches others. Nothing is sent.
fn outward(like: SocketAddr) -> Result<IpAddr, Error> {
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

    #[test]
    fn others_are_told_addresses_that_they_can_use() {
        let two = ["192.0.2.7", "192.0.2.8"].map(|ip| ip.parse().unwrap());
        let advertised =
            |url: &str, count: usize| advertised(&[url.to_owned()], &two[..count]).ok();
        let is = |url: &str, told: &str| advertised(url, 1).unwrap() == [told.to_owned()];
        assert!(is("nvme+tcp://0.0.0.0:4420", "nvme+tcp://192.0.2.7:4420"));
        assert!(is("iscsi://192.0.2.1:3260", "iscsi://192.0.2.1:3260"));
        assert!(is("nvme+rdma://192.0.2.1", "nvme+rdma://192.0.2.1:4420"));
        assert!(is("iscsi://[2001:db8::1]", "iscsi://[2001:db8::1]:3260"));
        assert_eq!(advertised("nvme+tcp://0.0.0.0", 2).unwrap().len(), 2);
        assert!(
            advertised("iscsi://0.0.0.0", 2).is_none(),
            "its portal group would be another one than it says itself"
        );
        assert!(advertised("nvme+tcp://192.0.2.1:0", 1).is_none());
        assert!(advertised("nbd+unix:///?socket=/run/x", 1).unwrap().is_empty());
    }
}
