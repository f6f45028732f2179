//! Checks before anything starts: above all before another server ends because this one takes over
//! from it.

use super::Environment;
use crate::config::Desired;
use crate::management::place;
use crate::served::inventory::first;
use crate::served::{ServedState, SourceOpener};
use crate::service::demands::Demands;
use crate::service::takeover::Successor;
use std::net::SocketAddr;
use std::path::Path;
use weft_block::file::is_windows_device;
use weft_block::mirror::MirrorUrl;
use weft_block::{Error, Refusal, grammar};
use weft_endpoint::ConnectOptions;
use weft_endpoint::export::listen_address;
use weft_endpoint::source::discovered;

/// Checks what can be checked while another server still has the devices and addresses; gives what
/// this one is to do then.
pub fn check(desired: &Desired, environment: &Environment) -> Result<Successor, Error> {
    let from = environment.takeover.from.as_deref();
    let metrics = environment.metrics.check(from.is_some())?;
    if let Some(socket) = environment.control_socket.as_ref().filter(|socket| socket.is_required) {
        check_control(&socket.place, from)?;
    }
    let places = check_desired(desired, environment)?;
    if let Some(from) = from {
        let goes_on = |e: Error| {
            Error::new(e.kind(), format!("{e}; the server to be replaced, {from}, goes on"))
        };
        opener(environment)
            .look(desired.namespaces().map(|(_, namespace)| namespace))
            .map_err(goes_on)?;
    }
    Ok(Successor { places, metrics, demands: Demands::of(desired) })
}

/// Checks what is desired, where another server may still have the devices and addresses; gives the
/// addresses at which is listened.
pub fn check_desired(
    desired: &Desired,
    environment: &Environment,
) -> Result<Vec<SocketAddr>, Error> {
    desired.check_cntlids()?;
    desired.iscsi.check()?;
    let opener = opener(environment);
    opener.check(desired.namespaces().map(|(_, namespace)| namespace))?;
    for (_, namespace) in desired.namespaces() {
        weft_endpoint::check(&namespace.source)?;
        namespace
            .paths
            .iter()
            .filter(|path| discovered::asks(path).is_none())
            .try_for_each(|path| weft_endpoint::check(path))?;
        check_file(&namespace.source)?;
    }
    check_inventory(desired, environment)?;
    let places = desired.listen.iter().map(|url| listen_address(url, &desired.tls));
    Ok(places.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Opens sources before anything starts.
fn opener(environment: &Environment) -> SourceOpener {
    SourceOpener { options: environment.connect.clone(), front: None }
}

/// Refuses a place for the control socket at which this server cannot listen, also when the server
/// `from` which it takes over has gone.
fn check_control(place: &str, from: Option<&str>) -> Result<(), Error> {
    let path = place::named(place)?;
    place::check(&path)?;
    let Some(from) = from else { return Ok(()) };
    let is_same = |other: &Path| {
        path == other
            || matches!((path.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
    };
    match is_same(&place::named(from)?) {
        true => Ok(()),
        false => place::ClaimedPath::take(&path).map(drop),
    }
}

/// Makes the inventory with other devices, to find what in it does not go together.
fn check_inventory(desired: &Desired, environment: &Environment) -> Result<(), Error> {
    let device = weft_endpoint::open("null:1TiB", &ConnectOptions::default())?;
    let devices = desired.namespaces().map(|_| device.clone()).collect();
    let (state, limits) = (ServedState::of(desired), &environment.host_limits);
    first(&state, devices, desired.controllers(), limits, environment.discovery())?;
    Ok(())
}

/// Refuses a file that does not exist and is not to be made. A mirror decides itself whether it
/// starts without a leg.
fn check_file(source: &str) -> Result<(), Error> {
    if MirrorUrl::parse(source)?.is_some() {
        return Ok(());
    }
    for source in grammar::sources(source) {
        let is_made = grammar::options(source.url).1.iter().any(|(name, _)| *name == "size");
        // Drives and volumes are looked for when they are opened.
        let path = grammar::path(source.url).filter(|path| !is_made && !is_windows_device(path));
        let Some(path) = path else { continue };
        if std::fs::metadata(Path::new(path))
            .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
        {
            return Err(Error::refused(source.url, Refusal::NoSuchFile));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_found_missing() {
        assert!(check_file("stripe:ram:1MiB,/nonexistent/weft").is_err());
        assert!(
            check_file("readonly:file:/nonexistent/weft").is_err()
                && check_file("/nonexistent/weft,direct=off").is_err()
        );
        for fine in [
            "file:/nonexistent/weft,size=1MiB",
            "ram:1MiB",
            "nvme+tcp://h/nqn.2026-01.example:x",
            ".",
        ] {
            assert!(check_file(fine).is_ok(), "{fine}");
        }
    }
}
