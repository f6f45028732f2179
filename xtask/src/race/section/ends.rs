//! weft's ends alone against the kernel's, in the virtual machine: `lab/measure/kernel-pair.sh`.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::super::{
    setting::Setting,
    table::{Section, Table},
};
use crate::sh::{self, Missing};

/// Runs the case and reads its last lines.
pub fn run(setting: &Setting) -> Result<Section> {
    let (seconds, rounds) = if setting.small { ("1", "1") } else { ("3", "5") };
    let mut lab = sh::chore(&["lab", "run", "lab/measure/kernel-pair.sh", "--", seconds, rounds])?;
    let output = lab
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the lab")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(sh::SKIPPED.into()) {
        return Err(Missing(format!("the lab cannot run here: {}", text.trim())).into());
    }
    ensure!(output.status.success(), "the lab ended with {}: {text}", output.status);
    let rows: Vec<Vec<String>> = text.lines().filter_map(row).collect();
    ensure!(rows.len() == 8, "the lab told {} rows instead of 8: {text}", rows.len());
    let intro = "4 KiB random reads between the kernel's ends and weft's, over loopback inside a virtual machine. The machine is emulated, so only \
                 the ratios mean anything, and a user-space end pays more for emulation than one in the kernel.";
    let mut table = Table::new(
        "Each end alone against the kernel's",
        intro,
        &["host on target", "depth", "of the kernel's own pair", "operations per second"],
    );
    let data = json!({ "rows": rows });
    table.rows = rows;
    Ok(Section { name: "ends", tables: vec![table], data })
}

/// Reads `depth 32  weft-on-nvmet  1.03 of the kernel pair (1234-2345 IOPS)`.
fn row(line: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = line.trim().strip_prefix("depth ")?.split_whitespace().collect();
    let [depth, pair, ratio, "of", "the", "kernel", "pair", range, ..] = words[..] else {
        return None;
    };
    let range = range.trim_start_matches('(').replace('-', "–");
    Some(vec![pair.replace("-on-", " on "), depth.into(), ratio.into(), range])
}

#[cfg(test)]
mod tests {
    #[test]
    fn last_lines_are_read() {
        let line = "depth 32  weft-on-nvmet      1.03 of the kernel pair (1234-2345 IOPS)";
        assert_eq!(super::row(line).unwrap(), ["weft on nvmet", "32", "1.03", "1234–2345"]);
        assert_eq!(super::row("kernel-on-nvmet          depth 1        1234 IOPS"), None);
    }
}
