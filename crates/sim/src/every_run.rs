//! Shared by runs of all kinds: times, a report, a network, options, and the last look at a store.

use crate::config::{CONNECT_TIMEOUT, Config, SimProtocol};
use crate::holds;
use crate::journal::SimJournal;
use crate::oracle::Oracle;
use crate::scene::Scene;
use crate::stamp::UNIT_BYTES;
use crate::store::BlockStore;
use crate::wanted::{Transport, Wanted};
use crate::workload::{Shared, SharedWorkload};
use core::time::Duration;
use weft_endpoint::identity::Identities;
use weft_endpoint::{ConnectOptions, Control, Names};
use weft_io::sim::{HostId, LoopId, NetConfig, Rng, World};
use weft_io::{LoopConfig, Time};

/// How often whoever is outside of the loops is looked after.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// How long all operations of a run together take at most, whatever the options. A run is over long
/// before.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(3600);

/// How long it takes at most until nothing is left of any connection: TCP gives one up after 127 s
/// that nobody ended.
pub(crate) const QUIET: Duration = Duration::from_secs(300);

/// Report of a run.
#[derive(Clone, Debug)]
pub struct SimReport {
    /// The seed.
    pub seed: u64,
    /// The set-up, in a line.
    pub setup: String,
    /// The violation, if there was one.
    pub violation: Option<String>,
    /// Operations that ended, and how many of them without success.
    pub operations: [u64; 2],
    /// Devices that initiators opened.
    pub opened: u64,
    /// The longest that an operation took after everything had healed, and the longest that the
    /// options allow.
    pub longest: [Duration; 2],
    /// Gateways of a group that ended because they had lost the cluster.
    pub losses: u64,
    /// Virtual time.
    pub span: Duration,
    /// Hash of all that happened.
    pub hash: u64,
    /// Events, if somebody listened.
    pub trace: Vec<String>,
}

impl SimReport {
    /// The report of a run that has come to its end, by its seed and set-up, the workloads and the
    /// devices that were opened for them.
    pub(crate) fn of<'a>(
        (seed, setup): (u64, String),
        workloads: impl Iterator<Item = &'a Shared> + Clone,
        opened: u64,
        (world, journal): (&World, &SimJournal),
    ) -> Self {
        let count = |of: fn(&SharedWorkload) -> u64| {
            workloads.clone().map(|it| of(&it.borrow())).sum::<u64>()
        };
        Self {
            seed,
            setup,
            violation: journal.first_violation(),
            operations: [count(|it| it.ended), count(|it| it.failed)],
            opened,
            longest: [Duration::ZERO; 2],
            losses: 0,
            span: world.now().since_epoch(),
            hash: world.trace_hash(),
            trace: journal.take_lines(),
        }
    }

    /// The report of a run that did not come to its end.
    pub fn nothing(seed: u64, wanted: Wanted) -> Self {
        let (scene, mut choices) = Scene::of(seed, wanted.scene);
        let (transport, _) = Transport::of(seed, wanted.transport);
        let mut config = Config::of(&mut seeded(seed), (scene, &mut choices), transport);
        holds::shape(seed, &mut config);
        let setup = config.to_string();
        let (violation, trace, longest) = (None, Vec::new(), [Duration::ZERO; 2]);
        Self {
            seed,
            setup,
            violation,
            operations: [0; 2],
            opened: 0,
            longest,
            losses: 0,
            span: Duration::ZERO,
            hash: 0,
            trace,
        }
    }
}

/// The choices of a seed.
pub(crate) fn seeded(seed: u64) -> Rng {
    Rng::new(seed ^ 0x7765_6674)
}

/// Tells the journal where a store does not hold what the oracle expects, looked at directly.
pub(crate) fn check_store(
    store: &BlockStore,
    (config, oracle): (&Config, &Oracle),
    now: Time,
    journal: &SimJournal,
) {
    let units = u64::from(config.units());
    for lba in 0..u64::from(config.blocks()) {
        let content = store.peek(lba, now);
        for (unit, part) in (lba * units..).zip(content.chunks(UNIT_BYTES)) {
            if let Err(text) = oracle.check_stored(unit, part) {
                journal.violation(text);
            }
        }
    }
}

/// The options of everybody who opens something.
pub(crate) fn options(config: &Config, protocol: SimProtocol, quiesce: Duration) -> ConnectOptions {
    let has_digests = protocol != SimProtocol::NvmeRdma;
    ConnectOptions {
        nr_io_queues: config.queues as u16,
        queue_size: config.queue_size,
        hdr_digest: config.header_digest && has_digests,
        data_digest: config.data_digest && has_digests,
        keep_alive_ms: config.keep_alive_ms,
        quiesce_time: quiesce,
        io_timeout: config.io_timeout,
        connect_timeout: CONNECT_TIMEOUT,
        ..ConnectOptions::default()
    }
}

/// A network that is drawn from the seed: delays of every order, differing from connection to
/// connection, and pieces of every size.
pub(crate) fn network(rng: &mut Rng) -> NetConfig {
    let mut net = NetConfig::drawn(rng);
    // Slower ones only cost time.
    net.turn = (Duration::from_micros(1), Duration::from_micros(1 + rng.magnitude(20)));
    if let weft_io::sim::Chunking::AtMost(bytes) = net.chunking {
        net.chunking = weft_io::sim::Chunking::AtMost(bytes.max(64));
    }
    net
}

/// Loops of a process on a host.
pub fn loops(world: &mut World, host: HostId, count: usize) -> Vec<LoopId> {
    let config = LoopConfig { spin: Duration::from_micros(2), ..LoopConfig::default() };
    (0..count).map(|_| world.add_loop(host, &config)).collect()
}

/// The control of a process, on a loop of it.
pub fn control(world: &World, on: LoopId, identities: Identities) -> Control {
    Control::on(world.handle(on).remote(), Names::Table([].into()), identities)
}
