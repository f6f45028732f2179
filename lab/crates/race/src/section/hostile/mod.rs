//! An honest reader together with hundreds of peers that hold on to a target's memory.

mod peers;
mod socket;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{
    super::{
        contestant::Target,
        setting::Setting,
        statistics::Spread,
        table::{Section, Table, rate},
    },
    iops, reads,
};
use peers::{Crowd, Manner, Protocol};

/// Peers.
const PEERS: usize = 300;

/// Operations that the reader has under way.
const DEPTH: u32 = 32;

/// Where the peers are: on a host of their own, or on the reader's, with which they then share what
/// a host may have.
const PLACES: [(&str, &str); 2] = [("another", "127.0.0.2"), ("the same", "127.0.0.1")];

/// What the reader did, round by round, and the target's memory.
#[derive(Default)]
struct Found {
    alone: Vec<f64>,
    beside: Vec<f64>,
    /// Resident memory of the target before the peers came, and the most while they were there,
    /// bytes.
    memory: [u64; 2],
}

/// Measures the reader alone and together with the peers, in turn.
pub fn run(setting: &Setting) -> Result<Section> {
    let mut table = Table::new(
        "Hostile peers",
        &format!(
            "4 KiB random reads of a `null:` device at depth {DEPTH} over one connection, alone and next to {} connections that hold on to the \
             target's memory, in turn: they announce writes of 1 MiB and send nothing of them (NVMe/TCP: never answer an R2T; iSCSI: hold \
             immediate data back, too), or ask for reads of 1 MiB and take no answers. {} rounds; the ratio is taken within a round: median, \
             least and greatest. Memory is the target's resident memory: before, and at most.",
            count(setting),
            setting.rounds
        ),
        &["protocol", "the peers", "from", "alone", "beside them", "ratio", "memory"],
    );
    let mut data = Vec::new();
    for protocol in Protocol::ALL {
        for manner in Manner::ALL {
            for (place, address) in PLACES {
                eprintln!(
                    "{} peers that {} ({}), from {place} address",
                    count(setting),
                    manner.text(),
                    protocol.text()
                );
                let found = measure(setting, protocol, manner, address)?;
                table.rows.push(row(protocol, manner, place, &found));
                data.push(found.json(protocol, manner, address));
            }
        }
    }
    table.notes.push(
        "A host is an address. What peers of the reader's own address leave to it is what is guaranteed to each connection."
            .into(),
    );
    Ok(Section { name: "hostile", tables: vec![table], data: Value::Array(data) })
}

fn count(setting: &Setting) -> usize {
    if setting.small { 20 } else { PEERS }
}

fn measure(setting: &Setting, protocol: Protocol, manner: Manner, address: &str) -> Result<Found> {
    let cpu = setting.target_cpu.to_string();
    let source = format!("null:{}", setting.memory_bytes);
    let mut target = Target::with(
        setting,
        &source,
        protocol.listen(),
        &["--threads", "1", "--cpus_allowed", &cpu],
    )?;
    let job = reads(setting, DEPTH, &[&format!("--cpus_allowed={}", setting.initiator_cpu)]);
    let before = target.process.memory("VmRSS")?;
    let mut found = Found { memory: [before, before], ..Found::default() };
    for _ in 0..setting.rounds {
        found.alone.push(iops(&target.bench(setting, &job)?.0));
        let crowd = Crowd::connect(protocol, manner, &target.url, address, count(setting))?;
        let beside = iops(&target.bench(setting, &job)?.0);
        let (there, all) = (crowd.standing()?, crowd.connections());
        ensure!(
            there >= all,
            "{there} of {all} connections of the peers were still there: the measurement took too long"
        );
        found.beside.push(beside);
    }
    found.memory[1] = target.process.memory("VmHWM")?;
    ensure!(
        found.beside.iter().all(|&iops| iops > 0.0),
        "the reader completed nothing next to them"
    );
    Ok(found)
}

impl Found {
    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.alone.iter().zip(&self.beside).map(|(alone, beside)| beside / alone)
    }

    fn json(&self, protocol: Protocol, manner: Manner, address: &str) -> Value {
        json!({
            "protocol": protocol.text(), "peers": manner.text(), "address": address, "alone": self.alone, "beside": self.beside,
            "ratios": self.ratios().collect::<Vec<_>>(), "memory_bytes": self.memory,
        })
    }
}

fn row(protocol: Protocol, manner: Manner, place: &str, found: &Found) -> Vec<String> {
    let median = |values: &[f64]| {
        Spread::of(values.iter().copied()).map_or_else(String::new, |spread| rate(spread.median))
    };
    let ratio = Spread::of(found.ratios());
    let ratio = ratio.map_or_else(String::new, |s| s.to_string());
    let [before, most] = found.memory.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let memory = format!("{before:.0} → {most:.0} MiB");
    let [protocol, manner, place] = [protocol.text(), manner.text(), place].map(str::to_owned);
    vec![protocol, manner, place, median(&found.alone), median(&found.beside), ratio, memory]
}
