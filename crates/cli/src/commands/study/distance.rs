//! Lanes with a distance between initiator and target.

use super::super::internal::child::Spawned;
use super::lateness::Lateness;
use super::serving::{scheme, serve, url_of};
use super::setup::StudySetup;
use super::shape::Shape;
use crate::process::exit::Failure;
use std::rc::Rc;
use weft_bench::study::{LanePeer, ReadCounters, StudyLane};
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

impl StudySetup<'_> {
    /// A lane to a target of its own at a distance.
    pub(super) fn far(&self, template: &LaneTemplate) -> Result<StudyLane, Failure> {
        match self.shape {
            Shape::Relay => self.behind_relay(template),
            #[cfg(target_os = "linux")]
            Shape::Netem => self.behind_netem(template),
        }
    }

    fn behind_relay(&self, template: &LaneTemplate) -> Result<StudyLane, Failure> {
        let schemes = [scheme(template.through)];
        let target = Rc::new(serve(&self.source, &schemes, self.address(), self.cores)?);
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
        self.at_distance(template, &target, &url, setup, relay)
    }

    /// The network ends after its target.
    #[cfg(target_os = "linux")]
    fn behind_netem(&self, template: &LaneTemplate) -> Result<StudyLane, Failure> {
        use super::netem::Network;
        let network = Network::make(self.kernel()?, template.round_trip_us / 2, template.mbit)
            .map_err(|why| Failure::of(ErrorKind::Io, why))?;
        let schemes = [scheme(template.through)];
        let target = Rc::new(network.serve(&self.source, &schemes, self.cores)?);
        let url = url_of(&target, template, &self.source)?;
        let setup = [network.setup(), &[target.command().to_owned()]].concat();
        self.at_distance(template, &target, &url, setup, network)
    }

    /// The lane. What is `between` the ends lasts as long as somebody can ask the target.
    fn at_distance(
        &self,
        template: &LaneTemplate,
        target: &Rc<Spawned>,
        url: &str,
        setup: Vec<String>,
        between: impl Sized + 'static,
    ) -> Result<StudyLane, Failure> {
        let lane = self.remote(template, &self.options, url, Some(target), Some(Through::Local))?;
        let ends = (Rc::clone(target), between);
        let counters: ReadCounters = Box::new(move || {
            let (target, _between) = &ends;
            target.counters()
        });
        let title = format!("{}, {} away", template.title(), distance(template.round_trip_us));
        let peer = LanePeer { setup, ..LanePeer::default() };
        Ok(StudyLane { title, target_counters: Some(counters), peer, ..lane })
    }
}

/// A round trip, for people.
fn distance(us: u32) -> String {
    if us.is_multiple_of(1000) { format!("{} ms", us / 1000) } else { format!("{us} µs") }
}
