//! Addresses of a server that others can use without authentication.

use super::Desired;
use std::net::IpAddr;
use weft_endpoint::url::HostPort;

/// The URLs to listen at that others than this machine may reach, and where hosts need not prove
/// who they are.
pub fn open_addresses(desired: &Desired) -> Vec<&str> {
    let is_open = |url: &&str| is_far(url) && !proves(desired, url);
    desired.listen.iter().map(String::as_str).filter(is_open).collect()
}

/// Whether others than this machine may reach a URL to listen at.
fn is_far(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    if scheme == "nbd+unix" {
        return false;
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let Ok(place) = HostPort::parse(authority, 0) else { return true };
    place.host() != "localhost" && !place.host().parse().is_ok_and(is_loopback)
}

/// Returns whether an address is of this machine alone.
pub fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Whether hosts have to prove there who they are.
fn proves(desired: &Desired, url: &str) -> bool {
    match url.split("://").next().unwrap_or_default() {
        "iscsi" => !desired.iscsi.chap.is_empty(),
        "nbds" => desired.tls.ca.is_some(),
        "nbd" => false,
        "nvme+tcp" if desired.tls.psk.is_some() => true,
        _ => desired.subsystems.iter().all(|subsystem| subsystem.authentication.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::desired::DesiredSubsystem;
    use crate::config::{NoSourceOptions, read};
    use std::path::Path;
    use weft_endpoint::TlsPsk;
    use weft_endpoint::inventory::Authentication;
    use weft_proto::iscsi::chap::Credentials;
    use weft_proto::iscsi::target::ChapUser;
    use weft_proto::nvme::auth::{DhchapSecret, InterchangeKey, PskKeys};

    fn desired(listen: &str, more: &str) -> Desired {
        let text = format!(
            "listen = [\"{listen}\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example.weft:one\"\n{more}\n\
             [[subsystem.namespace]]\nnsid = 1\nsource = \"null:1MiB\"\n"
        );
        read(&text, "test", (Path::new(""), &NoSourceOptions)).unwrap()
    }

    #[test]
    fn each_protocol_has_its_proof() {
        let secret = || DhchapSecret::of_key(&[7; 32], None).unwrap();
        let user = || ChapUser {
            credentials: Credentials { name: "user".into(), secret: "0123456789abcdef".into() },
            initiators: Vec::new(),
        };
        // What protects which of the ports.
        let all = "nvme+tcp://0.0.0.0:4420\", \"nvme+rdma://0.0.0.0:4420\", \"iscsi://0.0.0.0:3260\", \"nbd://0.0.0.0:10809";
        let open = |change: &dyn Fn(&mut Desired)| {
            let mut desired = desired(all, "");
            change(&mut desired);
            let open = open_addresses(&desired);
            ["nvme+tcp:", "nvme+rdma:", "iscsi:", "nbd:"]
                .map(|scheme| open.iter().any(|url| url.starts_with(scheme)))
        };
        assert_eq!(open(&|_| ()), [true; 4]);
        assert_eq!(open(&|it| it.iscsi.chap.push(user())), [true, true, false, true]);
        let demanded = || Authentication { others: vec![secret()], ..Authentication::default() };
        assert_eq!(
            open(&|it| it.subsystems[0].authentication = Some(demanded())),
            [false, false, true, true]
        );
        // TLS is for TCP; without OpenSSL there is none.
        if let Ok(psk) =
            TlsPsk::new(PskKeys::of_key(InterchangeKey::of_key(&[7; 32], None).unwrap()))
        {
            assert_eq!(open(&|it| it.tls.psk = Some(psk.clone())), [false, true, true, true]);
        }
        // One subsystem that demands nothing is enough.
        let two = |it: &mut Desired| {
            it.subsystems[0].authentication = Some(demanded());
            it.subsystems
                .push(DesiredSubsystem { authentication: None, ..it.subsystems[0].clone() });
        };
        assert_eq!(open(&two), [true; 4]);
        let mut nbds = desired("127.0.0.1:4420", "");
        nbds.listen = vec!["nbds://0.0.0.0:10809".into()];
        assert_eq!(open_addresses(&nbds), ["nbds://0.0.0.0:10809"]);
        nbds.tls.ca = Some("ca.pem".into());
        assert!(open_addresses(&nbds).is_empty());
    }

    #[test]
    fn a_name_that_begins_like_this_machine_s_is_another() {
        assert!(
            is_far("nbd://localhost.example:10809")
                && !is_far("nbd://localhost:10809")
                && !is_far("nbd+unix:///?socket=/run/x")
        );
        assert!(
            is_far("nvme+tcp://host.example:4420")
                && !is_far("nvme+tcp://127.0.0.2:4420")
                && is_far("nvme+tcp://[::]:4420")
        );
        for url in
            ["nvme+tcp://127.0.0.1", "iscsi://[::1]", "nbd://localhost", "nbd://127.0.0.1/disk"]
        {
            assert!(!is_far(url), "{url}");
        }
        for url in ["nvme+tcp://0.0.0.0", "iscsi://[::]", "nbd://192.0.2.1", "nvme+rdma://h"] {
            assert!(is_far(url), "{url}");
        }
    }
}
