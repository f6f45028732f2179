//! The tables of the terminal: what they hold, and that they fit.

use crate::sample;

use weft_bench::report::html;
use weft_bench::results::{Lane, Results, Row, Skipped};
use weft_bench::table::render;

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// The words of the line of a pattern (named by the line of its first lane) and lane.
fn line<'a>(text: &'a str, pattern: &str, lane: &str) -> Vec<&'a str> {
    let from = text.lines().skip_while(|line| !line.starts_with(pattern));
    let line = from
        .map(str::trim)
        .find(|line| line.trim_start_matches(pattern).trim_start().starts_with(lane));
    line.unwrap_or_else(|| panic!("{pattern} {lane} is missing"))
        .trim_start_matches(pattern)
        .split_whitespace()
        .collect()
}

#[test]
fn every_pattern_and_lane_has_a_line() {
    let results = sample::study();
    let text = render(&results, Some(120));
    for pattern in results.patterns() {
        for lane in &results.lanes {
            assert_eq!(line(&text, &pattern.name, &lane.name).len(), 12, "lane and eleven numbers");
        }
    }
    for workload in results.latencies() {
        assert_eq!(line(&text, &workload.title, "bare TCP").len(), 9);
    }
}

#[test]
fn numbers_are_the_ones_of_the_results() {
    let mut results = sample::study();
    let row = results
        .rows
        .iter_mut()
        .find(|row| row.lane == "nvme+tcp" && row.workload == "4k-seqread")
        .expect("is measured");
    (row.iops, row.bytes_per_second, row.interval) =
        (1_250_000.0, 5.12e9, Some((1_212_500.0, 1_300_000.0)));
    (row.latency.mean_ns, row.latency.p50_ns, row.latency.p99_ns, row.latency.p999_ns) =
        (8_420.0, 7_910.0, 12_300.0, Some(1.34e6));
    (row.initiator.user_ns, row.initiator.system_ns, row.target) = (400.0, 390.0, None);
    (row.share_of_local, row.share_of_ceiling) = (Some(0.31), None);
    let text = render(&results, Some(120));
    let expected = [
        "nvme+tcp*",
        "1.25M",
        "4.0",
        "5.12",
        "8.42",
        "7.91",
        "12.3",
        "1340",
        "0.79",
        "–",
        "31",
        "–",
    ];
    assert_eq!(line(&text, "4k-seqread", "nvme+tcp"), expected);
}

#[test]
fn a_matrix_has_a_line_for_each_pair_and_says_why_pairs_are_empty() {
    let text = render(&sample::matrix(), Some(80));
    assert!(widest(&text) <= 80, "{text}");
    for line in [
        "weft weft 0.95 ±0.02 +0.16 ±0.74 – –",
        "weft iscsi-perf – – – –",
        "tgt weft 0.25 ±0.02^ – +0.14 ±0.06 +5.43 ±0.57",
        "– weft with iscsi-perf, nbd-server: it is not installed: `apt-get install it`.",
        "^ tgt: Not configured well: weft’s initiator does 0.48 to 0.53 of the rate that",
    ] {
        let words = |it: &str| it.split_whitespace().eq(line.split(' '));
        assert!(text.lines().any(words), "{line}\n{text}");
    }
}

#[test]
fn it_fits_the_terminal() {
    let usual = [
        sample::study(),
        sample::unstable(),
        sample::remote_only(),
        sample::many_lanes(),
        sample::not_numbers(),
        sample::empty(),
    ];
    for results in usual.into_iter().chain([sample::null_suite(), sample::matrix()]) {
        for width in [80, 100, 120, 200] {
            let text = render(&results, Some(width));
            assert!(widest(&text) <= width, "{} columns in {width}:\n{text}", widest(&text));
        }
        assert_eq!(render(&results, None), render(&results, Some(80)));
    }
}

#[test]
fn what_a_narrow_terminal_hides_is_named() {
    let results = sample::study();
    assert!(!render(&results, Some(120)).contains("In a wider terminal also"));
    let narrow = render(&results, Some(80));
    assert!(narrow.contains("In a wider terminal also: mean, 95 % interval"));
    for head in ["IOPS", "GB/s", "p99", "device", "TCP"] {
        assert!(narrow.contains(head), "{head}");
    }
}

#[test]
fn words_follow_the_tables() {
    let mut results = sample::study();
    let text = render(&results, Some(120));
    for part in ["* The load generator was the limit", "NVMe/TCP over loopback adds"] {
        assert!(text.contains(part), "{part}");
    }
    // The report has all else.
    for part in ["! Operations failed", "\u{a0}", "in the median of the patterns", "Note: "] {
        assert!(!text.contains(part), "{part}");
    }
    results.rows[1].failed = 7;
    let text = render(&results, Some(120));
    assert!(
        text.contains("! Operations failed")
            && text.contains("7 operations failed: do not trust the figures before you know why")
    );
    assert_eq!(line(&text, "4k-randrw50", "nvme+tcp")[0], "nvme+tcp!");
}

#[test]
fn a_fixed_rate_is_shown_beside_what_was_done() {
    let text = render(&sample::with_open_loop(), Some(120));
    let place = text
        .find("Latency at the same rate, from when operations were due")
        .expect("there is a table");
    let rows = &text[place..];
    assert!(rows.contains("100k") && rows.contains("70.0k"), "{rows}");
}

#[test]
fn circumstances_are_told_and_no_row_is_marked_as_unsteady() {
    let mut results = sample::unstable();
    (results.conditions.load_before, results.conditions.steal, results.conditions.others) =
        (Some(1.25), Some(0.07), Some(0.31));
    results.rows.iter_mut().for_each(|row| (row.rounds, row.seconds) = (5, 0.25));
    let text = render(&results, None);
    assert_eq!(line(&text, "4k-randread", "nvme+tcp")[0].trim_end_matches('*'), "nvme+tcp");
    for words in [
        "During the study other programs took 31 %, and the host of this machine took 7.0 % of the processors’ time.",
        "NVMe/TCP over loopback adds about ",
        "Medians of 5 rounds of 0.25 s each; load before it 1.25; other programs took 31 % of the time; the host took 7.0 % of the time (steal).",
    ] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains('~') && !text.contains("not steady"));
}

#[test]
fn missing_rows_are_dashes() {
    let mut results: Results = sample::study();
    results.rows.retain(|row| row.workload != "8k-randrw30");
    let text = render(&results, Some(120));
    assert_eq!(line(&text, "8k-randrw30", "local")[1..], ["–"; 11]);
}

#[test]
fn names_cannot_steer_the_terminal() {
    let mut results = sample::hostile();
    results.lanes[1].name.push('\u{7}');
    results.workloads[1].name.push_str("\u{1b}[2J");
    assert!(!render(&results, None).contains(|letter: char| letter.is_control() && letter != '\n'));
}

#[test]
fn the_null_suite_stands_side_by_side() {
    let mut results = sample::null_suite();
    let text = render(&results, None);
    let words = |start: &str| {
        text.lines()
            .find(|line| line.starts_with(start))
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    assert_eq!(words("reads/s")[1..], ["70.0k", "140k"]);
    assert_eq!(words("× iscsi")[2..], ["1.00", "2.00"]);
    assert_eq!(words("target calls")[2..], ["0.040", "0.020"]);
    for part in [
        "reads of a null device, reads per second, NVMe/TCP : iSCSI: 4.00†; here 2.00.",
        "† Not measured here",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Lanes that do not fit stand below.
    let (lane, row) = (results.lanes[1].clone(), results.rows[1].clone());
    for at in 0..9 {
        let name = format!("lane-number-{at}");
        results.lanes.push(Lane { name: name.clone(), ..lane.clone() });
        results.rows.push(Row { lane: name, ..row.clone() });
    }
    let text = render(&results, Some(80));
    assert!(widest(&text) <= 80 && text.contains("lane-number-8"), "{text}");
    // One lane alone is not compared.
    results.rows.remove(0);
    assert!(!render(&results, None).contains("times the operations"));
}

/// The answers of the default study, in a table of 80 columns and at most five sentences.
#[test]
fn one_lane_stands_against_the_others() {
    let results = sample::against();
    let text = render(&results, Some(80));
    assert!(widest(&text) <= 80, "{text}");
    for line in [
        "the device, without a network 0.50 ±0.01 +9.40 ±0.40 +1.99 ±0.11 –",
        "iSCSI 1.25 ±0.01 −0.94 ±1.06 – –",
        "tgt, iSCSI 8.66 ±0.34 – – –",
        "bare TCP 0.76 ±0.02 – – –",
    ] {
        let words = |it: &str| it.split_whitespace().eq(line.split(' '));
        assert!(text.lines().any(words), "{line}\n{text}");
    }
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "NVMe/TCP over loopback adds 9.40 µs to a 4 KiB random read (9.10 µs to 9.80 µs)",
        "4 KiB random reads: NVMe/TCP over loopback does 1.24 to 1.26 of iSCSI’s rate.",
        "4 KiB random reads: NVMe/TCP over loopback does 8.33 to 9.00 times tgt, iSCSI’s rate.",
        "GbE link takes",
    ] {
        assert!(joined.contains(sentence), "{sentence}: {joined}");
    }
    assert_eq!(html(&results).matches("<h2>In words</h2>").count(), 0);
    assert!(html(&results).contains("NVMe/TCP over loopback against others"));
}

/// Lanes without all rows, and lanes that were skipped, are named before anything else is said.
#[test]
fn what_was_not_measured_is_named() {
    let mut results = sample::against();
    results.rows.retain(|row| row.lane != "tgt" || row.workload == "4k-randread");
    let why = "it needs --address.".to_owned();
    results.skipped.push(Skipped { lane: "nvme+rdma".into(), why, cell: None });
    let text = render(&results, None).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "Not measured, or not all of it: nvme+rdma (it needs --address), tgt (1 of ";
    assert!(text.contains(said), "{text}");
}
