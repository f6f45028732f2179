//! Verified I/O on a served disk: all that is written is read back, with both digests.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// How many operations are performed.
const OPERATIONS: u64 = 10_000;

/// Writes at random to the disk at `url` and reads everything back.
pub(super) fn io(mut host: Command, url: &str) -> Result<()> {
    let output = host
        .args(["bench", url, "--rw=randwrite", "--bs=4k", "--iodepth=8"])
        .arg(format!("--number_ios={OPERATIONS}"))
        .args(["--verify=crc32c", "--hdr-digest", "--data-digest", "--output-format=json"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the host")?;
    ensure!(output.status.success(), "the host ended with {}", output.status);
    check_report(&output.stdout)
}

/// All operations were written, read back and found right.
fn check_report(report: &[u8]) -> Result<()> {
    let report: Value = serde_json::from_slice(report).context("the report is not JSON")?;
    let job = &report["jobs"][0];
    for (what, count) in
        [("write", &job["write"]["total_ios"]), ("read", &job["read"]["total_ios"])]
    {
        ensure!(
            count.as_u64() == Some(OPERATIONS),
            "{what} operations: {count} instead of {OPERATIONS}"
        );
    }
    ensure!(job["error"].as_i64() == Some(0), "the job ended with error {}", job["error"]);
    Ok(())
}
