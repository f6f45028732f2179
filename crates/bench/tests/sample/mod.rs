//! Studies to draw: a plausible one, and what remains of it when parts are missing.

use weft_bench::relation::{Estimate, Scale};
use weft_bench::results::{
    Cell, CpuPerIo, Curve, CurveEnd, Drawing, EndCounts, Figure, Lane, Latency, Machine,
    MeasuredCounts, Metric, OpenLoop, Point, Published, Quantity, Relation, Results, Row, Skipped,
    Workload,
};

/// Studies of all kinds, without the hostile one.
pub fn all() -> Vec<Results> {
    vec![
        study(),
        unstable(),
        remote_only(),
        many_lanes(),
        empty(),
        not_numbers(),
        null_suite(),
        matrix(),
        against(),
        with_open_loop(),
        with_curves(),
    ]
}

/// A study of a RAM disk over NVMe/TCP: made-up, plausible numbers.
pub fn study() -> Results {
    let mut results: Results = serde_json::from_str(include_str!("../fixtures/study.json"))
        .expect("the fixture follows the schema");
    results.draw = vec![Drawing::Iops, Drawing::Shares, Drawing::Latency, Drawing::Cpu];
    let around = |iops: f64| Some((iops * 0.98, iops * 1.02));
    results.rows.iter_mut().for_each(|row| row.interval = around(row.iops));
    results.ceiling.iter_mut().for_each(|ceiling| ceiling.interval = around(ceiling.iops));
    results
}

/// The same against somebody else's target: no local lane, no processor time of the target.
pub fn remote_only() -> Results {
    let mut results = study();
    results.lanes.retain(|lane| !lane.is_local());
    results.rows.retain(|row| row.lane != Lane::LOCAL);
    for row in &mut results.rows {
        (row.share_of_local, row.target) = (None, None);
    }
    results
}

/// Relations with their intervals, as they are measured side by side.
pub fn relations() -> Vec<Relation> {
    let nvme = |to| (Lane::NVME_TCP, to);
    vec![
        relation(nvme(Some(Lane::LOCAL)), "qd1-4k-randread", Quantity::Latency, (9100.0, 9800.0)),
        relation(nvme(Some(Lane::LOCAL)), "4k-randread", Quantity::Cpu, (1900.0, 2100.0)),
        relation(nvme(None), "4k-randread", Quantity::Rate, (0.74, 0.78)),
    ]
}

/// One with this interval.
pub fn relation(
    (lane, to): (&str, Option<&str>),
    workload: &str,
    quantity: Quantity,
    (low, high): (f64, f64),
) -> Relation {
    let (scale, value) = match quantity {
        Quantity::Rate => (Scale::Ratio, (low * high).sqrt()),
        _ => (Scale::Difference, (low + high) / 2.0 - (high - low) / 14.0),
    };
    let estimate = Estimate { scale, value, low, high, blocks: 1, pairs: 9 };
    Relation {
        lane: lane.into(),
        to: to.map(str::to_owned),
        workload: workload.into(),
        quantity,
        estimate,
        of_blocks: Vec::new(),
    }
}

/// Eight lanes: more than there are colours.
pub fn many_lanes() -> Results {
    let mut results = study();
    let (lane, rows) = (results.lanes[1].clone(), results.rows.clone());
    for at in 2..8 {
        let name = format!("lane-number-{at}");
        results.lanes.push(Lane {
            name: name.clone(),
            title: format!("Lane number {at}"),
            ..lane.clone()
        });
        results.rows.extend(
            rows.iter()
                .filter(|row| row.lane == lane.name)
                .map(|row| Row { lane: name.clone(), ..row.clone() }),
        );
    }
    results
}

/// Most rows over the network are not steady.
pub fn unstable() -> Results {
    let mut results = study();
    for row in results.rows.iter_mut().filter(|row| row.lane != Lane::LOCAL) {
        row.interval = Some((row.iops * 0.99, row.iops * 1.06));
    }
    results
}

/// Nothing was measured.
pub fn empty() -> Results {
    let mut results = study();
    results.machine = Machine::default();
    (results.lanes, results.workloads, results.rows) = (vec![], vec![], vec![]);
    (results.ceiling, results.notes) = (vec![], vec![]);
    results
}

/// Numbers that a division by zero leaves.
pub fn not_numbers() -> Results {
    let mut results = study();
    for (row, value) in
        results.rows.iter_mut().zip([f64::NAN, f64::INFINITY, 0.0, -1.0].into_iter().cycle())
    {
        (row.iops, row.bytes_per_second, row.spread) = (value, value, (value, value));
        row.latency.p50_ns = value;
        row.latency.p999_ns = Some(value);
        (row.interval, row.seconds, row.steal) = (Some((value, value)), value, Some(value));
        row.initiator.user_ns = value;
        (row.share_of_local, row.share_of_ceiling) = (Some(value), Some(value));
    }
    results
}

/// Names that mean something to HTML and to a terminal.
pub fn hostile() -> Results {
    let mut results = study();
    let text = "<script>alert('&')</script>\"\u{1b}[31m";
    results.machine.name = text.to_owned();
    results.machine.cpu = text.to_owned();
    results.lanes[1].title = text.to_owned();
    results.lanes[1].url = text.to_owned();
    results.workloads[0].title = text.to_owned();
    results.notes.push(text.to_owned());
    results
}

/// A null suite of two lanes: iSCSI costs twice the processor time and system calls, and the same
/// bytes.
pub fn null_suite() -> Results {
    let mut results = study();
    let workload = Workload {
        name: "4k-randrw70-256jobs".into(),
        rw: "randrw".into(),
        jobs: 256,
        ..results.workloads[0].clone()
    };
    let (lane, row) = (results.lanes[1].clone(), results.rows[1].clone());
    let of = |name: &str, factor: f64| {
        let end = EndCounts { system_calls: 0.02 * factor, copied_bytes: 0.0 };
        let cpu = CpuPerIo { user_ns: 500.0 * factor, system_ns: 1000.0 * factor };
        Row {
            lane: name.into(),
            workload: workload.name.clone(),
            iops: 200_000.0 / factor,
            spread: (196_000.0 / factor, 204_000.0 / factor),
            interval: Some((198_000.0 / factor, 202_000.0 / factor)),
            read_iops: 140_000.0 / factor,
            write_iops: 60_000.0 / factor,
            latency: Latency { mean_ns: 1.25e6 * factor, ..row.latency },
            reads: Latency {
                mean_ns: 1.5e6 * factor,
                p90_ns: 1.8e6 * factor,
                ..Latency::default()
            },
            writes: Latency { mean_ns: 1e6 * factor, p90_ns: 1.2e6 * factor, ..Latency::default() },
            initiator: cpu,
            target: Some(cpu),
            counts: Some(MeasuredCounts {
                ios: 51_200,
                wire_bytes: 4192.0,
                initiator: end,
                target: Some(end),
            }),
            ..row.clone()
        }
    };
    results.rows = vec![of(Lane::ISCSI, 2.0), of(Lane::NVME_TCP, 1.0)];
    let titled =
        [(Lane::ISCSI, "iSCSI over the loopback"), (Lane::NVME_TCP, "NVMe/TCP over the loopback")];
    results.lanes = titled
        .map(|(name, title)| Lane { name: name.into(), title: title.into(), ..lane.clone() })
        .into();
    results.published = published();
    results.draw = vec![Drawing::SideBySide, Drawing::Published];
    (results.suite, results.reference) = ("null".into(), Some(Lane::ISCSI.into()));
    (results.workloads, results.ceiling) = (vec![workload], vec![]);
    results
}

/// Two targets of iSCSI with two initiators, one pair of which is not possible, and a target that
/// is not installed. weft’s initiator does half of what the other does on the same target.
pub fn matrix() -> Results {
    let mut results = study();
    let (mut lane, nvme) = (results.lanes[1].clone(), Lane::NVME_TCP);
    lane.cell = Some(Cell::new("NVMe/TCP", Some(Cell::OWN), Some(Cell::OWN)));
    let iscsi = |name: &str, target: &str, initiator: &str| Lane {
        name: name.into(),
        title: format!("{target}, iSCSI"),
        cell: Some(Cell::new("iSCSI", Some(target), Some(initiator))),
        ..lane.clone()
    };
    let (own, perf) = (Cell::OWN, "iscsi-perf");
    results.lanes = vec![
        lane.clone(),
        iscsi("iscsi", own, own),
        iscsi("tgt", "tgt", own),
        iscsi("tgt-iscsi-perf", "tgt", perf),
    ];
    results.skipped = [(Some(own), Some(perf)), (Some("nbd-server"), None)]
        .map(|(target, initiator)| Skipped {
            lane: "other".into(),
            why: "it is not installed: `apt-get install it`.".into(),
            cell: Some(Cell::new("iSCSI", target, initiator)),
        })
        .into();
    results.reference = Some(nvme.into());
    results.draw = vec![Drawing::Matrix];
    results.relations = vec![
        relation(("iscsi", Some(nvme)), "4k-randread", Quantity::Rate, (0.93, 0.97)),
        relation(("iscsi", Some(nvme)), "qd1-4k-randread", Quantity::Latency, (-400.0, 900.0)),
        relation(("tgt", Some(nvme)), "4k-randread", Quantity::Rate, (0.23, 0.27)),
        relation(("tgt", Some(nvme)), "4k-randread", Quantity::InitiatorCpu, (100.0, 200.0)),
        relation(("tgt", Some(nvme)), "4k-randread", Quantity::TargetCpu, (5000.0, 6000.0)),
        relation(("tgt-iscsi-perf", Some("tgt")), "4k-randread", Quantity::Rate, (1.9, 2.1)),
    ];
    results
}

/// NVMe/TCP against the device, against iSCSI and against another project's target.
pub fn against() -> Results {
    let mut results = study();
    let nvme = Lane::NVME_TCP;
    let like = |name: &str, title: &str, rival: Option<&str>| Lane {
        name: name.into(),
        title: title.into(),
        rival: rival.map(str::to_owned),
        ..results.lanes[1].clone()
    };
    let lanes =
        [like("iscsi", "iSCSI over the loopback", None), like("tgt", "tgt, iSCSI", Some("iscsi"))];
    let of_nvme: Vec<Row> = results.rows.iter().filter(|row| row.lane == nvme).cloned().collect();
    for lane in &lanes {
        let rows = of_nvme.iter().cloned().map(|row| Row { lane: lane.name.clone(), ..row });
        results.rows.extend(rows);
    }
    results.lanes.extend(lanes);
    (results.reference, results.draw) = (Some(nvme.into()), vec![Drawing::Against, Drawing::Cpu]);
    let of = |lane, to, workload, quantity, interval| {
        relation((lane, Some(to)), workload, quantity, interval)
    };
    let (read, alone) = ("4k-randread", "qd1-4k-randread");
    results.relations = relations();
    results.relations.extend([
        of(nvme, Lane::LOCAL, read, Quantity::Rate, (0.495, 0.505)),
        of("iscsi", nvme, read, Quantity::Rate, (1.0 / 1.26, 1.0 / 1.24)),
        of("iscsi", nvme, alone, Quantity::Latency, (140.0, 2000.0)),
        of("tgt", nvme, read, Quantity::Rate, (1.0 / 9.0, 1.0 / 8.33)),
    ]);
    results
}

/// Somebody else measured four times the reads.
fn published() -> Vec<Published> {
    let figure = |name: &str, lane: &str, ratio: f64| Figure {
        name: name.into(),
        lane: Some(lane.into()),
        value: Some(25_000.0 * ratio),
        ratio: (ratio, ratio),
    };
    vec![Published {
        source: "somebody else’s comparison".into(),
        url: Some("https://example.org/comparison".into()),
        of: "reads of a null device".into(),
        workload: Some("4k-randrw70-256jobs".into()),
        metric: Metric::ReadIops,
        figures: vec![figure("iSCSI", Lane::ISCSI, 1.0), figure("NVMe/TCP", Lane::NVME_TCP, 4.0)],
    }]
}

/// With operations at a fixed rate, at which one of two lanes does not keep up.
pub fn with_open_loop() -> Results {
    let mut results = study();
    let open = Some(OpenLoop { of: "4k-randread".into(), percent: 50 });
    let like = results
        .workloads
        .iter()
        .find(|workload| workload.latency)
        .expect("there are latencies")
        .clone();
    let name = "load50-4k-randread".to_owned();
    let title = "4 KiB random read at 50 % load".to_owned();
    let rows: Vec<Row> =
        results.rows.iter().filter(|row| row.workload == like.name).cloned().collect();
    for (row, iops) in rows.into_iter().zip([100e3, 70e3]) {
        let (offered_iops, interval) = (Some(100e3), Some((iops * 0.99, iops * 1.01)));
        let p99_interval = Some((row.latency.p99_ns * 0.9, row.latency.p99_ns * 1.2));
        results.rows.push(Row {
            workload: name.clone(),
            iops,
            offered_iops,
            interval,
            p99_interval,
            ..row
        });
    }
    results.workloads.push(Workload { name, title, latency: false, open, iodepth: 128, ..like });
    results
}

/// Two lanes that were driven deeper: one ended by the generator, one saturated.
pub fn with_curves() -> Results {
    let mut results = study();
    results.draw.extend([Drawing::Curves, Drawing::Series]);
    let point = |in_flight: u32, iops: f64| Point {
        in_flight,
        iops,
        latency: results.rows[0].latency,
        ..Point::default()
    };
    let curve = |lane: &str, end| Curve {
        lane: lane.into(),
        workload: "4k-randread".into(),
        points: vec![point(1, 50e3), point(2, 90e3), point(64, 900e3), point(128, 905e3)],
        end,
    };
    results.curves =
        vec![curve("local", CurveEnd::Generator), curve("nvme+tcp", CurveEnd::Saturated)];
    results
        .rows
        .iter_mut()
        .for_each(|row| row.at_s = (0..row.iops_of_rounds.len()).map(|at| at as f64).collect());
    results
}
