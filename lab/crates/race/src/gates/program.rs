//! Parts and size of the program, against a committed baseline. It is the program that the other
//! gates run, so nothing is built for this.
//!
//! The size depends on the compiler and on what it builds for: with others than the baseline's it
//! is printed and not judged.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use anyhow::{Context, Result};
use goblin::elf::{
    Elf,
    section_header::{SHF_ALLOC, SHT_NOBITS},
};
use serde_json::{Value, json};
use xtask::sh::{self, Missing};

use super::{super::setting::Setting, check::Check, instructions::rustc};

/// Bytes that are tolerated beyond the baseline, as a part of it.
const TOLERANCE: f64 = 0.03;

/// Crates that are tolerated beyond the baseline's.
const MORE_CRATES: usize = 2;

/// Compares the program with the baseline.
pub fn check(setting: &Setting) -> Result<Vec<Check>> {
    let text = fs::read_to_string(path()).context("cannot read lab/crates/race/program.json")?;
    let baseline: Value = serde_json::from_str(&text).context("lab/crates/race/program.json")?;
    if baseline["machine"] != machine() {
        return Err(Missing(format!(
            "the baseline of the program is of {}, this is {}",
            baseline["machine"],
            machine()
        ))
        .into());
    }
    let (crates, bytes) = (crates()?, stripped_bytes(&fs::read(&setting.weft)?)?);
    let known = baseline["crates"].as_u64().context("the baseline lacks crates")? as usize;
    let base = baseline["stripped_bytes"].as_f64().context("the baseline lacks stripped_bytes")?;
    let judged = baseline["rustc"] == rustc()?.as_str();
    let change = (bytes as f64 / base - 1.0) * 100.0;
    Ok(vec![
        Check {
            what: "crates that it is built from".into(),
            found: format!("{crates}, at most {}", known + MORE_CRATES),
            good: crates <= known + MORE_CRATES,
        },
        Check {
            what: "bytes without symbols".into(),
            found: format!(
                "{bytes}, {change:+.1} % to the baseline of {base}{}",
                if judged { "" } else { ", of another compiler" }
            ),
            good: !judged || bytes as f64 <= base * (1.0 + TOLERANCE),
        },
    ])
}

/// Writes the baseline again.
pub fn renew(setting: &Setting) -> Result<()> {
    let bytes = stripped_bytes(&fs::read(&setting.weft)?)?;
    let baseline = json!({ "machine": machine(), "rustc": rustc()?, "crates": crates()?, "stripped_bytes": bytes });
    fs::write(path(), format!("{baseline:#}\n"))?;
    println!("{baseline:#}");
    Ok(())
}

fn path() -> PathBuf {
    sh::root().join("lab/crates/race/program.json")
}

/// What the program is built for.
fn machine() -> String {
    format!("{}-{}", env::consts::ARCH, env::consts::OS)
}

/// Crates that the program is built from on this machine, itself and what only runs during the
/// build included.
fn crates() -> Result<usize> {
    let mut tree = sh::cargo("tree");
    tree.args(["--locked", "--package", "weft", "--edges", "normal,build", "--prefix", "none"]);
    Ok(distinct(&sh::output(&mut tree)?))
}

/// Crates in the output of `cargo tree`, which marks with a star those that it has shown before.
fn distinct(tree: &str) -> usize {
    let lines =
        tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
    lines.collect::<BTreeSet<_>>().len()
}

/// Bytes of a program that are left when its symbols are removed: of the sections that are loaded.
fn stripped_bytes(program: &[u8]) -> Result<u64> {
    let elf = Elf::parse(program).context("weft is not an ELF program")?;
    let loaded = elf
        .section_headers
        .iter()
        .filter(|it| it.sh_flags & u64::from(SHF_ALLOC) != 0 && it.sh_type != SHT_NOBITS);
    Ok(loaded.map(|section| section.sh_size).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_counts_once() {
        let tree = "weft v0.1.0 (/weft/crates/cli)\nclap v4.6.7\nserde v1.0.0 (proc-macro)\nclap v4.6.7 (*)\nserde v1.0.0 (proc-macro) (*)\n\n";
        assert_eq!(distinct(tree), 3);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn symbols_and_line_tables_do_not_count() {
        let program = fs::read(env::current_exe().unwrap()).unwrap();
        let bytes = stripped_bytes(&program).unwrap();
        let elf = Elf::parse(&program).unwrap();
        let is_for_debuggers = |at| {
            let name = elf.shdr_strtab.get_at(at).unwrap_or_default();
            name.starts_with(".debug") || [".symtab", ".strtab"].contains(&name)
        };
        let others = elf.section_headers.iter().filter(|it| is_for_debuggers(it.sh_name));
        // This program has symbols, and line tables unless it was built without.
        let left_out: u64 = others.map(|section| section.sh_size).sum();
        assert!(left_out > 0 && bytes > 0, "{bytes}, {left_out}");
        assert!(bytes + left_out <= program.len() as u64, "{bytes} of {}", program.len());
    }
}
