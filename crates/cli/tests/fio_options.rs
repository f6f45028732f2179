//! Options of fio whose effect does not show in how much was moved, or does so only in time.

use crate::support::{Scratch, run, weft};
use serde_json::Value;

fn bench(dir: &Scratch, args: &[&str]) -> Value {
    let ran =
        run(weft(dir.path(), &[&["bench", "--output-format=json", "--rw=read"], args].concat()));
    assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

fn read(report: &Value, key: &str) -> u64 {
    report["jobs"][0]["read"][key].as_u64().unwrap()
}

#[test]
fn a_rate_is_not_exceeded() {
    let dir = Scratch::new("fio-rate");
    let report = bench(&dir, &["ram:1MiB", "--bs=4k", "--size=256k", "--rate=512k"]);
    // Half a second, but for the first operation, which is not waited for.
    assert!(read(&report, "runtime") >= 400, "{report}");
}

#[test]
fn time_based_goes_round_and_its_opposite_does_not() {
    let dir = Scratch::new("fio-time-based");
    let once = bench(&dir, &["ram:1MiB", "--bs=64k", "--runtime=600", "--time_based=0"]);
    assert_eq!(read(&once, "io_bytes"), 1 << 20);
    let rounds = bench(&dir, &["ram:1MiB", "--bs=4k", "--size=8k", "--runtime=2", "--time_based"]);
    assert!(read(&rounds, "io_bytes") > 8 << 10, "{rounds}");
}

#[test]
fn direct_reaches_the_file() {
    let dir = Scratch::new("fio-direct");
    let url = |direct: &[&str]| {
        let report = bench(&dir, &[&["--filename=./disk.img", "--size=64k"], direct].concat());
        report["weft"]["url"].as_str().unwrap().to_owned()
    };
    for none in ["--direct=0", "--buffered=1"] {
        assert!(url(&[none]).contains("direct=off"), "{none}");
    }
    assert!(!url(&[]).contains("direct="));
}
