//! SIGTERM, SIGINT and SIGHUP. The first drains a server, or has a command end within
//! [`limits::END_MS`]; the second ends the process at once. SIGHUP may have another meaning.

use crate::exit::{Failure, at_once, tell};
use crate::limits;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_block::waiting;
use weft_endpoint::Control;
#[cfg(not(unix))]
use weft_server::service::windows;

/// Time between two looks whether a command that is to end waits.
const LOOK: Duration = Duration::from_millis(50);

/// The time of the first signal to a command that ends soon.
static TOLD: OnceLock<Instant> = OnceLock::new();

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

/// Calls `act` at each SIGINT, SIGTERM or SIGHUP, which no longer end the process by themselves.
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

/// As [`watch`], of a command that serves nobody: `first` has it end. If it waits for something
/// then, and goes on waiting, the process ends without that.
///
/// # Errors
/// As [`watch`].
pub fn end_soon(first: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let end = move || {
        let told = *TOLD.get_or_init(Instant::now);
        first();
        // Without the thread a second signal ends the process.
        let _ = std::thread::Builder::new().name("weft-end".into()).spawn(move || cut_off(told));
    };
    watch(end, None::<fn()>)
}

/// The end of a command: lets connections be closed in order, in the time that is left for that.
pub fn finish(control: &Control) {
    let Some(told) = TOLD.get() else { return control.finish() };
    control.finish_within(Duration::from_millis(limits::END_MS).saturating_sub(told.elapsed()));
}

/// Ends the process when one wait takes too long.
fn cut_off(told: Instant) {
    loop {
        if let Some((what, since)) = waiting::current()
            && since.max(told).elapsed() >= Duration::from_millis(limits::END_WAIT_MS)
        {
            let text = format!("interrupted while waiting for {what}");
            at_once(&Failure::new(Failure::INTERRUPTED, text));
        }
        std::thread::sleep(LOOK);
    }
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
