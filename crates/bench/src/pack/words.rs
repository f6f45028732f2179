//! Texts word by word.

use super::aliases::{AliasKind, Aliases};
use super::fields::each_text;
use super::known::{Known, is_number};
use super::parts::{address, host, identifier, is_identifier, path, port_of};
use super::url;
use core::net::IpAddr;
use serde_json::Value;

/// The way in which a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Sentences of weft: a plain word stays.
    Prose,
    /// A command, or the configuration of a target: a word stays if it is known.
    Command,
}

/// Letters that may stand before and behind a word.
const OPENING: &[char] = &['(', '[', '"', '\'', '“', '‘', '`', '{', '<'];
const CLOSING: &[char] =
    &[')', ']', '"', '\'', '”', '’', '.', ',', ';', ':', '!', '?', '`', '}', '>', '†'];

/// Options whose value is a secret, by what their names contain.
const SECRET: [&str; 6] = ["secret", "password", "key", "token", "user", "psk"];

/// A text without what tells something.
pub(super) fn scrub(text: &str, mode: Mode, known: &Known, aliases: &mut Aliases) -> String {
    if let Some((words, mut value)) = configuration(text, mode) {
        each_text(&mut value, "", &mut |_, text| {
            *text = scrub(text, Mode::Command, known, aliases);
        });
        return format!("{}{value}", scrub(words, mode, known, aliases));
    }
    let mut out = String::new();
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end_matches(char::is_whitespace);
        out += &dressed(word, mode, known, aliases);
        out += &piece[word.len()..];
    }
    out
}

/// Splits a target's configuration at its JSON: `DIRECTORY/config: {}`.
fn configuration(text: &str, mode: Mode) -> Option<(&str, Value)> {
    let (words, json) = text.split_at(text.find('{').filter(|_| mode == Mode::Command)?);
    let value: Value = serde_json::from_str(json).ok()?;
    Some((words, value))
}

/// A word with the marks around it.
fn dressed(word: &str, mode: Mode, known: &Known, aliases: &mut Aliases) -> String {
    if word.is_empty() || known.word(word) {
        return word.to_owned();
    }
    let front = word.len() - word.trim_start_matches(OPENING).len();
    let core = word[front..].trim_end_matches(CLOSING);
    if core.is_empty() {
        return word.to_owned();
    }
    // The host’s.
    let core = core.strip_suffix("’s").or_else(|| core.strip_suffix("'s")).unwrap_or(core);
    let behind = &word[front + core.len()..];
    format!("{}{}{behind}", &word[..front], self::word(core, mode, known, aliases))
}

/// A word.
fn word(text: &str, mode: Mode, known: &Known, aliases: &mut Aliases) -> String {
    if known.lane(text) || known.workload(text) {
        return text.to_owned();
    }
    if let Some(option) = option(text, known, aliases) {
        return option;
    }
    if url::begins(text) || text.contains('=') || text.contains(',') && mode == Mode::Command {
        return list(text, known, aliases);
    }
    atom(text, mode, known, aliases)
}

/// A word that is not of several.
fn atom(text: &str, mode: Mode, known: &Known, aliases: &mut Aliases) -> String {
    if known.lane(text) || known.workload(text) || is_number_or_marks(text) {
        return text.to_owned();
    }
    if let Some(address) = address(text, aliases) {
        return address;
    }
    if is_identifier(text) {
        return identifier(text, aliases);
    }
    if text.contains(['/', '\\']) || text.starts_with('~') {
        return path(text, aliases);
    }
    if port_of(text).is_some() {
        return host(text, aliases);
    }
    if let Some(alias) = aliases.known(AliasKind::Name, text) {
        return alias;
    }
    // A hyphen makes a name of it: db-server.
    let is_plain = |letter: char| letter.is_alphabetic() || "'’–—".contains(letter);
    if mode == Mode::Prose && text.chars().all(is_plain) {
        return text.to_owned();
    }
    aliases.of(AliasKind::Name, "name-", text)
}

fn is_number_or_marks(text: &str) -> bool {
    let is_mark = |letter: char| !letter.is_alphanumeric() && !"/\\~@".contains(letter);
    // Three dots make an address of it.
    is_number(text) && text.parse::<IpAddr>().is_err() || text.chars().all(is_mark)
}

/// Values and `name=value`, with commas between them, or a URL, which may have commas, too.
fn list(text: &str, known: &Known, aliases: &mut Aliases) -> String {
    if url::begins(text) {
        return url::scrub(text, known, aliases);
    }
    let mut one = |value: &str| match value {
        "" => String::new(),
        url if url::begins(url) => url::scrub(url, known, aliases),
        value => atom(value, Mode::Command, known, aliases),
    };
    let values = text.split(',').map(|value| match value.split_once('=') {
        Some((name, value)) => format!("{}={}", one(name), one(value)),
        None => one(value),
    });
    values.collect::<Vec<_>>().join(",")
}

/// `--name` or `--name=value`.
fn option(text: &str, known: &Known, aliases: &mut Aliases) -> Option<String> {
    let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    let (name, value) =
        name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '-' || letter == '_';
    if name.is_empty() || name.len() > 24 || !name.chars().all(is_name) {
        return None;
    }
    let dashes = &text[..text.len() - text.trim_start_matches('-').len()];
    let Some(value) = value else { return Some(text.to_owned()) };
    if SECRET.iter().any(|part| name.contains(part)) {
        aliases.removed(AliasKind::Secret);
        return Some(format!("{dashes}{name}=removed"));
    }
    Some(format!("{dashes}{name}={}", list(value, known, aliases)))
}
