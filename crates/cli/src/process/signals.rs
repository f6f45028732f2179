//! SIGTERM, SIGINT and SIGHUP. The first drains a server, or has a command end within
//! [`limits::END_MS`]; the second ends the process at once. SIGHUP may have another meaning.

use crate::limits;
use crate::process::exit::{Failure, at_once, tell};
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

/// See [`has_result`].
static HAS_RESULT: AtomicBool = AtomicBool::new(false);

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

/// As [`watch`], of a command that serves nobody: `first` has it end. If it waits for too long after
/// that, or has no result ([`has_result`]) within [`limits::END_MS`], the process ends without.
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

/// A command that ends soon has its result, and only prints it: it may take longer for that.
pub fn has_result() {
    HAS_RESULT.store(true, Ordering::Relaxed);
}

/// Ends the process when it has waited for too long since the signal, or has no result in time.
fn cut_off(told: Instant) {
    let mut waited = Waited { told, ended: Duration::ZERO, current: None };
    loop {
        let wait = waiting::current();
        let waits = waited.look(wait.as_ref().map(|(_, since)| *since), Instant::now());
        let is_late = told.elapsed() >= Duration::from_millis(limits::END_MS)
            && !HAS_RESULT.load(Ordering::Relaxed);
        if is_late || waits >= Duration::from_millis(limits::END_WAIT_MS) {
            let text = match wait {
                Some((what, _)) => format!("interrupted while waiting for {what}"),
                None => "interrupted before everything was finished".to_owned(),
            };
            at_once(&Failure::new(Failure::INTERRUPTED, text));
        }
        std::thread::sleep(LOOK);
    }
}

/// The time for which a command has waited since a signal, one wait after the other.
struct Waited {
    told: Instant,
    /// That of waits that are over.
    ended: Duration,
    /// The beginning of the present wait, and how long it has lasted.
    current: Option<(Instant, Duration)>,
}

impl Waited {
    /// Takes a look at the present wait, which began at `since`. Returns the sum of all.
    fn look(&mut self, since: Option<Instant>, now: Instant) -> Duration {
        if let Some((_, lasted)) = self.current.take_if(|(began, _)| since != Some(*began)) {
            self.ended += lasted;
        }
        let lasted = since.map(|since| now.saturating_duration_since(since.max(self.told)));
        self.current = since.zip(lasted);
        self.ended + lasted.unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_after_a_signal_count_together() {
        let told = Instant::now();
        let at = |ms| told + Duration::from_millis(ms);
        let mut waited = Waited { told, ended: Duration::ZERO, current: None };
        let before = told.checked_sub(Duration::from_secs(9)).unwrap_or(told);
        for (since, now, sum) in [
            (Some(before), 100, 100),
            (Some(before), 300, 300),
            (Some(at(310)), 350, 340),
            (None, 400, 340),
            (None, 500, 340),
            (Some(at(510)), 900, 730),
        ] {
            assert_eq!(waited.look(since, at(now)), Duration::from_millis(sum), "at {now}");
        }
    }
}
