//! Tables for people.

use std::io::{IsTerminal, Write};

use weft_proto::printable::PrintableLine;

/// Columns between two cells.
const GAP: usize = 2;

/// A name is not made shorter than this.
const NAME: usize = 16;

/// Rows below a head, in columns of equal width. What a server says is shown safely.
pub struct Table<'a> {
    /// Titles of the columns.
    pub head: &'a [&'a str],
    /// The cells.
    pub rows: Vec<Vec<String>>,
    /// Number of columns at the left that are names, and may be shortened; the rest are figures.
    pub names: usize,
    /// Titles of the columns that go first where there is no room for all, some of them together.
    pub spare: &'a [&'a [&'a str]],
    /// With a rule below the head, as nvme-cli has it.
    pub is_ruled: bool,
}

impl Table<'_> {
    /// Prints it within `room` columns, or whole: names are shortened, and spare columns are left
    /// out. Returns whether all columns are there.
    pub fn print(self, out: &mut impl Write, room: Option<usize>) -> std::io::Result<bool> {
        let safe =
            |row: Vec<String>| row.iter().map(|cell| PrintableLine(cell).to_string()).collect();
        let head: Vec<String> = self.head.iter().map(|&title| title.to_owned()).collect();
        let mut rows: Vec<Vec<String>> =
            std::iter::once(head).chain(self.rows.into_iter().map(safe)).collect();
        let mut spare = self.spare.iter();
        let mut widths = widths(&rows);
        let mut is_whole = true;
        let (mut names, gap) = (self.names, if self.is_ruled { 1 } else { GAP });
        while room.is_some_and(|room| least(&widths, names, gap) > room) {
            let Some(titles) = spare.next() else { break };
            for title in *titles {
                let Some(at) = rows[0].iter().position(|of| of == title) else { continue };
                rows.iter_mut().filter(|row| at < row.len()).for_each(|row| _ = row.remove(at));
                widths.remove(at);
                names -= usize::from(at < names);
                is_whole = false;
            }
        }
        if let Some(room) = room {
            shorten(&mut widths, names, gap, room);
        }
        if self.is_ruled {
            rows.insert(1, widths.iter().map(|&width| "-".repeat(width)).collect());
        }
        for row in &rows {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(at, (cell, &width))| match at < names {
                true => format!("{:<width$}", middle(cell, width)),
                false => format!("{cell:>width$}"),
            });
            writeln!(out, "{}", cells.collect::<Vec<_>>().join(&" ".repeat(gap)).trim_end())?;
        }
        Ok(is_whole)
    }
}

/// A table whose first two columns are names.
pub fn named<'a>(head: &'a [&'a str], rows: Vec<Vec<String>>) -> Table<'a> {
    Table { head, rows, names: 2, spare: &[], is_ruled: false }
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
    };
    (0..columns).map(|at| width(at).unwrap_or(0)).collect()
}

/// Columns that a table has, and that it needs where its names are short.
fn total(widths: &[usize], gap: usize) -> usize {
    widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1)
}

fn least(widths: &[usize], names: usize, gap: usize) -> usize {
    let names = widths.iter().take(names).map(|&width| width.saturating_sub(NAME));
    total(widths, gap) - names.sum::<usize>()
}

/// Takes what is too much from the widest name.
fn shorten(widths: &mut [usize], names: usize, gap: usize, room: usize) {
    let mut excess = total(widths, gap).saturating_sub(room);
    while excess > 0 {
        let names = widths.iter_mut().take(names);
        let Some(widest) = names.max_by_key(|width| **width).filter(|width| **width > NAME) else {
            break;
        };
        *widest -= 1;
        excess -= 1;
    }
}

/// A name without its middle: names of one kind begin alike, and differ at their ends.
fn middle(text: &str, width: usize) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= width {
        return text.to_owned();
    }
    let first = width.saturating_sub(1) / 3;
    let last = width.saturating_sub(1) - first;
    let parts = [&all[..first], &['…'], &all[all.len() - last..]];
    parts.into_iter().flatten().collect()
}

/// The columns that a table may take on standard output: as many as the terminal has, or any
/// number.
pub fn room(is_wide: bool) -> Option<usize> {
    if is_wide {
        return None;
    }
    said().or_else(|| std::io::stdout().is_terminal().then(terminal_width).flatten())
}

/// The lines that standard output has room for, if that is a terminal.
pub fn height() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(_, height)| height.0.into())
}

/// Width of the terminal in columns, if known.
pub fn terminal_width() -> Option<usize> {
    said().or_else(|| terminal_size::terminal_size().map(|(width, _)| width.0.into()))
}

/// What the environment says of it.
fn said() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(table: Table<'_>, room: Option<usize>) -> (String, bool) {
        let mut out = Vec::new();
        let is_whole = table.print(&mut out, room).unwrap();
        (String::from_utf8(out).unwrap(), is_whole)
    }

    #[test]
    fn columns_are_aligned() {
        let of = || named(&["A", "", "N"], vec![vec!["x".into(), "long".into(), "100".into()]]);
        assert_eq!(printed(of(), None).0, "A          N\nx  long  100\n");
        let ruled = Table { is_ruled: true, names: 3, ..of() };
        assert_eq!(printed(ruled, None).0, "A      N\n- ---- ---\nx long 100\n");
    }

    #[test]
    fn tables_fit_a_terminal() {
        let host = "nqn.2014-08.org.nvmexpress:uuid:0c1c6a3a-5a53-4a1f-9d0f-5a6e2a5d7c11";
        let row = [host, "1", "5", "7 µs", "9 µs"].map(str::to_owned);
        let head = ["Host", "Connections", "Reads", "p50", "p99"];
        let of = |spare| Table { spare, ..named(&head, vec![row.to_vec()]) };
        let (text, is_whole) = printed(of(&[&["p99"]]), Some(60));
        assert!(is_whole && text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(
            text.contains("nqn.") && text.contains("5a6e2a5d7c11 ") && text.contains('…'),
            "{text}"
        );
        let (text, is_whole) = printed(of(&[&["p99"], &["Reads"]]), Some(44));
        assert!(!is_whole && !text.contains("p99") && text.contains("Reads"), "{text}");
        let (text, is_whole) = printed(of(&[&["p99"]]), None);
        assert!(is_whole && text.contains(host), "{text}");
        // Too narrow for anything: all that is not spare is there.
        assert!(printed(of(&[&["p99"]]), Some(1)).0.contains("p50"));
    }
}
