//! The counters of subsystems, which the log page SMART / Health Information shows: they go on
//! after a restart where they are kept.
//!
//! A process keeps them when it begins, every [`HEALTH_INTERVAL_S`] if they have changed, and when
//! it ends. Nothing is written for a command. If the process is killed, what was counted since the
//! last time is lost, and the next process counts an unsafe shutdown.
//!
//! * `file`: the file of one subsystem.

mod file;

use self::file::{HealthFile, NotKept};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use weft_base::lock::Lock;
use weft_connection::identity;
use weft_connection::limits::{HEALTH_FILES_MAX, HEALTH_INTERVAL_S};
use weft_proto::nvme::controller::{Health, HealthCounts};
use weft_proto::nvme::types::Nqn;

/// Store of the counters of subsystems. A clone is the same store; the default keeps nothing.
#[derive(Clone, Default)]
pub struct HealthStore(Option<Arc<Store>>);

struct Store {
    directory: PathBuf,
    began: Instant,
    subsystems: Lock<Subsystems>,
}

#[derive(Default)]
struct Subsystems {
    known: HashMap<Nqn, Arc<Kept>>,
    /// Wakes the thread that keeps them, which ends with this.
    wake: Option<Sender<()>>,
}

/// The counters of a subsystem.
struct Kept {
    health: Arc<Health>,
    /// `None`: they are not kept.
    file: Option<Lock<Written>>,
}

/// A file, and what it has.
struct Written {
    file: HealthFile,
    counts: HealthCounts,
    /// What it says outlasts a loss of power, too.
    is_durable: bool,
    /// The process has ended, as the file says.
    is_ended: bool,
    /// It was said that it cannot be written.
    is_said: bool,
}

impl HealthStore {
    /// Counters that go on after a restart, in files in this directory, which is made when it is
    /// needed.
    pub fn stored_in(directory: PathBuf) -> Self {
        let subsystems = Lock::default();
        Self(Some(Arc::new(Store { directory, began: Instant::now(), subsystems })))
    }

    /// The same in the state directory of this user; where there is none, nothing is kept.
    pub fn of_this_user() -> Self {
        identity::state_dir()
            .map_or_else(Self::default, |directory| Self::stored_in(directory.join("health")))
    }

    /// The counters of a subsystem. Makes nothing durable: a thread does.
    pub(crate) fn of(&self, nqn: &Nqn) -> Arc<Health> {
        let Some(store) = &self.0 else { return Arc::default() };
        let mut subsystems = store.subsystems.lock();
        if let Some(kept) = subsystems.known.get(nqn) {
            return Arc::clone(&kept.health);
        }
        if subsystems.known.len() >= HEALTH_FILES_MAX {
            subsystems.forget_idle(store.began.elapsed());
        }
        let kept = Arc::new(store.begin(nqn));
        let health = Arc::clone(&kept.health);
        if kept.file.is_some() {
            subsystems.known.insert(nqn.clone(), kept);
            subsystems.wake(store);
        }
        health
    }

    /// The process ends in order: keeps what was counted. Waits for the disk.
    pub fn end(&self) {
        let Some(store) = &self.0 else { return };
        let known: Vec<_> = {
            let mut subsystems = store.subsystems.lock();
            subsystems.wake = None;
            subsystems.known.drain().map(|(_, kept)| kept).collect()
        };
        known.iter().for_each(|kept| kept.keep(store.began.elapsed(), false));
    }
}

impl Subsystems {
    /// Those that nobody serves any more are as after an end.
    fn forget_idle(&mut self, age: Duration) {
        self.known.retain(|_, kept| {
            let is_served = Arc::strong_count(&kept.health) > 1;
            if !is_served {
                kept.keep(age, false);
            }
            is_served
        });
    }

    fn wake(&mut self, store: &Arc<Store>) {
        if self.wake.as_ref().is_some_and(|wake| wake.send(()).is_ok()) {
            return;
        }
        let (wake, woken) = channel();
        let _ = wake.send(());
        let of_thread = Arc::downgrade(store);
        let started = thread::Builder::new()
            .name("weft-health".into())
            .spawn(move || keep_all(&of_thread, &woken));
        match started {
            Ok(_) => self.wake = Some(wake),
            Err(e) => tracing::warn!(
                "the counters of SMART logs are kept only when the process ends, as no thread can be had: {e}"
            ),
        }
    }
}

impl Store {
    /// Begins to count for a subsystem.
    fn begin(&self, nqn: &Nqn) -> Kept {
        let (file, counts) = match HealthFile::open(&self.directory, nqn) {
            Ok(opened) => opened,
            Err(why) => {
                let why = match why {
                    NotKept::Elsewhere => "another process keeps them".to_owned(),
                    NotKept::Newer(version) => {
                        format!("they are in a file of version {version}, of a newer weft")
                    }
                    NotKept::Impossible(e) => {
                        format!("{} cannot be used: {e}", self.directory.display())
                    }
                };
                tracing::info!(
                    "{nqn}: the counters of its SMART log begin at 0 and end with this process: {why}"
                );
                return Kept { health: Arc::default(), file: None };
            }
        };
        let mut written =
            Written { file, counts, is_durable: false, is_ended: false, is_said: false };
        let kept = written.file.keep_soon(&counts);
        written.say(kept);
        Kept { health: Arc::new(Health::continuing(counts)), file: Some(Lock::new(written)) }
    }
}

/// Keeps all counters at once and then now and then, until the store is gone.
fn keep_all(store: &Weak<Store>, woken: &Receiver<()>) {
    loop {
        if let Err(RecvTimeoutError::Disconnected) =
            woken.recv_timeout(Duration::from_secs(HEALTH_INTERVAL_S))
        {
            return;
        }
        let Some(store) = store.upgrade() else { return };
        let known: Vec<_> = store.subsystems.lock().known.values().cloned().collect();
        known.iter().for_each(|kept| kept.keep(store.began.elapsed(), true));
    }
}

impl Kept {
    /// Keeps what was counted, in a process that is `age` old. `is_served`: it goes on.
    fn keep(&self, age: Duration, is_served: bool) {
        let Some(file) = &self.file else { return };
        let written = &mut *file.lock();
        let counts = self.health.counts(age);
        if written.is_ended
            || is_served && written.is_durable && !is_worth(&written.counts, &counts)
        {
            return;
        }
        let kept = written.file.keep(&counts, is_served);
        if kept.is_ok() {
            (written.counts, written.is_durable, written.is_ended) = (counts, true, !is_served);
        }
        written.say(kept);
    }
}

impl Written {
    fn say(&mut self, kept: std::io::Result<()>) {
        match kept {
            Ok(()) => self.is_said = false,
            Err(e) if !self.is_said => {
                self.is_said = true;
                tracing::warn!(
                    "cannot keep the counters of a SMART log in {}: {e}; what it has is older",
                    self.file.path().display()
                );
            }
            Err(_) => {}
        }
    }
}

/// Whether something has changed beside the time, or an hour is full.
fn is_worth(before: &HealthCounts, now: &HealthCounts) -> bool {
    let hours = |counts: &HealthCounts| counts.power_on_s / 3600;
    hours(before) != hours(now) || HealthCounts { power_on_s: now.power_on_s, ..*before } != *now
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn store() -> (PathBuf, Nqn) {
        let directory = std::env::temp_dir().join(format!("weft-health-{}", Uuid::new_v4()));
        (directory, Nqn::new("nqn.2026-01.example:a").unwrap())
    }

    fn cycles(health: &Health) -> (u64, u64) {
        let counts = health.counts(Duration::ZERO);
        (counts.power_cycles, counts.unsafe_shutdowns)
    }

    #[test]
    fn a_process_that_is_killed_is_an_unsafe_shutdown_and_one_that_ends_is_none() {
        let (directory, nqn) = store();
        let begun = || HealthStore::stored_in(directory.clone());
        let first = begun();
        assert_eq!(cycles(&first.of(&nqn)), (1, 0));
        assert!(Arc::ptr_eq(&first.of(&nqn), &first.of(&nqn)));
        // Another process beside it keeps nothing, and disturbs nothing.
        let beside = begun();
        assert_eq!(cycles(&beside.of(&nqn)), (1, 0));
        beside.end();
        first.end();
        let killed = begun();
        assert_eq!(cycles(&killed.of(&nqn)), (2, 0));
        drop(killed);
        // Its thread may hold the file for a moment.
        let next = loop {
            let next = begun();
            if cycles(&next.of(&nqn)).0 != 1 {
                break next;
            }
            thread::yield_now();
        };
        assert_eq!(cycles(&next.of(&nqn)), (3, 1));
        next.end();
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_damaged_file_is_put_aside() {
        let (directory, nqn) = store();
        let before = HealthStore::stored_in(directory.clone());
        before.of(&nqn);
        before.end();
        let of = |extension: &str| {
            let entries = std::fs::read_dir(&directory).unwrap().flatten();
            entries.map(|entry| entry.path()).find(|path| path.extension().unwrap() == extension)
        };
        std::fs::write(of("json").unwrap(), "{").unwrap();
        let next = HealthStore::stored_in(directory.clone());
        assert_eq!(cycles(&next.of(&nqn)), (1, 0));
        assert_eq!(std::fs::read_to_string(of("damaged").unwrap()).unwrap(), "{");
        next.end();
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn only_counts_and_full_hours_are_worth_a_write() {
        let before = HealthCounts::default();
        assert!(!is_worth(&before, &HealthCounts { power_on_s: 3599, ..before }));
        assert!(is_worth(&before, &HealthCounts { power_on_s: 3600, ..before }));
        assert!(is_worth(&before, &HealthCounts { error_entries: 1, ..before }));
    }
}
