//! Journal of a run: a line for each event, if somebody listens, and the first violation.

use core::cell::{Cell, RefCell};
use core::fmt;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_io::Time;
use weft_io::sim::{TraceRecord, World};

/// The journal of a run; clones are the same one.
#[derive(Clone)]
pub struct SimJournal(Rc<Inner>);

struct Inner {
    listening: bool,
    lines: RefCell<Vec<String>>,
    violation: RefCell<Option<String>>,
    now: Cell<Time>,
    records: Option<Receiver<TraceRecord>>,
    give: Option<Sender<TraceRecord>>,
    /// Ends of connections, by number.
    connections: RefCell<std::collections::BTreeMap<u64, String>>,
}

impl SimJournal {
    /// A journal, which keeps its lines if somebody listens.
    pub fn new(listening: bool) -> Self {
        let (give, records) = if listening { Some(channel()).unzip() } else { (None, None) };
        Self(Rc::new(Inner {
            listening,
            lines: RefCell::default(),
            violation: RefCell::default(),
            now: Cell::default(),
            records,
            give,
            connections: RefCell::default(),
        }))
    }

    /// Follows a world.
    pub fn follow(&self, world: &mut World) {
        if let Some(give) = self.0.give.clone() {
            world.watch(move |record| {
                if record.what != "turn" {
                    // Nobody listens any more at the end of a run.
                    let _ = give.send(*record);
                }
            });
        }
    }

    /// Takes over what happened in the world; it is so late now.
    pub fn catch_up(&self, world: &World) {
        self.0.now.set(world.now());
        if self.0.listening {
            let mut known = self.0.connections.borrow_mut();
            for connection in world.connections() {
                known
                    .entry(connection.id)
                    .or_insert_with(|| format!("{} > {}", connection.client, connection.server));
            }
            drop(known);
            self.take_records();
        }
    }

    fn take_records(&self) {
        let Some(records) = &self.0.records else { return };
        let known = self.0.connections.borrow();
        for record in records.try_iter() {
            let subject = match record.what {
                "power off" | "power on" | "wall" | "heal" | "jump" | "exhausted" => {
                    format!("host {}", record.subject)
                }
                _ => format!(
                    "#{} {}",
                    record.subject,
                    known.get(&record.subject).map_or("", String::as_str)
                ),
            };
            self.line(record.at, &subject, format_args!("{} {}", record.what, record.value));
        }
    }

    fn line(&self, at: Time, host: &str, what: fmt::Arguments<'_>) {
        let seconds = at.as_nanos() as f64 / 1e9;
        self.0.lines.borrow_mut().push(format!("{seconds:>14.9}  {host:<40} {what}"));
    }

    /// Notes an event.
    pub fn note(&self, at: Time, host: &str, what: fmt::Arguments<'_>) {
        if self.0.listening {
            self.line(at, host, what);
        }
    }

    /// Notes an event of the run itself.
    pub fn tell(&self, host: &str, what: fmt::Arguments<'_>) {
        self.note(self.0.now.get(), host, what);
    }

    /// Notes that something is wrong. The first such note counts.
    pub fn violation(&self, text: String) {
        self.note(self.0.now.get(), "oracle", format_args!("VIOLATION: {text}"));
        self.0.violation.borrow_mut().get_or_insert(text);
    }

    /// The first thing that was wrong.
    pub fn first_violation(&self) -> Option<String> {
        self.0.violation.borrow().clone()
    }

    /// Returns whether something was wrong.
    pub fn is_violated(&self) -> bool {
        self.0.violation.borrow().is_some()
    }

    /// The lines, sorted by time.
    pub fn take_lines(&self) -> Vec<String> {
        self.take_records();
        let mut lines = core::mem::take(&mut *self.0.lines.borrow_mut());
        lines.sort_by(|a, b| a[..14].cmp(&b[..14]));
        lines
    }
}
