//! The records of discovery as places to connect to. Each record stands for itself: one that is not
//! usable is skipped, and does not hide the others.

use std::net::IpAddr;
use weft_block::{Error, ErrorKind};
use weft_connection::limits::{DISCOVERED_PATHS_MAX, REFERRALS_MAX, SKIPPED_LOGGED_MAX};
use weft_connection::url::{HostPort, ISCSI_PORT, IscsiUrl, NvmeTransport, NvmeUrl};
use weft_proto::iscsi::initiator::DiscoveredTarget;
use weft_proto::nvme::log_page::{DiscoveryEntry, SubsystemType};
use weft_proto::nvme::types::Nqn;
use weft_proto::printable::Printable;

/// What a log says of subsystems and of other logs; nothing comes twice. Returns why records were
/// skipped that are wanted and not usable: each record stands for itself.
pub(super) fn take_entries(
    entries: &[DiscoveryEntry],
    (wanted, most): (&dyn Fn(&Nqn) -> bool, usize),
    paths: &mut Vec<NvmeUrl>,
    asked: &mut Vec<(NvmeTransport, HostPort)>,
) -> Vec<String> {
    let mut skipped = Vec::new();
    for entry in entries {
        let Some(transport) = NvmeTransport::of(entry.trtype) else { continue };
        let is_referral = entry.subtype == SubsystemType::REFERRAL;
        if !is_referral && entry.subtype != SubsystemType::NVME {
            continue;
        }
        let nqn = match entry.subnqn.nqn() {
            Ok(nqn) if is_referral || wanted(&nqn) => Some(nqn),
            Ok(_) => continue,
            Err(_) if is_referral => None,
            Err(e) => {
                skipped.push(format!("the name of a subsystem at {}: {e}", entry.traddr.text()));
                continue;
            }
        };
        let address = match place(entry) {
            Ok(address) => address,
            Err(e) => {
                let name = nqn.map_or_else(|| "a referral".to_owned(), |nqn| nqn.to_string());
                skipped.push(format!("the address of {name}: {e}"));
                continue;
            }
        };
        if is_referral {
            let controller = (transport, address);
            if !asked.contains(&controller) && asked.len() <= REFERRALS_MAX {
                asked.push(controller);
            }
        } else {
            let path = NvmeUrl { transport, address, subsystem: nqn, nsid: None };
            if !paths.contains(&path) && paths.len() < most {
                paths.push(path);
            }
        }
    }
    skipped
}

/// Where a record says that a port is.
///
/// # Errors
/// It says no place to which a host can connect.
fn place(entry: &DiscoveryEntry) -> Result<HostPort, Error> {
    let (host, service) = (entry.traddr.text(), entry.trsvcid.text());
    let wrong =
        |_| Error::new(ErrorKind::Protocol, format!("\"{service}\" is not the number of a port"));
    let port = service.trim().parse().map_err(wrong)?;
    usable(HostPort::new(&host, port)?)
}

/// A place to which a host can connect.
fn usable(place: HostPort) -> Result<HostPort, Error> {
    let is_any = |ip: IpAddr| ip.is_unspecified();
    if place.port() == 0 || place.host().parse().is_ok_and(is_any) {
        let text = format!("\"{place}\" is where the target listens, not where it is reached");
        return Err(Error::new(ErrorKind::Protocol, text));
    }
    Ok(place)
}

/// Logs why records were skipped of what `of` told: the first ones, and the number of the others.
pub(super) fn warn_of(skipped: &[String], of: &HostPort) {
    for why in skipped.iter().take(SKIPPED_LOGGED_MAX) {
        tracing::warn!("{of}: a record of discovery is skipped: {why}");
    }
    if let Some(more) = skipped.len().checked_sub(SKIPPED_LOGGED_MAX).filter(|&more| more > 0) {
        tracing::warn!("{of}: {more} more records of discovery are skipped");
    }
}

/// The portals of the target of a URL; where it tells none that is usable, it is where it was
/// asked. Also why portals were skipped.
pub(super) fn portals(
    targets: &[DiscoveredTarget],
    url: &IscsiUrl,
) -> (Vec<IscsiUrl>, Vec<String>) {
    let (mut paths, mut skipped) = (Vec::new(), Vec::new());
    let is_meant = |target: &&DiscoveredTarget| {
        url.target.as_ref().is_some_and(|name| name.to_string() == target.name)
    };
    for target in targets.iter().filter(is_meant) {
        let mut addresses = Vec::new();
        for told in &target.addresses {
            match portal(told) {
                Ok(address) => addresses.push(address),
                Err(e) => skipped.push(format!("the address of {}: {e}", Printable(&target.name))),
            }
        }
        if addresses.is_empty() {
            addresses.push(url.address.clone());
        }
        for address in addresses {
            let path = IscsiUrl { address, ..url.clone() };
            if !paths.contains(&path) && paths.len() < DISCOVERED_PATHS_MAX {
                paths.push(path);
            }
        }
    }
    (paths, skipped)
}

/// Where a TargetAddress says that a portal is.
///
/// # Errors
/// It says no place to which a host can connect.
fn portal(told: &str) -> Result<HostPort, Error> {
    // The portal group tag behind the comma is the target's own affair.
    let place = told.rsplit_once(',').map_or(told, |(place, _)| place);
    HostPort::parse(place, ISCSI_PORT)
        .and_then(usable)
        .map_err(|e| Error::new(ErrorKind::Protocol, Printable(&e.to_string()).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_connection::limits::DISCOVERED_URLS_MAX;
    use weft_proto::nvme::wire::{Ascii, NqnField};

    const NQN: &str = "nqn.2026-01.example.weft:disk";

    fn entry(subtype: SubsystemType, nqn: &str, host: &str, port: &str) -> DiscoveryEntry {
        DiscoveryEntry {
            trtype: weft_proto::nvme::log_page::TransportType::TCP,
            subtype,
            trsvcid: Ascii::new(port),
            traddr: Ascii::new(host),
            subnqn: NqnField::from(&Nqn::new(nqn).unwrap()),
            ..DiscoveryEntry::default()
        }
    }

    #[test]
    fn each_address_of_a_subsystem_is_told_once() {
        let entries = [
            entry(SubsystemType::CURRENT_DISCOVERY, Nqn::DISCOVERY, "10.0.0.1", "8009"),
            entry(SubsystemType::NVME, NQN, "10.0.0.1", "4420"),
            entry(SubsystemType::NVME, NQN, "10.0.0.1", "4420"),
            entry(SubsystemType::NVME, NQN, "fd00::2", "4421"),
            entry(SubsystemType::NVME, "nqn.2026-01.example.weft:other", "10.0.0.3", "4420"),
            entry(SubsystemType::NVME, NQN, "10.0.0.4", "none"),
            DiscoveryEntry {
                trtype: weft_proto::nvme::log_page::TransportType::RDMA,
                ..entry(SubsystemType::NVME, NQN, "10.0.0.5", "4420")
            },
            entry(SubsystemType::REFERRAL, Nqn::DISCOVERY, "10.0.0.9", "8009"),
            entry(SubsystemType::REFERRAL, Nqn::DISCOVERY, "10.0.0.1", "8009"),
        ];
        let (mut paths, mut asked) =
            (Vec::new(), vec![(NvmeTransport::Tcp, HostPort::new("10.0.0.1", 8009).unwrap())]);
        let skipped =
            take_entries(&entries, (&|_| true, DISCOVERED_URLS_MAX), &mut paths, &mut asked);
        assert_eq!(skipped.len(), 1, "{skipped:?}");
        let mut of_one = Vec::new();
        let wanted = |nqn: &Nqn| nqn.as_str() == NQN;
        take_entries(&entries, (&wanted, 2), &mut of_one, &mut asked);
        assert_eq!(of_one, paths[..2], "of one subsystem, and no more than asked for");
        let urls: Vec<_> = paths.iter().map(ToString::to_string).collect();
        let expected = [
            ("nvme+tcp://10.0.0.1:4420", NQN),
            ("nvme+tcp://[fd00::2]:4421", NQN),
            ("nvme+tcp://10.0.0.3:4420", "nqn.2026-01.example.weft:other"),
            ("nvme+rdma://10.0.0.5:4420", NQN),
        ];
        assert_eq!(urls, expected.map(|(at, nqn)| format!("{at}/{nqn}")));
        assert_eq!(asked[1..], [(NvmeTransport::Tcp, HostPort::new("10.0.0.9", 8009).unwrap())]);
        for nth in 0..100 {
            let other =
                entry(SubsystemType::REFERRAL, Nqn::DISCOVERY, &format!("10.0.1.{nth}"), "8009");
            take_entries(&[other], (&|_| true, DISCOVERED_URLS_MAX), &mut paths, &mut asked);
        }
        assert_eq!(asked.len(), 1 + REFERRALS_MAX, "referrals end");
    }

    /// Records that real targets and their administrators make: none hides those beside it.
    #[test]
    fn each_record_stands_for_itself() {
        let odd = [
            ("", "4420"),
            ("see console", "4420"),
            ("192.0.2.1,192.0.2.2", "4420"),
            ("[::1]", "4420"),
            ("\u{ff}\u{fe}\u{1}", "4420"),
            ("192.0.2.1:4420", "4420"),
            ("0.0.0.0", "4420"),
            ("::", "4420"),
            ("192.0.2.1", ""),
            ("192.0.2.1", "0"),
            ("192.0.2.1", "70000"),
            ("192.0.2.1", "nvme"),
        ];
        let good = entry(SubsystemType::NVME, NQN, "10.0.0.1", "4420");
        let unnamed = DiscoveryEntry { subnqn: NqnField([0; 256]), ..good.clone() };
        for kind in [SubsystemType::NVME, SubsystemType::REFERRAL] {
            let mut entries = vec![unnamed.clone()];
            entries.extend(odd.map(|(host, port)| entry(kind, NQN, host, port)));
            entries.push(good.clone());
            let (mut paths, mut asked) = (Vec::new(), Vec::new());
            let all = |_: &Nqn| true;
            let skipped = take_entries(&entries, (&all, 64), &mut paths, &mut asked);
            assert_eq!(skipped.len(), odd.len() + 1, "{skipped:?}");
            let urls: Vec<String> = paths.iter().map(ToString::to_string).collect();
            assert_eq!((urls, asked.len()), (vec![format!("nvme+tcp://10.0.0.1:4420/{NQN}")], 0));
            // All that can be told is a URL that can be parsed.
            assert!(paths.iter().all(|path| NvmeUrl::parse(&path.to_string()).unwrap() == *path));
        }
        let other = |nqn: &Nqn| nqn.as_str() != NQN;
        let odd = odd.map(|(host, port)| entry(SubsystemType::NVME, NQN, host, port));
        let skipped = take_entries(&odd, (&other, 64), &mut Vec::new(), &mut Vec::new());
        assert!(skipped.is_empty(), "of other subsystems nothing is said: {skipped:?}");
    }

    #[test]
    fn each_portal_of_the_target_is_a_path_once() {
        let url = IscsiUrl::parse("iscsi://10.0.0.1/iqn.2026-01.example.weft:disk/3", ISCSI_PORT)
            .unwrap();
        let target = |name: &str, addresses: &[&str]| DiscoveredTarget {
            name: name.into(),
            addresses: addresses.iter().map(|&address| address.to_owned()).collect(),
        };
        let name = "iqn.2026-01.example.weft:disk";
        let found = [
            target("iqn.2026-01.example.weft:other", &["10.0.0.7:3260,1"]),
            target(name, &["10.0.0.1:3260,1", "[fd00::2]:3261,2", "10.0.0.1:3260,1"]),
        ];
        let (paths, skipped) = portals(&found, &url);
        assert_eq!(skipped, [] as [String; 0]);
        let addresses: Vec<_> =
            paths.iter().map(|path| (path.address.to_string(), path.lun)).collect();
        assert_eq!(
            addresses,
            [("10.0.0.1:3260".to_owned(), Some(3)), ("[fd00::2]:3261".to_owned(), Some(3))]
        );
        assert_eq!(portals(&[target(name, &[])], &url), (vec![url.clone()], Vec::new()));
        let odd = [
            "",
            ",1",
            "see console,1",
            "10.0.0.1,10.0.0.2,1",
            "fd00::2,1",
            "10.0.0.1:x,1",
            "0.0.0.0:3260,1",
        ];
        let all = [&odd[..], &["10.0.0.2:3260,1"]].concat();
        let (paths, skipped) = portals(&[target(name, &all)], &url);
        let addresses: Vec<_> = paths.iter().map(|path| path.address.to_string()).collect();
        assert_eq!((addresses, skipped.len()), (vec!["10.0.0.2:3260".to_owned()], odd.len()));
        assert_eq!(portals(&[target(name, &odd)], &url).0, [url]);
    }
}
