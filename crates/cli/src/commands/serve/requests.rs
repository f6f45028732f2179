//! Requests to a running server: by signals, by the server itself and, if it was started by another
//! program, by standard input.

use crate::commands::child::for_each_line_of_input;
use crate::exit::Failure;
use crate::signals::watch;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use weft_server::ServerNotice;

/// A request to a running server.
pub enum ServeRequest {
    /// To end.
    End,
    /// To apply its configuration file again.
    Reload,
    /// To do what follows from an event.
    Event(ServerNotice),
    /// To print counters.
    Counters,
    /// A command of [`weft_server::served::orders`].
    Change(String),
}

/// All requests, in their order.
pub struct Requests {
    give: Sender<ServeRequest>,
    take: Receiver<ServeRequest>,
}

impl Default for Requests {
    fn default() -> Self {
        let (give, take) = mpsc::channel();
        Self { give, take }
    }
}

impl Requests {
    /// The next one.
    pub fn next(&self) -> ServeRequest {
        // A sender is kept here.
        self.take.recv().unwrap_or(ServeRequest::End)
    }

    /// Returns whether it is asked to end. Other requests are dropped: there is no server for them.
    pub fn is_ending(&self) -> bool {
        let ends = |request| {
            matches!(request, ServeRequest::End | ServeRequest::Event(ServerNotice::EndRequested))
        };
        self.take.try_iter().any(ends)
    }

    /// Takes the events of a server.
    pub fn events(&self) -> Arc<dyn Fn(ServerNotice) + Send + Sync> {
        let give = self.give.clone();
        // The receiver may be gone already, here and below.
        Arc::new(move |event| _ = give.send(ServeRequest::Event(event)))
    }

    /// Takes SIGTERM and SIGINT, SIGHUP and, if requested, what is on standard input, and its end.
    /// SIGHUP ends a server that has no configuration file.
    pub fn catch_signals(&self, until_eof: bool, has_file: bool) -> Result<(), Failure> {
        if until_eof {
            let give = self.give.clone();
            std::thread::spawn(move || {
                for_each_line_of_input(|line| {
                    if line == "counters" {
                        let _ = give.send(ServeRequest::Counters);
                    } else if let Some(order) = line.strip_prefix("inventory ") {
                        let _ = give.send(ServeRequest::Change(order.to_owned()));
                    }
                });
                let _ = give.send(ServeRequest::End);
            });
        }
        let (end, reload) = (self.give.clone(), self.give.clone());
        watch(
            move || _ = end.send(ServeRequest::End),
            has_file.then_some(move || _ = reload.send(ServeRequest::Reload)),
        )
    }
}
