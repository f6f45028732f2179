use super::*;
use crate::relation::{Estimate, Scale};
use crate::results::{EndCounts, Lane, MeasuredCounts, Quantity, Relation, Results, SCHEMA};

/// A study of the lanes `l` and `local`, and of a rival, with these relations.
fn study(relations: Vec<Relation>) -> Results {
    let lane = |name: &str| serde_json::json!({ "name": name, "title": name, "url": "u" });
    let latency =
        serde_json::json!({ "mean_ns": 0.0, "p50_ns": 0.0, "p99_ns": 0.0, "p999_ns": null });
    let row = |lane: &str, workload: &str| {
        serde_json::json!({ "lane": lane, "workload": workload, "iops": 1.0, "bytes_per_second": 0.0, "latency": latency,
            "initiator": { "user_ns": 5.0, "system_ns": 5.0 }, "target": null, "share_of_local": null, "share_of_ceiling": null,
            "spread": [0.0, 0.0], "rounds": 6, "system_calls_per_io": 0.0, "generator_limited": false, "failed": 0 })
    };
    let work = |name: &str, iodepth: u32| {
        serde_json::json!({ "name": name, "title": name, "rw": "randread", "bs_bytes": 4096, "iodepth": iodepth, "read_percent": 100,
            "latency": false })
    };
    let mut rival = lane("theirs");
    rival["rival"] = "l".into();
    let value = serde_json::json!({ "schema": SCHEMA, "weft": "1", "started_s": 0, "took_s": 0.0, "quick": false, "suite": "s.x",
        "machine": { "name": "m", "cpu": "c", "cores": 2, "memory_bytes": 0, "system": "x" },
        "lanes": [lane("l"), lane(Lane::LOCAL), rival], "workloads": [work("one", 1), work("deep", 32)],
        "rows": [row("l", "one"), row("l", "deep"), row(Lane::LOCAL, "one"), row("theirs", "one")], "ceiling": [], "notes": [] });
    let results: Results = serde_json::from_value(value).unwrap();
    Results { relations, ..results }
}

fn relation(to: Option<&str>, quantity: Quantity, low: f64, high: f64) -> Relation {
    let (scale, value) = match quantity {
        Quantity::Rate => (Scale::Ratio, (low * high).sqrt()),
        _ => (Scale::Difference, f64::midpoint(low, high)),
    };
    let estimate = Estimate { scale, value, low, high, blocks: 6, pairs: 48 };
    let (lane, workload) = ("l".into(), "one".into());
    Relation {
        lane,
        to: to.map(str::to_owned),
        workload,
        quantity,
        estimate,
        of_blocks: Vec::new(),
    }
}

fn rule(lose: f64) -> Rule {
    Rule { lose, ..Rule::default() }
}

/// The verdict on a relation that was and is between these.
fn verdict(quantity: Quantity, was: (f64, f64), is: (f64, f64), lose: f64) -> CheckVerdict {
    let [before, after] =
        [was, is].map(|(low, high)| study(vec![relation(Some("local"), quantity, low, high)]));
    let outcome = judge(&before, &after, &rule(lose)).unwrap();
    assert_eq!(outcome.fails(), outcome.checks[0].verdict == CheckVerdict::Worse);
    outcome.checks[0].verdict
}

#[test]
fn a_rate_is_worse_where_all_of_the_change_is_beyond_the_part() {
    let rate = |is| verdict(Quantity::Rate, (0.99, 1.01), is, 0.05);
    assert_eq!(rate((0.80, 0.82)), CheckVerdict::Worse);
    // A tenth less, and known within a tenth only.
    assert_eq!(rate((0.81, 0.99)), CheckVerdict::Unclear);
    assert_eq!(rate((0.97, 0.99)), CheckVerdict::Kept);
    assert_eq!(rate((1.10, 1.12)), CheckVerdict::Better);
}

#[test]
fn a_cost_is_worse_where_it_is_more() {
    for quantity in [Quantity::Latency, Quantity::Cpu, Quantity::Cycles, Quantity::TargetCpu] {
        let cost = |is| verdict(quantity, (9_900.0, 10_100.0), is, 0.05);
        assert_eq!(cost((11_000.0, 11_200.0)), CheckVerdict::Worse);
        assert_eq!(cost((10_000.0, 11_000.0)), CheckVerdict::Unclear);
        assert_eq!(cost((10_000.0, 10_200.0)), CheckVerdict::Kept);
        assert_eq!(cost((9_000.0, 9_200.0)), CheckVerdict::Better);
    }
    // The time that the network saves may become less.
    let less = |is| verdict(Quantity::Latency, (-2_100.0, -2_000.0), is, 0.05);
    assert_eq!(
        (less((-1_000.0, -900.0)), less((-3_000.0, -2_900.0))),
        (CheckVerdict::Worse, CheckVerdict::Better)
    );
}

/// Of nothing there is no part: a change has to leave the interval that there was.
#[test]
fn what_may_be_nothing_is_worse_beyond_what_it_may_have_been() {
    let cost = |is| verdict(Quantity::Latency, (-100.0, 150.0), is, 0.05);
    assert_eq!(cost((9_000.0, 9_200.0)), CheckVerdict::Worse);
    assert_eq!(cost((-100.0, 120.0)), CheckVerdict::Unclear);
    assert_eq!(cost((20.0, 60.0)), CheckVerdict::Kept);
}

#[test]
fn lanes_that_others_are_compared_with_are_not_judged_unless_asked_for() {
    let of = |lane: &str, low| Relation {
        lane: lane.into(),
        ..relation(Some("x"), Quantity::Rate, low, low + 0.01)
    };
    let before = study(vec![of("l", 1.0), of(Lane::LOCAL, 1.0), of("theirs", 1.0)]);
    let after = study(vec![of("l", 1.0), of(Lane::LOCAL, 0.5), of("theirs", 0.5)]);
    let outcome = judge(&before, &after, &rule(0.05)).unwrap();
    assert!(!outcome.fails() && outcome.checks.len() == 1, "{outcome:?}");
    let asked = |lanes: &[&str]| Rule {
        lanes: lanes.iter().map(ToString::to_string).collect(),
        ..rule(0.05)
    };
    let outcome = judge(&before, &after, &asked(&["theirs"])).unwrap();
    assert!(outcome.fails() && outcome.checks.len() == 1, "{outcome:?}");
    let error = judge(&before, &after, &asked(&["none"])).unwrap_err();
    assert_eq!(error.to_string(), "--lanes: neither study has the lane none");
}

/// Counts of both ends, the same of all kinds.
fn counted(mut of: Results, each: f64) -> Results {
    let end = EndCounts { system_calls: each, copied_bytes: each };
    for row in of.rows.iter_mut().filter(|row| row.lane == "l") {
        row.counts =
            Some(MeasuredCounts { ios: 100, wire_bytes: each, initiator: end, target: Some(end) });
    }
    of
}

#[test]
fn counts_are_compared_without_an_interval() {
    let before = counted(study(vec![relation(None, Quantity::Rate, 0.9, 1.1)]), 100.0);
    let verdicts = |each: f64, counts_only: bool| {
        let after = counted(study(vec![relation(None, Quantity::Rate, 0.1, 0.2)]), each);
        judge(&before, &after, &Rule { counts_only, ..rule(0.05) }).unwrap()
    };
    let outcome = verdicts(106.0, true);
    // Calls of many operations in flight depend on what arrives together.
    assert_eq!(
        (outcome.of(CheckVerdict::Worse), outcome.of(CheckVerdict::Shown)),
        (8, 2),
        "{outcome:?}"
    );
    assert!(outcome.checks.iter().all(|check| check.kind() == CheckKind::Count));
    assert_eq!(verdicts(105.0, true).of(CheckVerdict::Kept), 8);
    assert_eq!(verdicts(94.0, true).of(CheckVerdict::Better), 8);
    let all = verdicts(100.0, false);
    assert!(all.fails() && all.checks.len() == 11, "the rate is worse: {all:?}");
    let nothing = judge(&counted(before.clone(), 0.0), &counted(before.clone(), 1.0), &rule(0.05));
    assert!(nothing.unwrap().fails());
}

#[test]
fn operations_that_failed_fail_it() {
    let before = study(vec![relation(None, Quantity::Rate, 0.9, 1.1)]);
    let mut after = before.clone();
    after.rows[0].failed = 3;
    let outcome = judge(&before, &after, &rule(0.05)).unwrap();
    let worse = outcome.checks.iter().filter(|check| check.verdict == CheckVerdict::Worse);
    assert_eq!(worse.map(|check| check.what).collect::<Vec<_>>(), ["failed operations"]);
    assert!(!judge(&after, &before, &rule(0.05)).unwrap().fails());
}

#[test]
fn what_one_study_lacks_is_named_and_nothing_in_common_is_an_error() {
    let rate = relation(None, Quantity::Rate, 0.99, 1.01);
    let mut before =
        study(vec![rate.clone(), relation(Some("local"), Quantity::Latency, 1.0, 2.0)]);
    let mut after = study(vec![rate, relation(Some("local"), Quantity::Cycles, 1.0, 2.0)]);
    before.rows[1].workload = "gone".into();
    after.rows[1].workload = "new".into();
    let outcome = judge(&before, &after, &rule(0.05)).unwrap();
    let said = outcome.sentences().join("\n");
    for words in [
        "Passed: of 1 relation none is worse by more than 5 %.",
        "Only in the baseline: l gone, l one (median latency : local).",
        "Only in the later study: l new, l one (cycles of both ends : local).",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let strict = Rule { strict: true, ..rule(0.05) };
    assert!(judge(&before, &after, &strict).unwrap().fails(), "{said}");
    after.relations.clear();
    let error = judge(&before, &after, &rule(0.05)).unwrap_err().to_string();
    assert!(error.contains("no relation or count of the same lane"), "{error}");
    assert!(judge(&before, &before, &Rule { counts_only: true, ..rule(0.05) }).is_err());
}

#[test]
fn time_and_cycles_are_one_cost() {
    let [cpu, cycles] = [Quantity::Cpu, Quantity::Cycles]
        .map(|quantity| relation(Some("local"), quantity, 100.0, 110.0));
    let both = study(vec![cpu.clone(), cycles.clone()]);
    let outcome = judge(&both, &both, &rule(0.05)).unwrap();
    assert_eq!((outcome.checks.len(), outcome.checks[0].what), (1, "cycles of both ends"));
    let outcome = judge(&study(vec![cpu]), &both, &rule(0.05)).unwrap();
    assert_eq!(
        (outcome.checks[0].what, outcome.missing.len(), outcome.added.len()),
        ("CPU of both ends", 0, 0)
    );
}

#[test]
fn another_workload_of_the_same_name_is_not_compared() {
    let before = study(vec![relation(None, Quantity::Rate, 0.9, 1.1)]);
    let mut after = before.clone();
    after.workloads[0].bs_bytes = 512;
    assert!(judge(&before, &after, &rule(0.05)).is_err());
}

/// A gate with everything, and names that are not plain.
fn all_verdicts() -> GateOutcome {
    let study = |rate: (f64, f64), latency: (f64, f64), each: f64| {
        let mut of = counted(
            study(vec![
                relation(None, Quantity::Rate, rate.0, rate.1),
                relation(Some("local"), Quantity::Latency, latency.0, latency.1),
            ]),
            each,
        );
        let odd = "a.b<&\"'\u{1b}|\n";
        odd.clone_into(&mut of.lanes[0].name);
        of.rows[..2].iter_mut().for_each(|row| odd.clone_into(&mut row.lane));
        of.relations.iter_mut().for_each(|it| it.lane = of.lanes[0].name.clone());
        of
    };
    let before = study((0.99, 1.01), (1_000.0, 1_100.0), 100.0);
    let after = study((0.70, 0.71), (900.0, 1_300.0), 100.0);
    judge(&before, &after, &rule(0.05)).unwrap()
}

#[test]
fn a_terminal_has_80_columns_and_no_control_characters() {
    let said = text(&all_verdicts());
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "rate : bare TCP −29 % (−30 % to −29 %) WORSE",
        "median latency : local +4.8 % (−15 % to +24 %) unclear",
        "bytes on the wire none not worse",
        "system calls, target none not judged",
        "Failed: of 2 relations and 10 counts 1 is worse by more than 5 %, and 1 unclear.",
    ] {
        assert!(words.contains(part), "{part}: {said}");
    }
}

#[test]
fn markdown_is_a_table_whatever_names_are() {
    let said = markdown(&all_verdicts());
    let rows = said.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.replace("\\|", "").matches('|').count());
    assert!(cells.clone().count() == 14 && cells.clone().all(|cells| cells == 8), "{said}");
    assert!(said.starts_with("### weft study gate: s.x\n\n- Failed: ") && !said.contains('\u{1b}'));
}

#[test]
fn junit_has_a_case_for_each_check() {
    let said = junit(&all_verdicts());
    for part in [
        "tests=\"12\" failures=\"1\" errors=\"0\" skipped=\"3\"",
        "classname=\"weft.study.s_x.a_b&lt;&amp;&quot;&apos; | \" name=\"one rate : bare TCP\"><failure message=\"worse by more than 5 %: ",
        "name=\"one median latency : local\"><skipped message=\"unclear: ",
        "name=\"one bytes on the wire\"/>",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let document = roxmltree::Document::parse(&said).unwrap();
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    assert_eq!((cases.count(), said.contains('\u{1b}')), (12, false));
    let mut strict = all_verdicts();
    strict.rule.strict = true;
    strict.missing.push(RowName { lane: "l".into(), workload: "w".into(), what: None });
    let said = junit(&strict);
    assert!(said.contains("tests=\"13\" failures=\"3\" errors=\"0\" skipped=\"2\""), "{said}");
    assert!(said.contains("name=\"w\"><failure message=\"only the baseline has it\"/>"), "{said}");
}
