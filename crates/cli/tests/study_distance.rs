//! `weft study --suite distance`: the relay in front of the targets.

use crate::study::{names, suite};
use serde_json::Value;

#[test]
fn a_distance_is_in_every_round_trip() {
    let lanes = "local,nvme+tcp,nvme+tcp-1ms,iscsi-1ms,nbd-1ms";
    let (_, data) = suite("distance", &["--source", "ram:16MiB", "--lanes", lanes]);
    assert_eq!(names(&data["lanes"], "name").join(","), lanes, "{}", data["notes"]);
    assert_eq!(data["rows"].as_array().unwrap().len(), 5 * 6, "{}", data["notes"]);
    for row in data["rows"].as_array().unwrap() {
        let is_far = row["lane"].as_str().unwrap().ends_with("-1ms");
        let p50_ns = row["latency"]["p50_ns"].as_f64().unwrap();
        assert!(!is_far || p50_ns >= 1e6 * 0.99, "half of 1 ms in each direction: {row}");
        assert!(row["failed"] == 0 && (!is_far || row["target"].is_object()), "{row}");
    }
    let note = data["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
    let late = |note: &&str| note.starts_with("The distance is that of a relay");
    assert_eq!(note.filter(late).count(), 1, "{}", data["notes"]);
}
