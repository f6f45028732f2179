//! The options of connections to remote sources in a configuration: those of the command line, so
//! that there is one list of them.

use super::desired::beside;
use super::read::{Finder, no_such};
use super::tables::{At, Text};
use crate::connection::ConnectArgs;
use crate::exit::Failure;
use clap::{ArgAction, Args, Command, FromArgMatches, ValueHint};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Value;
use weft_block::ErrorKind;

fn command() -> Command {
    ConnectArgs::augment_args(Command::new("weft").no_binary_name(true).disable_help_flag(true))
}

/// The table `[connect]` as the arguments of a command line.
///
/// Paths of files begin at `directory`; the files have to be readable.
pub fn arguments(
    table: &BTreeMap<Text, At<Value>>,
    directory: &Path,
    finder: &mut Finder<'_>,
) -> Vec<String> {
    let (known, paths) = (names(&command()), names_of_paths(&command()));
    let mut all = Vec::new();
    for (key, value) in table {
        let name = key.replace('_', "-");
        let Some(name) = known.iter().find(|known| known.replace('_', "-") == name) else {
            finder.add(key.place(), no_such("key", key, known.iter().map(String::as_str)));
            continue;
        };
        let given = match &**value {
            Value::String(file) if paths.contains(name) => {
                let full = beside(directory, Path::new(file));
                let readable = std::fs::File::open(&full)
                    .map_err(|e| format!("cannot read {}: {e}", full.display()));
                finder.take(
                    value.place(),
                    readable.map(|_| vec![format!("--{name}={}", full.display())]),
                )
            }
            other => finder.take(value.place(), argument(name, other)),
        };
        let outcome = given.as_ref().map(|given| command().try_get_matches_from(given));
        match outcome {
            Some(Err(e)) if is_of_value(&e) => finder.add(value.place(), sentence(&e)),
            // What depends on other options is seen when all are there.
            _ => all.extend(given.into_iter().flatten()),
        }
    }
    if let Err(e) = parse(&all) {
        let place = table.keys().next().map_or(0..0, At::place);
        finder.add(place, e.to_string());
    }
    all
}

/// The options as they are used.
pub fn parse(arguments: &[String]) -> Result<ConnectArgs, Failure> {
    let wrong = |e: clap::Error| Failure::of(ErrorKind::Usage, sentence(&e));
    let matches = command().try_get_matches_from(arguments).map_err(wrong)?;
    ConnectArgs::from_arg_matches(&matches).map_err(wrong)
}

/// The option that is a key of namespaces instead.
const OF_NAMESPACES: &str = "path";

fn names(command: &Command) -> Vec<String> {
    let longs = command.get_arguments().filter_map(|arg| arg.get_long());
    longs.filter(|name| *name != OF_NAMESPACES).map(str::to_owned).collect()
}

/// The options whose values are paths of files.
fn names_of_paths(command: &Command) -> Vec<String> {
    let paths = command.get_arguments().filter(|arg| arg.get_value_hint() == ValueHint::AnyPath);
    paths.filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

fn argument(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let with = |value: &dyn ToString| Ok(vec![format!("--{name}={}", value.to_string())]);
    match value {
        Value::Boolean(true) => Ok(vec![format!("--{name}")]),
        Value::Boolean(false) => Ok(Vec::new()),
        Value::String(text) => with(text),
        Value::Integer(number) => with(number),
        Value::Float(number) => with(number),
        Value::Array(values) => Ok(values
            .iter()
            .map(|value| argument(name, value))
            .collect::<Result<Vec<_>, _>>()?
            .concat()),
        Value::Datetime(_) | Value::Table(_) => {
            Err(format!("{name} takes a text, a number, true or false"))
        }
    }
}

fn is_of_value(error: &clap::Error) -> bool {
    use clap::error::ErrorKind::{
        InvalidValue, TooFewValues, TooManyValues, ValueValidation, WrongNumberOfValues,
    };
    matches!(
        error.kind(),
        InvalidValue | ValueValidation | TooFewValues | TooManyValues | WrongNumberOfValues
    )
}

/// The first line of clap's message.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").replace("'", "\"")
}

/// The table in the JSON schema.
pub struct ConnectTable;

impl JsonSchema for ConnectTable {
    fn schema_name() -> Cow<'static, str> {
        "ConnectTable".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for arg in command().get_arguments() {
            let Some(name) = arg.get_long().filter(|name| *name != OF_NAMESPACES) else { continue };
            let kinds: &[&str] = match arg.get_action() {
                ArgAction::SetTrue | ArgAction::SetFalse => &["boolean"],
                _ => &["string", "number", "array"],
            };
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            properties
                .insert(name.to_owned(), serde_json::json!({"type": kinds, "description": help}));
        }
        json_schema!({"type": "object", "additionalProperties": false, "properties": properties})
    }
}
