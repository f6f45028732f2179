//! A gate for the terminal: at most 80 columns.

use super::check::{Check, CheckVerdict};
use super::outcome::GateOutcome;
use crate::text_table::{Align, draw, wrap};
use core::fmt::Write;

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Most checks that are shown whatever they say.
const ALL_MAX: usize = 24;

/// Most characters of what is compared with what, so that the rest has room.
const NAME_MAX: usize = 28;

/// The outcome as lines of text.
pub fn text(outcome: &GateOutcome) -> String {
    let all = outcome.checks.len() <= ALL_MAX;
    let is_shown = |check: &&Check| {
        all || matches!(check.verdict, CheckVerdict::Worse | CheckVerdict::Unclear)
    };
    let shown: Vec<&Check> = outcome.checks.iter().filter(is_shown).collect();
    let mut out = String::new();
    if !shown.is_empty() {
        table(&shown, &mut out);
        out.push('\n');
    }
    let hidden = outcome.checks.len() - shown.len();
    if hidden > 0 {
        let more = format!("{hidden} more are not worse; --summary and --junit have all of them.");
        out += &wrap(&more, WIDTH);
    }
    for sentence in outcome.sentences() {
        out += &wrap(&sentence, WIDTH);
    }
    // Names come from files.
    out.retain(|letter| letter == '\n' || !letter.is_control());
    out
}

/// The checks, below a line for each row.
fn table(checks: &[&Check], out: &mut String) {
    let head = ["compared", "change", "verdict"].map(str::to_owned).to_vec();
    let cells = checks.iter().map(|check| {
        let name = format!("  {}", cut(&check.name(), NAME_MAX));
        vec![one_line(&name), check.change.clone(), check.verdict.words().to_owned()]
    });
    let rows: Vec<Vec<String>> = core::iter::once(head).chain(cells).collect();
    let drawn = draw(&[Align::Left, Align::Left, Align::Left], &rows);
    let mut lines = drawn.lines();
    lines.by_ref().take(2).for_each(|line| _ = writeln!(out, "{line}"));
    let mut row = None;
    for (line, check) in lines.zip(checks) {
        let this = Some((&check.lane, &check.workload));
        if row != this {
            let title = format!("{} {}", check.lane, check.workload);
            let _ = writeln!(out, "{}", cut(&one_line(&title), WIDTH));
            row = this;
        }
        let _ = writeln!(out, "{line}");
    }
}

/// Without what would begin another line of a cell.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Cuts a text to at most `most` characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
