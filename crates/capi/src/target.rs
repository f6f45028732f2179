//! A target in this process.

use crate::failure::{CallFailure, Code};
use crate::fork;
use crate::limits::CLOSE_S;
use crate::signals::Blocked;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::Device;
use weft_block::switch::Switch;
use weft_endpoint::Control;
use weft_endpoint::inventory::Subsystem;
use weft_endpoint::report::{Report, SubsystemReport};
use weft_endpoint::statistics::KindCounts;
use weft_proto::nvme::types::Nsid;
use weft_server::config::{Desired, NoSourceOptions, SourceOptions, read};
use weft_server::served::ServedState;
use weft_server::server::BareServer;
use weft_server::{Environment, Error};

/// Devices of the target, with what exchanges their filters.
type Switches = Arc<Lock<Vec<(Device, Switch)>>>;

/// A running target.
pub struct Target {
    server: BareServer,
    switches: Switches,
    control: Control,
}

type Read = fn(&Report) -> u64;

/// All counters.
pub const COUNTERS: [(&str, Read); 9] = [
    ("connections", |report| report.open_connections as u64),
    ("errors", |report| {
        let kinds = |of: &SubsystemReport| of.counts.total().errors;
        report.subsystems.iter().map(kinds).sum()
    }),
    ("hosts", |report| report.hosts.len() as u64),
    ("in-flight", |report| report.subsystems.iter().map(|of| of.counts.in_flight).sum()),
    ("others", |report| sum(report, |of| &of.counts.other, |counts| counts.operations)),
    ("read-bytes", |report| sum(report, |of| &of.counts.read, |counts| counts.bytes)),
    ("reads", |report| sum(report, |of| &of.counts.read, |counts| counts.operations)),
    ("write-bytes", |report| sum(report, |of| &of.counts.write, |counts| counts.bytes)),
    ("writes", |report| sum(report, |of| &of.counts.write, |counts| counts.operations)),
];

fn sum(
    report: &Report,
    kind: fn(&SubsystemReport) -> &KindCounts,
    count: fn(&KindCounts) -> u64,
) -> u64 {
    report.subsystems.iter().map(|of| count(kind(of))).sum()
}

/// What the text of a configuration asks for.
fn parse(configuration: &str) -> Result<Desired, CallFailure> {
    let options = (Path::new(""), &NoSourceOptions as &dyn SourceOptions);
    Ok(read(configuration, "the configuration", options).map_err(Error::from)?)
}

impl Target {
    /// Starts a target as a configuration says, whose paths begin at the working directory.
    ///
    /// # Errors
    /// The text is wrong, NBD clients would find no export, or a source or listener cannot be
    /// opened.
    pub fn start(configuration: &str) -> Result<Self, CallFailure> {
        fork::begin()?;
        // All threads are started from here, or from threads that are.
        let _blocked = Blocked::now();
        let desired = parse(configuration)?;
        if let Some(nameless) = ServedState::of(&desired).nameless() {
            return Err(CallFailure::usage(nameless));
        }
        let control = Control::new();
        let queues = u16::try_from(desired.loops.count()).unwrap_or(u16::MAX);
        let switches = Switches::default();
        let made = Arc::clone(&switches);
        let environment = Environment {
            connect: NoSourceOptions.options(&desired.connect, queues, &control)?,
            front: Some(Arc::new(move |device| {
                let (switch, device) = Switch::new(device);
                let entry = (Arc::clone(&device), switch);
                let mut made = made.lock();
                // Those that no namespace has since a change.
                made.retain(|(device, _)| Arc::strong_count(device) > 1);
                made.push(entry);
                device
            })),
            ..Environment::default()
        };
        let server = BareServer::start(&desired, &environment)?;
        Ok(Self { server, switches, control })
    }

    /// The URL of a listener, from 0 on; `None` beyond the last.
    pub fn url(&self, number: usize) -> Option<String> {
        self.server.urls().into_iter().nth(number)
    }

    /// Puts filters in front of a namespace, in the place of those before. Without a name of a
    /// subsystem it is the first one that has the namespace.
    ///
    /// # Errors
    /// There is no such namespace; what is wrong with the filters.
    pub fn set_filters(
        &self,
        subsystem: Option<&str>,
        nsid: u32,
        filters: &str,
    ) -> Result<(), CallFailure> {
        let inventory = self.server.inventory();
        let named = |of: &&Subsystem| subsystem.is_none_or(|name| of.nqn.as_str() == name);
        let subsystems = inventory.subsystems().iter().map(AsRef::as_ref).filter(named);
        let found = subsystems.filter_map(|of| inventory.namespace(&of.nqn, Nsid(nsid))).next();
        let none = || {
            let of = subsystem.map(|name| format!(" of {name}")).unwrap_or_default();
            CallFailure::new(Code::NotFound, format!("there is no namespace {nsid}{of}"))
        };
        let namespace = found.ok_or_else(none)?;
        let switches = self.switches.lock();
        let of = switches.iter().find(|(device, _)| Arc::ptr_eq(device, namespace.given()));
        let (_, switch) = of.ok_or_else(none)?;
        Ok(switch.set(filters)?)
    }

    /// Changes what is served into what a configuration asks for, also if that takes away what
    /// hosts use.
    ///
    /// # Errors
    /// The text is wrong, or differs in what cannot change while the target runs; a source cannot
    /// be opened. Nothing has changed then.
    pub fn apply(&self, configuration: &str) -> Result<(), CallFailure> {
        // Sources may start threads.
        let _blocked = Blocked::now();
        Ok(self.server.apply(&mut parse(configuration)?)?)
    }

    /// Closes all connections. Hosts may come back at once.
    pub fn disconnect(&self) {
        self.server.disconnect();
    }

    /// Stops listening, and closes all connections.
    ///
    /// # Errors
    /// None that is known.
    pub fn leave(&self) -> Result<(), CallFailure> {
        Ok(self.server.leave()?)
    }

    /// Listens again at the same addresses.
    ///
    /// # Errors
    /// An address is in use.
    pub fn come_back(&self) -> Result<(), CallFailure> {
        Ok(self.server.come_back()?)
    }

    /// A counter.
    ///
    /// # Errors
    /// There is none with this name.
    pub fn counter(&self, name: &str) -> Result<u64, CallFailure> {
        match COUNTERS.iter().find(|(known, _)| *known == name) {
            Some((_, read)) => Ok(read(&self.server.report())),
            None => {
                let known: Vec<&str> = COUNTERS.iter().map(|(known, _)| *known).collect();
                let text =
                    format!("there is no counter \"{name}\"; there are {}", known.join(", "));
                Err(CallFailure::new(Code::NotFound, text))
            }
        }
    }

    /// The state of the target, as `weft status --json` prints it.
    ///
    /// # Errors
    /// None that is known.
    pub fn report(&self) -> Result<String, CallFailure> {
        let text = serde_json::to_string(&self.server.report());
        text.map_err(|e| CallFailure::new(Code::Internal, e.to_string()))
    }

    /// Ends the target: commands in flight have a bounded time, then connections close.
    ///
    /// # Errors
    /// A device could not be flushed.
    pub fn stop(self) -> Result<(), CallFailure> {
        let Self { server, switches, control } = self;
        let stopped = server.stop();
        drop(switches);
        control.finish_within(Duration::from_secs(CLOSE_S));
        Ok(stopped?)
    }
}
