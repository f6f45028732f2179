//! The trials: studies of lanes of which it is known how they relate.

use std::{fs, process::Command};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use xtask::sh;

use super::record::Record;

/// A kind of study, and how many there are to be.
pub(super) struct Trial {
    pub name: &'static str,
    pub about: &'static str,
    pub count: usize,
    /// What is measured, if it is not the suite that runs by default.
    lanes: Lanes,
    /// With another program that never waits.
    pub busy: bool,
}

/// Two lanes, each with a target and a device of its own.
const TWO: &str = r#"
name = "two"
title = "Two lanes"
source = "ram:64MiB"
reference = "a"
draw = ["side-by-side"]
lanes = [
    { name = "a", title = "the first lane", through = "nvme+tcp", source = "SOURCE_A" },
    { name = "b", title = "the second lane", through = "nvme+tcp", source = "SOURCE_B" },
]
workloads = [{ block = "4k", rw = "randread", LOAD }]
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

/// Lanes of other projects' targets.
const PEERS: &str = r#"
name = "peers"
title = "Two lanes of each target"
source = "ram:64MiB"
draw = ["iops"]
lanes = [{ name = "nvme+tcp", through = "nvme+tcp" }]
workloads = [{ block = "4k", rw = "randread", depth = 32 }]
quick = { budget = "25s" }
usual = { budget = "27s" }
full = { budget = "60s" }
"#;

/// What a trial measures.
enum Lanes {
    /// The suite that runs by default.
    Default,
    /// [`TWO`], with these sources, under this load.
    Two { sources: [&'static str; 2], load: &'static str },
    /// [`SLICES`].
    Slices,
    /// [`PEERS`], with two lanes of each of these.
    Peers(&'static str),
}

/// The slower device: in a run of a minute its median over the network was 5.2 % longer than that
/// of 100 µs, by 12.5 µs (9.6 to 15.5) of 243.
const SLOWER: &str = "delay:read=112us,null:64MiB";

pub(super) const TRIALS: [Trial; 6] = [
    Trial {
        name: "same",
        about: "two lanes of the same kind, at most 30 s",
        count: 40,
        lanes: Lanes::Two { sources: ["ram:64MiB"; 2], load: "depth = 32" },
        busy: false,
    },
    Trial {
        name: "slower",
        about: "at depth 1, a lane whose median over the network is 5 % longer, at most 30 s",
        count: 20,
        lanes: Lanes::Two {
            sources: ["delay:read=100us,null:64MiB", SLOWER],
            load: "latency = true",
        },
        busy: false,
    },
    Trial {
        name: "peers",
        about: "two lanes of SPDK's target (`SPDK_DIR`) and two of tgt, at most 30 s",
        count: 20,
        lanes: Lanes::Peers("spdk,spdk,tgt,tgt"),
        busy: false,
    },
    Trial {
        name: "slices",
        about: "slices of 30, 100 and 1,000 ms",
        count: 3,
        lanes: Lanes::Slices,
        busy: false,
    },
    Trial {
        name: "quiet",
        about: "the study that runs by default",
        count: 20,
        lanes: Lanes::Default,
        busy: false,
    },
    Trial {
        name: "busy",
        about: "the same next to a busy loop",
        count: 10,
        lanes: Lanes::Default,
        busy: true,
    },
];

/// Slices and their warm-up, in turn.
const LENGTHS: [(&str, &str); 3] = [("720ms", "30ms"), ("2400ms", "30ms"), ("24s", "250ms")];

impl Trial {
    /// Runs one, and returns what is kept of it.
    pub fn study(&self) -> Result<Value> {
        let dir = tempfile::tempdir()?;
        let to = dir.path().join("report");
        let mut args =
            vec!["study".to_owned(), "--output-dir".to_owned(), to.display().to_string()];
        let number = Record::open(self.name)?.studies.len();
        let (each, warm_up) = LENGTHS[number % LENGTHS.len()];
        let suite = match &self.lanes {
            Lanes::Default => None,
            Lanes::Two { sources: [a, b], load } => {
                Some(TWO.replace("SOURCE_A", a).replace("SOURCE_B", b).replace("LOAD", load))
            }
            Lanes::Slices => Some(SLICES.replace("EACH", each).replace("WARM_UP", warm_up)),
            Lanes::Peers(_) => Some(PEERS.to_owned()),
        };
        if let Lanes::Peers(peers) = self.lanes {
            args.extend(["--peers".to_owned(), peers.to_owned()]);
        }
        if let Some(suite) = suite {
            let path = dir.path().join("suite.toml");
            fs::write(&path, suite)?;
            args.extend(["--suite".to_owned(), path.display().to_string()]);
        }
        weft(&args.iter().map(String::as_str).collect::<Vec<_>>())?;
        let text =
            fs::read_to_string(to.join("results.json")).context("the study left no results")?;
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

/// Runs weft with these arguments.
fn weft(args: &[&str]) -> Result<()> {
    let program =
        sh::target_dir().join("release").join(format!("weft{}", std::env::consts::EXE_SUFFIX));
    ensure!(program.exists(), "{} is missing", program.display());
    let ran = Command::new(&program)
        .args(args)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !ran.status.success() {
        bail!(
            "`weft {}` ended with {}: {}",
            args.join(" "),
            ran.status,
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    Ok(())
}
