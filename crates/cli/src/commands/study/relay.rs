//! Lanes with a relay in front of their target.

use super::super::child::Spawned;
use super::lateness::Lateness;
use super::serving::{scheme, serve, url_of};
use super::setup::Opener;
use crate::exit::Failure;
use std::rc::Rc;
use weft_bench::study::{Lane, Peer, ReadCounters};
use weft_bench::suite::{LaneTemplate, Through};
use weft_block::ErrorKind;

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
