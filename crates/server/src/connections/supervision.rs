//! The state of each connection that a daemon holds, and when it is tried again. This does no I/O:
//! its caller passes events and the time, and gets the steps to do.

use super::record::RecordedConnection;
use crate::limits::{RESTORE_DELAY_MAX_S, RESTORE_DELAY_MIN_S, RESTORES_MAX};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use weft_block::{Error, ErrorKind};

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SupervisionState {
    /// It failed, or ended by itself, and is tried again later.
    Waiting,
    /// It is being made.
    Connecting,
    /// It is there.
    Connected,
    /// It is being ended.
    Ending,
    /// It was ended by an order, and comes back when the daemon starts the next time.
    Ended,
}

/// A connection that is held.
#[derive(Clone, Debug)]
pub struct Supervised {
    /// The command that makes it.
    pub connection: RecordedConnection,
    /// It is recorded.
    pub recorded: bool,
    /// Its state.
    pub state: SupervisionState,
    /// Why it was not made the last time, or was lost.
    pub last_error: Option<String>,
    /// Attempts since it was there for the last time.
    failures: u32,
    /// When it is tried again, if it waits.
    next: Option<Instant>,
}

impl Supervised {
    /// The time from `now` until the next attempt.
    pub fn waits(&self, now: Instant) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(now))
    }

    fn wait(&mut self, now: Instant, why: String) {
        let pause = delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        (self.state, self.last_error, self.next) =
            (SupervisionState::Waiting, Some(why), Some(now + pause));
    }

    fn becomes(&mut self, state: SupervisionState) {
        (self.state, self.next) = (state, None);
        if state == SupervisionState::Connected {
            (self.failures, self.last_error) = (0, None);
        }
    }
}

/// The pause after so many failures before this one: it doubles up to a limit.
fn delay(failures: u32) -> Duration {
    let doubled = RESTORE_DELAY_MIN_S.saturating_mul(1_u64 << failures.min(32));
    Duration::from_secs(doubled.min(RESTORE_DELAY_MAX_S))
}

/// All connections that a daemon holds.
#[derive(Debug, Default)]
pub struct Supervision(Vec<Supervised>);

impl Supervision {
    /// All of them, in the order in which they came.
    pub fn all(&self) -> &[Supervised] {
        &self.0
    }

    /// The one with this name.
    pub fn find(&self, name: &str) -> Option<&Supervised> {
        self.0.iter().find(|it| it.connection.name == name)
    }

    fn get(&mut self, name: &str) -> Option<&mut Supervised> {
        self.0.iter_mut().find(|it| it.connection.name == name)
    }

    /// Takes a recorded connection at the start: it is there already, or is made at once.
    pub fn restore(&mut self, connection: RecordedConnection, is_there: bool, now: Instant) {
        let (state, next) = if is_there {
            (SupervisionState::Connected, None)
        } else {
            (SupervisionState::Waiting, Some(now))
        };
        let (last_error, failures) = (None, 0);
        self.0.push(Supervised { connection, recorded: true, state, last_error, failures, next });
    }

    /// Takes a new connection, which is now being made.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if one of the same name is held and was not ended.
    pub fn begin(&mut self, connection: RecordedConnection) -> Result<(), Error> {
        let name = connection.name.clone();
        let Some(old) = self.get(&name) else {
            let (state, last_error) = (SupervisionState::Connecting, None);
            let (recorded, failures, next) = (false, 0, None);
            self.0.push(Supervised { connection, recorded, state, last_error, failures, next });
            return Ok(());
        };
        if old.state != SupervisionState::Ended {
            let text = format!(
                "the daemon already holds \"{name}\"; `weft list` shows it, `weft disconnect {name}` ends it"
            );
            return Err(Error::new(ErrorKind::InUse, text));
        }
        old.connection = connection;
        old.becomes(SupervisionState::Connecting);
        Ok(())
    }

    /// A new connection was made, and recorded or not; or it was not made. Then one that is in the
    /// record waits for the next start, and another one is forgotten.
    pub fn begun(&mut self, name: &str, recorded: bool, error: Option<&Error>) {
        let Some(it) = self.get(name) else { return };
        match error {
            None => {
                it.recorded |= recorded;
                it.becomes(SupervisionState::Connected);
            }
            Some(e) if it.recorded => {
                it.becomes(SupervisionState::Ended);
                it.last_error = Some(e.to_string());
            }
            Some(_) => self.remove(name),
        }
    }

    /// The connections to be made now, those first that have waited longest. They are being made
    /// from then on; not more than [`RESTORES_MAX`] are at a time.
    pub fn due(&mut self, now: Instant) -> Vec<RecordedConnection> {
        let busy = self.0.iter().filter(|it| it.state == SupervisionState::Connecting).count();
        let is_due = |it: &&mut Supervised| it.next.is_some_and(|next| next <= now);
        let mut due: Vec<_> = self.0.iter_mut().filter(is_due).collect();
        due.sort_by_key(|it| it.next);
        let begin = |it: &mut Supervised| {
            it.becomes(SupervisionState::Connecting);
            it.connection.clone()
        };
        due.into_iter().take(RESTORES_MAX.saturating_sub(busy)).map(begin).collect()
    }

    /// When the next connection is due, or was, if it waits for others.
    pub fn next(&self) -> Option<Instant> {
        self.0.iter().filter_map(|it| it.next).min()
    }

    /// An attempt has ended.
    pub fn attempted(&mut self, name: &str, outcome: Result<(), String>, now: Instant) {
        let attempted = self.get(name).filter(|it| it.state == SupervisionState::Connecting);
        match (attempted, outcome) {
            (Some(it), Ok(())) => it.becomes(SupervisionState::Connected),
            (Some(it), Err(why)) => it.wait(now, why),
            // It was forgotten meanwhile.
            (None, _) => {}
        }
    }

    /// The names of connections whose processes should be there.
    pub fn connected(&self) -> Vec<String> {
        let names = self.0.iter().filter(|it| it.state == SupervisionState::Connected);
        names.map(|it| it.connection.name.clone()).collect()
    }

    /// The process of a connection is gone; whether that was by no order.
    pub fn lost(&mut self, name: &str, now: Instant) -> bool {
        let lost = self.get(name).filter(|it| it.state == SupervisionState::Connected);
        lost.map(|it| it.wait(now, "its server ended".into())).is_some()
    }

    /// Begins to end a connection; whether it has a process. `None`: it is being made or ended just
    /// now, and has to be asked again.
    pub fn end(&mut self, name: &str) -> Option<bool> {
        let it = self.get(name)?;
        let has_process = match it.state {
            SupervisionState::Connecting | SupervisionState::Ending => return None,
            SupervisionState::Connected => true,
            SupervisionState::Waiting | SupervisionState::Ended => false,
        };
        it.becomes(SupervisionState::Ending);
        Some(has_process)
    }

    /// A connection was ended. One that is still recorded comes back at the next start.
    pub fn ended(&mut self, name: &str, recorded: bool) {
        match self.get(name) {
            Some(it) if recorded => it.becomes(SupervisionState::Ended),
            _ => self.remove(name),
        }
    }

    /// It could not be ended.
    pub fn stays(&mut self, name: &str, why: &Error) {
        if let Some(it) = self.get(name) {
            it.becomes(SupervisionState::Connected);
            it.last_error = Some(why.to_string());
        }
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|it| it.connection.name != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(name: &str) -> RecordedConnection {
        let (url, words) = ("ram:1MiB".into(), vec!["connect".into()]);
        RecordedConnection { name: name.into(), url, words, directory: "/".into() }
    }

    fn names(due: &[RecordedConnection]) -> Vec<&str> {
        due.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn one_that_fails_delays_no_other() {
        let (mut all, now) = (Supervision::default(), Instant::now());
        all.restore(connection("there"), true, now);
        all.restore(connection("bad"), false, now);
        all.restore(connection("good"), false, now);
        assert_eq!(names(&all.due(now)), ["bad", "good"]);
        assert!(all.due(now).is_empty() && all.next().is_none());
        all.attempted("bad", Err("no answer".into()), now);
        all.attempted("good", Ok(()), now);
        assert_eq!(all.connected(), ["there", "good"]);
        let bad = all.find("bad").unwrap();
        assert_eq!(
            (bad.state, bad.last_error.as_deref()),
            (SupervisionState::Waiting, Some("no answer"))
        );
        assert_eq!(bad.waits(now), Some(Duration::from_secs(RESTORE_DELAY_MIN_S)));
        assert!(all.due(now).is_empty());
    }

    #[test]
    fn not_all_are_made_at_the_same_time() {
        let (mut all, now) = (Supervision::default(), Instant::now());
        (0..=RESTORES_MAX).for_each(|n| all.restore(connection(&n.to_string()), false, now));
        assert_eq!(all.due(now).len(), RESTORES_MAX);
        all.attempted("0", Err("no".into()), now);
        let last = RESTORES_MAX.to_string();
        let later = now + Duration::from_secs(RESTORE_DELAY_MAX_S);
        assert_eq!(names(&all.due(later)), [last.as_str()], "it has waited longest");
        all.attempted("1", Ok(()), later);
        assert_eq!(names(&all.due(later)), ["0"]);
    }

    #[test]
    fn pauses_grow_up_to_a_limit_and_end_with_success() {
        let (mut all, mut now) = (Supervision::default(), Instant::now());
        all.restore(connection("a"), false, now);
        let mut pauses = Vec::new();
        for _ in 0..40 {
            assert_eq!(all.due(now).len(), 1);
            all.attempted("a", Err("no".into()), now);
            let pause = all.find("a").unwrap().waits(now).unwrap();
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert!(pauses.is_sorted() && pauses[..3] == [1, 2, 4], "{pauses:?}");
        assert_eq!(pauses.last(), Some(&RESTORE_DELAY_MAX_S));
        all.due(now);
        all.attempted("a", Ok(()), now);
        assert_eq!(all.find("a").unwrap().last_error, None);
        assert!(all.lost("a", now) && !all.lost("a", now));
        assert_eq!(all.find("a").unwrap().waits(now).unwrap().as_secs(), RESTORE_DELAY_MIN_S);
    }

    #[test]
    fn a_connection_is_ended_once_it_stands_still() {
        let (mut all, now) = (Supervision::default(), Instant::now());
        all.begin(connection("a")).unwrap();
        assert_eq!(all.begin(connection("a")).unwrap_err().kind(), ErrorKind::InUse);
        assert_eq!(all.end("a"), None, "it is being made");
        all.begun("a", true, None);
        assert_eq!(all.end("a"), Some(true));
        assert_eq!(all.end("a"), None, "it is being ended");
        all.stays("a", &Error::new(ErrorKind::InUse, "it is mounted"));
        assert_eq!(all.find("a").unwrap().last_error.as_deref(), Some("it is mounted"));
        assert_eq!(all.end("a"), Some(true));
        all.ended("a", true);
        assert!(all.due(now).is_empty(), "an order is not undone");
        all.begin(connection("a")).unwrap();
        all.begun("a", false, Some(&Error::new(ErrorKind::Refused, "no")));
        assert_eq!(all.find("a").unwrap().state, SupervisionState::Ended);
        assert_eq!(all.end("a"), Some(false));
        all.ended("a", false);
        assert!(all.all().is_empty());
        all.begin(connection("b")).unwrap();
        all.begun("b", true, Some(&Error::new(ErrorKind::Refused, "no")));
        assert!(all.find("b").is_none(), "it is not recorded");
    }
}
