//! The durations of earlier runs on this machine.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Seconds that each step and each test program took when it last passed here.
#[derive(Debug)]
pub struct Known {
    seconds: BTreeMap<String, f64>,
    path: PathBuf,
}

impl Known {
    /// Reads them below cargo's target directory; empty if there are none.
    pub fn read(target: &Path) -> Self {
        let path = target.join("xtask/took");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let line = |line: &str| {
            let (name, seconds) = line.rsplit_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        };
        Self { seconds: text.lines().filter_map(line).collect(), path }
    }

    /// Keeps a duration. A failure to write changes estimates only.
    pub fn remember(&mut self, name: &str, took: Duration) {
        self.seconds.insert(name.to_owned(), took.as_secs_f64());
        let lines: Vec<String> =
            self.seconds.iter().map(|(name, seconds)| format!("{name} {seconds:.1}\n")).collect();
        if let Some(directory) = self.path.parent() {
            let _ = fs::create_dir_all(directory);
        }
        let _ = fs::write(&self.path, lines.concat());
    }

    /// Seconds that a step or a program took.
    pub fn of(&self, name: &str) -> Option<f64> {
        self.seconds.get(name).copied()
    }
}
