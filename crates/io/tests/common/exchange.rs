//! The client of an echo: sends a known sequence and checks what comes back.

use core::time::Duration;
use std::cell::RefCell;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::rc::Rc;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};

/// Receives that one turn makes at most.
const RECEIVES_PER_TURN: usize = 8;

/// Outcome of an [`Exchange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All came back.
    Whole,
    /// The stream ended before that.
    Ended,
    /// The stream failed.
    Failed(ErrorKind),
    /// Nothing moved for too long.
    Stalled,
    /// A byte came back that is not the next one: position.
    Wrong(u64),
}

/// State of an [`Exchange`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub sent: u64,
    pub back: u64,
    pub outcome: Option<Outcome>,
}

/// Sends a known sequence of bytes and checks what comes back.
pub struct Exchange {
    stream: Box<dyn Stream>,
    id: DriverId,
    total: u64,
    patience: Duration,
    last_moved: Time,
    timer: TimerSlot,
    report: Rc<RefCell<Report>>,
}

fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Exchange {
    pub fn spawn(
        on: &Handle,
        mut stream: Box<dyn Stream>,
        total: u64,
        patience: Duration,
        report: Rc<RefCell<Report>>,
    ) {
        on.spawn(|id| {
            on.registrar(id, |r| stream.register(r)).expect("a fresh stream registers");
            Self {
                stream,
                id,
                total,
                patience,
                last_moved: on.now(),
                timer: TimerSlot::default(),
                report,
            }
        });
    }

    fn end(&self, on: &Handle, outcome: Outcome) -> Activity {
        self.report.borrow_mut().outcome = Some(outcome);
        on.remove(self.id);
        Activity::Busy
    }

    fn check(&mut self, on: &Handle, bytes: &[u8]) -> Option<Outcome> {
        self.last_moved = on.now();
        let mut report = self.report.borrow_mut();
        for &byte in bytes {
            if byte != pattern(report.back) || report.back == report.sent {
                return Some(Outcome::Wrong(report.back));
            }
            report.back += 1;
        }
        (report.back == self.total).then_some(Outcome::Whole)
    }

    fn is_over(&self) -> bool {
        self.report.borrow().outcome.is_some()
    }
}

impl Driver for Exchange {
    fn receive(&mut self, on: &Handle) -> Activity {
        let mut bytes = [0; 4096];
        for turn in 0..RECEIVES_PER_TURN {
            let outcome = match self.stream.recv(&mut [IoSliceMut::new(&mut bytes)]) {
                Ok(0) => Some(Outcome::Ended),
                Ok(n) => self.check(on, &bytes[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    return Activity::busy_if(turn > 0);
                }
                Err(e) => Some(Outcome::Failed(e.kind())),
            };
            if let Some(outcome) = outcome {
                return self.end(on, outcome);
            }
        }
        Activity::Busy
    }

    fn work(&mut self, on: &Handle) -> Activity {
        if !self.is_over() && on.now() - self.last_moved >= self.patience {
            return self.end(on, Outcome::Stalled);
        }
        self.timer.arm(on, self.id, self.last_moved + self.patience);
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let from = self.report.borrow().sent;
        if self.is_over() || from == self.total {
            return Activity::Idle;
        }
        let bytes: Vec<u8> = (from..self.total.min(from + 5000)).map(pattern).collect();
        let (first, second) = bytes.split_at(bytes.len() / 3);
        match self.stream.send(&[IoSlice::new(first), IoSlice::new(second)]) {
            Ok(n) => {
                self.report.borrow_mut().sent += n as u64;
                self.last_moved = on.now();
                Activity::Busy
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                Activity::Idle
            }
            Err(e) => self.end(on, Outcome::Failed(e.kind())),
        }
    }
}
