//! Prose as blocks and words. Code, quotations and the targets of links do not count.

use std::iter::Peekable;

/// A word, or a number, a piece of code or a quotation, which stand as one word each.
#[derive(Debug)]
pub struct Word {
    /// In lower case; "`" for code, "\"" for a quotation.
    pub text: String,
    pub line: usize,
    /// Begins a sentence.
    pub is_first: bool,
    /// Punctuation behind it.
    pub after: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Heading,
    Paragraph,
    Bullet,
    Cell,
}

/// A paragraph, a heading, an item of a list or a cell of a table.
#[derive(Debug)]
pub struct Block {
    pub kind: Kind,
    pub words: Vec<Word>,
}

/// Lines with their numbers.
type Lines<'a> = [(usize, &'a str)];

/// Splits lines of Markdown into blocks. Fenced code, comments and quoted blocks are left out.
pub fn blocks(lines: &Lines<'_>) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut kind = Kind::Paragraph;
    // The end of the block that is skipped.
    let mut skipped: Option<&str> = None;
    for &(number, line) in lines {
        let text = line.trim_start();
        if let Some(end) = skipped {
            if text.starts_with(end) || end == "-->" && text.contains(end) {
                skipped = None;
            }
            continue;
        }
        let fence = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence));
        let comment = (text.starts_with("<!--") && !text.contains("-->")).then_some("-->");
        let heading = line.starts_with('#').then(|| line.trim_start_matches('#'));
        let heading = heading.filter(|heading| heading.starts_with(' '));
        let bullet = bullet(text);
        let ends = text.is_empty() || text.starts_with(['|', '>']) || text.starts_with("<!--");
        if ends || fence.is_some() || heading.is_some() || bullet.is_some() {
            close(&mut open, kind, &mut found);
            kind = Kind::Paragraph;
        }
        skipped = fence.or(comment);
        if let Some(heading) = heading {
            close(&mut vec![(number, heading)], Kind::Heading, &mut found);
        } else if let Some(item) = bullet {
            kind = Kind::Bullet;
            open.push((number, item));
        } else if text.starts_with('|') {
            for cell in without_code(text).split('|') {
                close(&mut vec![(number, cell)], Kind::Cell, &mut found);
            }
        } else if !ends && fence.is_none() {
            open.push((number, line));
        }
    }
    close(&mut open, kind, &mut found);
    found
}

/// Adds the open block to those that were found.
fn close(open: &mut Vec<(usize, &str)>, kind: Kind, found: &mut Vec<Block>) {
    let words = words(open);
    if !words.is_empty() {
        found.push(Block { kind, words });
    }
    open.clear();
}

/// The text of an item of a list.
fn bullet(text: &str) -> Option<&str> {
    let numbered = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let rest = match text.strip_prefix(['*', '+', '-']) {
        None if numbered.len() < text.len() => numbered.strip_prefix('.'),
        rest => rest,
    };
    rest?.strip_prefix(' ')
}

/// A row of a table with empty quotations in place of code, which may hold bars.
fn without_code(row: &str) -> String {
    row.split('`').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// The words of lines that belong together.
fn words<'a>(lines: &Lines<'a>) -> Vec<Word> {
    let of_line = |&(number, line): &(usize, &'a str)| {
        line.chars().chain(['\n']).map(move |letter| (number, letter))
    };
    let mut letters = lines.iter().flat_map(of_line).peekable();
    let mut found: Vec<Word> = Vec::new();
    let mut is_first = true;
    while let Some((line, letter)) = letters.next() {
        let text = match letter {
            '`' | '"' => {
                skip(&mut letters, letter);
                letter.to_string()
            }
            '“' => {
                skip(&mut letters, '”');
                "\"".to_owned()
            }
            letter if letter.is_ascii_alphanumeric() => word(letter, &mut letters),
            letter => {
                if let Some(last) = found.last_mut().filter(|_| !letter.is_whitespace()) {
                    last.after.push(letter);
                }
                if letter == ']' && letters.next_if(|(_, next)| *next == '(').is_some() {
                    skip(&mut letters, ')');
                }
                is_first |= ".!?:".contains(letter);
                continue;
            }
        };
        found.push(Word { text, line, is_first, after: String::new() });
        is_first = false;
    }
    found
}

/// Skips to the end of a piece of code, a quotation or a target.
fn skip(letters: &mut Peekable<impl Iterator<Item = (usize, char)>>, end: char) {
    letters.by_ref().find(|(_, letter)| *letter == end);
}

/// The rest of a word or a number.
fn word(first: char, letters: &mut Peekable<impl Iterator<Item = (usize, char)>>) -> String {
    let mut text = String::from(first.to_ascii_lowercase());
    let belongs = |letter: char| letter.is_ascii_alphanumeric() || "'’-".contains(letter);
    while let Some((_, letter)) = letters.next_if(|(_, letter)| belongs(*letter)) {
        text.push(letter.to_ascii_lowercase());
    }
    text
}
