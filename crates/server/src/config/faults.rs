//! The mistakes of a text, each with its place in it.

use std::fmt;
use std::ops::Range;
use weft_block::{Error, ErrorKind};

/// The mistakes of a file, at least one. The text has one sentence for each, in a line with file,
/// line and column.
#[derive(Debug)]
pub struct ConfigFaults(Vec<String>);

/// Collects mistakes, each with its place in the text.
pub struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<(usize, String)>,
}

impl Finder<'_> {
    /// A mistake at a place.
    pub fn add(&mut self, place: Range<usize>, sentence: impl Into<String>) {
        self.found.push((place.start, sentence.into()));
    }

    /// The value of an outcome, or a mistake at a place.
    pub fn take<T, E: fmt::Display>(
        &mut self,
        place: Range<usize>,
        outcome: Result<T, E>,
    ) -> Option<T> {
        outcome.map_err(|e| self.add(place, e.to_string())).ok()
    }

    fn end<T>(mut self, value: T) -> Result<T, ConfigFaults> {
        if self.found.is_empty() {
            return Ok(value);
        }
        self.found.sort();
        let line = |(at, sentence): &(usize, String)| {
            format!("{}:{}: {sentence}", self.file, position(self.text, *at))
        };
        Err(ConfigFaults(self.found.iter().map(line).collect()))
    }
}

/// Line and column of a byte, from 1.
fn position(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("{line}:{column}")
}

/// What `read` makes of a text, or the mistakes that it finds.
pub(super) fn with_finder<T>(
    text: &str,
    file: &str,
    read: impl FnOnce(&mut Finder<'_>) -> Option<T>,
) -> Result<T, ConfigFaults> {
    let mut finder = Finder { file, text, found: Vec::new() };
    let made = read(&mut finder);
    finder.end(made)?.ok_or_else(|| ConfigFaults(vec![format!("{file}: cannot be read")]))
}

/// Says that something does not exist, and what may have been meant.
pub fn no_such<'a>(what: &str, unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(unknown, known.iter().copied()) {
        Some(meant) => format!("there is no {what} \"{unknown}\": did you mean \"{meant}\"?"),
        None => format!("there is no {what} \"{unknown}\": known are {}", known.join(", ")),
    }
}

/// The word that is most like another one, if any is.
pub fn nearest<'a>(to: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.7;
    let rated = words
        .into_iter()
        .map(|word| (likeness(to, word), word))
        .filter(|(likeness, _)| *likeness > ALIKE);
    rated.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, word)| word)
}

/// How alike two words are, from 0 to 1: their Jaro similarity.
fn likeness(one: &str, other: &str) -> f64 {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let reach = (one.len().max(other.len()) / 2).saturating_sub(1);
    // Letters that both have, near to each other: by their places in the other word.
    let mut taken = vec![false; other.len()];
    let mut shared = Vec::new();
    for (at, letter) in one.iter().enumerate() {
        let near = at.saturating_sub(reach)..other.len().min(at + reach + 1);
        if let Some(found) = near.into_iter().find(|&near| !taken[near] && other[near] == *letter) {
            taken[found] = true;
            shared.push(*letter);
        }
    }
    if shared.is_empty() {
        return 0.0;
    }
    let in_other = other.iter().zip(&taken).filter(|(_, taken)| **taken);
    let moved = shared.iter().zip(in_other).filter(|(letter, (other, _))| letter != other).count();
    let (all, moved) = (shared.len() as f64, (moved / 2) as f64);
    (all / one.len() as f64 + all / other.len() as f64 + (all - moved) / all) / 3.0
}

impl ConfigFaults {
    /// One sentence for each mistake.
    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for ConfigFaults {
    /// The first mistake, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, more) =
            self.0.split_first().map_or(("", 0), |(first, more)| (first, more.len()));
        match more {
            0 => f.write_str(first),
            _ => write!(f, "{first} (`weft config check` reports {more} more)"),
        }
    }
}

impl From<ConfigFaults> for Error {
    fn from(faults: ConfigFaults) -> Self {
        Self::new(ErrorKind::Usage, faults.to_string())
    }
}
