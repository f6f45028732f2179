//! From a URL to a device.
//!
//! | URL | Device |
//! |---|---|
//! | `ram:1GiB` | [`crate::ram`]: memory |
//! | `null:250GiB` | [`crate::null`]: nothing |
//! | `file:/srv/disk.img,size=1GiB`, `/dev/nvme0n1`, `./disk.img` | [`crate::file`]: a file or disk of this machine |
//! | `delay:read=80us,write=20us,depth=32,URL` | [`crate::delay`]: another device, with the service times of a slower one |
//! | `error:rate=0.01,seed=7,URL` | [`crate::fault`]: another device, with errors and silent corruption |
//! | `ro:URL` | [`crate::ro`]: another device, without writes |
//!
//! A **source** has its main part first and its options behind it, `name=value`, each after a comma: `ram:1GiB,block=4096`. A **filter** has
//! its options first and the URL that it stands on last: `error:rate=0.01,seed=7,file:/srv/disk.img,size=1GiB`. [`crate::grammar`] has
//! the whole grammar, lists of sources included, and says what needs no quoting in a shell. Sizes and durations are those of
//! [`crate::units`].
//!
//! Options of every local source: `block=512|4096`, the block size in bytes (512 unless said), and `uuid=…`, which names the data
//! where what the source derives by itself does not suit (see [`crate::Identity`]).
//!
//! Network sources are not known here: whoever knows them passes a [`Resolver`], which is asked for every scheme that is not local,
//! also for the innermost URL of a filter.

use crate::delay::DelayDevice;
use crate::device::BlockDevice;
use crate::error::Error;
use crate::fault::FaultDevice;
use crate::file::FileDevice;
use crate::grammar::{is_path, scheme};
use crate::limits::FILTER_DEPTH;
use crate::null::Null;
use crate::opening::Opening;
use crate::ram::Ram;
use crate::refusal::Refusal;
use crate::ro::ReadOnlyDevice;
use std::sync::Arc;

/// An opened device.
pub type Device = Arc<dyn BlockDevice>;

/// Begins to open the URLs of schemes that are not local; `None` for those that it does not know either. Must not block.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Option<Opening>;

/// How to open.
#[derive(Clone, Copy, Default)]
pub struct OpenOptions<'a> {
    /// For other schemes.
    pub resolver: Option<Resolver<'a>>,
    depth: u32,
    /// Below a `ro:`.
    read_only: bool,
}

impl<'a> OpenOptions<'a> {
    /// With a resolver for other schemes.
    pub fn with_resolver(resolver: Resolver<'a>) -> Self {
        Self { resolver: Some(resolver), ..Self::default() }
    }

    /// For what a filter stands on.
    ///
    /// # Errors
    /// When there are more than [`FILTER_DEPTH`] filters.
    fn inner(&self, url: &str) -> Result<Self, Error> {
        if self.depth == FILTER_DEPTH {
            return Err(Error::refused(url, Refusal::TooManyFilters));
        }
        Ok(Self { depth: self.depth + 1, ..*self })
    }

    /// For a device that nobody will write to.
    fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }
}

/// Opens what `url` names, and waits for it: not for threads of event loops.
///
/// # Errors
/// A [`Refusal`] for a URL or option that is wrong; otherwise what the device says.
pub fn open(url: &str, options: &OpenOptions<'_>) -> Result<Device, Error> {
    begin(url, options)?.wait()
}

/// Begins to open what `url` names. What is local is opened at once; what the resolver opens goes on by itself, so that several
/// URLs open side by side.
///
/// # Errors
/// A [`Refusal`] for a URL or option that is wrong; what a local device says.
pub fn begin(url: &str, options: &OpenOptions<'_>) -> Result<Opening, Error> {
    let (kind, rest) = scheme(url);
    let device: Device = match kind {
        Some("ram") => Arc::new(Ram::open(url, rest)?),
        Some("null") => Arc::new(Null::open(url, rest)?),
        Some("delay") => return DelayDevice::begin(url, rest, |inner| begin(inner, &options.inner(url)?)),
        Some("error") => return FaultDevice::begin(url, rest, |inner| begin(inner, &options.inner(url)?)),
        Some("ro") => return ReadOnlyDevice::begin(url, rest, |inner| begin(inner, &options.inner(url)?.read_only())),
        Some("file") => Arc::new(FileDevice::open(url, rest, options.read_only)?),
        None if is_path(url) => Arc::new(FileDevice::open(url, rest, options.read_only)?),
        _ => return options.resolver.and_then(|resolver| resolver(url)).ok_or_else(|| unknown(url)),
    };
    Ok(Opening::ready(Ok(device)))
}

fn unknown(url: &str) -> Error {
    let refusal = match scheme(url) {
        (Some(scheme), _) => Refusal::UnknownScheme { scheme: scheme.into() },
        (None, _) => Refusal::NeitherUrlNorPath { text: url.into() },
    };
    Error::refused(url, refusal)
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
        assert_eq!((ram.geometry().blocks, ram.geometry().block_bytes, ram.url()), (256, 4096, "ram:1MiB,block=4096"));
        assert!(ram.identity().uuid.is_some());
        let null = open("null:250GiB", &OpenOptions::default()).unwrap();
        assert_eq!(null.geometry().bytes(), 250 << 30);
        let named = open("ram:1MiB,uuid=6ba7b810-9dad-11d1-80b4-00c04fd430c8", &OpenOptions::default()).unwrap();
        assert_eq!(named.identity().uuid.unwrap().to_string(), "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
    }

    #[test]
    fn mistakes_are_told_with_a_way_out() {
        assert_eq!(refusal("tape:0"), Refusal::UnknownScheme { scheme: "tape".into() });
        assert_eq!(refusal("disk.img"), Refusal::NeitherUrlNorPath { text: "disk.img".into() });
        assert_eq!(refusal("ram:1000"), Refusal::NotWholeBlocks { bytes: 1000, block_bytes: 512 });
        assert_eq!(refusal("ram:0"), Refusal::NotWholeBlocks { bytes: 0, block_bytes: 512 });
        assert!(matches!(refusal("ram:"), Refusal::NotASize(_)));
        assert!(matches!(refusal("ram:1MiB,colour=red"), Refusal::UnknownOption { name, .. } if name == "colour"));
        assert!(matches!(refusal("null:1GiB,uuid=1"), Refusal::OptionValue { name: "uuid", .. }));
        assert_eq!(refusal("ram:8000PiB").kind(), ErrorKind::NoResources);
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
}
