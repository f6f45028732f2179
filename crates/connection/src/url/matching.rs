//! Comparison of a URL that a user writes with the URL of a source that is open. The URL of an open
//! source is complete; the user may leave out what has a default, and write names differently.

use super::{HostPort, ISCSI, ISCSI_PORT, IscsiUrl, NVME_SCHEMES, NvmeUrl, nbd};
use std::net::IpAddr;
use weft_block::grammar::{self, Source};

/// Returns whether `written` means the source whose device has the URL `opened`. In `written`,
/// these may be missing: a default port, the namespace, the LUN, the name of a subsystem or target,
/// the CHAP user, and options that do not identify the source. Names may be escaped differently.
pub fn means(written: &str, opened: &str) -> bool {
    if written == opened {
        return true;
    }
    let (of_written, of_opened) = (grammar::sources(written), grammar::sources(opened));
    of_written.len() == of_opened.len()
        && without(written, &of_written) == without(opened, &of_opened)
        && of_written.iter().zip(&of_opened).all(|(written, opened)| is_same(written, opened))
}

/// What stands around the sources of a URL: its filters and lists, with their options.
fn without<'a>(url: &'a str, sources: &[Source<'a>]) -> Vec<&'a str> {
    let (mut rest, mut around) = (url, Vec::new());
    for source in sources {
        // Sources are parts of the URL, in order.
        let start = source.url.as_ptr() as usize - rest.as_ptr() as usize;
        around.push(&rest[..start]);
        rest = &rest[start + source.url.len()..];
    }
    around.push(rest);
    around
}

fn is_same(written: &Source<'_>, opened: &Source<'_>) -> bool {
    let (written, opened) = (written.url, opened.url);
    let nvme = |url: &str| NVME_SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    let is_nbd = |url: &str| nbd::NBD_SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    let main = |url| grammar::options(url).0;
    if nvme(written) && nvme(opened) {
        let [written, opened] = [written, opened].map(|url| NvmeUrl::parse(main(url)));
        return matches!((written, opened), (Ok(written), Ok(opened)) if is_same_nvme(&written, &opened));
    }
    if written.starts_with(ISCSI) && opened.starts_with(ISCSI) {
        let [written, opened] = [written, opened].map(|url| IscsiUrl::parse(main(url), ISCSI_PORT));
        return matches!((written, opened), (Ok(written), Ok(opened)) if is_same_iscsi(&written, &opened));
    }
    if is_nbd(written) && is_nbd(opened) {
        let [written, opened] = [written, opened].map(nbd::NbdUrl::parse);
        return matches!((written, opened), (Ok(written), Ok(opened)) if is_same_nbd(&written, &opened));
    }
    if let (Some(written), Some(opened)) = (grammar::path(written), grammar::path(opened)) {
        return written == opened;
    }
    written == opened
}

/// What is left out of `written` may be anything.
fn agrees<T: PartialEq>(written: Option<&T>, opened: Option<&T>) -> bool {
    written.is_none() || written == opened
}

fn is_same_nvme(written: &NvmeUrl, opened: &NvmeUrl) -> bool {
    written.transport == opened.transport
        && is_same_address(&written.address, &opened.address)
        && agrees(written.subsystem.as_ref(), opened.subsystem.as_ref())
        && agrees(written.nsid.as_ref(), opened.nsid.as_ref())
}

fn is_same_iscsi(written: &IscsiUrl, opened: &IscsiUrl) -> bool {
    is_same_address(&written.address, &opened.address)
        && agrees(written.target.as_ref(), opened.target.as_ref())
        && agrees(written.lun.as_ref(), opened.lun.as_ref())
        && agrees(written.user.as_ref(), opened.user.as_ref())
}

fn is_same_nbd(written: &nbd::NbdUrl, opened: &nbd::NbdUrl) -> bool {
    let is_same_place = match (&written.place, &opened.place) {
        (nbd::NbdPlace::Tcp(written), nbd::NbdPlace::Tcp(opened)) => {
            is_same_address(written, opened)
        }
        (written, opened) => written == opened,
    };
    is_same_place && written.tls == opened.tls && written.export == opened.export
}

/// Addresses have several forms, and case does not matter in names (RFC 4343).
fn is_same_address(written: &HostPort, opened: &HostPort) -> bool {
    let address = |of: &HostPort| of.host().parse::<IpAddr>().ok();
    let is_same_host = match (address(written), address(opened)) {
        (Some(written), Some(opened)) => written == opened,
        _ => written.host().eq_ignore_ascii_case(opened.host()),
    };
    is_same_host && written.port() == opened.port()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_default_may_be_left_out() {
        for (written, opened) in [
            ("nvme+tcp://192.0.2.10/nqn.a:d", "nvme+tcp://192.0.2.10:4420/nqn.a:d/1"),
            ("nvme+tcp://192.0.2.10/nqn.a:d/1", "nvme+tcp://192.0.2.10:4420/nqn.a:d/1"),
            ("nvme+tcp://Host.Example", "nvme+tcp://host.example:4420/nqn.a:d/1"),
            ("nvme+tcp://[::0001]/nqn.a:d", "nvme+tcp://[::1]:4420/nqn.a:d/7"),
            ("nvme+tcp://host/nqn.a%3Ad", "nvme+tcp://host:4420/nqn.a:d/1"),
            ("nvme+tcp://host/nqn.a:d,queues=2", "nvme+tcp://host:4420/nqn.a:d/1"),
            ("iscsi://host/iqn.2026-01.a:d", "iscsi://user@host:3260/iqn.2026-01.a:d/0"),
            ("nbd://host/disk", "nbd://host:10809/disk"),
            ("/srv/disk.img", "file:/srv/disk.img"),
            ("readonly:nbd://host/", "readonly:nbd://host:10809/"),
            (
                "stripe:64KiB,nbd://a/d,nvme+tcp://b/nqn.a:d",
                "stripe:64KiB,nbd://a:10809/d,nvme+tcp://b:4420/nqn.a:d/1",
            ),
        ] {
            assert!(means(written, opened), "{written} {opened}");
        }
    }

    #[test]
    fn another_source_is_not_meant() {
        for (written, opened) in [
            ("nvme+tcp://host/nqn.a:d/2", "nvme+tcp://host:4420/nqn.a:d/1"),
            ("nvme+tcp://host:4421/nqn.a:d", "nvme+tcp://host:4420/nqn.a:d/1"),
            ("nvme+rdma://host/nqn.a:d", "nvme+tcp://host:4420/nqn.a:d/1"),
            ("nvme+tcp://host/nqn.a:e", "nvme+tcp://host:4420/nqn.a:d/1"),
            ("iscsi://other@host/iqn.2026-01.a:d", "iscsi://user@host:3260/iqn.2026-01.a:d/0"),
            ("nbds://host/disk", "nbd://host:10809/disk"),
            ("nbd://host/disk", "readonly:nbd://host:10809/disk"),
            ("stripe:32KiB,nbd://a/d,nbd://b/d", "stripe:64KiB,nbd://a:10809/d,nbd://b:10809/d"),
            ("/srv/disk", "file:/srv/disk.img"),
            ("disk", "nbd://host:10809/disk"),
            ("", "ram:1MiB"),
        ] {
            assert!(!means(written, opened), "{written} {opened}");
        }
    }
}
