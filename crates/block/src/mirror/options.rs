//! Options for opening a mirror.

use super::layout::HotLimit;
use crate::outcome::error::{Error, ErrorKind};
use crate::url::grammar::{LISTS, list, scheme};
use crate::url::opening::Opening;
use crate::url::parts::UrlParts;
use core::time::Duration;
use uuid::Uuid;

/// Opens a source again, as often as necessary, as the opener of this name.
pub type Opener = Box<dyn Fn(Uuid) -> Result<Opening, Error> + Send>;

/// A leg.
pub struct LegSource {
    /// Its URL, without secrets.
    pub url: String,
    /// Opens it. What it opens must end when its connection is lost, instead of waiting: the mirror
    /// goes on without it, and opens it again.
    pub open: Opener,
    /// It is behind a connection: opening it again may settle what was sent by one that was lost,
    /// so it is opened before that is settled.
    pub is_remote: bool,
}

/// See [`super::begin`].
pub struct MirrorOptions {
    /// The URL of the mirror.
    pub url: String,
    /// All legs, in any order.
    pub legs: Vec<LegSource>,
    /// The state file.
    pub state: Option<LegSource>,
    /// Starts from what is here, and takes the mirror from another opener.
    pub force: bool,
    /// Time after an unclean end for which legs may still execute commands of the previous process,
    /// if neither that process nor their targets state a longer one.
    pub settle: Duration,
    /// Time for which operations wait while too few legs can be reached; `None`: forever.
    pub patience: Option<Duration>,
    /// The name of this opening.
    pub opener: Uuid,
    /// The name of this host.
    pub host: String,
    /// Seconds since 1970.
    pub time: u64,
    /// Makes the tags of generations.
    pub seed: u64,
    /// Maximum amount that is marked as being written at a time.
    pub hot: HotLimit,
    /// Dropped when the mirror is closed.
    pub guard: Box<dyn Send>,
}

/// The URL of a mirror, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorUrl<'a> {
    /// Path of the state file.
    pub state: Option<&'a str>,
    /// Start from what is here.
    pub force: bool,
    /// The most bytes that are marked as being written at a time.
    pub hot: Option<u64>,
    /// The URLs of the legs.
    pub legs: Vec<&'a str>,
}

impl<'a> MirrorUrl<'a> {
    /// The parts of `mirror:[state=PATH,][force=on,][hot=SIZE,]URL,URL[,URL]`; `None` if this is
    /// not the URL of a mirror.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &'a str) -> Result<Option<Self>, Error> {
        let (Some("mirror"), rest) = scheme(url) else { return Ok(None) };
        let list = list(rest, LISTS)?;
        let (main, mut spec) = UrlParts::list(url, list.head);
        if !main.is_empty() {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{url}: \"{main}\" is neither an option nor a leg; use state=PATH, force=on or hot=SIZE"
                ),
            ));
        }
        let state = spec.text("state")?;
        let force = spec.switch("force")?.unwrap_or(false);
        let hot = spec.size("hot")?;
        if hot == Some(0) {
            let text = format!(
                "{url}: hot=0: a mirror marks at least one region; leave it out or use hot=64GiB"
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        spec.finish()?;
        Ok(Some(Self { state, force, hot, legs: list.sources }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_url() {
        let parse = |url| {
            MirrorUrl::parse(url).map(|parsed| {
                parsed.map(|url: MirrorUrl<'_>| (url.state, url.force, url.hot, url.legs))
            })
        };
        assert_eq!(parse("ram:1MiB").unwrap(), None);
        assert_eq!(
            parse("mirror:ram:1MiB,block=512,/b").unwrap(),
            Some((None, false, None, vec!["ram:1MiB,block=512", "/b"]))
        );
        let url = "mirror:state=/var/lib/m0,force=on,hot=96GiB,nvme+tcp://h/nqn.2014-08.org.example:x/1,error:rate=1,/b";
        let legs = vec!["nvme+tcp://h/nqn.2014-08.org.example:x/1", "error:rate=1,/b"];
        assert_eq!(parse(url).unwrap(), Some((Some("/var/lib/m0"), true, Some(96 << 30), legs)));
        for wrong in [
            "mirror:",
            "mirror:64KiB,ram:1MiB,ram:1MiB",
            "mirror:speed=9,ram:1MiB,ram:1MiB",
            "mirror:force=maybe,/a,/b",
            "mirror:hot=0,/a,/b",
            "mirror:hot=much,/a,/b",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
