//! Worker threads for authentication arithmetic, so that it never blocks an event loop. One job per
//! address at a time, round-robin over addresses; addresses with a recent success go first.

use super::attempts::Standing;
use super::mailbox::{Mailbox, NvmeMessage};
use crate::export::members::Message;
use crate::reservations::Threads;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use weft_base::lock::Lock;
use weft_connection::limits::AUTHENTICATION_THREADS;
use weft_connection::refusals::Refusals;
use weft_proto::nvme::auth::Arithmetic;

/// Threads that could not be started, for the log.
static FAILED: Refusals = Refusals::of_errors();

/// What is to be computed for a connection, which has at most one of these.
pub(super) struct Job {
    pub address: Option<IpAddr>,
    pub standing: Standing,
    pub arithmetic: Arithmetic,
    /// The connection; if it has ended, nobody wants to know the result.
    pub to: Weak<Mailbox>,
}

/// The jobs of one target. Each belongs to a connection, and each exchange to a budget: both bound
/// how many there are.
#[derive(Default)]
pub(super) struct Jobs(Arc<Lock<Waiting>>);

#[derive(Default)]
struct Waiting {
    known: Turns<Job>,
    strangers: Turns<Job>,
    threads: usize,
}

/// What addresses wait for that take turns.
struct Turns<T> {
    next: VecDeque<Option<IpAddr>>,
    of: HashMap<Option<IpAddr>, VecDeque<T>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { next: VecDeque::new(), of: HashMap::new() }
    }
}

impl<T> Turns<T> {
    fn push(&mut self, address: Option<IpAddr>, new: T) {
        let waiting = self.of.entry(address).or_default();
        if waiting.is_empty() {
            self.next.push_back(address);
        }
        waiting.push_back(new);
    }

    fn pop(&mut self) -> Option<T> {
        let address = self.next.pop_front()?;
        let waiting = self.of.get_mut(&address)?;
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.of.remove(&address);
        } else {
            self.next.push_back(address);
        }
        first
    }
}

impl Waiting {
    fn push(&mut self, job: Job) {
        match job.standing {
            Standing::Known => self.known.push(job.address, job),
            Standing::Stranger => self.strangers.push(job.address, job),
        }
    }

    fn pop(&mut self) -> Option<Job> {
        self.known.pop().or_else(|| self.strangers.pop())
    }
}

impl Jobs {
    /// Has this computed, on one of these threads. The connection is told the result; or that there
    /// is none, if no thread can be had.
    pub(super) fn add(&self, job: Job, threads: &dyn Threads) {
        let mut waiting = self.0.lock();
        waiting.push(job);
        if waiting.threads == AUTHENTICATION_THREADS {
            return;
        }
        waiting.threads += 1;
        drop(waiting);
        let shared = Arc::clone(&self.0);
        let Err(e) = threads.start("weft-auth", Box::new(move || compute_all(&shared))) else {
            return;
        };
        FAILED.log_now(|| format!("cannot start a thread for authentications: {e}"));
        let mut waiting = self.0.lock();
        waiting.threads -= 1;
        if waiting.threads == 0 {
            while let Some(job) = waiting.pop() {
                tell(&job.to, NvmeMessage::Computed(None));
            }
        }
    }
}

fn tell(to: &Weak<Mailbox>, message: NvmeMessage) {
    if let Some(to) = to.upgrade() {
        to.post(Message::Own(message));
    }
}

/// Computes until nothing waits.
fn compute_all(waiting: &Lock<Waiting>) {
    loop {
        let mut now = waiting.lock();
        let Some(Job { arithmetic, to, .. }) = now.pop() else {
            now.threads -= 1;
            return;
        };
        drop(now);
        if to.strong_count() > 0 {
            let computed = catch_unwind(AssertUnwindSafe(|| arithmetic.run())).ok();
            tell(&to, NvmeMessage::Computed(computed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn addresses_take_turns_however_much_each_wants() {
        let mut turns = Turns::default();
        let address = |n| Some(IpAddr::from(Ipv4Addr::new(192, 0, 2, n)));
        (0..100).for_each(|n| turns.push(address(1), (1, n)));
        (0..2).for_each(|n| turns.push(address(2), (2, n)));
        turns.push(None, (3, 0));
        let order: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order[..6], [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2)]);
        assert_eq!(order.len(), 103);
        assert!(
            turns.next.is_empty() && turns.of.is_empty(),
            "an address that waits for nothing is forgotten"
        );
    }
}
