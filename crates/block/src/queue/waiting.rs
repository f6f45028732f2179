//! The waits of the thread that runs a command, so that the program can tell its user of a long
//! one.
//!
//! Code that blocks its thread for a peer, another process or a device calls [`begin`] before, and
//! keeps the [`OngoingWait`] until it goes on. A program calls [`attend`] on the thread that runs
//! its command. The waits of all other threads are not noted: a server has many, and nobody watches
//! them.

use core::cell::Cell;
use core::marker::PhantomData;
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};
use weft_base::lock::{Condition, Lock};

thread_local! {
    static IS_ATTENDED: Cell<bool> = const { Cell::new(false) };
}

static WAITS: Lock<Waits> =
    Lock::new(Waits { attention: None, current: None, watcher: Watcher::None });

/// Wakes the watcher when a wait begins.
static BEGUN: Condition = Condition::new();

/// Stack of the watcher, bytes: it prints lines.
const STACK_BYTES: usize = 128 << 10;

type Tell = Arc<dyn Fn(&str) + Send + Sync>;

struct Waits {
    attention: Option<Attention>,
    current: Option<Awaited>,
    watcher: Watcher,
}

/// The user's patience, and the way to tell the user.
struct Attention {
    patience: Duration,
    tell: Tell,
}

struct Awaited {
    what: String,
    since: Instant,
    is_told: bool,
}

/// The thread that looks for long waits.
enum Watcher {
    /// It is not started.
    None,
    /// It sleeps until it is woken.
    Asleep,
    /// It looks again by itself.
    Awake,
}

/// Action of the watcher.
enum Due {
    /// Nothing, until another wait begins.
    Nothing,
    /// To look again after this time.
    In(Duration),
    /// Reports a wait.
    Now(String, Tell),
}

/// A wait under way. Dropping it ends the wait.
#[must_use = "the wait ends when this is dropped"]
pub struct OngoingWait {
    is_noted: bool,
    /// Keeps it on its thread.
    of_thread: PhantomData<*const ()>,
}

/// Has `tell` called once for each wait of the calling thread that lasts longer than `patience`. It
/// is called on a thread of its own, which the first wait starts.
pub fn attend(patience: Duration, tell: impl Fn(&str) + Send + Sync + 'static) {
    IS_ATTENDED.set(true);
    waits().attention = Some(Attention { patience, tell: Arc::new(tell) });
}

/// Begins a wait of this thread for `what`, which follows the words "waiting for". A wait within
/// another one is a part of that, and is not noted.
pub fn begin(what: impl FnOnce() -> String) -> OngoingWait {
    let is_noted = IS_ATTENDED.get() && waits().current.is_none();
    if is_noted {
        let awaited = Awaited { what: what(), since: Instant::now(), is_told: false };
        waits().note(awaited);
    }
    OngoingWait { is_noted, of_thread: PhantomData }
}

/// Returns the wait of the attended thread, and its start.
pub fn current() -> Option<(String, Instant)> {
    waits().current.as_ref().map(|awaited| (awaited.what.clone(), awaited.since))
}

impl Drop for OngoingWait {
    fn drop(&mut self) {
        if self.is_noted {
            waits().current = None;
        }
    }
}

impl Waits {
    fn note(&mut self, awaited: Awaited) {
        self.current = Some(awaited);
        match self.watcher {
            Watcher::None => {
                let watcher = thread::Builder::new().name("weft-waiting".into());
                // Without the thread nobody is told; the command does the same.
                if watcher.stack_size(STACK_BYTES).spawn(watch).is_ok() {
                    self.watcher = Watcher::Awake;
                }
            }
            Watcher::Asleep => BEGUN.notify_one(),
            Watcher::Awake => {}
        }
    }

    fn due(&mut self) -> Due {
        let (Some(attention), Some(awaited)) = (&self.attention, &mut self.current) else {
            return Due::Nothing;
        };
        if awaited.is_told {
            return Due::Nothing;
        }
        let left = attention.patience.saturating_sub(awaited.since.elapsed());
        if !left.is_zero() {
            return Due::In(left);
        }
        awaited.is_told = true;
        Due::Now(awaited.what.clone(), Arc::clone(&attention.tell))
    }
}

fn waits() -> MutexGuard<'static, Waits> {
    WAITS.lock()
}

fn watch() {
    let mut held = waits();
    loop {
        held = match held.due() {
            Due::Nothing => {
                held.watcher = Watcher::Asleep;
                held = BEGUN.wait(held);
                held.watcher = Watcher::Awake;
                held
            }
            Due::In(left) => BEGUN.wait_for(held, left).0,
            Due::Now(what, tell) => {
                drop(held);
                tell(&what);
                waits()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// One test, as there is one attended thread in a process.
    #[test]
    fn long_waits_of_the_attended_thread_are_told_once() {
        let what = || current().map(|(what, _)| what);
        drop(begin(|| panic!("nobody attends")));
        let (give, take) = mpsc::channel();
        attend(Duration::from_millis(1), move |what| give.send(what.to_owned()).unwrap());
        for n in 0..3 {
            let waiting = begin(|| format!("server {n}"));
            assert_eq!(take.recv().unwrap(), format!("server {n}"));
            let part = begin(|| panic!("it is a part of a wait"));
            drop(part);
            assert_eq!(what(), Some(format!("server {n}")), "the outer wait goes on");
            let elsewhere = thread::spawn(|| drop(begin(|| panic!("nobody attends"))));
            elsewhere.join().unwrap();
            drop(waiting);
            assert_eq!(what(), None);
        }
        assert!(take.try_recv().is_err(), "each is told once");
        // One that ends soon is not told, whatever comes after it.
        attend(Duration::from_secs(3600), |_| panic!("it is not long"));
        drop(begin(|| "a moment".into()));
        assert_eq!(what(), None);
    }
}
