//! `fuse:DIRECTORY[?nsid=NSID][&nqn=NQN][&io-uring=on|off]`: the place of the file, its namespace,
//! and how requests come.

use std::path::{Path, PathBuf};
use weft_block::{Error, ErrorKind};
use weft_connection::url::FUSE;
use weft_proto::nvme::types::{Nqn, Nsid};

/// A URL, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FuseUrl {
    /// The directory in which the file appears; an absolute path.
    pub directory: PathBuf,
    /// The namespace; `None`: the first one.
    pub nsid: Option<Nsid>,
    /// The subsystem; `None`: the first one.
    pub nqn: Option<Nqn>,
    /// Requests come by io_uring, or not; `None`: they do if the kernel offers it.
    pub io_uring: Option<bool>,
}

impl FuseUrl {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| {
            let text = format!(
                "\"{text}\" is not an address for a file of this system: {why}; write fuse:/DIRECTORY or fuse:/DIRECTORY?nsid=NSID"
            );
            Error::new(ErrorKind::Usage, text)
        };
        let rest = text.strip_prefix(FUSE).ok_or_else(|| bad("it does not start with fuse:"))?;
        let (directory, query) = rest.split_once('?').unwrap_or((rest, ""));
        let directory = PathBuf::from(directory);
        if !directory.is_absolute() || directory == Path::new("/") {
            return Err(bad("its directory is not an absolute path below /"));
        }
        let mut url = Self { directory, nsid: None, nqn: None, io_uring: None };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("nsid", digits)) => {
                    let nsid = Nsid::parse(digits);
                    url.nsid =
                        Some(nsid.ok_or_else(|| bad("its namespace has no such identifier"))?);
                }
                Some(("nqn", name)) => {
                    let nqn = Nqn::new(name).map_err(|e| bad(&format!("its NQN is wrong: {e}")));
                    url.nqn = Some(nqn?);
                }
                Some(("io-uring", "on")) => url.io_uring = Some(true),
                Some(("io-uring", "off")) => url.io_uring = Some(false),
                Some(("io-uring", _)) => return Err(bad("io-uring is on or off")),
                _ => return Err(bad("it has an unknown option")),
            }
        }
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_chosen() {
        let url = |text| FuseUrl::parse(text).unwrap();
        let any = FuseUrl { directory: "/mnt/a".into(), nsid: None, nqn: None, io_uring: None };
        let off = FuseUrl { io_uring: Some(false), ..any.clone() };
        assert_eq!(url("fuse:/mnt/a?io-uring=off"), off);
        assert_eq!(url("fuse:/mnt/a"), any);
        assert_eq!(url("fuse:/mnt/a?nsid=3"), FuseUrl { nsid: Some(Nsid(3)), ..any.clone() });
        let nqn = Some(Nqn::new("nqn.2026-01.example:a").unwrap());
        let all = FuseUrl { nsid: Some(Nsid(1)), nqn, ..any };
        assert_eq!(url("fuse:/mnt/a?nsid=1&nqn=nqn.2026-01.example:a"), all);
    }

    #[test]
    fn errors_name_the_url() {
        for text in [
            "fuse:",
            "fuse:a",
            "fuse:/",
            "fuse:/a?nsid=0",
            "fuse:/a?nsid=x",
            "fuse:/a?nqn=",
            "fuse:/a?x",
            "fuse:/a?io-uring=yes",
        ] {
            let error = FuseUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
