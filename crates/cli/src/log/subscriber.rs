//! Writes each event of the log as a line: a time (UTC), its level, its text and its fields.

use serde_json::{Map, Value};
use std::fmt::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use weft_block::date::civil;

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As text.
    Text,
    /// As text without time and level, for a log that has its own.
    Bare,
    /// As an object of JSON.
    Json,
}

/// The field of an event that is its text.
const MESSAGE: &str = "message";

/// The log. Spans are not shown: there are none.
pub struct Lines<W> {
    pub form: Form,
    pub level: Level,
    /// Writes a line.
    pub write: W,
}

impl<W: Fn(Level, &str) + Send + Sync + 'static> Subscriber for Lines<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.level))
    }

    fn event(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        (self.write)(level, &line(self.form, level, SystemTime::now(), event));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn line(form: Form, level: Level, now: SystemTime, event: &Event<'_>) -> String {
    let time = time(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    let mut text = match form {
        Form::Json => {
            let mut object = Map::new();
            object.insert("timestamp".to_owned(), time.into());
            object.insert("level".to_owned(), level.to_string().into());
            let mut object = Object(object);
            event.record(&mut object);
            return Value::Object(object.0).to_string();
        }
        Form::Text => format!("{time} {:>5} ", level.as_str()),
        Form::Bare => String::new(),
    };
    event.record(&mut Text { start: text.len(), text: &mut text });
    text
}

/// A time since 1970, as `2026-11-20T09:14:07.123456Z`.
fn time(since_1970: Duration) -> String {
    let (seconds, micros) = (since_1970.as_secs(), since_1970.subsec_micros());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Fields as text.
struct Text<'a> {
    start: usize,
    text: &'a mut String,
}

impl Visit for Text<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.text.len() > self.start {
            self.text.push(' ');
        }
        // Into a string nothing fails, unless a value refuses to be shown.
        let _ = match field.name() {
            MESSAGE => write!(self.text, "{value:?}"),
            name => write!(self.text, "{name}={value:?}"),
        };
    }
}

/// Fields of an object.
struct Object(Map<String, Value>);

impl Object {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Object {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::subscriber::with_default;

    /// What is logged in a form, without times.
    fn logged(form: Form, level: Level, log: impl FnOnce()) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lines);
        let write = move |_, line: &str| to.lock().unwrap().push(line.to_owned());
        with_default(Lines { form, level, write }, log);
        let lines = lines.lock().unwrap().clone();
        let without_time = |line: String| match (form, line.split_once('Z')) {
            (Form::Text, Some((_, rest))) => rest.to_owned(),
            _ => line,
        };
        lines.into_iter().map(without_time).collect()
    }

    fn events() {
        tracing::warn!("a {}", "b\nc");
        tracing::error!(count = 3, name = "d\"e", shown = %"f", "g");
        tracing::debug!("left out");
    }

    #[test]
    fn events_are_lines_with_their_level_and_fields() {
        assert_eq!(
            logged(Form::Text, Level::INFO, events),
            ["  WARN a b\nc", " ERROR g count=3 name=\"d\\\"e\" shown=f"]
        );
        assert_eq!(logged(Form::Bare, Level::ERROR, events), ["g count=3 name=\"d\\\"e\" shown=f"]);
    }

    #[test]
    fn events_are_objects_of_json() {
        let lines = logged(Form::Json, Level::TRACE, events);
        assert_eq!(lines.len(), 3);
        let mut object: Map<String, Value> = serde_json::from_str(&lines[1]).unwrap();
        assert!(object.remove("timestamp").is_some_and(|time| time.as_str().is_some()));
        assert_eq!(
            Value::Object(object),
            serde_json::json!({"level": "ERROR", "message": "g", "count": 3, "name": "d\"e", "shown": "f"})
        );
    }

    #[test]
    fn times_have_microseconds() {
        assert_eq!(time(Duration::ZERO), "1970-01-01T00:00:00.000000Z");
        let later = Duration::new(1_795_165_199, 123_456_789);
        assert_eq!(time(later), "2026-11-20T08:59:59.123456Z");
    }
}
