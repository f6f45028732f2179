//! What a run is about to do, and about how long it takes here.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use super::step::{Step, Turn};

/// Seconds that each step takes where everything has to be built first, on two processors of 2026
/// that do nothing else.
const USUAL: [(&str, u32); 25] = [
    ("fmt", 5),
    ("fmt-fuzz", 1),
    ("fmt-lab", 1),
    ("licences", 25),
    ("setup", 60),
    ("lab-setup", 60),
    ("windows-setup", 60),
    ("structure", 330),
    ("workspace", 900),
    ("lab-tools", 60),
    ("lab", 900),
    ("lab-gateways", 290),
    ("fuzz-build", 180),
    ("windows-build", 600),
    ("models", 50),
    ("sim", 100),
    ("clippy", 80),
    ("clippy-lab", 20),
    ("doc", 60),
    ("doc-lab", 10),
    ("planted-build", 60),
    ("fuzz", 70),
    ("windows", 100),
    ("race", 45),
    ("gates", 130),
];

/// Seconds that a step usually takes.
pub fn usual(name: &str) -> Option<u32> {
    USUAL.iter().find(|(of, _)| *of == name).map(|(_, seconds)| *seconds)
}

/// What each step took when it last passed on this machine, in seconds.
pub struct Known(BTreeMap<String, f64>);

impl Known {
    /// From the file of the last runs; nothing where there is none.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = |line: &str| {
            line.split_once(' ')
                .and_then(|(name, seconds)| Some((name.to_owned(), seconds.parse().ok()?)))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// Remembers what a step took. That this fails changes an estimate only.
    pub fn remember(&mut self, name: &str, took: Duration, path: &Path) {
        self.0.insert(name.to_owned(), took.as_secs_f64());
        let lines: Vec<String> =
            self.0.iter().map(|(name, seconds)| format!("{name} {seconds:.1}\n")).collect();
        let _ = fs::write(path, lines.concat());
    }

    fn of(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// About how long steps take, those of a stretch beside each other; and whether all of it is known
/// from this machine.
pub fn estimate(stretches: &[Vec<Step>], known: &Known) -> (Duration, bool) {
    let seconds = |step: &&Step| {
        known.of(step.name).unwrap_or_else(|| usual(step.name).map_or(0.0, f64::from))
    };
    let of = |stretch: &Vec<Step>| {
        let (builds, others): (Vec<&Step>, Vec<&Step>) =
            stretch.iter().partition(|step| step.turn == Turn::Builds);
        let [builds, others] = [builds, others].map(|steps| steps.iter().map(seconds).sum::<f64>());
        builds.max(others)
    };
    let is_known = stretches.iter().flatten().all(|step| known.of(step.name).is_some());
    (Duration::from_secs_f64(stretches.iter().map(of).sum()), is_known)
}

/// The announcement: what is run, how long that takes, and how to run less.
pub fn announcement(stretches: &[Vec<Step>], known: &Known) -> String {
    let names: Vec<&str> = stretches.iter().flatten().map(|step| step.name).collect();
    let (took, is_known) = estimate(stretches, known);
    let minutes = (took.as_secs_f64() / 60.0).ceil();
    let source = if is_known {
        "by what they took here last"
    } else {
        "on two processors, with everything to be built"
    };
    let noun = if names.len() == 1 { "step" } else { "steps" };
    format!("{} {noun}, about {minutes:.0} min {source}: {}", names.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn step(name: &'static str, turn: Turn) -> Step {
        Step { name, command: Command::new("true"), limit: Duration::ZERO, turn }
    }

    #[test]
    fn steps_beside_each_other_take_as_long_as_the_longer_ones() {
        let stretches = [
            vec![step("setup", Turn::Alone)],
            vec![step("workspace", Turn::Tests), step("sim", Turn::Builds)],
        ];
        let none = Known(BTreeMap::new());
        assert_eq!(estimate(&stretches, &none), (Duration::from_secs(960), false));
        assert_eq!(
            announcement(&stretches, &none),
            "3 steps, about 16 min on two processors, with everything to be built: setup, workspace, sim"
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("took");
        let mut known = Known::read(&path);
        for (name, seconds) in [("setup", 1), ("workspace", 60), ("sim", 100)] {
            known.remember(name, Duration::from_secs(seconds), &path);
        }
        assert_eq!(estimate(&stretches, &Known::read(&path)), (Duration::from_secs(101), true));
        assert!(
            announcement(&stretches, &known)
                .starts_with("3 steps, about 2 min by what they took here last: ")
        );
    }
}
