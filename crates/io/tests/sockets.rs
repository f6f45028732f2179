//! The drivers of the simulation's tests on real sockets.

use crate::common;
use crate::exchange::{Exchange, Outcome, Report};
use core::time::Duration;
use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use weft_io::connect::{ConnectFailure, Connected, connect};
use weft_io::{Handle, Loop, LoopConfig};

/// Far more than any of this takes.
const LIMIT: Duration = Duration::from_secs(60);

/// An address where nobody listens.
fn refusing() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Connects on a loop and runs it until that has ended and `then` stopped the loop.
fn run(event_loop: &mut Loop, to: &[SocketAddr], then: impl FnOnce(&Handle, Connected) + 'static) {
    connect(event_loop.handle(), to, LIMIT, then);
    event_loop.run().unwrap();
}

#[test]
fn connects_to_the_address_that_answers_and_exchanges_bytes() {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let good = common::serve_echo(event_loop.handle(), "127.0.0.1:0", common::no_trouble);
    let report = Rc::new(RefCell::new(Report::default()));
    let theirs = Rc::clone(&report);
    let over = Rc::clone(&report);
    event_loop.handle().spawn(|id| Watcher { id, over });
    run(&mut event_loop, &[refusing(), good.parse().unwrap()], move |on, stream| {
        let stream = stream.unwrap();
        assert_eq!(stream.peer(), good);
        Exchange::spawn(on, stream, 1 << 20, LIMIT, theirs);
    });
    assert_eq!(report.borrow().outcome, Some(Outcome::Whole));
}

#[test]
fn a_refusal_names_the_address() {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let nobody = refusing();
    run(&mut event_loop, &[nobody], move |on, result| {
        on.stop();
        match result {
            Err(ConnectFailure::Failed(failures)) => {
                assert_eq!((failures.len(), failures[0].to), (1, nobody));
                assert_eq!(failures[0].error.kind(), ErrorKind::ConnectionRefused);
            }
            other => panic!("{:?}", other.map(|s| s.peer())),
        }
    });
}

/// Stops the loop when the exchange is over.
struct Watcher {
    id: weft_io::DriverId,
    over: Rc<RefCell<Report>>,
}

impl weft_io::Driver for Watcher {
    fn work(&mut self, on: &Handle) -> weft_io::Activity {
        match self.over.borrow().outcome {
            Some(_) => on.stop(),
            None => on.wake_at(self.id, on.now() + Duration::from_millis(5)),
        }
        weft_io::Activity::Idle
    }
}
