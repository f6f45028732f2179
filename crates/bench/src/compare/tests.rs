use super::*;
use crate::relation::{Estimate, Scale};
use crate::results::{Lane, OpenLoop, Quantity, Relation, SCHEMA, Workload};

/// A workload, its IOPS and their interval.
type Measured<'a> = (&'a str, f64, Option<(f64, f64)>);

fn results(rows: &[Measured<'_>]) -> Results {
    let row = |(workload, iops, interval): &Measured<'_>| {
        serde_json::json!({ "lane": "l", "workload": workload, "iops": iops, "bytes_per_second": 0.0,
            "latency": { "mean_ns": 0.0, "p50_ns": 0.0, "p99_ns": 0.0, "p999_ns": null },
            "initiator": { "user_ns": 500.0, "system_ns": iops }, "target": null, "share_of_local": null, "share_of_ceiling": null,
            "spread": [0.0, 0.0], "rounds": 6, "interval": interval, "system_calls_per_io": 0.0, "generator_limited": false, "failed": 0 })
    };
    let value = serde_json::json!({ "schema": SCHEMA, "weft": "1", "started_s": 0, "took_s": 0.0, "quick": false, "suite": "s",
        "machine": { "name": "m", "cpu": "c", "cores": 2, "memory_bytes": 0, "system": "x" },
        "lanes": [{ "name": "l", "title": "L", "url": "u" }, { "name": Lane::LOCAL, "title": "RAM", "url": "ram" }], "workloads": [],
        "rows": rows.iter().map(row).collect::<Vec<_>>(), "ceiling": [], "notes": [] });
    read("r.json", &value.to_string()).unwrap()
}

fn relation(to: Option<&str>, workload: &str, quantity: Quantity, low: f64, high: f64) -> Relation {
    let (scale, value) = match quantity {
        Quantity::Rate => (Scale::Ratio, (low * high).sqrt()),
        _ => (Scale::Difference, f64::midpoint(low, high)),
    };
    let estimate = Estimate { scale, value, low, high, blocks: 6, pairs: 48 };
    Relation {
        lane: "l".into(),
        to: to.map(str::to_owned),
        workload: workload.into(),
        quantity,
        estimate,
        of_blocks: Vec::new(),
    }
}

/// A study of one row with these relations; its absolute rate is of another machine.
fn related(iops: f64, relations: Vec<Relation>) -> Results {
    let mut results = results(&[("w", iops, Some((iops * 0.99, iops * 1.01)))]);
    results.relations = relations;
    results
}

fn work(name: &str, iodepth: u32) -> Workload {
    let value = serde_json::json!({ "name": name, "title": name, "rw": "randread", "bs_bytes": 4096, "iodepth": iodepth, "read_percent": 100,
        "latency": false });
    serde_json::from_value(value).unwrap()
}

#[test]
fn intervals_decide_where_there_is_no_relation() {
    let before = results(&[
        ("up", 100.0, Some((98.0, 102.0))),
        ("down", 100.0, Some((98.0, 102.0))),
        ("same", 100.0, Some((98.0, 102.0))),
        ("few", 100.0, None),
        ("gone", 1.0, None),
    ]);
    let mut after = results(&[
        ("up", 110.0, Some((105.0, 112.0))),
        ("down", 90.0, Some((88.0, 97.0))),
        ("same", 103.0, Some((101.0, 105.0))),
        ("few", 300.0, Some((299.0, 301.0))),
        ("new", 1.0, None),
    ]);
    after.machine.system = "y".into();
    let compared = compare(&before, &after);
    let verdicts: Vec<RateVerdict> = compared.changes.iter().map(|change| change.verdict).collect();
    assert_eq!(
        verdicts,
        [RateVerdict::Faster, RateVerdict::Slower, RateVerdict::Noise, RateVerdict::Unknown]
    );
    let text = compared.render();
    for words in [
        "4 rows have no relation in common: 1 are faster and 1 slower by more than noise",
        "machines and days may differ",
        "100 (98 to 102)",
        "+10.0 %",
        "-10.0 %",
        "Different system: \"x\", then \"y\".",
        "Only in the first study: l gone.",
        "Only in the second study: l new.",
        "l few (+33.3 %)",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("By relations"), "{text}");
}

/// The second machine is twice as fast, and its lane has a smaller share of the wire: what counts
/// is the relation.
#[test]
fn relations_decide_where_both_studies_have_them() {
    let bare = |low, high| relation(None, "w", Quantity::Rate, low, high);
    let adds = |low, high| relation(Some(Lane::LOCAL), "w", Quantity::Latency, low, high);
    let cpu = |low, high| relation(Some(Lane::LOCAL), "w", Quantity::Cpu, low, high);
    let before =
        related(100.0, vec![bare(0.74, 0.76), adds(9_000.0, 9_400.0), cpu(1_900.0, 2_100.0)]);
    let after =
        related(200.0, vec![bare(0.64, 0.66), adds(9_100.0, 9_300.0), cpu(1_500.0, 2_600.0)]);
    let compared = compare(&before, &after);
    assert_eq!(compared.changes[0].verdict, RateVerdict::Related);
    let said: Vec<String> =
        compared.relations.iter().map(|it| it.words().replace('\u{a0}', " ")).collect();
    assert_eq!(
        said,
        [
            "less: 0.85 to 0.88 times as much",
            "level within 3 %",
            "cannot be told apart: between −0.51 µs and +0.61 µs"
        ]
    );
    let text = compared.render().replace('\u{a0}', " ");
    for words in [
        "0.75 (0.74 to 0.76)",
        "bare TCP",
        "+9.20 µs (+9.00 µs to +9.40 µs)",
        "+100.0 %",
        "see its relations",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        text.contains("3 relations are in both studies: 0 are more, 1 less, 1 level, and 1 cannot be told apart;"),
        "{text}"
    );
    assert!(
        !text.contains("rows have no relation")
            && !text.contains("faster")
            && !text.contains("by itself, which"),
        "{text}"
    );
    assert!(!text.contains('~'), "{text}");
}

#[test]
fn the_relation_is_one_that_both_have() {
    let rate = |to: Option<&str>| relation(to, "w", Quantity::Rate, 0.9, 1.1);
    let latency = |to: Option<&str>| relation(to, "w", Quantity::Latency, 90.0, 110.0);
    let to = |before: Vec<Relation>, after: Vec<Relation>| {
        let [mut before, mut after] = [related(1.0, before), related(1.0, after)];
        for of in [&mut before, &mut after] {
            of.reference = Some("iscsi".into());
        }
        let to: Vec<Option<String>> =
            compare(&before, &after).relations.into_iter().map(|it| it.to).collect();
        to
    };
    let (local, reference) = (Some(Lane::LOCAL), Some("iscsi"));
    let all = |of: fn(Option<&str>) -> Relation| vec![of(reference), of(local), of(None)];
    assert_eq!(to(all(rate), all(rate)), [None], "a rate as a share of the wire");
    assert_eq!(to(all(latency), all(latency)), [local.map(str::to_owned)], "what the network adds");
    assert_eq!(to(all(rate), vec![rate(local)]), [local.map(str::to_owned)]);
    assert_eq!(to(all(latency), vec![latency(None)]), [None]);
    assert_eq!(to(all(latency), vec![latency(reference)]), [reference.map(str::to_owned)]);
    assert_eq!(to(vec![rate(None)], vec![rate(local), latency(None)]), [], "nothing in common");
}

#[test]
fn the_same_file_twice_says_that_it_is_one() {
    let study = related(100.0, vec![relation(None, "w", Quantity::Rate, 0.74, 0.76)]);
    let compared = compare(&study, &study);
    assert_eq!((compared.notes.len(), compared.relations[0].change.value), (1, 1.0));
    assert!(
        compared.notes[0].starts_with("Both files hold the same study"),
        "{:?}",
        compared.notes
    );
    // Another seed is another study, and no circumstance: the interval covers the order of the
    // lanes.
    let again = Results { seed: 7, ..study.clone() };
    assert_eq!(compare(&study, &again).notes, [""; 0]);
}

#[test]
fn other_suites_are_compared_where_they_do_the_same() {
    let rows: [Measured<'_>; 3] =
        [("same", 1.0, None), ("deeper", 1.0, None), ("load50", 1.0, None)];
    let [mut before, mut after] = [results(&rows), results(&rows)];
    let open = || Workload {
        open: Some(OpenLoop { of: "same".into(), percent: 50 }),
        ..work("load50", 128)
    };
    before.workloads = vec![work("same", 32), work("deeper", 1), open()];
    after.workloads = vec![
        Workload { title: "Another title".into(), ..work("same", 32) },
        work("deeper", 64),
        open(),
    ];
    after.suite = "t".into();
    (before.rows[2].offered_iops, after.rows[2].offered_iops) = (Some(50e3), Some(70e3));
    let compared = compare(&before, &after);
    let names: Vec<&str> = compared.changes.iter().map(|change| change.workload.as_str()).collect();
    assert_eq!(names, ["same", "load50"]);
    assert_eq!(
        compared.notes,
        [
            "Different suite: \"s\", then \"t\".",
            "Not compared, as another workload has the name in each study: deeper.",
            "At load50 50.0k operations per second were due, then 70.0k: a change of its latency may be that of the rate.",
        ]
    );
    // Studies with nothing in common do not fail.
    after.rows.clear();
    assert!(compare(&before, &after).render().contains("0 rows have no relation"));
}

#[test]
fn a_single_block_is_told() {
    let mut study = related(100.0, vec![relation(None, "w", Quantity::Rate, 0.74, 0.76)]);
    study.relations[0].estimate.blocks = 1;
    let again = Results { seed: 7, ..study.clone() };
    assert!(compare(&study, &again).notes[0].contains("of a single block"));
}
