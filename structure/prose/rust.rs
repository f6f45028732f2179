//! Prose in Rust: comments of documentation, help, and messages.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::LitStr;

use super::{
    rules::{self, Fault},
    text,
};

/// Readers of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reader {
    /// Users of the program: doc comments that become its help.
    Help,
    /// Users of the program: texts in its code.
    Messages,
    /// Users of a crate: public items and the openings of modules.
    Public,
    /// Those who change the crate.
    Other,
}

/// The faults of a file by their readers.
pub fn faults(path: &str, source: &str) -> Vec<(Reader, Fault)> {
    let mut found = Vec::new();
    for (reader, comment) in comments(source) {
        let blocks = text::blocks(&comment);
        let faults = blocks.iter().enumerate().flat_map(|(at, it)| rules::faults(it, at == 0));
        found.extend(faults.map(|fault| (reader, fault)));
    }
    let is_test = path.starts_with("structure/") || path.contains("/tests/");
    let is_test = is_test || path.ends_with("tests.rs");
    if !is_test {
        // Tests stand at the end of a file.
        let shipped = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        messages(shipped.parse().unwrap_or_else(|_| panic!("{path} is Rust")), &mut found);
    }
    found
}

/// A comment: its lines with their numbers.
type Comment<'a> = Vec<(usize, &'a str)>;

/// The comments of documentation, and their readers.
fn comments(source: &str) -> Vec<(Reader, Comment<'_>)> {
    let lines: Vec<&str> = source.lines().collect();
    let helps = helps(&lines);
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(mark) = mark(lines[at]) else {
            at += 1;
            continue;
        };
        let first = at;
        let mut comment = Comment::new();
        while at < lines.len()
            && let Some(line) = lines[at].trim_start().strip_prefix(mark)
        {
            comment.push((at + 1, line.strip_prefix(' ').unwrap_or(line)));
            at += 1;
        }
        let reader = if mark == "//!" || item(&lines[at..]).starts_with("pub ") {
            Reader::Public
        } else {
            Reader::Other
        };
        let is_help =
            mark == "///" && helps.iter().any(|(from, to)| (*from..=*to).contains(&first));
        found.push((if is_help { Reader::Help } else { reader }, comment));
    }
    found
}

/// The mark of a line of documentation.
fn mark(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["//!", "///"].into_iter().find(|mark| line.starts_with(mark) && !line.starts_with("////"))
}

/// The line of the item behind a comment: attributes come before it.
fn item<'a>(lines: &[&'a str]) -> &'a str {
    let mut depth = 0;
    for line in lines {
        let text = line.trim_start();
        let is_attribute = depth > 0 || text.starts_with("#[");
        if is_attribute {
            depth += text.matches('[').count();
            depth = depth.saturating_sub(text.matches(']').count());
        } else if !text.starts_with("//") {
            return text;
        }
    }
    ""
}

/// First and last lines of items from which the help is made.
fn helps(lines: &[&str]) -> Vec<(usize, usize)> {
    let makes_help = |line: &str| {
        let derived = line.trim_start().strip_prefix("#[derive(").unwrap_or_default();
        let mut names = derived.split(|letter: char| !letter.is_alphanumeric());
        names.any(|name| ["Args", "Parser", "Subcommand", "ValueEnum"].contains(&name))
    };
    let range = |(at, line): (usize, &&str)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_last = |line: &&str| {
            let rest = line.strip_prefix(indent).unwrap_or_default();
            rest.starts_with('}') || rest.ends_with(';') && !rest.starts_with(' ')
        };
        let length = lines[at..].iter().position(is_last).unwrap_or(0);
        let comment = lines[..at].iter().rev().take_while(|line| mark(line).is_some()).count();
        (at - comment, at + length)
    };
    lines.iter().enumerate().filter(|(_, line)| makes_help(line)).map(range).collect()
}

/// Adds the faults of texts of at least three words.
fn messages(tokens: TokenStream, found: &mut Vec<(Reader, Fault)>) {
    let mut is_attribute = false;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) => {
                is_attribute = punct.as_char() == '#' || is_attribute && punct.as_char() == '!';
                continue;
            }
            TokenTree::Group(group) => {
                let is_comment = is_attribute
                    && group.delimiter() == Delimiter::Bracket
                    && group.stream().to_string().starts_with("doc");
                if !is_comment {
                    messages(group.stream(), found);
                }
            }
            TokenTree::Literal(literal) => {
                let text = syn::parse_str::<LitStr>(&literal.to_string());
                let text = text.map(|text| text.value()).unwrap_or_default();
                if text.matches(' ').count() > 1 {
                    let line = literal.span().start().line;
                    let lines: Vec<_> = text.lines().map(|it| (line, it)).collect();
                    let blocks = text::blocks(&lines);
                    let faults = blocks.iter().flat_map(|it| rules::faults(it, false));
                    found.extend(faults.map(|fault| (Reader::Messages, fault)));
                }
            }
            TokenTree::Ident(_) => {}
        }
        is_attribute = false;
    }
}
