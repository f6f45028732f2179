//! From a URL to a device, whatever its scheme.

use crate::mirror;
use core::sync::atomic::AtomicBool;
use uuid::Uuid;
use weft_block::mirror::MirrorUrl;
use weft_block::waiting::{self, OngoingWait};
use weft_block::{Device, Error, ErrorKind, OpenOptions, Opening, grammar};
use weft_ceph::{RBD, RbdUrl};
use weft_connection::url::nbd::{NBD_SCHEMES, NbdUrl};
use weft_connection::url::{ISCSI, ISCSI_PORT, IscsiUrl, NVME_SCHEMES, NvmeUrl, without_secret};
use weft_initiator::paths::{self, Begin, Failover, PathOpener};
use weft_initiator::source::{ConnectOptions, iscsi, nbd, nvme, rbd};

/// The schemes of each network source, and the function that opens it.
const SOURCES: [(&[&str], Begin); 3] = [
    (&NVME_SCHEMES, nvme::begin_url),
    (&[ISCSI], iscsi::begin_url),
    (&NBD_SCHEMES, nbd::begin_url),
];

/// The function that opens this URL, if it is one of a network source.
fn opens(url: &str) -> Option<Begin> {
    let (_, begin) =
        SOURCES.iter().find(|(schemes, _)| schemes.iter().any(|scheme| url.starts_with(scheme)))?;
    Some(*begin)
}

/// Begins to open any source: `ram:`, `null:`, `file:`, `nvme+tcp://`, `nvme+rdma://`, `iscsi://`,
/// `nbd://`, `rbd:`, lists of them and filters over them. `options` are for the network sources
/// among them, which take at most the connect timeout, and which open side by side when several are
/// begun with. A network source reconnects after a loss, and uses several paths, as
/// [`ConnectOptions::paths`] says.
///
/// # Errors
/// The URL or the options are wrong, or a local source cannot be opened.
pub fn begin(url: &str, options: &ConnectOptions) -> Result<Opening, Error> {
    if !options.paths.further.is_empty() && grammar::sources(url).len() > 1 {
        let text =
            "further paths belong to one device, and this source has several; open it without them";
        return Err(Error::new(ErrorKind::Usage, format!("{url}: {text}")));
    }
    if options.read_only {
        let options = ConnectOptions { read_only: false, ..options.clone() };
        return begin(&format!("readonly:{url}"), &options);
    }
    let network = |url: &str| match mirror::begin(url, options) {
        Ok(None) => Some(begin_remote(url, options)?.unwrap_or_else(|e| Opening::ready(Err(e)))),
        Ok(opening) => opening,
        Err(e) => Some(Opening::ready(Err(e))),
    };
    let local = OpenOptions::with_resolver(&network)
        .shared(options.shared)
        .noting(options.created.as_deref())
        .naming(options.control.identities().of_disks());
    let local = local.time_limit(options.disk_timeout).in_composite(options.in_mirror);
    weft_block::begin(url, &local.of_list(options.in_mirror))
}

/// Begins to open a URL that is no local one; `None`: nor one of ours.
fn begin_remote(url: &str, options: &ConnectOptions) -> Option<Result<Opening, Error>> {
    if url.starts_with(RBD) {
        Some(rbd::begin_url(url, options))
    } else {
        Some(begin_network(url, opens(url)?, options))
    }
}

fn begin_network(url: &str, begin: Begin, options: &ConnectOptions) -> Result<Opening, Error> {
    if options.paths.is_once() && !options.paths.reserve {
        return begin(url, options);
    }
    let unbounded = options.keep_alive_ms == 0 && options.paths.failover == Failover::Safe;
    if unbounded && NVME_SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        let text = "without keep alive (--keep-alive-tmo 0) nothing bounds how long a lost controller executes writes; set a timeout, accept \
                    the risk with --failover=fast, or do not reconnect (--ctrl-loss-tmo 0)";
        return Err(Error::new(ErrorKind::Usage, text));
    }
    // Whoever reserves does it as a host of its own, so that nobody else is let through with it.
    let own =
        options.paths.reserve.then(|| Uuid::from_bytes(options.control.identities().random()));
    let options = &ConnectOptions { opener: options.opener.or(own), ..options.clone() };
    let opener = |url: &str, begin| PathOpener::new(url, options.clone(), begin);
    let mut openers = vec![opener(url, begin)];
    for further in &options.paths.further {
        let begin = opens(further).ok_or_else(|| {
            Error::new(
                ErrorKind::Usage,
                format!("\"{further}\" cannot be a path; a path is a URL of NVMe, iSCSI or NBD"),
            )
        })?;
        openers.push(opener(further, begin));
    }
    paths::begin(openers)
}

/// As [`begin`], and waits: not for threads of event loops.
pub fn open(url: &str, options: &ConnectOptions) -> Result<Device, Error> {
    let _waiting = waiting_for(url);
    begin(url, options)?.wait()
}

/// As [`open`], and gives up soon after `stop` is set: `None`.
pub fn open_unless(
    url: &str,
    options: &ConnectOptions,
    stop: &AtomicBool,
) -> Result<Option<Device>, Error> {
    let _waiting = waiting_for(url);
    begin(url, options)?.wait_unless(stop).transpose()
}

fn waiting_for(url: &str) -> OngoingWait {
    waiting::begin(|| format!("{} to be opened", without_secret(url)))
}

/// Checks that a URL can be one of a source, as far as its text shows: nothing is opened or
/// connected to.
///
/// # Errors
/// The URL is wrong.
pub fn check(url: &str) -> Result<(), Error> {
    weft_block::check_all(url, &|source| match MirrorUrl::parse(source)? {
        Some(mirror) => mirror.legs.iter().try_for_each(|leg| check(leg)),
        None => check_source(source),
    })
}

/// Returns whether a URL is that of a source which is not on this machine alone.
pub fn is_remote(source: &str) -> bool {
    source.starts_with(RBD) || opens(source).is_some()
}

fn check_source(source: &str) -> Result<(), Error> {
    let is_of = |schemes: &[&str]| schemes.iter().any(|scheme| source.starts_with(scheme));
    if is_of(&NVME_SCHEMES) {
        NvmeUrl::parse(source).map(drop)
    } else if is_of(&[ISCSI]) {
        IscsiUrl::parse(source, ISCSI_PORT).map(drop)
    } else if is_of(&NBD_SCHEMES) {
        NbdUrl::parse(source).map(drop)
    } else if source.starts_with(RBD) {
        RbdUrl::parse(source).map(drop)
    } else {
        weft_block::check(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disk;
    use weft_initiator::PathOptions;

    #[test]
    fn each_source_of_a_list_is_checked() {
        assert!(
            check("stripe:64KiB,ram:1MiB,delay:nbd://h/x,/srv/a,nvme+tcp://h/nqn.2014-08.org.example:x,rbd:a/b@c,id=d").is_ok()
        );
        for wrong in [
            "stripe:64KiB",
            "stripe:ram:1MiB,tape:0",
            "stripe:ram:1MiB,nbd://:x/",
            "stripe:ram:1MiB,rbd:a",
            "delay:stripe:ram:1MiB,stripe:ram:1MiB",
            "stripe:3,ram:1MiB,ram:1MiB",
            "stripe:ram:1MiB,limit:iops=much,ram:1MiB",
            "readonly:mirror:colour=red,nbd://h/x,nbd://h/y",
            "mirror:ram:1MiB,error:rate=2,ram:1MiB",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_device_that_is_opened_for_reading_takes_no_writes() {
        let options = ConnectOptions { read_only: true, ..ConnectOptions::default() };
        let disk = Disk::open("stripe:4KiB,ram:1MiB,ram:1MiB", &options).unwrap();
        disk.read(0, &mut [0; 512]).unwrap();
        disk.flush().unwrap();
        let zeroes = [0; 512];
        for refused in [
            disk.write(0, &zeroes),
            disk.discard(0, 1),
            disk.write_zeroes(0, 1, true),
            disk.compare_and_write(0, &zeroes, &zeroes).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
            assert!(refused.to_string().contains("without the option read-only"), "{refused}");
        }
    }

    /// The same path below two members would mix their data.
    #[test]
    fn further_paths_belong_to_one_device() {
        let further = vec!["nbd://h2/x".to_owned()];
        let paths = PathOptions { further, ..PathOptions::default() };
        let options = ConnectOptions { paths, ..ConnectOptions::default() };
        let refused = begin("stripe:ram:1MiB,nbd://h/x", &options).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Usage);
    }
}
