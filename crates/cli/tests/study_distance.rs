//! `weft study --suite distance`: the relay in front of the targets.

use crate::study::{names, suite};
use crate::support::{Ran, Scratch, run, weft};
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

/// `weft study` with the suite at its shortest.
fn shaped(dir: &Scratch, lanes: &str, shape: &str) -> Ran {
    let short = ["study", "--suite", "distance", "--quick", "--time-budget", "3s"];
    let mut command = weft(dir.path(), &short);
    command.args(["--source", "ram:16MiB", "--lanes", lanes, "--shape", shape]);
    run(command)
}

#[test]
fn a_shape_that_no_lane_needs_is_refused() {
    let dir = Scratch::new("study-shape");
    let ran = shaped(&dir, "local,nvme+tcp", "relay");
    assert_eq!(ran.code(), Some(2), "{ran:?}");
    assert!(ran.err.contains("--shape needs a lane with a distance"), "{ran:?}");
}

/// The lab's case `study-distance` has a kernel and a user who can make the network.
#[cfg(target_os = "linux")]
#[test]
fn netem_makes_the_distance_or_what_it_lacks_is_named() {
    let dir = Scratch::new("study-netem");
    let ran = shaped(&dir, "nvme+tcp-1ms", "netem");
    if ran.code() == Some(0) {
        let results = std::fs::read_to_string(dir.path().join("results.json")).unwrap();
        assert!(results.contains("netem limit") && !results.contains("relay"), "{results}");
        return;
    }
    assert_eq!(ran.code(), Some(2), "{ran:?}");
    let why = ran.err.split("--shape netem is not possible here: ").nth(1).unwrap_or_default();
    let known = ["takes root", "iproute2", "lacks the modules", "198.18.0.0/15"];
    assert!(known.iter().any(|it| why.contains(it)), "{ran:?}");
    assert!(!dir.path().join("results.json").exists(), "{ran:?}");
}
