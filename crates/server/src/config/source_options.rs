//! The table `[connect]`: options of connections to remote sources. Which there are says whoever
//! starts servers; for `weft` they are those of its command line, so that there is one list.

use super::desired::beside;
use super::faults::{Finder, no_such};
use super::tables::{At, Text};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Value;
use weft_block::Error;
use weft_endpoint::{ConnectOptions, Control};

/// The options of connections to remote sources.
pub trait SourceOptions: Send + Sync {
    /// All options that a configuration may have.
    fn known(&self) -> Vec<SourceOption>;

    /// Refuses the wrong value of one option, with what is wrong. That it depends on other options
    /// is no mistake.
    fn check_value(&self, arguments: &[String]) -> Result<(), Error>;

    /// Refuses options that do not go together.
    fn check(&self, arguments: &[String]) -> Result<(), Error>;

    /// With what sources are opened. By default a remote one has `queues` I/O queues.
    fn options(
        &self,
        arguments: &[String],
        queues: u16,
        control: &Control,
    ) -> Result<ConnectOptions, Error>;
}

/// An option.
#[derive(Clone, Debug)]
pub struct SourceOption {
    /// Its name, as in `keep-alive-tmo`.
    pub name: String,
    /// Its description, one sentence.
    pub help: String,
    /// Its value is the path of a file.
    pub is_path: bool,
    /// It has no value: it is true or false.
    pub is_flag: bool,
}

/// No options: sources are opened as they are by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSourceOptions;

impl SourceOptions for NoSourceOptions {
    fn known(&self) -> Vec<SourceOption> {
        Vec::new()
    }

    fn check_value(&self, _: &[String]) -> Result<(), Error> {
        Ok(())
    }

    fn check(&self, _: &[String]) -> Result<(), Error> {
        Ok(())
    }

    fn options(
        &self,
        _: &[String],
        queues: u16,
        control: &Control,
    ) -> Result<ConnectOptions, Error> {
        Ok(ConnectOptions {
            nr_io_queues: queues.max(1),
            control: control.clone(),
            ..ConnectOptions::default()
        })
    }
}

/// The table `[connect]` as the arguments of a command line.
///
/// Paths of files begin at `directory`; the files have to be readable.
pub(super) fn arguments(
    table: &BTreeMap<Text, At<Value>>,
    (directory, options): (&Path, &dyn SourceOptions),
    finder: &mut Finder<'_>,
) -> Vec<String> {
    let known = options.known();
    let mut all = Vec::new();
    for (key, value) in table {
        let name = key.replace('_', "-");
        let Some(option) = known.iter().find(|known| known.name.replace('_', "-") == name) else {
            let names = known.iter().map(|known| known.name.as_str());
            finder.add(key.place(), no_such("key", key, names));
            continue;
        };
        let name = &option.name;
        let given = match &**value {
            Value::String(file) if option.is_path => {
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
        match given.as_ref().map(|given| options.check_value(given)) {
            Some(Err(e)) => finder.add(value.place(), e.to_string()),
            // What depends on other options is seen when all are there.
            _ => all.extend(given.into_iter().flatten()),
        }
    }
    if let Err(e) = options.check(&all) {
        let place = table.keys().next().map_or(0..0, At::place);
        finder.add(place, e.to_string());
    }
    all
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

/// Adds the options to the table in a schema.
pub(super) fn describe(schema: &mut serde_json::Value, options: &dyn SourceOptions) {
    let described = options.known().into_iter().map(|option| {
        let kinds: &[&str] =
            if option.is_flag { &["boolean"] } else { &["string", "number", "array"] };
        (option.name, serde_json::json!({"type": kinds, "description": option.help}))
    });
    schema["$defs"]["ConnectTable"]["properties"] = serde_json::Value::Object(described.collect());
}
