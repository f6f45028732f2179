//! Opens a device by its URL.
//!
//! | URL | Device |
//! |---|---|
//! | `ram:1GiB` | [`crate::ram`]: memory |
//! | `null:250GiB` | [`crate::null`]: a null device |
//! | `file:/srv/disk.img,size=1GiB`, `/dev/nvme0n1`, `./disk.img` | [`crate::file`]: a file or disk of this machine |
//! | `delay:read=80us,write=20us,depth=32,URL` | [`crate::delay`]: another device, with the service times of a slower one |
//! | `error:rate=0.01,seed=7,URL` | [`crate::fault`]: another device, with errors and silent corruption |
//! | `limit:iops=10k,bw=100MB,URL` | [`crate::limit`]: another device with a limited rate |
//! | `readonly:URL` | [`crate::read_only`]: another device, without writes |
//! | `stats:URL` | [`crate::stats`]: another device, whose operations are counted |
//! | `stripe:64KiB,URL,URL,…` | [`crate::stripe`]: several devices as one |
//!
//! A **source** is its main part followed by its options, `name=value`, each after a comma:
//! `ram:1GiB,block=4096`. A **filter** is its options followed by the URL of the inner device:
//! `error:rate=0.01,seed=7,file:/srv/disk.img,size=1GiB`. [`crate::grammar`] defines the whole
//! grammar, including lists of sources, and says what needs no quoting in a shell. Sizes and
//! durations are those of [`crate::units`].
//!
//! Options of every local source: `block=512|4096`, the block size in bytes (default 512), and
//! `uuid=…`, the UUID of the data, if the one that the source derives is not suitable (see
//! [`crate::Identity`]).
//!
//! This crate does not know network sources: the caller passes a [`Resolver`], which is called for
//! every scheme that is not local, also for the innermost URL of a filter.

use crate::delay::DelayDevice;
use crate::device::Device;
use crate::fault::FaultDevice;
use crate::file::{CreatedFiles, FileAccess, FileDevice};
use crate::limit::LimitDevice;
use crate::limits::FILTER_DEPTH;
use crate::null::Null;
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use crate::ram::Ram;
use crate::read_only::ReadOnlyDevice;
use crate::stats::StatsDevice;
use crate::stripe::StripeDevice;
use crate::time_limit::{limited, limited_with_own_memory};
use crate::url::grammar::{LISTS, is_path, scheme};
use crate::url::naming::Naming;
use crate::url::opening::Opening;
use crate::url::{grammar, naming};
use core::time::Duration;
use std::sync::Arc;

/// Begins to open URLs of other schemes; `None` for schemes that it does not know. Must not block.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Option<Opening>;

/// Options for opening.
#[derive(Clone, Copy, Default)]
pub struct OpenOptions<'a> {
    /// Opens other schemes.
    pub resolver: Option<Resolver<'a>>,
    depth: u32,
    /// Other processes serve the same local sources: these are not locked against them, and do not
    /// offer what only a lock makes atomic.
    shared: bool,
    /// List of the files that opening creates.
    created: Option<&'a CreatedFiles>,
    /// Whoever gives names to files, and to disks that have none.
    names: Option<&'a dyn Naming>,
    /// True if a `readonly:` filter precedes.
    read_only: bool,
    /// Within which a disk or file of this machine completes an operation; zero: no limit.
    time_limit: Duration,
    /// True if what has that limit is a part of a device whose users need their memory back at the
    /// limit.
    in_composite: bool,
    /// True if it is a part of a list, which uses only whole blocks of it.
    is_member: bool,
    /// The resolver gets local sources, too: they are only checked.
    is_check: bool,
}

impl<'a> OpenOptions<'a> {
    /// Options with a resolver for other schemes.
    pub fn with_resolver(resolver: Resolver<'a>) -> Self {
        Self { resolver: Some(resolver), ..Self::default() }
    }

    /// The same, for local sources that other processes serve as well, if `shared`.
    pub fn shared(self, shared: bool) -> Self {
        Self { shared, ..self }
    }

    /// The same, and files that are created are noted there.
    pub fn noting(self, created: Option<&'a CreatedFiles>) -> Self {
        Self { created, ..self }
    }

    /// The same, with names of files, and of disks that have none, by `names`. Otherwise they end
    /// with this process.
    pub fn naming(self, names: &'a dyn Naming) -> Self {
        Self { names: Some(names), ..self }
    }

    /// The same, and each disk and file of this machine has a time limit ([`crate::time_limit`]),
    /// with all filters over it: it is overdue if it does not complete an operation within that
    /// time. Memory answers at once, and network sources have limits of their own. Zero: no limit.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// The same for a part of a device that goes on without it: an overdue operation completes with
    /// its memory.
    pub fn in_composite(self, in_composite: bool) -> Self {
        Self { in_composite, ..self }
    }

    /// The same for a part of a list if `is_member`: the list uses only its whole blocks, so it may
    /// end within one.
    pub fn of_list(self, is_member: bool) -> Self {
        Self { is_member, ..self }
    }

    /// Options for the inner device of a filter.
    ///
    /// # Errors
    /// There are more than [`FILTER_DEPTH`] filters.
    fn inner(&self, url: &str) -> Result<Self, Error> {
        if self.depth == FILTER_DEPTH {
            return Err(Error::refused(url, Refusal::TooManyFilters));
        }
        Ok(Self { depth: self.depth + 1, ..*self })
    }

    /// Returns the settings for opening files and disks.
    fn access(&self) -> FileAccess<'a> {
        FileAccess {
            read_only: self.read_only,
            shared: self.shared,
            created: self.created,
            names: match self.names {
                Some(names) => names,
                None => naming::of_this_process(),
            },
        }
    }

    /// Options for a device that is not written to.
    fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }
}

/// Opens `url` and waits for it: not for threads of event loops.
///
/// # Errors
/// A [`Refusal`] for an invalid URL or option; otherwise the error of the device.
pub fn open(url: &str, options: &OpenOptions<'_>) -> Result<Device, Error> {
    begin(url, options)?.wait()
}

/// Begins to open `url`. Local devices are opened at once; the resolver's openings proceed
/// independently, so several URLs open concurrently.
///
/// # Errors
/// A [`Refusal`] for an invalid URL or option; the error of a local device.
pub fn begin(url: &str, options: &OpenOptions<'_>) -> Result<Opening, Error> {
    if options.time_limit.is_zero() || !is_one_disk(url) {
        return begin_unlimited(url, options);
    }
    let limit = options.time_limit;
    let limit_it = if options.in_composite { limited_with_own_memory } else { limited };
    let opening = begin_unlimited(url, &OpenOptions { time_limit: Duration::ZERO, ..*options })?;
    Ok(opening.and_then(move |device| Ok(limit_it(device, limit))))
}

/// Returns whether a URL is that of a disk or file of this machine, or of filters over one.
fn is_one_disk(url: &str) -> bool {
    let sources = grammar::sources(url);
    let is_listed =
        |source: &grammar::Source<'_>| source.above.iter().any(|kind| LISTS.contains(kind));
    sources.iter().all(|source| grammar::path(source.url).is_some() && !is_listed(source))
}

/// Returns whether a URL consists of what answers on this machine, so that nothing shares its
/// queues.
fn is_local(url: &str) -> bool {
    grammar::sources(url).iter().all(|source| {
        grammar::path(source.url).is_some()
            || matches!(scheme(source.url), (Some("ram" | "null"), _))
    })
}

fn begin_unlimited(url: &str, options: &OpenOptions<'_>) -> Result<Opening, Error> {
    let opening = begin_of_any_size(url, options)?;
    let may_be_odd = options.read_only || options.is_member;
    Ok(if may_be_odd { opening } else { opening.and_then(refuse_odd_size) })
}

/// Refuses a device for writing if it has only the beginning of its last block: what is written
/// behind that would be lost.
fn refuse_odd_size(device: Device) -> Result<Device, Error> {
    let geometry = device.geometry();
    if geometry.padding_bytes == 0 || !device.features().write {
        return Ok(device);
    }
    let (bytes, block_bytes) = (geometry.data_bytes(), geometry.block_bytes);
    Err(Error::refused(device.url(), Refusal::OddSize { bytes, block_bytes }))
}

fn begin_of_any_size(url: &str, options: &OpenOptions<'_>) -> Result<Opening, Error> {
    let (kind, rest) = scheme(url);
    let is_source = matches!(kind, None | Some("ram" | "null" | "file"));
    if let (true, Some(check)) = (options.is_check && is_source, options.resolver)
        && let Some(opening) = check(url)
    {
        if !options.read_only && (kind == Some("file") || kind.is_none() && is_path(url)) {
            FileDevice::check(url, rest, false)?;
        }
        return Ok(opening);
    }
    let file = || FileDevice::open(url, rest, &options.access());
    let device: Device = match kind {
        Some("ram") if options.shared => return Err(Error::refused(url, Refusal::NotShared)),
        Some("ram") => Arc::new(Ram::open(url, rest)?),
        Some("null") => Arc::new(Null::open(url, rest)?),
        Some("delay") => {
            return DelayDevice::begin(url, rest, |inner| begin(inner, &options.inner(url)?));
        }
        Some("error") => {
            return FaultDevice::begin(url, rest, |inner| begin(inner, &options.inner(url)?));
        }
        Some("limit") => {
            return LimitDevice::begin(url, rest, |inner| begin(inner, &options.inner(url)?));
        }
        Some("readonly") => {
            return ReadOnlyDevice::begin(url, rest, |inner| {
                begin(inner, &options.inner(url)?.read_only())
            });
        }
        Some("stats") => {
            return StatsDevice::begin(url, rest, |inner| begin(inner, &options.inner(url)?));
        }
        Some("stripe") => {
            let is_shared = options.in_composite || !is_local(url);
            return StripeDevice::begin(url, rest, |member| {
                begin(member, &options.inner(url)?.in_composite(is_shared).of_list(true))
            });
        }
        Some("file") => Arc::new(file()?),
        None if is_path(url) => Arc::new(file()?),
        _ => {
            return options.resolver.and_then(|resolver| resolver(url)).ok_or_else(|| unknown(url));
        }
    };
    Ok(Opening::ready(Ok(device)))
}

/// Checks that a URL can name a local source for reading, as far as its beginning shows; or a list,
/// whose sources are not checked.
///
/// # Errors
/// A [`Refusal`] for an unknown scheme, for what is neither a URL nor a path, and for an error in a
/// list.
pub fn check(url: &str) -> Result<(), Error> {
    let (kind, rest) = scheme(url);
    match kind {
        Some("ram") => Ram::parse(url, rest).map(drop),
        Some("null") => Null::open(url, rest).map(drop),
        Some("file") => FileDevice::check(url, rest, true),
        Some(list) if LISTS.contains(&list) => grammar::list(rest, LISTS).map(drop),
        None if is_path(url) => FileDevice::check(url, url, true),
        _ => Err(unknown(url)),
    }
}

/// Checks filters and stripes and their options; nothing is opened. `check` is given what they are
/// in front of: sources and mirrors.
///
/// # Errors
/// What is wrong with the URL.
pub fn check_all(url: &str, check: &dyn Fn(&str) -> Result<(), Error>) -> Result<(), Error> {
    let resolver = |url: &str| Some(Opening::ready(check(url).and_then(|()| placeholder(url))));
    let options = OpenOptions { is_check: true, ..OpenOptions::with_resolver(&resolver) };
    begin_unlimited(url, &options)?.wait().map(drop)
}

/// A device in the place of one that is not opened: how large it and its blocks are is not known.
fn placeholder(url: &str) -> Result<Device, Error> {
    Ok(Arc::new(Null::open(url, "1TiB")?))
}

fn unknown(url: &str) -> Error {
    let refusal = match (meant(url), scheme(url)) {
        (Some(meant), _) => Refusal::LikeAnotherScheme { meant },
        (None, (Some(scheme), _)) => Refusal::UnknownScheme { scheme: scheme.into() },
        (None, (None, _)) => Refusal::NeitherUrlNorPath { text: url.into() },
    };
    // In front of an @ there may be a password.
    let shown = match url.split_once("://") {
        Some((scheme, rest)) if rest.contains('@') => format!("{scheme}://…"),
        _ => url.to_owned(),
    };
    Error::refused(&shown, refusal)
}

// Suggestions for URLs of an unknown source type.

/// Beginnings of URLs that people write, and the scheme that they mean.
const NEAR: [(&[&str], &str); 4] = [
    (
        &["nvme", "nvmf", "nvmeof", "nvmet", "nvme-tcp", "nvme_tcp", "nvme+tcp", "nvmf+tcp", "tcp"],
        "nvme+tcp",
    ),
    (&["nvme-rdma", "nvme_rdma", "nvme+rdma", "nvmf+rdma", "rdma"], "nvme+rdma"),
    (&["iscsi", "scsi"], "iscsi"),
    (&["nbd"], "nbd"),
];

/// The URL that a text was probably meant to be, if there is one that is not the text itself.
pub fn meant(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once(':')?;
    let scheme = scheme.to_ascii_lowercase();
    let (_, meant) = NEAR.iter().find(|(near, _)| near.contains(&scheme.as_str()))?;
    let rest = rest.trim_start_matches('/');
    // In front of an @ there may be a password.
    let rest = if rest.is_empty() || rest.contains('@') { "…" } else { rest };
    let meant = format!("{meant}://{rest}");
    (meant != text).then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn refusal(url: &str) -> Refusal {
        let error = open(url, &OpenOptions::default()).err().expect("it is wrong");
        assert!(error.to_string().starts_with(url), "{error}");
        error.refusal().cloned().expect("a refusal of this crate")
    }

    #[test]
    fn local_sources_open() {
        let ram = open("ram:1MiB,block=4096", &OpenOptions::default()).unwrap();
        assert_eq!(
            (ram.geometry().blocks, ram.geometry().block_bytes, ram.url()),
            (256, 4096, "ram:1MiB,block=4096")
        );
        assert!(ram.identity().uuid.is_some());
        let null = open("null:250GiB", &OpenOptions::default()).unwrap();
        assert_eq!(null.geometry().bytes(), 250 << 30);
        let named = open(
            "ram:1MiB,uuid=6ba7b810-9dad-11d1-80b4-00c04fd430c8,volatile=on",
            &OpenOptions::default(),
        )
        .unwrap();
        assert_eq!(
            named.identity().uuid.unwrap().to_string(),
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
        );
    }

    #[test]
    fn mistakes_are_told_with_a_way_out() {
        assert_eq!(refusal("tape:0"), Refusal::UnknownScheme { scheme: "tape".into() });
        let said =
            open("nvme://me:hidden@h/disk", &OpenOptions::default()).err().unwrap().to_string();
        assert_eq!(said, "nvme://…: this is not the URL of a source; did you mean nvme+tcp://…?");
        assert_eq!(refusal("disk.img"), Refusal::NeitherUrlNorPath { text: "disk.img".into() });
        assert_eq!(refusal("ram:1000"), Refusal::NotWholeBlocks { bytes: 1000, block_bytes: 512 });
        assert_eq!(refusal("ram:0"), Refusal::NotWholeBlocks { bytes: 0, block_bytes: 512 });
        assert!(matches!(refusal("ram:"), Refusal::NotASize(_)));
        assert!(
            matches!(refusal("ram:1MiB,colour=red"), Refusal::UnknownOption { name, .. } if name == "colour")
        );
        let named = refusal("ram:1MiB,uuid=6ba7b810-9dad-11d1-80b4-00c04fd430c8");
        assert!(
            matches!(named, Refusal::OptionValue { name: "uuid", .. }),
            "it would come back empty under the same name"
        );
        assert!(matches!(refusal("null:1GiB,uuid=1"), Refusal::OptionValue { name: "uuid", .. }));
        assert_eq!(refusal("ram:8000PiB").kind(), ErrorKind::NoResources);
    }

    #[test]
    fn the_kind_of_an_error_survives_all_filters_and_lists() {
        for kind in ErrorKind::ALL {
            let resolver = |url: &str| {
                let fails = || Opening::ready(Err(Error::new(kind, "it is away")));
                url.starts_with("other:").then(fails)
            };
            let options = OpenOptions::with_resolver(&resolver).time_limit(Duration::from_secs(1));
            for url in [
                "other:a",
                "delay:read=1us,other:a",
                "error:rate=0.01,other:a",
                "limit:iops=1k,other:a",
                "readonly:other:a",
                "stats:other:a",
                "stripe:other:a,other:b",
                "stripe:ram:1MiB,other:a",
                "readonly:stripe:ram:1MiB,stats:other:a",
            ] {
                assert_eq!(open(url, &options).err().map(|e| e.kind()), Some(kind), "{url}");
            }
        }
    }

    #[test]
    fn other_schemes_go_to_the_resolver() {
        let resolver = |url: &str| {
            let other = url.starts_with("other:");
            other.then(|| Opening::ready(open("null:1MiB", &OpenOptions::default())))
        };
        let options = OpenOptions::with_resolver(&resolver);
        assert_eq!(open("other:thing", &options).unwrap().geometry().blocks, 2048);
        assert!(open("another:thing", &options).is_err());
    }

    #[test]
    fn near_schemes_mean_the_right_one() {
        for (text, url) in [
            ("nvme://h/nqn.x", "nvme+tcp://h/nqn.x"),
            ("nvme-tcp://h:4420", "nvme+tcp://h:4420"),
            ("nvme+tcp:/h/nqn.x/1", "nvme+tcp://h/nqn.x/1"),
            ("NVMe+TCP://h", "nvme+tcp://h"),
            ("nvme-rdma://h", "nvme+rdma://h"),
            ("iscsi:h/iqn.x/0", "iscsi://h/iqn.x/0"),
            ("nvme://me:hidden@h/x", "nvme+tcp://…"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(url), "{text}");
        }
        for text in ["nvme+tcp://h", "tape:0", "disk.img", "ram:1MiB"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }
}
