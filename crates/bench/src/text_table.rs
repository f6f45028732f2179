//! Tables of text, for a terminal.

use crate::report::units::NBSP;

/// Where the text of a column's cells stands.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Draws rows, the first of which is the head, in columns as wide as their widest cell. A cell may
/// have several lines.
///
/// A rule under the head is the only line: numbers are easier to follow down than across.
pub(crate) fn draw(columns: &[Align], rows: &[Vec<String>]) -> String {
    let widest = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.flat_map(|cell| cell.split('\n')).map(|line| line.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    let mut lines = Vec::new();
    for (nth, row) in rows.iter().enumerate() {
        let height = row.iter().map(|cell| cell.split('\n').count()).max().unwrap_or(0);
        for line in 0..height {
            let cells = row.iter().zip(columns).zip(&widths).map(|((cell, align), &width)| {
                let text = cell.split('\n').nth(line).unwrap_or_default();
                match align {
                    Align::Left => format!("{text:<width$}"),
                    Align::Right => format!("{text:>width$}"),
                }
            });
            lines.push(cells.collect::<Vec<_>>().join("  ").trim_end().to_owned());
        }
        if nth == 0 {
            let gaps = 2 * widths.len().saturating_sub(1);
            lines.push("─".repeat(widths.iter().sum::<usize>() + gaps));
        }
    }
    lines.join("\n")
}

/// A text as lines of at most `width` characters; those after the first are indented as far as
/// `lead` is long.
pub(crate) fn wrap(text: &str, lead: &str, width: usize) -> String {
    let indent = " ".repeat(lead.chars().count());
    let (mut out, mut line) = (String::new(), lead.to_owned());
    let mut empty = true;
    for word in text.split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            out += &(line + "\n");
            (line, empty) = (indent.clone(), true);
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    (out + &line + "\n").replace(NBSP, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_several_lines_stand_above_a_rule_and_numbers_below_each_other() {
        let rows = [["\nlane", "p50\nµs"], ["local", "7.91"], ["nvme+tcp*", "12.3"], ["", "–"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let expected = "            p50\nlane         µs\n───────────────\nlocal      7.91\nnvme+tcp*  12.3\n              –";
        assert_eq!(draw(&[Align::Left, Align::Right], &rows), expected);
        assert_eq!(draw(&[], &[]), "");
    }
}
