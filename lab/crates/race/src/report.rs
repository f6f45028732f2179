//! The tables of the race: medians of the rounds, ratios within each round.

use serde_json::{Value, json};

use super::{
    rounds::Measured,
    sample::{Cost, Sample},
    statistics::Spread,
    table::{Table, micros, or_dash, rate},
};

/// Names of the ceiling and of weft over its RAM disk.
const CEILING: usize = 0;
const WEFT: usize = 1;

impl Measured {
    /// A figure of one contestant over the rounds.
    fn figure(&self, who: usize, figure: impl Fn(&Sample) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.samples[who].iter().flatten().filter_map(figure))
    }

    /// The ratio of a figure of two contestants, taken within each round.
    fn ratio(
        &self,
        who: usize,
        to: usize,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<Spread> {
        let rounds = self.samples[who].iter().zip(&self.samples[to]);
        Spread::of(
            rounds
                .filter_map(|(one, other)| Some(figure(one.as_ref()?)? / figure(other.as_ref()?)?)),
        )
    }

    /// All rounds, for the results file.
    pub fn json(&self, names: &[String]) -> Value {
        let samples = names.iter().zip(&self.samples).map(|(name, samples)| {
            let rounds: Vec<Value> = samples
                .iter()
                .map(|sample| sample.as_ref().map_or(Value::Null, Sample::json))
                .collect();
            (name.clone(), Value::from(rounds))
        });
        json!({
            "point": self.point.name,
            "repeated": self.repeated,
            "restless": self.restless,
            "samples": samples.collect::<serde_json::Map<_, _>>(),
        })
    }
}

fn iops(sample: &Sample) -> Option<f64> {
    Some(sample.iops)
}

/// A percentile, by its place in a sample.
fn latency(at: usize) -> impl Fn(&Sample) -> Option<f64> {
    move |sample| sample.latency_us.map(|all| all[at])
}

fn range(spread: Option<Spread>) -> String {
    or_dash(spread.map(|s| format!("{} ({}–{})", rate(s.median), rate(s.min), rate(s.max))))
}

fn share(spread: Option<Spread>) -> String {
    or_dash(spread.map(|s| s.to_string()))
}

/// All tables of the race.
pub fn tables(names: &[String], all: &[Measured]) -> Vec<Table> {
    vec![throughput(names, all), latencies(all), ends(all), busy(all)]
}

/// A peer of the race: a ratio of two initiators says nothing about targets, so each is compared
/// with one that has its own.
struct Peer {
    name: &'static str,
    initiator: &'static str,
    /// The contestant that it is compared with, and how the head says so.
    reference: Option<(&'static str, &'static str)>,
}

const PEERS: [Peer; 5] = [
    Peer {
        name: "weft-null",
        initiator: "weft",
        reference: Some(("weft-ram", "weft is … times that")),
    },
    Peer { name: "tgt", initiator: "iscsi-perf", reference: None },
    Peer { name: "weft-iscsi", initiator: "iscsi-perf", reference: Some(("tgt", "… times tgt")) },
    Peer { name: "nbdkit", initiator: "fio", reference: None },
    Peer { name: "weft-nbd", initiator: "fio", reference: Some(("nbdkit", "… times nbdkit")) },
];

fn peer(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}

/// The place of what a peer is compared with, and whether that is divided by the peer rather than
/// the other way round.
fn reference(names: &[String], at: usize) -> Option<(usize, bool)> {
    let (reference, _) = peer(&names[at])?.reference?;
    let reference = names.iter().position(|name| name == reference)?;
    Some((reference, reference == WEFT))
}

fn peer_head(name: &str) -> String {
    match peer(name) {
        Some(Peer { initiator, reference: Some((_, words)), .. }) => {
            format!("{name}, by {initiator} ({words})")
        }
        Some(Peer { initiator, .. }) => format!("{name}, by {initiator}"),
        None => name.to_owned(),
    }
}

/// `5`, or `3 to 5`: the rounds that the medians are of.
fn rounds_of(all: &[Measured]) -> String {
    let counts = || all.iter().map(|measured| measured.samples[WEFT].iter().flatten().count());
    match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

fn throughput(names: &[String], all: &[Measured]) -> Table {
    let peers = &names[WEFT + 1..];
    let mut columns: Vec<String> =
        ["point", "rounds", "ceiling", "weft", "share of the ceiling"].map(str::to_owned).into();
    columns.extend(peers.iter().map(|peer| peer_head(peer)));
    let intro = "Operations per second: medians of the stated number of rounds, the least and the greatest in parentheses. Ratios are taken within each round, and \
                 only between targets that the same initiator measured.";
    let mut table = Table { columns, ..Table::new("Throughput", intro, &[]) };
    for measured in all {
        let mut row =
            vec![measured.point.title.to_owned(), rounds_of(std::slice::from_ref(measured))];
        row.extend([CEILING, WEFT].map(|who| range(measured.figure(who, iops))));
        row.push(share(measured.ratio(WEFT, CEILING, iops)));
        for peer in WEFT + 1..names.len() {
            let ratio = reference(names, peer).and_then(|(at, inverse)| {
                let (one, other) = if inverse { (at, peer) } else { (peer, at) };
                measured.ratio(one, other, iops)
            });
            let times = ratio.map_or_else(String::new, |ratio| format!(" ({:.2})", ratio.median));
            row.push(or_dash(measured.figure(peer, iops).map(|s| rate(s.median) + &times)));
        }
        table.rows.push(row);
    }
    let count = |of: fn(&Measured) -> u32| all.iter().map(of).sum::<u32>();
    let (repeated, restless) = (count(|m| m.repeated), count(|m| m.restless));
    table.notes.push(format!(
        "{repeated} rounds were measured again as the machine changed its phase within them; {restless} were taken although it did."
    ));
    table.notes.extend(four_connections(all));
    table
}

/// What four connections lose against one, at the same depth in all.
fn four_connections(all: &[Measured]) -> Option<String> {
    let of = |name: &str| all.iter().find(|measured| measured.point.name == name);
    let (one, four) = (of("4k-randread-128")?, of("4k-randread-4x32")?);
    let loss = |who: usize| {
        Some((1.0 - four.figure(who, iops)?.median / one.figure(who, iops)?.median) * 100.0)
    };
    Some(format!(
        "Four connections of 32 instead of one of 128: the ceiling loses {:.0} %, weft {:.0} %.",
        loss(CEILING)?,
        loss(WEFT)?
    ))
}

fn latencies(all: &[Measured]) -> Table {
    let columns = [
        "point",
        "weft p50",
        "p99",
        "p99.9",
        "ceiling p50",
        "p99",
        "p99.9",
        "weft's p99 / the ceiling's",
    ];
    let mut table = Table::new(
        "Latency",
        &format!("Microseconds: medians of {} rounds.", rounds_of(all)),
        &columns,
    );
    for measured in all {
        let mut row = vec![measured.point.title.to_owned()];
        for who in [WEFT, CEILING] {
            row.extend(
                [0, 1, 2]
                    .map(|at| or_dash(measured.figure(who, latency(at)).map(|s| micros(s.median)))),
            );
        }
        row.push(share(measured.ratio(WEFT, CEILING, latency(1))));
        table.rows.push(row);
    }
    table
}

fn ends(all: &[Measured]) -> Table {
    let columns = [
        "point",
        "initiator µs (user + system)",
        "target µs (user + system)",
        "ceiling's ends µs",
        "initiator calls",
        "target calls",
        "ceiling's ends calls",
        "payload copied, bytes (initiator, target)",
    ];
    let intro = "Medians of the rounds of the table above, per operation: processor time, productive system calls (empty polls apart), and bytes of payload that the network side copied in user space.";
    let mut table = Table::new("Cost of an operation", intro, &columns);
    for measured in all {
        let cost = |who: usize, initiator: bool, part: fn(&Cost) -> Option<f64>| {
            let median = measured.figure(who, |sample| {
                if initiator { sample.initiator } else { sample.target }.as_ref().and_then(part)
            });
            median.map(|spread| spread.median)
        };
        let cpu = |who, initiator| {
            let both = cost(who, initiator, |c| Some(c.user_us))
                .zip(cost(who, initiator, |c| Some(c.system_us)));
            or_dash(both.map(|(user, system)| format!("{user:.2} + {system:.2}")))
        };
        let total = |who, initiator| {
            or_dash(cost(who, initiator, |c| Some(c.cpu_us())).map(|us| format!("{us:.2}")))
        };
        let calls = |who, initiator| {
            or_dash(cost(who, initiator, |c| c.calls).map(|calls| format!("{calls:.3}")))
        };
        let copied = |initiator| {
            or_dash(cost(WEFT, initiator, |c| c.copied).map(|bytes| format!("{bytes:.0}")))
        };
        table.rows.push(vec![
            measured.point.title.to_owned(),
            cpu(WEFT, true),
            cpu(WEFT, false),
            format!("{}, {}", total(CEILING, true), total(CEILING, false)),
            calls(WEFT, true),
            calls(WEFT, false),
            format!("{}, {}", calls(CEILING, true), calls(CEILING, false)),
            format!("{}, {}", copied(true), copied(false)),
        ]);
    }
    table
}

/// An end that is busy for less than this part of the time is idle in between.
const BUSY: f64 = 0.9;

/// How busy both ends were. They always have something to do between them, so if neither is busy
/// they wait for each other.
fn busy(all: &[Measured]) -> Table {
    let columns = ["point", "weft initiator", "weft target", "ceiling's ends"];
    let intro = "Processor time of each end as a part of the time: medians of the rounds.";
    let mut table = Table::new("Load of both ends", intro, &columns);
    for measured in all {
        let part = |who: usize, initiator: bool| {
            let of = |sample: &Sample| {
                let cost = if initiator { sample.initiator } else { sample.target };
                cost.map(|cost| cost.cpu_us() * sample.iops / 1e6)
            };
            measured.figure(who, of).map(|spread| spread.median)
        };
        let percent =
            |part: Option<f64>| or_dash(part.map(|part| format!("{:.0} %", part * 100.0)));
        let ours = [part(WEFT, true), part(WEFT, false)];
        table.rows.push(vec![
            measured.point.title.to_owned(),
            percent(ours[0]),
            percent(ours[1]),
            format!("{}, {}", percent(part(CEILING, true)), percent(part(CEILING, false))),
        ]);
        if ours.iter().all(|part| part.is_some_and(|part| part < BUSY)) {
            table.notes.push(format!(
                "{}: neither end is busy, so they wait for each other.",
                measured.point.title
            ));
        }
    }
    table
}

/// Rows that are missing or cannot be true: the verdict on a small race.
pub fn faults(names: &[String], all: &[Measured]) -> Vec<String> {
    let mut faults = Vec::new();
    for measured in all {
        for (who, name) in names.iter().enumerate() {
            let ours = who <= WEFT + 1;
            for sample in &measured.samples[who] {
                let fault = match sample {
                    None => ours.then_some("there is no row"),
                    Some(sample) => fault(sample, ours),
                };
                faults.extend(
                    fault.map(|fault| {
                        format!("{name}, {}: {fault}: {sample:?}", measured.point.title)
                    }),
                );
            }
        }
    }
    faults
}

fn fault(sample: &Sample, ours: bool) -> Option<&'static str> {
    let counted = |cost: Option<Cost>| {
        cost.is_some_and(|cost| cost.cpu_us() > 0.0 && cost.calls.is_some_and(|calls| calls > 0.0))
    };
    let ordered = |all: [f64; 3]| all[0] > 0.0 && all.is_sorted();
    if sample.iops <= 0.0 {
        Some("nothing was done")
    } else if !sample.latency_us.map_or(!ours, ordered) {
        Some("percentiles do not ascend")
    } else if ours && !counted(sample.initiator) {
        Some("the initiator's cost is missing")
    } else if ours && !counted(sample.target) {
        Some("the target's cost is missing")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::POINTS;

    fn sample(iops: f64) -> Option<Sample> {
        let cost = Cost { user_us: 0.5, system_us: 1.0, calls: Some(0.2), copied: Some(4096.0) };
        Some(Sample {
            iops,
            latency_us: Some([1.0, 2.0, 3.0]),
            initiator: Some(cost),
            target: Some(cost),
            tuning: None,
        })
    }

    fn measured() -> Measured {
        let samples = vec![
            vec![sample(200.0), sample(100.0)],
            vec![sample(100.0), sample(90.0)],
            vec![sample(50.0), None],
        ];
        Measured { point: POINTS[0], samples, repeated: 1, restless: 0 }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let measured = measured();
        let shares = measured.ratio(WEFT, CEILING, iops).unwrap();
        assert_eq!((shares.min, shares.max), (0.5, 0.9));
        let names = ["ceiling", "weft-ram", "tgt"].map(str::to_owned);
        let table = throughput(&names, &[measured]);
        assert_eq!(
            (table.rows[0][1].as_str(), table.rows[0][4].as_str()),
            ("2", "0.70 (0.50–0.90)")
        );
    }

    #[test]
    fn a_ratio_has_one_initiator() {
        let row = |third: &str, fourth: &str| {
            let names = ["ceiling", "weft-ram", third, fourth].map(str::to_owned);
            let mut all = measured();
            all.samples.push(vec![sample(150.0), sample(80.0)]);
            let table = throughput(&names, &[all]);
            (table.columns[5..].to_vec(), table.rows[0][5..].to_vec())
        };
        let (heads, cells) = row("tgt", "weft-iscsi");
        assert_eq!(heads, ["tgt, by iscsi-perf", "weft-iscsi, by iscsi-perf (… times tgt)"]);
        assert_eq!(cells, ["50", "115 (3.00)"]);
        assert_eq!(row("weft-null", "weft-nbd").1, ["50 (2.00)", "115"]);
        assert_eq!(row("mine", "nbdkit").0, ["mine", "nbdkit, by fio"]);
    }

    #[test]
    fn missing_and_impossible_rows_are_told() {
        let names = ["ceiling", "weft-ram", "weft-null"].map(str::to_owned);
        let mut measured = measured();
        let found = faults(&names, std::slice::from_ref(&measured));
        assert_eq!(found.len(), 1, "{found:?}");
        measured.samples[WEFT][0].as_mut().unwrap().latency_us = Some([2.0, 1.0, 3.0]);
        assert_eq!(faults(&names, &[measured]).len(), 2);
    }
}
