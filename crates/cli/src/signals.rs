//! SIGTERM, SIGINT and SIGHUP. The first drains a server, the second ends it at once; SIGHUP may
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
    catch(end, hang_up).map_err(failed)
}

/// Calls `act` at each SIGINT, SIGTERM or SIGHUP, which no longer end the process.
///
/// # Errors
/// The system does not let signals be caught.
pub fn on_interrupt(act: impl Fn() + Send + 'static) -> Result<(), Failure> {
    #[cfg(unix)]
    let outcome = catch(act, None::<fn()>);
    #[cfg(not(unix))]
    let outcome = ctrlc::set_handler(act);
    outcome.map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(1, format!("cannot catch signals: {error}"))
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
