//! A gateway's reservations, which it shares with the others: weft's own code, on a store in the
//! simulated cluster.

use super::cluster::{Client, Cluster};
use super::gateway::way;
use super::threads::{Asked, Starting, Threads, Told};
use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_endpoint::reservations::{ReservationTable, SharedStore};
use weft_group::{Record, Telling};
use weft_io::Time;
use weft_io::sim::Rng;

/// How often a watch is looked after.
const LOOK: Duration = Duration::from_secs(2);

/// After how long a change fails that some gateway has not put in force.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause before those are told again that have not answered.
const AGAIN: Duration = Duration::from_millis(200);

/// One of so many changes of an object fails, whether it was executed or not.
const LOST_ONE_IN: u32 = 30;

/// One of so many messages to other gateways is lost.
const UNHEARD_ONE_IN: u32 = 20;

/// The store as one process sees it.
struct Seen {
    threads: Arc<Threads>,
    client: Client,
    life: u64,
}

fn failed() -> Error {
    Error::new(ErrorKind::Io, "the cluster does not answer")
}

impl Seen {
    fn record(&self) -> Result<Record, Error> {
        let Told::Record(text) = self.threads.ask(Asked::Record) else { return Err(failed()) };
        Record::parse(&text).map_err(|_| failed())
    }
}

impl SharedStore for Seen {
    fn life(&self) -> u64 {
        self.life
    }

    fn threads(&self) -> Arc<dyn weft_endpoint::reservations::Threads> {
        Arc::new(Starting(Arc::clone(&self.threads)))
    }

    fn read(&self, namespace: Uuid) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let Told::Object(object) = self.threads.ask(Asked::Read(namespace)) else {
            return Err(failed());
        };
        Ok(object)
    }

    fn replace(&self, namespace: Uuid, before: u64, object: &[u8]) -> Result<Option<u64>, Error> {
        let asked = Asked::Replace(namespace, before, object.to_vec());
        let Told::Replaced(generation) = self.threads.ask(asked) else { return Err(failed()) };
        Ok(generation)
    }

    fn tell(&self, namespace: Uuid) -> Result<(), Error> {
        let mut telling = Telling::new(&self.record()?, self.client);
        let end = self.threads.now() + PATIENCE;
        while !telling.is_done() {
            if let Told::Answers(answers) = self.threads.ask(Asked::Tell(namespace)) {
                telling.answered(&answers);
            }
            if telling.is_done() {
                break;
            }
            telling.look(&self.record()?);
            if self.threads.now() > end {
                return Err(failed());
            }
            self.threads.ask(Asked::Pause(AGAIN));
        }
        Ok(())
    }
}

/// What a thread asked, on its way.
struct Call {
    at: Time,
    client: Client,
    thread: u64,
    stage: Stage,
}

enum Stage {
    Asked(Asked),
    /// The cluster waits for those who are told.
    Telling(u64),
    Told(Told),
    Paused,
}

/// The process that runs now.
struct Process {
    client: Client,
    threads: Arc<Threads>,
    table: ReservationTable,
    is_loaded: Arc<AtomicBool>,
    has_failed: Arc<AtomicBool>,
    /// What it has acknowledged, for the cluster.
    answers: Arc<Mutex<Vec<u64>>>,
    watches: bool,
    looks_at: Time,
}

/// See the module.
pub struct Sharing {
    cluster: Arc<Mutex<Cluster>>,
    namespace: Uuid,
    process: Option<Process>,
    calls: Vec<Call>,
    /// Messages of other gateways to a process, and its answers, on their way.
    notices: Vec<(Time, Client, u64, Uuid)>,
    answers: Vec<(Time, Client, u64)>,
    rng: Rng,
}

impl Sharing {
    pub fn new(cluster: &Arc<Mutex<Cluster>>, namespace: Uuid, rng: Rng) -> Self {
        let (calls, notices, answers) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            cluster: Arc::clone(cluster),
            namespace,
            process: None,
            calls,
            notices,
            answers,
            rng,
        }
    }

    /// A process has joined the group in this life of it: from now on it hears of changes, and
    /// reads what there is.
    pub fn start(&mut self, client: Client, life: u64, now: Time) {
        let threads = Arc::new(Threads::default());
        let table = ReservationTable::shared(Arc::new(Seen {
            threads: Arc::clone(&threads),
            client,
            life,
        }));
        let (is_loaded, has_failed): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
        let (loads, loaded, fails, of) =
            (table.clone(), Arc::clone(&is_loaded), Arc::clone(&has_failed), self.namespace);
        let load = move || {
            let done = if loads.of(of).is_ok() { loaded } else { fails };
            done.store(true, Ordering::SeqCst);
        };
        let starting = Starting(Arc::clone(&threads));
        weft_endpoint::reservations::Threads::start(&starting, "load", Box::new(load))
            .expect("a thread");
        super::gateway::lock(&self.cluster).shared.watch(client);
        let answers = Arc::default();
        self.process = Some(Process {
            client,
            threads,
            table,
            is_loaded,
            has_failed,
            answers,
            watches: true,
            looks_at: now,
        });
    }

    /// The reservations, when they have been read.
    pub fn loaded(&self) -> Option<ReservationTable> {
        let process =
            self.process.as_ref().filter(|process| process.is_loaded.load(Ordering::SeqCst))?;
        Some(process.table.clone())
    }

    /// They cannot be read.
    pub fn has_failed(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.has_failed.load(Ordering::SeqCst))
    }

    /// Something is under way between this gateway, or a process that it was before, and the
    /// cluster.
    pub fn is_busy(&self) -> bool {
        !self.calls.is_empty()
            || self.process.as_ref().is_some_and(|process| process.threads.is_busy())
    }

    /// The process is no more, and nothing of it serves.
    pub fn end(&mut self, now: Time) {
        let Some(Process { client, threads, table, .. }) = self.process.take() else { return };
        drop(table);
        for call in self.calls.iter().filter(|call| call.client == client) {
            threads.fail(call.thread);
        }
        threads.end(now);
        // What has been sent arrives nevertheless.
        self.calls.retain(|call| call.client != client || matches!(call.stage, Stage::Asked(_)));
    }

    /// Carries messages to the cluster. What a partition holds back arrives behind it, also of a
    /// process that is dead.
    pub fn carry(&mut self, now: Time, is_cut: bool) {
        let Self { cluster, calls, answers, rng, .. } = self;
        if is_cut {
            return;
        }
        let mut cluster = super::gateway::lock(cluster);
        for (_, client, number) in answers.extract_if(.., |(at, ..)| *at <= now) {
            if !cluster.is_kept_out(client) {
                cluster.shared.acknowledge(number, client);
            }
        }
        for call in calls.iter_mut().filter(|call| call.at <= now) {
            let told = match &mut call.stage {
                Stage::Asked(Asked::Tell(of)) if !cluster.is_kept_out(call.client) => {
                    call.stage = Stage::Telling(cluster.shared.tell(call.client, *of, now));
                    continue;
                }
                Stage::Asked(asked) => execute(&mut cluster, call.client, asked, rng),
                Stage::Telling(number) => match cluster.shared.answers(*number, now) {
                    Some(answers) => Told::Answers(answers),
                    None => continue,
                },
                _ => continue,
            };
            (call.stage, call.at) = (Stage::Told(told), now + way(rng));
        }
        // What a process is told that is no more is told to nobody.
        let client = self.process.as_ref().map(|process| process.client);
        calls.retain(|call| Some(call.client) == client || !matches!(call.stage, Stage::Told(_)));
    }

    /// Lets the process go on. Whether it does not hear the cluster now.
    pub fn go_on(&mut self, now: Time, is_cut: bool) {
        let Some(process) = &mut self.process else { return };
        let told = super::gateway::lock(&self.cluster).shared.notices(process.client);
        for (number, of) in told {
            if !is_cut && !self.rng.one_in(UNHEARD_ONE_IN) {
                self.notices.push((now + way(&mut self.rng), process.client, number, of));
            } else if is_cut && self.rng.one_in(2) {
                // It will notice, and look for what it may have missed.
                (process.watches, process.looks_at) = (false, now + LOOK);
            }
        }
        if !process.watches && !is_cut && process.looks_at <= now {
            process.watches = true;
            super::gateway::lock(&self.cluster).shared.watch(process.client);
            process.table.missed(Box::new(|| ()));
        }
        for (_, client, number, of) in self.notices.extract_if(.., |(at, ..)| *at <= now) {
            if client == process.client {
                let answers = Arc::clone(&process.answers);
                let answer =
                    move || answers.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                process.table.changed_elsewhere(of, Box::new(answer));
            }
        }
        let is_there = |call: &mut Call| {
            let is_back = matches!(call.stage, Stage::Told(_)) && !is_cut
                || matches!(call.stage, Stage::Paused);
            call.client == process.client && call.at <= now && is_back
        };
        for call in self.calls.extract_if(.., is_there) {
            process.threads.tell(
                call.thread,
                if let Stage::Told(told) = call.stage { told } else { Told::Paused },
            );
        }
        for (thread, asked) in process.threads.run(now) {
            let (at, stage) = match asked {
                Asked::Pause(time) => (now + time, Stage::Paused),
                asked => (now + way(&mut self.rng), Stage::Asked(asked)),
            };
            self.calls.push(Call { at, client: process.client, thread, stage });
        }
        let answers =
            core::mem::take(&mut *process.answers.lock().unwrap_or_else(PoisonError::into_inner));
        let sent =
            answers.into_iter().map(|number| (now + way(&mut self.rng), process.client, number));
        self.answers.extend(sent);
    }
}

fn execute(cluster: &mut Cluster, client: Client, asked: &mut Asked, rng: &mut Rng) -> Told {
    if cluster.is_kept_out(client) {
        return Told::Failed;
    }
    match asked {
        Asked::Read(of) => Told::Object(cluster.shared.object(*of)),
        Asked::Record => cluster.record().map_or(Told::Failed, |text| Told::Record(text.to_vec())),
        Asked::Replace(of, before, object) => {
            let is_lost = rng.one_in(LOST_ONE_IN);
            if is_lost && rng.one_in(2) {
                return Told::Failed;
            }
            let replaced = cluster.shared.replace(*of, *before, core::mem::take(object));
            if is_lost { Told::Failed } else { Told::Replaced(replaced) }
        }
        Asked::Tell(_) | Asked::Pause(_) => Told::Failed,
    }
}
