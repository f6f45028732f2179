//! The first screen of the report: it concludes, whatever was measured, and says how sure that is.

use crate::sample;

use weft_bench::report::{charts, html, markdown};
use weft_bench::results::{Drawing, Quantity, Results};

/// The first screen stands before everything else: how the lanes relate, what limits, what a link
/// takes, and how sure that is.
#[test]
fn the_first_screen_answers_for_any_suite() {
    for mut results in sample::all() {
        let side_by_side = results.draws(Drawing::SideBySide);
        results.relations = if side_by_side {
            vec![sample::relation(
                ("nvme+tcp", Some("iscsi")),
                "4k-randrw70-256jobs",
                Quantity::Rate,
                (1.97, 2.04),
            )]
        } else {
            sample::relations()
        };
        for relations in [results.relations.clone(), Vec::new()] {
            results.relations = relations;
            let page = html(&results);
            assert_eq!(page.matches("<h1>").count(), 1);
            // These have tables in place of words.
            let next = match () {
                () if results.draws(Drawing::Matrix) => "<h2>Targets and initiators</h2>",
                () if results.draws(Drawing::Against) => "against others</h2>",
                () => "<h2>In words</h2>",
            };
            let (first, rest) = page.split_once(next).expect("something follows the first screen");
            assert!(first.contains("How sure that is") && !rest.contains("How sure that is"));
            let has_lanes = results.lanes.iter().any(|lane| !lane.is_local());
            assert_eq!(first.contains("What limits"), has_lanes);
            assert_eq!(first.contains("Cores for a full link"), has_lanes);
            assert!(!first.contains("Hypervisor"), "the machine is folded, behind the numbers");
        }
    }
}

/// At most five relations, each with its interval where it has one, in the words of the picture as
/// well.
#[test]
fn relations_are_drawn_around_where_lanes_are_equal() {
    let mut results = sample::many_lanes();
    let drawn = |results: &Results| -> Vec<(String, String)> {
        charts(results).into_iter().filter(|(name, _)| name.starts_with("relations-")).collect()
    };
    results.relations = sample::relations();
    let both = drawn(&results);
    assert_eq!(
        both.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["relations-added", "relations-rates"]
    );
    assert!(
        both[0]
            .1
            .replace('\u{a0}', " ")
            .contains("adds 9.40 µs to that of the device without a network (9.10 µs to 9.80 µs)")
    );
    let of = |lane: &str| {
        sample::relation(
            (lane, Some("local")),
            "qd1-4k-randread",
            Quantity::Latency,
            (-900.0, 1200.0),
        )
    };
    let lanes: Vec<String> = results
        .lanes
        .iter()
        .filter(|lane| !lane.is_local())
        .map(|lane| lane.name.clone())
        .collect();
    results.relations = lanes.iter().map(|lane| of(lane)).collect();
    let added = &drawn(&results)[0].1.replace('\u{a0}', " ");
    assert_eq!(
        added.matches("(−900").count() + added.matches("(−0.90 µs to 1.20 µs)").count(),
        5,
        "of seven lanes five are shown: {added}"
    );
}

/// Nothing of a report has a mark for rates that are not steady: relations do not need them, and
/// the interval stands beside the rate.
#[test]
fn no_number_is_withheld_or_marked_as_unsteady() {
    for results in sample::all() {
        for text in [
            html(&results).split_once("</style>").expect("a style sheet").1.to_owned(),
            markdown(&results),
        ] {
            assert!(
                !text.contains('~')
                    && !text.contains("not steady")
                    && !text.contains("No headline")
            );
        }
    }
    let mut results = sample::study();
    results.rows.iter_mut().for_each(|row| row.interval = None);
    assert!(
        html(&results).contains(" and costs about "),
        "without any interval a number is told as what it is"
    );
}
