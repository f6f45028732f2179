//! A server that hosts cannot reach for a while, although it runs: it does not listen.

use crate::config::check::listen_place;
use crate::limits::LEAVE_S;
use crate::served::{ChangeMode, Served};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use weft_base::lock::Lock;
use weft_block::Error;

/// Pause between two looks at the connections.
const STEP: Duration = Duration::from_millis(2);

const HOW: ChangeMode = ChangeMode { force: true, dry_run: false };

/// Addresses at which the server listens again; `None`: it listens.
#[derive(Default)]
pub(super) struct Absence(Lock<Option<Vec<String>>>);

impl Absence {
    /// Keeps the server from leaving and from coming back.
    pub(super) fn hold(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.0.lock()
    }

    /// Stops listening, and closes all connections.
    pub(super) fn begin(&self, served: &Served) -> Result<(), Error> {
        let mut absent = self.hold();
        if absent.is_none() {
            let places = places(&served.state().listen, &served.exports.urls());
            served.change(HOW, |state| {
                state.listen.clear();
                Ok(())
            })?;
            *absent = Some(places);
        }
        let end = Instant::now() + Duration::from_secs(LEAVE_S);
        // A connection may have been accepted that was not yet told the last time.
        while served.exports.connections() > 0 && Instant::now() < end {
            served.exports.disconnect();
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    /// Listens again.
    pub(super) fn end(&self, served: &Served) -> Result<(), Error> {
        let mut absent = self.hold();
        if let Some(places) = &*absent {
            served.change(HOW, |state| {
                state.listen.clone_from(places);
                Ok(())
            })?;
            *absent = None;
        }
        Ok(())
    }
}

/// URLs to listen at, with the ports that were picked in the place of port 0, as the URLs for hosts
/// have them.
fn places(listen: &[String], urls: &[String]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for asked in listen {
        let picked = || {
            let (scheme, at) = (scheme(asked)?, listen_place(asked).filter(|at| at.port() == 0)?);
            let found = urls.iter().filter(|url| self::scheme(url) == Some(scheme));
            let found = found.filter_map(|url| listen_place(url));
            let mut found = found.filter(|of| at.ip().is_unspecified() || of.ip() == at.ip());
            let place = |port| {
                let mut at = at;
                at.set_port(port);
                format!("{scheme}://{at}")
            };
            found.find_map(|of| Some(place(of.port())).filter(|it| !places.contains(it)))
        };
        let place = picked();
        places.push(place.unwrap_or_else(|| asked.clone()));
    }
    places
}

fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_ports_are_kept() {
        let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let listen = texts(&[
            "nvme+tcp://127.0.0.1:0",
            "nvme+tcp://127.0.0.1:0",
            "nvme+tcp://127.0.0.1:4420",
            "nbd://0.0.0.0:0",
            "nbd+unix:///?socket=/tmp/x",
        ]);
        let urls = texts(&[
            "nvme+tcp://127.0.0.1:1001/nqn.2026-01.example:a",
            "nvme+tcp://127.0.0.1:1001/nqn.2026-01.example:b",
            "nvme+tcp://127.0.0.1:1002/nqn.2026-01.example:a",
            "nvme+tcp://127.0.0.1:4420/nqn.2026-01.example:a",
            "nbd://192.0.2.1:1003/disk",
        ]);
        let expected = texts(&[
            "nvme+tcp://127.0.0.1:1001",
            "nvme+tcp://127.0.0.1:1002",
            "nvme+tcp://127.0.0.1:4420",
            "nbd://0.0.0.0:1003",
            "nbd+unix:///?socket=/tmp/x",
        ]);
        assert_eq!(places(&listen, &urls), expected);
    }
}
