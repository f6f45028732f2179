//! Record of the studies of a trial.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use xtask::sh;

/// The studies of a trial so far.
pub(super) struct Record {
    path: PathBuf,
    /// The tree of `crates/bench` that they are of.
    tree: String,
    pub studies: Vec<Value>,
}

impl Record {
    /// Those that are kept; none if they are of another `crates/bench`.
    pub fn open(trial: &str) -> Result<Self> {
        let tree = tree()?;
        let record = Self::kept(trial)?;
        if record.tree == tree {
            Ok(record)
        } else {
            Ok(Self { tree, studies: Vec::new(), ..record })
        }
    }

    /// Those that are kept, of whichever tree.
    pub fn kept(trial: &str) -> Result<Self> {
        let path = sh::root().join("docs/study/method").join(format!("{trial}.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|_| "{}".into());
        let value: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a record", path.display()))?;
        let tree = value["bench"].as_str().unwrap_or_default().to_owned();
        let studies = value["studies"].as_array().cloned().unwrap_or_default();
        Ok(Self { path, tree, studies })
    }

    /// Adds a study, and writes all down.
    pub fn add(&mut self, study: Value) -> Result<()> {
        self.studies.push(study);
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir)?;
        }
        let all = json!({ "bench": self.tree, "studies": self.studies });
        fs::write(&self.path, format!("{}\n", serde_json::to_string(&all)?))
            .context("cannot keep a study")
    }
}

/// The tree of `crates/bench` as it is committed; fails if it is not.
fn tree() -> Result<String> {
    let git = |args: &[&str]| -> Result<String> {
        let ran = Command::new("git")
            .args(args)
            .current_dir(sh::root())
            .output()
            .context("cannot run git")?;
        ensure!(
            ran.status.success(),
            "`git {}` failed: {}",
            args.join(" "),
            String::from_utf8_lossy(&ran.stderr)
        );
        Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--", "crates/bench"])?;
    ensure!(
        changed.is_empty(),
        "crates/bench has uncommitted changes: a kept record must belong to one commit"
    );
    git(&["rev-parse", "HEAD:crates/bench"])
}
