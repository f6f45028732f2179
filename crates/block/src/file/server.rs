//! Questions to the server of a file. The system knows the length of a file on a server from the
//! server's last answer: a file that was cut elsewhere keeps its old length here until the server
//! is asked. The answer may take long, so each such file has a thread that asks, and a server that
//! hangs holds up no thread that other files need.

use super::durability::Ticket;
use super::length::Length;
use crate::limits::FILE_LOOK_MS;
use core::time::Duration;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::thread;
use weft_base::lock::{Condition, Lock};

/// Asks for the length of a file and waits for the answer.
pub(super) type Ask = Box<dyn FnMut() -> io::Result<u64> + Send>;

/// The server of a file. When it is dropped, a question under way keeps neither the file nor its
/// lock.
pub(super) struct Server(Arc<Questions>);

#[derive(Default)]
struct Questions {
    state: Lock<State>,
    news: Condition,
}

#[derive(Default)]
struct State {
    /// Held by flushes that wait for the answer to the next question.
    waiting: Vec<Ticket>,
    is_closed: bool,
}

impl Server {
    /// Starts the thread.
    pub(super) fn start(length: Arc<Length>, mut ask: Ask) -> io::Result<Self> {
        let questions = Arc::<Questions>::default();
        let of_thread = Arc::clone(&questions);
        thread::Builder::new().name("weft-length".into()).spawn(move || {
            while let Some(tickets) = of_thread.next() {
                // If there is no answer, the next question may get one.
                if let Ok(bytes) = ask() {
                    length.found(bytes);
                }
                for ticket in tickets {
                    length.durability.end(ticket);
                }
            }
        })?;
        Ok(Self(questions))
    }

    /// Asks for the length as it is now or later; the ticket ends with the answer.
    pub(super) fn ask(&self, ticket: Ticket) {
        self.0.state().waiting.push(ticket);
        self.0.news.notify_one();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.news.notify_one();
    }
}

impl Questions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until it is time for a question. Returns the tickets that wait for its answer; `None`:
    /// the file is closed.
    fn next(&self) -> Option<Vec<Ticket>> {
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        let limit = Duration::from_millis(FILE_LOOK_MS);
        let (mut state, _) = self.news.wait_while_for(self.state(), limit, is_idle);
        (!state.is_closed).then(|| core::mem::take(&mut state.waiting))
    }
}
