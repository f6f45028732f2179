//! A study that an earlier weft kept can still be drawn and compared: `fixtures/results-v4.json` is
//! a run of the suite `null` of version 4 of the schema, from before there were relations.

use weft_bench::compare::{compare, read};
use weft_bench::report::{html, markdown};
use weft_bench::results::{Results, SCHEMA_OLDEST};

const KEPT: &str = include_str!("fixtures/results-v4.json");

fn kept() -> Results {
    read("results-v4.json", KEPT).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn version_four_is_read_and_drawn() {
    let results = kept();
    assert_eq!((results.schema, SCHEMA_OLDEST, results.relations.len()), (4, 4, 0));
    assert!(!results.rows.is_empty() && results.rows.iter().all(|row| row.interval.is_some()));
    for drawn in [html(&results), markdown(&results)] {
        assert!(drawn.contains("iSCSI"), "{drawn}");
    }
}

#[test]
fn version_four_is_compared_by_rates_as_it_has_no_relations() {
    let before = kept();
    let mut after = kept();
    after.started_s += 3600;
    for row in &mut after.rows {
        row.iops *= 2.0;
        row.interval = row.interval.map(|(low, high)| (low * 2.0, high * 2.0));
    }
    let text = compare(&before, &after).render();
    assert!(
        text.contains("2 rows have no relation in common: 2 are faster and 0 slower"),
        "{text}"
    );
    assert!(
        text.contains("machines and days may differ") && !text.contains("By relations"),
        "{text}"
    );
}
