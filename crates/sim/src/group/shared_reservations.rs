//! A gateway's reservations, which it shares with the others: weft's own code, on a store in the
//! simulated cluster.

use super::cluster::Cluster;
use super::cluster_link::way;
use super::objects::Client;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};
use weft_endpoint::reservations::{Answered, Asked, Got, GroupStore, ReservationTable};
use weft_group::limits::RESERVATION_RETRY_MS;
use weft_group::reservations::{StoreLane, stored};
use weft_group::{Announcement, AnnouncementStep, GroupRecord};
use weft_io::Time;
use weft_io::sim::Rng;

/// How often a watch is looked after.
const LOOK: Duration = Duration::from_secs(2);

/// Pause before the store is asked again.
const RETRY: Duration = Duration::from_millis(RESERVATION_RETRY_MS);

/// One of so many changes of an object fails, whether it was executed or not.
const LOST_ONE_IN: u32 = 30;

/// One of so many messages to other gateways is lost.
const UNHEARD_ONE_IN: u32 = 20;

/// The store as one process sees it: what that asks is taken when the process goes on.
struct ProcessStore {
    life: u64,
    asking: Arc<Lock<ProcessQuestions>>,
}

/// What a process asks, until it is taken.
struct ProcessQuestions {
    asked: Vec<(Uuid, Asked, Answered)>,
    /// The process is no more.
    is_over: bool,
    rng: Rng,
}

fn failed() -> Error {
    Error::new(ErrorKind::Io, "the cluster does not answer")
}

impl GroupStore for ProcessStore {
    fn life(&self) -> u64 {
        self.life
    }

    fn token(&self) -> Uuid {
        let mut asking = self.asking.lock();
        Uuid::from_u64_pair(asking.rng.bits(), asking.rng.bits())
    }

    fn ask(&self, namespace: Uuid, _: StoreLane, asked: Asked, answered: Answered) {
        let mut asking = self.asking.lock();
        if !asking.is_over {
            asking.asked.push((namespace, asked, answered));
        }
    }
}

/// Something that a process has asked, on its way.
struct Call {
    at: Time,
    client: Client,
    namespace: Uuid,
    state: CallState,
    /// How far all other gateways are told, if that was asked.
    announcement: Option<Announcement>,
    /// `None`: the process is no more.
    answered: Option<Answered>,
}

enum CallState {
    Asked(Question),
    /// The cluster waits for those who are told.
    Announced(u64),
    Answered(ClusterAnswer),
    Paused,
}

/// What the cluster is asked.
enum Question {
    /// An object with reservations.
    Read,
    /// That it is replaced, if it has this generation.
    Replace(u64, Vec<u8>),
    /// The group's record.
    Record,
    /// That the other gateways are told.
    Tell,
}

/// What it answers.
enum ClusterAnswer {
    Object(Option<(u64, Vec<u8>)>),
    Replaced(Option<u64>),
    Record(Vec<u8>),
    /// Who has acknowledged.
    Answers(Vec<u64>),
    /// The cluster does nothing for this process, or nobody knows whether it did.
    Failed,
}

impl Call {
    fn new(
        client: Client,
        (namespace, asked, answered): (Uuid, Asked, Answered),
        now: Time,
        rng: &mut Rng,
    ) -> Self {
        let mut announcement = None;
        let state = match asked {
            Asked::Read => CallState::Asked(Question::Read),
            Asked::Replace(before, object) => {
                CallState::Asked(Question::Replace(before, object.text(stored::VERSION)))
            }
            Asked::Tell => {
                announcement = Some(Announcement::new(client, now.since_epoch()));
                CallState::Asked(Question::Record)
            }
            Asked::Pause => CallState::Paused,
        };
        let at = now + if matches!(state, CallState::Paused) { RETRY } else { way(rng) };
        Self { at, client, namespace, state, announcement, answered: Some(answered) }
    }

    /// The answer has arrived, or the time has passed. Given back if it goes on.
    fn arrived(mut self, now: Time, rng: &mut Rng) -> Option<Self> {
        let told = match core::mem::replace(&mut self.state, CallState::Paused) {
            CallState::Answered(told) => Some(told),
            _ => None,
        };
        let got = match (&mut self.announcement, told) {
            (None, told) => match told {
                None => Ok(Got::Paused),
                Some(ClusterAnswer::Object(object)) => Ok(Got::Object(object)),
                Some(ClusterAnswer::Replaced(generation)) => Ok(Got::Replaced(generation)),
                Some(_) => Err(failed()),
            },
            (Some(announcement), told) => {
                let is_known = tell(announcement, told, now);
                let (at, state) = match announcement.step() {
                    _ if !is_known => return self.end(Err(failed())),
                    AnnouncementStep::Record => {
                        (now + way(rng), CallState::Asked(Question::Record))
                    }
                    AnnouncementStep::Tell => (now + way(rng), CallState::Asked(Question::Tell)),
                    AnnouncementStep::Pause(time) => (now + time, CallState::Paused),
                    AnnouncementStep::Done => return self.end(Ok(Got::Announced)),
                    AnnouncementStep::Late => return self.end(Err(failed())),
                };
                return Some(Self { at, state, ..self });
            }
        };
        self.end(got)
    }

    fn end(self, got: Result<Got, Error>) -> Option<Self> {
        if let Some(answered) = self.answered {
            answered(got);
        }
        None
    }
}

/// What came of the last step. Whether it can go on.
fn tell(announcement: &mut Announcement, told: Option<ClusterAnswer>, now: Time) -> bool {
    match (announcement.step(), told) {
        (AnnouncementStep::Record, Some(ClusterAnswer::Record(text))) => {
            let record = GroupRecord::parse(&text);
            record.is_ok_and(|record| {
                announcement.record(now.since_epoch(), &record);
                true
            })
        }
        (AnnouncementStep::Record, _) => false,
        (_, Some(ClusterAnswer::Answers(answers))) => {
            announcement.answered(&answers);
            true
        }
        (_, Some(_)) => {
            announcement.answered(&[]);
            true
        }
        (_, None) => {
            announcement.paused();
            true
        }
    }
}

/// The process that runs now.
struct Process {
    client: Client,
    asking: Arc<Lock<ProcessQuestions>>,
    table: ReservationTable,
    is_loaded: Arc<AtomicBool>,
    has_failed: Arc<AtomicBool>,
    /// What it has acknowledged, for the cluster.
    answers: Arc<Lock<Vec<u64>>>,
    watches: bool,
    looks_at: Time,
}

/// See the module.
pub struct SimReservations {
    cluster: Arc<Lock<Cluster>>,
    namespace: Uuid,
    process: Option<Process>,
    calls: Vec<Call>,
    /// Messages of other gateways to a process, and its answers, on their way.
    notices: Vec<(Time, Client, u64, Uuid)>,
    answers: Vec<(Time, Client, u64)>,
    rng: Rng,
}

impl SimReservations {
    pub fn new(cluster: &Arc<Lock<Cluster>>, namespace: Uuid, rng: Rng) -> Self {
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
        let asking = ProcessQuestions { asked: Vec::new(), is_over: false, rng: self.rng.fork() };
        let asking = Arc::new(Lock::new(asking));
        let seen = ProcessStore { life, asking: Arc::clone(&asking) };
        let table = ReservationTable::over(Arc::new(seen));
        let (is_loaded, has_failed): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
        let (loaded, fails) = (Arc::clone(&is_loaded), Arc::clone(&has_failed));
        table.load(self.namespace, move |outcome| {
            let done = if outcome.is_ok() { loaded } else { fails };
            done.store(true, Ordering::SeqCst);
        });
        self.cluster.lock().objects.watch(client);
        let answers = Arc::default();
        self.process = Some(Process {
            client,
            asking,
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
            || self.process.as_ref().is_some_and(|process| !process.asking.lock().asked.is_empty())
    }

    /// The process has ended, and nothing of it serves.
    pub fn end(&mut self) {
        let Some(Process { client, asking, table, .. }) = self.process.take() else { return };
        drop(table);
        asking.lock().is_over = true;
        let asked = core::mem::take(&mut asking.lock().asked);
        drop(asked);
        // What has been sent arrives nevertheless.
        self.calls
            .retain(|call| call.client != client || matches!(call.state, CallState::Asked(_)));
        for call in self.calls.iter_mut().filter(|call| call.client == client) {
            (call.announcement, call.answered) = (None, None);
        }
    }

    /// Carries messages to the cluster. What a partition holds back arrives behind it, also of a
    /// process that is dead.
    pub fn carry(&mut self, now: Time, is_cut: bool) {
        let Self { cluster, calls, answers, rng, .. } = self;
        if is_cut {
            return;
        }
        let mut cluster = cluster.lock();
        for (_, client, number) in answers.extract_if(.., |(at, ..)| *at <= now) {
            if !cluster.is_kept_out(client) {
                cluster.objects.acknowledge(number, client);
            }
        }
        for call in calls.iter_mut().filter(|call| call.at <= now) {
            let told = match &mut call.state {
                CallState::Asked(Question::Tell) if !cluster.is_kept_out(call.client) => {
                    let number = cluster.objects.tell(call.client, call.namespace, now);
                    call.state = CallState::Announced(number);
                    continue;
                }
                CallState::Asked(asked) => {
                    execute(&mut cluster, (call.client, call.namespace), asked, rng)
                }
                CallState::Announced(number) => match cluster.objects.answers(*number, now) {
                    Some(answers) => ClusterAnswer::Answers(answers),
                    None => continue,
                },
                _ => continue,
            };
            (call.state, call.at) = (CallState::Answered(told), now + way(rng));
        }
        // What a process is told that is no more is told to nobody.
        let client = self.process.as_ref().map(|process| process.client);
        calls.retain(|call| {
            Some(call.client) == client || !matches!(call.state, CallState::Answered(_))
        });
    }

    /// Lets the process go on. Whether it does not hear the cluster now.
    pub fn go_on(&mut self, now: Time, is_cut: bool) {
        let Some(process) = &mut self.process else { return };
        let told = self.cluster.lock().objects.notices(process.client);
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
            self.cluster.lock().objects.watch(process.client);
            process.table.missed(Box::new(|| ()));
        }
        for (_, client, number, of) in self.notices.extract_if(.., |(at, ..)| *at <= now) {
            if client == process.client {
                let answers = Arc::clone(&process.answers);
                let answer = move || answers.lock().push(number);
                process.table.changed_elsewhere(of, Box::new(answer));
            }
        }
        let is_there = |call: &mut Call| {
            let is_back = matches!(call.state, CallState::Answered(_)) && !is_cut
                || matches!(call.state, CallState::Paused);
            call.client == process.client && call.at <= now && is_back
        };
        let there: Vec<_> = self.calls.extract_if(.., is_there).collect();
        let going_on = there.into_iter().filter_map(|call| call.arrived(now, &mut self.rng));
        self.calls.extend(going_on);
        let asked = core::mem::take(&mut process.asking.lock().asked);
        let begun = asked.into_iter().map(|it| Call::new(process.client, it, now, &mut self.rng));
        self.calls.extend(begun);
        let answers = core::mem::take(&mut *process.answers.lock());
        let sent =
            answers.into_iter().map(|number| (now + way(&mut self.rng), process.client, number));
        self.answers.extend(sent);
    }
}

fn execute(
    cluster: &mut Cluster,
    (client, of): (Client, Uuid),
    asked: &mut Question,
    rng: &mut Rng,
) -> ClusterAnswer {
    if cluster.is_kept_out(client) {
        return ClusterAnswer::Failed;
    }
    match asked {
        Question::Read => ClusterAnswer::Object(cluster.objects.object(of)),
        Question::Record => cluster
            .record()
            .map_or(ClusterAnswer::Failed, |text| ClusterAnswer::Record(text.to_vec())),
        Question::Replace(before, object) => {
            let is_lost = rng.one_in(LOST_ONE_IN);
            if is_lost && rng.one_in(2) {
                return ClusterAnswer::Failed;
            }
            let replaced = cluster.objects.replace(of, *before, core::mem::take(object));
            if is_lost { ClusterAnswer::Failed } else { ClusterAnswer::Replaced(replaced) }
        }
        Question::Tell => ClusterAnswer::Failed,
    }
}

impl Drop for SimReservations {
    /// What is asked holds on to its process.
    fn drop(&mut self) {
        self.end();
    }
}
