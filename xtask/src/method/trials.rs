//! The trials: studies of lanes of which it is known how they relate.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A kind of study, and how many there are to be.
pub(super) struct Trial {
    pub name: &'static str,
    pub about: &'static str,
    pub count: usize,
    /// The suite, if it is not the usual one.
    suite: Option<&'static str>,
    /// Beside a program that never waits.
    pub busy: bool,
}

/// Two lanes of the same kind, each with a target of its own.
const SAME: &str = r#"
name = "same"
title = "Two lanes of the same kind"
source = "ram:64MiB"
reference = "a"
draw = ["side-by-side"]
lanes = [
    { name = "a", through = "nvme+tcp", source = "ram:64MiB" },
    { name = "b", through = "nvme+tcp", source = "ram:64MiB" },
]
workloads = [{ block = "4k", rw = "randread", depth = 32 }]
quick = { budget = "25s" }
usual = { budget = "27s" }
full = { budget = "60s" }
"#;

/// Two modelled devices of which the second is so much slower that the median over the network is 5 % longer.
const SLOWER: &str = r#"
name = "slower"
title = "A device that is 5 % slower over the network"
source = "ram:64MiB"
reference = "a"
draw = ["side-by-side"]
lanes = [
    { name = "a", through = "nvme+tcp", source = "delay:read=100us,null:64MiB" },
    { name = "b", through = "nvme+tcp", source = "delay:read=SERVICE,null:64MiB" },
]
workloads = [{ block = "4k", rw = "randread", latency = true }]
quick = { budget = "25s" }
usual = { budget = "27s" }
full = { budget = "60s" }
"#;

/// The same relations, measured in slices of another length.
const SLICES: &str = r#"
name = "slices"
title = "Slices of one length"
source = "ram:64MiB"
reference = "iscsi"
draw = ["side-by-side"]
lanes = [
    { name = "local", through = "local" },
    { name = "nvme+tcp", through = "nvme+tcp" },
    { name = "iscsi", through = "iscsi" },
]
workloads = [
    { block = "4k", rw = "randread", depth = 32 },
    { block = "4k", rw = "randread", latency = true },
]
quick = { budget = "25s" }
usual = { each = "EACH", rounds = 24, warm_up = "WARM_UP" }
full = { budget = "60s" }
"#;

pub(super) const TRIALS: [Trial; 5] = [
    Trial { name: "same", about: "two lanes of the same kind, at most 30 s", count: 40, suite: Some(SAME), busy: false },
    Trial {
        name: "slower",
        about: "at depth 1, a lane whose median over the network is 5 % longer, at most 30 s",
        count: 20,
        suite: Some(SLOWER),
        busy: false,
    },
    Trial { name: "slices", about: "slices of 30, 100 and 1,000 ms", count: 3, suite: Some(SLICES), busy: false },
    Trial { name: "quiet", about: "the study that runs by default", count: 10, suite: None, busy: false },
    Trial { name: "busy", about: "the same beside a busy loop", count: 10, suite: None, busy: true },
];

/// The service time of the slower lane: what a run of a minute found to make its median over the network 5 % longer than that of 100 µs.
const SERVICE: &str = "108us";

/// Slices and their warm-up, in turn.
const LENGTHS: [(&str, &str); 3] = [("720ms", "30ms"), ("2400ms", "30ms"), ("24s", "250ms")];

impl Trial {
    /// Runs one, and returns what is kept of it.
    pub fn study(&self) -> Result<Value> {
        let dir = tempfile::tempdir()?;
        let to = dir.path().join("report");
        let mut args = vec!["study".to_owned(), "--output-dir".to_owned(), to.display().to_string()];
        let number = super::Record::open(self.name)?.studies.len();
        let (each, warm_up) = LENGTHS[number % LENGTHS.len()];
        if let Some(suite) = self.suite {
            let path = dir.path().join("suite.toml");
            let text = suite.replace("SERVICE", SERVICE).replace("EACH", each).replace("WARM_UP", warm_up);
            fs::write(&path, text)?;
            args.extend(["--suite".to_owned(), path.display().to_string()]);
        }
        super::weft(&args.iter().map(String::as_str).collect::<Vec<_>>())?;
        let text = fs::read_to_string(to.join("results.json")).context("the study left no results")?;
        let results: Value = serde_json::from_str(&text)?;
        let kept = |key: &str| results[key].clone();
        Ok(json!({
            "seed": kept("seed"),
            "started_s": kept("started_s"),
            "took_s": kept("took_s"),
            "conditions": kept("conditions"),
            "slice": if self.name == "slices" { Value::from(each) } else { Value::Null },
            "relations": kept("relations"),
        }))
    }
}
