//! Systems that are not Windows: nothing is a service of it.

use super::message::ServiceMessage;
use super::settings::{ServiceFacts, ServiceSettings};
use weft_block::{Error, ErrorKind};

fn none<T>() -> Result<T, Error> {
    let text = "`weft service` is for Windows: here, give packaging/weft.service to systemd, or packaging/org.weft.server.plist to launchd";
    Err(Error::new(ErrorKind::Unsupported, text))
}

/// Checks that this system has services of Windows.
///
/// # Errors
/// [`ErrorKind::Unsupported`].
pub fn supported() -> Result<(), Error> {
    none()
}

/// Never installs.
///
/// # Errors
/// [`ErrorKind::Unsupported`], here and below.
pub fn install(_: &ServiceSettings) -> Result<Vec<String>, Error> {
    none()
}

/// Never removes.
///
/// # Errors
/// See [`install`].
pub fn remove(_: &str) -> Result<(), Error> {
    none()
}

/// Never starts.
///
/// # Errors
/// See [`install`].
pub fn start(_: &str) -> Result<bool, Error> {
    none()
}

/// Never stops.
///
/// # Errors
/// See [`install`].
pub fn stop(_: &str) -> Result<bool, Error> {
    none()
}

/// Never shows.
///
/// # Errors
/// See [`install`].
pub fn show(_: &str) -> Result<ServiceFacts, Error> {
    none()
}

/// Never runs.
///
/// # Errors
/// See [`install`].
pub fn run(_: &str, _: impl FnOnce() -> u8 + Send + 'static) -> Result<u8, Error> {
    none()
}

/// It is not a service.
pub fn is_service() -> bool {
    false
}

/// Does nothing.
pub fn write(_: ServiceMessage, _: &str) {}

/// Does nothing.
pub fn ready() {}

/// Does nothing.
pub fn stopping() {}

/// Does nothing.
pub fn on_controls(_: impl Fn() + Send + 'static, _: Option<impl Fn() + Send + 'static>) {}
