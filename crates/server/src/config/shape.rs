//! From text to tables, with all mistakes of form: keys that do not exist, values of a wrong type,
//! and those that are missing.
//!
//! The deserializer ends at the first mistake. What it found is taken out of the parsed text, and
//! it begins again, until it finds nothing more.

use super::faults::{Finder, no_such};
use super::tables::ConfigFile;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue, Deserializer, Error};

/// Mistakes of form that are looked for.
const FAULTS_MAX: usize = 100;

/// A key that was taken out, and the place of the table that it was in.
type TakenOut = (Range<usize>, String);

/// The tables, if there is no mistake of form in them.
pub fn parse(text: &str, finder: &mut Finder<'_>) -> Option<ConfigFile> {
    let mut root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(e) => {
            finder.add(e.span().unwrap_or_default(), explain(e.message()));
            return None;
        }
    };
    let mut taken = Vec::new();
    loop {
        let error = match ConfigFile::deserialize(Deserializer::from(root.clone())) {
            Ok(tables) => return taken.is_empty().then_some(tables),
            Err(error) => error,
        };
        let place = error.span().unwrap_or_default();
        if !is_consequence(&error, &place, &taken) {
            finder.add(place.clone(), explain(error.message()));
        }
        let whole = root.span();
        taken.push(take_out(root.get_mut(), &whole, &place)?);
        if taken.len() == FAULTS_MAX {
            return None;
        }
    }
}

/// Whether a key is missing only because its value was wrong.
fn is_consequence(error: &Error, place: &Range<usize>, taken: &[TakenOut]) -> bool {
    let missing =
        error.message().strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    missing.is_some_and(|missing| taken.iter().any(|(table, key)| table == place && key == missing))
}

/// Takes out the key or value at a place, wherever it is in a table. The innermost one: an array of
/// tables has the place of its first table.
fn take_out(
    table: &mut DeTable<'_>,
    table_place: &Range<usize>,
    place: &Range<usize>,
) -> Option<TakenOut> {
    if let Some(taken) = table.iter_mut().find_map(|(_, value)| take_out_of(value, place)) {
        return Some(taken);
    }
    let is_it = |(key, value): &(&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
        key.span() == *place || value.span() == *place
    };
    let key = table.iter().find(is_it).map(|(key, _)| key.clone())?;
    table.remove(&key);
    Some((table_place.clone(), key.get_ref().to_string()))
}

fn take_out_of(value: &mut Spanned<DeValue<'_>>, place: &Range<usize>) -> Option<TakenOut> {
    let own = value.span();
    match value.get_mut() {
        DeValue::Table(table) => take_out(table, &own, place),
        DeValue::Array(values) => {
            if let Some(taken) = values.iter_mut().find_map(|value| take_out_of(value, place)) {
                return Some(taken);
            }
            let at = values.iter().position(|value| value.span() == *place)?;
            let mut rest = DeArray::new();
            values
                .iter()
                .enumerate()
                .filter(|(n, _)| *n != at)
                .for_each(|(_, value)| rest.push(value.clone()));
            *values = rest;
            Some((own, String::new()))
        }
        _ => None,
    }
}

/// The parser's message as a sentence, with the range of a number, and a suggestion for a key that
/// does not exist.
fn explain(message: &str) -> String {
    let message = message.trim().replace('\n', ", ");
    let words: Vec<&str> = message.split('`').collect();
    let Some(unknown) = message.starts_with("unknown field").then(|| words.get(1)).flatten() else {
        let message = message.replace('`', "\"");
        return [("u16", u64::from(u16::MAX)), ("u32", u64::from(u32::MAX)), ("u64", u64::MAX)]
            .iter()
            .find_map(|(name, max)| {
                Some(format!("{} a number from 0 to {max}", message.strip_suffix(name)?.trim_end()))
            })
            .unwrap_or(message);
    };
    let known = words.iter().skip(3).step_by(2).copied();
    no_such("key", unknown, known)
}
