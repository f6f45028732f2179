//! SIGTERM, SIGINT and SIGHUP: the first drains the server, the second ends it at once. SIGHUP may
//! have another meaning.

use crate::exit::{Failure, tell};
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(unix))]
use weft_server::service::windows;

/// Calls `first` at the first signal. At the second one the process ends, without waiting for
/// anything: operations under way may be lost. With `hang_up`, SIGHUP calls that instead.
///
/// # Errors
/// The system does not let signals be caught.
pub fn watch(
    first: impl Fn() + Send + 'static,
    hang_up: Option<impl Fn() + Send + 'static>,
) -> Result<(), Failure> {
    let came = AtomicBool::new(false);
    let end = move || {
        if came.swap(true, Ordering::AcqRel) {
            tell("weft: ended by a second signal, before everything was finished");
            std::process::exit(Failure::INTERRUPTED.into());
        }
        first();
    };
    catch(end, hang_up).map_err(|e| Failure::new(1, format!("cannot catch signals: {e}")))
}

#[cfg(unix)]
fn catch(
    end: impl Fn() + Send + 'static,
    hang_up: Option<impl Fn() + Send + 'static>,
) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let listen = move || {
        for signal in signals.forever() {
            match &hang_up {
                Some(hang_up) if signal == SIGHUP => hang_up(),
                _ => end(),
            }
        }
    };
    std::thread::Builder::new().name("weft-signals".into()).spawn(listen).map(drop)
}

/// Systems without SIGHUP. A service of Windows has no console, so that no Ctrl-C comes: its manager
/// asks instead.
#[cfg(not(unix))]
fn catch(
    end: impl Fn() + Send + 'static,
    hang_up: Option<impl Fn() + Send + 'static>,
) -> Result<(), ctrlc::Error> {
    if windows::is_service() {
        windows::on_controls(end, hang_up);
        return Ok(());
    }
    ctrlc::set_handler(end)
}
