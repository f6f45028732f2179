//! Tables for the terminal, for Markdown and for the results file.

use std::fmt::Write;

use serde_json::{Value, json};

/// A table with its text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// Text above it.
    pub intro: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
    /// Notes below it.
    pub notes: Vec<String>,
}

impl Table {
    /// An empty table.
    pub fn new(title: &str, intro: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(ToString::to_string).collect();
        Self { title: title.into(), intro: intro.into(), columns, ..Self::default() }
    }

    /// For the terminal.
    pub fn text(&self) -> String {
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).chain(self.columns.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &[String]| {
            let padded =
                cells.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| match at {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut text = format!("\n{}\n{}\n", self.title, line(&self.columns));
        self.rows.iter().for_each(|row| text.extend([line(row), "\n".into()]));
        self.notes.iter().for_each(|note| text.extend(["  ", note, "\n"]));
        text
    }

    /// For a document.
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        if !self.intro.is_empty() {
            let _ = write!(text, "{}\n\n", self.intro);
        }
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        text += &line(&self.columns);
        text += &line(&vec!["---".into(); self.columns.len()]);
        self.rows.iter().for_each(|row| text += &line(row));
        for note in &self.notes {
            let _ = write!(text, "\n{note}\n");
        }
        text
    }

    /// For the results file.
    pub fn json(&self) -> Value {
        json!({ "title": self.title, "intro": self.intro, "columns": self.columns, "rows": self.rows, "notes": self.notes })
    }

    /// From the results file.
    pub fn from_json(value: &Value) -> Self {
        let texts = |value: &Value| -> Vec<String> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .map(|text| text.as_str().unwrap_or_default().to_owned())
                .collect()
        };
        Self {
            title: value["title"].as_str().unwrap_or_default().into(),
            intro: value["intro"].as_str().unwrap_or_default().into(),
            columns: texts(&value["columns"]),
            rows: value["rows"].as_array().into_iter().flatten().map(texts).collect(),
            notes: texts(&value["notes"]),
        }
    }
}

/// A part of the race: its tables, and all that was measured for the results file.
pub struct Section {
    /// Its name in the results file.
    pub name: &'static str,
    /// The shown tables.
    pub tables: Vec<Table>,
    /// The kept data.
    pub data: Value,
}

/// Operations per second, with three significant digits: `683k`, `1.19M`.
pub fn rate(iops: f64) -> String {
    match iops {
        iops if iops >= 999_500.0 => format!("{:.2}M", iops / 1e6),
        iops if iops >= 99_950.0 => format!("{:.0}k", iops / 1e3),
        iops if iops >= 1000.0 => format!("{:.1}k", iops / 1e3),
        iops => format!("{iops:.0}"),
    }
}

/// Microseconds, with three significant digits.
pub fn micros(us: f64) -> String {
    match us {
        us if us >= 99.95 => format!("{us:.0}"),
        us if us >= 9.995 => format!("{us:.1}"),
        us => format!("{us:.2}"),
    }
}

/// Returns the text, or a dash.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [73_800.0, 683_000.0, 1_190_000.0, 12.0].map(rate),
            ["73.8k", "683k", "1.19M", "12"]
        );
        assert_eq!([7.25, 29.04, 183.2].map(micros), ["7.25", "29.0", "183"]);
    }

    #[test]
    fn a_table_survives_its_file() {
        let mut table = Table::new("Shares", "Of what.", &["point", "share"]);
        table.rows.push(vec!["depth 1".into(), "0.87".into()]);
        table.notes.push("A note.".into());
        let again = Table::from_json(&table.json());
        assert_eq!((again.text(), again.markdown()), (table.text(), table.markdown()));
        assert!(table.markdown().contains("| depth 1 | 0.87 |"));
        assert!(table.text().contains("depth 1   0.87"));
    }
}
