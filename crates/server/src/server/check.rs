//! What is found wrong before anything starts: above all before another server ends because this
//! one takes over from it.

use super::Environment;
use crate::config::Desired;
use crate::management::place;
use crate::served::Opener;
use std::net::SocketAddr;
use std::path::Path;
use weft_block::file::is_windows_device;
use weft_block::mirror::MirrorUrl;
use weft_block::{Error, Refusal, grammar};
use weft_endpoint::export::listen_address;
use weft_endpoint::source::discovered;

/// Checks what can be checked while another server still has the devices and addresses; gives the
/// addresses at which this one is to listen.
pub fn check(desired: &Desired, environment: &Environment) -> Result<Vec<SocketAddr>, Error> {
    environment.metrics.check()?;
    desired.check_cntlids()?;
    if let Some(socket) = environment.control_socket.as_ref().filter(|socket| socket.is_required) {
        place::check(&place::named(&socket.place)?)?;
    }
    desired.iscsi.check()?;
    Opener { options: environment.connect.clone() }
        .check(desired.namespaces().map(|(_, namespace)| namespace))?;
    for (_, namespace) in desired.namespaces() {
        weft_endpoint::check(&namespace.source)?;
        namespace
            .paths
            .iter()
            .filter(|path| discovered::asks(path).is_none())
            .try_for_each(|path| weft_endpoint::check(path))?;
        check_file(&namespace.source)?;
    }
    let places = desired.listen.iter().map(|url| listen_address(url, &desired.tls));
    Ok(places.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
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
