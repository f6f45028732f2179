//! Lanes with a relay in front of their target, and how exact the relays were.

use super::super::child::Spawned;
use super::serving::{scheme, serve, url_of};
use super::setup::Opener;
use crate::exit::Failure;
use std::cell::RefCell;
use std::rc::Rc;
use weft_bench::study::{Lane, Peer, ReadCounters};
use weft_bench::suite::{LaneTemplate, Through};
use weft_block::ErrorKind;

/// How late the relays of a study have sent, µs: the greatest of all of them.
#[derive(Clone, Default)]
pub struct Lateness(Rc<RefCell<Option<Late>>>);

#[derive(Clone, Copy, Default)]
struct Late {
    p50_us: u64,
    p99_us: u64,
}

impl Lateness {
    fn add(&self, relay: &Spawned) {
        let Some(counted) = relay.counted() else { return };
        let of = |name: &str| counted[name].as_u64().unwrap_or(0);
        let mut all = self.0.borrow_mut();
        let late = all.get_or_insert_default();
        late.p50_us = late.p50_us.max(of("p50_us"));
        late.p99_us = late.p99_us.max(of("p99_us"));
    }

    /// A note for the report, if there was a relay.
    pub fn note(&self) -> Option<String> {
        let Late { p50_us, p99_us } = (*self.0.borrow())?;
        Some(format!(
            "The distance is that of a relay on this machine, not of a network: it sends what it received half a round trip later. It was late itself, \
             by {p50_us} µs in the median and by {p99_us} µs in 1 of 100 cases at most, and it takes processor time of this machine."
        ))
    }
}

/// A relay, which is asked before it ends.
struct Relay {
    process: Spawned,
    lateness: Lateness,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.lateness.add(&self.process);
    }
}

impl Opener<'_> {
    /// A lane to a target of its own behind a relay.
    pub(super) fn far(&self, template: &LaneTemplate) -> Result<Lane, Failure> {
        let target =
            Rc::new(serve(&self.source, &[scheme(template.through)], self.address(), self.cores)?);
        let near = url_of(&target, template, &self.source)?;
        let odd = || Failure::of(ErrorKind::Io, format!("{near} has no address of TCP"));
        let (before, rest) = near.split_once("://").ok_or_else(odd)?;
        let (address, path) = rest.split_once('/').ok_or_else(odd)?;
        let (delay, mbit) = (template.round_trip_us / 2, template.mbit);
        let (delay, mbit, own) = (delay.to_string(), mbit.to_string(), self.address().to_string());
        let args = ["study-relay", "--to", address, "--delay-us", &delay, "--mbit", &mbit];
        let process = Spawned::start(&[&args[..], &["--address", &own]].concat())?;
        let place = process.url().strip_prefix("tcp://").ok_or_else(odd)?;
        let url = format!("{before}://{place}/{path}");
        let setup = vec![target.command().to_owned(), process.command().to_owned()];
        let relay = Relay { process, lateness: self.lateness.clone() };
        let lane =
            self.remote(template, &self.options, &url, Some(&target), Some(Through::Local))?;
        // The relay lives as long as somebody can ask the target.
        let counters: ReadCounters = Box::new(move || {
            let _ = &relay;
            target.counters()
        });
        let title = format!("{}, {} away", template.title(), distance(template.round_trip_us));
        let peer = Peer { setup, ..Peer::default() };
        Ok(Lane { title, target_counters: Some(counters), peer, ..lane })
    }
}

/// A round trip, for people.
fn distance(us: u32) -> String {
    if us.is_multiple_of(1000) { format!("{} ms", us / 1000) } else { format!("{us} µs") }
}
