//! The connections that a daemon holds, for people: a table that fits 80 columns, and JSON.

use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use weft_proto::printable::PrintableLine;
use weft_server::connections::orders::HeldConnection;
use weft_server::connections::supervision::SupervisionState;

/// Columns of the table.
const COLUMNS: usize = 80;

/// Longest name in full.
const NAME: usize = 24;

/// Prints the table, `is_wide` with names in full; nothing if there is nothing in it.
pub fn print(out: &mut impl Write, held: &[HeldConnection], is_wide: bool) -> std::io::Result<()> {
    if held.is_empty() {
        return Ok(());
    }
    let (columns, longest) = if is_wide { (usize::MAX, usize::MAX) } else { (COLUMNS, NAME) };
    let width = held.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    let width = width.clamp(10, longest);
    writeln!(out, "{:<width$} {:<10} {:<5} {:>6} Source", "Connection", "State", "Lasts", "Next")?;
    for it in held {
        let name = cut(&it.name, width);
        let lasts = if it.recorded { "yes" } else { "no" };
        let start = format!("{name:<width$} {:<10} {lasts:<5} {:>6} ", state(it), next(it));
        let room = columns.saturating_sub(start.chars().count());
        writeln!(out, "{start}{}", cut(&PrintableLine(&it.url).to_string(), room))?;
        for line in
            it.last_error.iter().flat_map(|error| wrapped(&PrintableLine(error).to_string()))
        {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The same as JSON.
pub fn json(it: &HeldConnection) -> Value {
    json!({
        "Name": it.name,
        "Url": it.url,
        "State": state(it),
        "Recorded": it.recorded,
        "LastError": it.last_error,
        "NextAttemptSeconds": it.next_attempt_ms.map(|ms| ms as f64 / 1000.0),
        "DevicePath": it.entry.as_ref().map(|entry| entry.device.as_str()),
    })
}

fn state(it: &HeldConnection) -> &'static str {
    match it.state {
        SupervisionState::Waiting => "waiting",
        SupervisionState::Connecting => "connecting",
        SupervisionState::Connected if it.entry.as_ref().is_some_and(|entry| entry.lost) => "lost",
        SupervisionState::Connected => "connected",
        SupervisionState::Ending => "ending",
        SupervisionState::Ended => "ended",
    }
}

/// When it is tried again.
fn next(it: &HeldConnection) -> String {
    let wait = it.next_attempt_ms.map(Duration::from_millis);
    wait.map_or_else(|| "-".into(), |wait| format!("{} s", wait.as_secs_f64().ceil()))
}

fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// The lines of a text that is set in, each within the columns.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::from(" ")];
    for word in text.split_whitespace() {
        let word = cut(word, COLUMNS - 2);
        let last = lines.last_mut().expect("there is one");
        if last.chars().count() + 1 + word.chars().count() > COLUMNS && last != " " {
            lines.push(format!("  {word}"));
        } else {
            *last = format!("{last} {word}");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_the_columns() {
        let held = |name: &str, url: &str, error: Option<String>| HeldConnection {
            name: name.into(),
            url: url.into(),
            recorded: true,
            state: SupervisionState::Waiting,
            last_error: error,
            next_attempt_ms: Some(29_001),
            entry: None,
        };
        let all = [
            held("disk", "ram:1MiB", None),
            held(&"n".repeat(64), &"u".repeat(200), Some("no answer ".repeat(40))),
            held("x", "\u{1b}[2J", Some("w".repeat(300))),
        ];
        let mut out = Vec::new();
        print(&mut out, &all, false).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("waiting    yes     30 s") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(text.matches("no answer").count() + text.matches("no\n  answer").count(), 40);
        assert_eq!(json(&all[0])["NextAttemptSeconds"], 29.001);
        let mut none = Vec::new();
        print(&mut none, &[], false).unwrap();
        assert!(none.is_empty());
    }
}
