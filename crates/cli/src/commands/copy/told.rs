//! The output of a copy: its progress, and its summary.

use crate::output::figures;
use crate::output::progress::Bar;
use crate::process::exit::Failure;
use serde_json::json;
use std::io::Write;
use std::time::Duration;
use weft_copy::{CopyEnd, CopyPhase, CopyProgress, Summary, UnreadableRange};

/// Shows how far it is.
pub fn show(bar: &mut Bar, progress: &CopyProgress) {
    let name = match progress.phase {
        CopyPhase::Copying => "copying",
        CopyPhase::Flushing => "flushing",
        CopyPhase::Verifying => "verifying",
    };
    let left = progress.bytes.saturating_sub(progress.done) as f64 / progress.rate;
    let eta = Duration::try_from_secs_f64(left).ok().filter(|_| progress.rate > 0.0);
    let fraction = progress.done as f64 / progress.bytes.max(1) as f64;
    let what = format!(
        "{} of {}, {}/s",
        figures::bytes(progress.done as f64),
        figures::bytes(progress.bytes as f64),
        figures::bytes(progress.rate)
    );
    bar.set(name, fraction, eta, &what);
}

/// Places that could not be read which the text lists; JSON has all of them.
const PLACES_SHOWN: usize = 20;

/// Prints what was copied.
pub fn text(ended: CopyEnd, summary: &Summary) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let bytes = |n: u64| figures::bytes(n as f64);
    let elapsed = summary.elapsed.as_secs_f64();
    let moved = summary.written + summary.offloaded;
    writeln!(
        out,
        "copied {} in {elapsed:.1} s, {}/s: {} written, {} zeroes or holes",
        bytes(summary.done),
        figures::bytes(summary.done as f64 / elapsed.max(1e-6)),
        bytes(summary.written),
        bytes(summary.done.saturating_sub(moved)),
    )?;
    if summary.offloaded > 0 {
        writeln!(out, "{} were copied by the target itself", bytes(summary.offloaded))?;
    }
    if summary.before > 0 {
        writeln!(out, "{} were copied before", bytes(summary.before))?;
    }
    let unreadable = summary.unreadable.places();
    for UnreadableRange { at, bytes } in &unreadable[..unreadable.len().min(PLACES_SHOWN)] {
        writeln!(out, "could not read {bytes} bytes at byte {at}")?;
    }
    if let more @ 1.. = unreadable.len().saturating_sub(PLACES_SHOWN) {
        writeln!(out, "and {more} more places, which -o json lists")?;
    }
    if let (Some(verifying), CopyEnd::Done) = (summary.verifying, ended) {
        let seconds = verifying.as_secs_f64();
        let where_else = if unreadable.is_empty() { "" } else { " everywhere else" };
        writeln!(out, "verified in {seconds:.1} s: both devices have the same data{where_else}")?;
    }
    if let Some(sha256) = &summary.sha256 {
        writeln!(out, "SHA-256 {sha256}")?;
    }
    Ok(())
}

/// Prints the same as JSON.
pub fn json(ended: CopyEnd, summary: &Summary) -> Result<(), Failure> {
    let elapsed = summary.elapsed.as_secs_f64();
    let object = json!({
        "ended": match ended {
            CopyEnd::Done => "done",
            CopyEnd::Stopped => "stopped",
            CopyEnd::Differs { .. } => "differs",
        },
        "bytes": summary.bytes,
        "copied_before_bytes": summary.before,
        "done_bytes": summary.done,
        "read_bytes": summary.read,
        "written_bytes": summary.written,
        "offloaded_bytes": summary.offloaded,
        "elapsed_s": elapsed,
        "bytes_per_second": summary.done as f64 / elapsed.max(1e-6),
        "verified": summary.verifying.is_some() && ended == CopyEnd::Done,
        "differs_at_byte": match ended {
            CopyEnd::Differs { at } => Some(at),
            _ => None,
        },
        "sha256": summary.sha256,
        "unreadable": summary.unreadable.places().iter().map(|place| json!({
            "at_byte": place.at,
            "bytes": place.bytes,
        })).collect::<Vec<_>>(),
        "transfer_bytes": summary.setting.map(|setting| setting.chunk),
        "depth": summary.setting.map(|setting| setting.depth),
    });
    Ok(writeln!(std::io::stdout().lock(), "{object:#}")?)
}
