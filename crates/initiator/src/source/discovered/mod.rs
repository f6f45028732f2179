//! Paths by discovery: all addresses of one subsystem or target, as URLs for
//! [`crate::PathOptions`].
//!
//! Of NVMe the discovery log of an address is read (Base §5.16.1.23), and the logs that it refers
//! to; of iSCSI the portals that SendTargets gives.

mod records;

use super::{ConnectOptions, iscsi, nvme};
use records::{portals, take_entries, warn_of};
use weft_block::{Error, ErrorKind, grammar};
use weft_connection::limits::{DISCOVERED_PATHS_MAX, DISCOVERED_URLS_MAX};
use weft_connection::url::{
    HostPort, ISCSI, ISCSI_PORT, IscsiUrl, NVME_SCHEMES, NvmeTransport, NvmeUrl,
};
use weft_proto::nvme::types::Nqn;

/// The word that stands for paths to discover, among
/// [`PathOptions::further`](crate::PathOptions::further): alone where the discovery service is at
/// the address of the device's URL, or followed by `=HOST[:PORT]`.
pub const DISCOVER: &str = "discover";

/// Returns whether a further path asks for discovery, and the address of the service, unless that
/// is the device's own.
pub fn asks(path: &str) -> Option<Option<&str>> {
    match path.strip_prefix(DISCOVER)? {
        "" => Some(None),
        rest => rest.strip_prefix('=').map(Some),
    }
}

/// Puts URLs in the place of [`DISCOVER`] among the further paths to the device that `url` names:
/// all addresses that the discovery service tells, but that of `url` itself. Waits for the answers,
/// as the functions below.
///
/// # Errors
/// Theirs; and that the protocol of `url` has no discovery.
pub fn look_up(url: &str, options: &mut ConnectOptions) -> Result<(), Error> {
    if !options.paths.further.iter().any(|path| asks(path).is_some()) {
        return Ok(());
    }
    let sources = grammar::sources(url);
    let source = sources.first().filter(|_| sources.len() == 1).map_or(url, |only| only.url);
    let mut found = Vec::new();
    for path in &options.paths.further {
        let urls = match asks(path) {
            None => vec![path.clone()],
            Some(at) if NVME_SCHEMES.iter().any(|scheme| source.starts_with(scheme)) => {
                nvme_urls(source, at, options)?
            }
            Some(at) if source.starts_with(ISCSI) => iscsi_urls(source, at, options)?,
            Some(_) => {
                let text = format!(
                    "paths to {source} cannot be discovered, only those of NVMe and iSCSI; give --path URL"
                );
                return Err(Error::new(ErrorKind::Usage, text));
            }
        };
        for url in urls {
            if !found.contains(&url) {
                found.push(url);
            }
        }
    }
    options.paths.further = found;
    Ok(())
}

/// The transport and address of a discovery controller.
pub type Controller = (NvmeTransport, HostPort);

/// The other addresses of a namespace.
fn nvme_urls(
    source: &str,
    at: Option<&str>,
    options: &ConnectOptions,
) -> Result<Vec<String>, Error> {
    let url = NvmeUrl::parse(source)?;
    let Some(subsystem) = &url.subsystem else {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("paths to {url} can be discovered once it names the subsystem"),
        ));
    };
    let address = at.map_or_else(
        || Ok(url.address.clone()),
        |at| HostPort::parse(at, url.transport.discovery_port()),
    )?;
    let paths = nvme_paths((url.transport, address), subsystem, options)?;
    Ok(paths
        .into_iter()
        .filter(|path| (path.transport, &path.address) != (url.transport, &url.address))
        .map(|path| NvmeUrl { nsid: url.nsid, ..path }.to_string())
        .collect())
}

/// The other portals of a logical unit.
fn iscsi_urls(
    source: &str,
    at: Option<&str>,
    options: &ConnectOptions,
) -> Result<Vec<String>, Error> {
    let url = IscsiUrl::parse(source, ISCSI_PORT)?;
    let address =
        at.map_or_else(|| Ok(url.address.clone()), |at| HostPort::parse(at, ISCSI_PORT))?;
    let paths = iscsi_paths(&IscsiUrl { address, ..url.clone() }, options)?;
    Ok(paths
        .into_iter()
        .filter(|path| path.address != url.address)
        .map(|path| path.to_string())
        .collect())
}

/// The URLs of all paths to a subsystem, in the order in which discovery controllers tell them.
///
/// # Errors
/// Those of [`subsystems`], or that no discovery controller knows the subsystem.
fn nvme_paths(
    at: Controller,
    subsystem: &Nqn,
    options: &ConnectOptions,
) -> Result<Vec<NvmeUrl>, Error> {
    let address = at.1.clone();
    let paths = urls_of(at, &|nqn| nqn == subsystem, DISCOVERED_PATHS_MAX, options)?;
    if paths.is_empty() {
        let text = format!(
            "{address}: no address of the subsystem {} is known there; `weft discover {address}` lists them",
            subsystem.as_str()
        );
        return Err(Error::new(ErrorKind::NotFound, text));
    }
    Ok(paths)
}

/// The URLs of all NVM subsystems, one for each of their addresses, in the order in which discovery
/// controllers tell them: the one at `at`, and those to which it refers. Waits for them, at most for
/// the connect timeout each; referrals that do not answer are passed over.
///
/// # Errors
/// That the first discovery controller could not be asked.
pub fn subsystems(at: Controller, options: &ConnectOptions) -> Result<Vec<NvmeUrl>, Error> {
    urls_of(at, &|_| true, DISCOVERED_URLS_MAX, options)
}

/// Those of wanted subsystems, and at most so many.
fn urls_of(
    at: Controller,
    wanted: &dyn Fn(&Nqn) -> bool,
    most: usize,
    options: &ConnectOptions,
) -> Result<Vec<NvmeUrl>, Error> {
    let (mut asked, mut paths) = (vec![at], Vec::new());
    let mut next = 0;
    while let Some((transport, address)) = asked.get(next).cloned() {
        match nvme::discover(transport, &address, options) {
            Ok(log) => {
                let skipped = take_entries(&log.entries, (wanted, most), &mut paths, &mut asked);
                warn_of(&skipped, &address);
            }
            Err(e) if next == 0 => return Err(e),
            Err(e) => tracing::warn!("a referral is passed over: {e}"),
        }
        next += 1;
    }
    Ok(paths)
}

/// The URLs of all portals of the target and logical unit that `url` names, as the portal of `url`
/// tells them. Waits for them, at most for the connect timeout.
///
/// # Errors
/// That the portal could not be asked, or does not know the target.
pub fn iscsi_paths(url: &IscsiUrl, options: &ConnectOptions) -> Result<Vec<IscsiUrl>, Error> {
    let (paths, skipped) = portals(&iscsi::discover(url, options)?, url);
    warn_of(&skipped, &url.address);
    if paths.is_empty() {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("{}: the target of {url} is not known there", url.address),
        ));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_ask_for_discovery() {
        assert_eq!(
            [asks("discover"), asks("discover=10.0.0.1:8009")],
            [Some(None), Some(Some("10.0.0.1:8009"))]
        );
        assert_eq!(
            [asks("discovery"), asks("nvme+tcp://discover/nqn.2026-01.example.weft:disk")],
            [None, None]
        );
        let further = |path: &str| {
            let paths =
                crate::PathOptions { further: vec![path.into()], ..crate::PathOptions::default() };
            ConnectOptions { paths, ..ConnectOptions::default() }
        };
        for (url, why) in [
            ("nbd://10.0.0.1/disk", "only those of NVMe and iSCSI"),
            ("nvme+tcp://10.0.0.1", "names the subsystem"),
        ] {
            let refused = look_up(url, &mut further(DISCOVER)).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let mut plain = further("nbd://10.0.0.2/disk");
        look_up("nbd://10.0.0.1/disk", &mut plain).unwrap();
        assert_eq!(plain.paths.further, ["nbd://10.0.0.2/disk"]);
    }
}
