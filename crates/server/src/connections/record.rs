//! The record of the connections that last: JSON with a version. It names secrets by their files,
//! as the command line does.

use crate::limits::{CONNECTION_WORDS_BYTES_MAX, CONNECTIONS_RECORDED_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use weft_block::{Error, ErrorKind};

/// The version of the format. One that adds what an older weft may leave out keeps it.
pub const VERSION: u32 = 1;

/// The command that makes a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedConnection {
    /// Its name.
    pub name: String,
    /// The URL of its source, to show it.
    pub url: String,
    /// The words of the command that makes it, without the name of the program.
    pub words: Vec<String>,
    /// The directory in which paths among them begin.
    pub directory: PathBuf,
}

/// All connections that last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionRecords(Vec<RecordedConnection>);

/// What the file has.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    connections: Vec<RecordedConnection>,
}

/// The version alone: newer formats may have other fields.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl ConnectionRecords {
    /// Reads a record.
    ///
    /// # Errors
    /// One sentence: what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Version { version } =
            serde_json::from_str(text).map_err(|e| format!("it is damaged: {e}"))?;
        if version != VERSION {
            return Err(format!(
                "it has version {version} of the format, and this weft reads version {VERSION}"
            ));
        }
        let Text { connections, .. } =
            serde_json::from_str(text).map_err(|e| format!("it is damaged: {e}"))?;
        if connections.len() > CONNECTIONS_RECORDED_MAX {
            return Err(format!("it has more than {CONNECTIONS_RECORDED_MAX} connections"));
        }
        let mut names = BTreeSet::new();
        for connection in &connections {
            connection.check().map_err(|e| e.to_string())?;
            if !names.insert(connection.name.as_str()) {
                return Err(format!("it has two connections with the name {:?}", connection.name));
            }
        }
        Ok(Self(connections))
    }

    /// The text of the record.
    pub fn text(&self) -> String {
        let text = Text { version: VERSION, connections: self.0.clone() };
        let mut text = serde_json::to_string_pretty(&text).expect("it has only strings as keys");
        text.push('\n');
        text
    }

    /// The connections, in the order in which they were recorded.
    pub fn connections(&self) -> &[RecordedConnection] {
        &self.0
    }

    /// Returns whether there is a connection of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|it| it.name == name)
    }

    /// Records a connection; it replaces one of the same name.
    pub fn add(&mut self, connection: RecordedConnection) -> Result<(), Error> {
        connection.check()?;
        if let Some(old) = self.0.iter_mut().find(|it| it.name == connection.name) {
            *old = connection;
        } else if self.0.len() >= CONNECTIONS_RECORDED_MAX {
            let text = format!(
                "{CONNECTIONS_RECORDED_MAX} connections are recorded, the maximum; end one of them with `weft disconnect NAME --forget`"
            );
            return Err(Error::new(ErrorKind::NoResources, text));
        } else {
            self.0.push(connection);
        }
        Ok(())
    }

    /// Forgets a connection; whether there was one.
    pub fn forget(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|it| it.name != name);
        self.0.len() != before
    }
}

impl RecordedConnection {
    /// Checks what others have written.
    pub fn check(&self) -> Result<(), Error> {
        check_name(&self.name)?;
        let bytes: usize = self.words.iter().map(String::len).sum();
        let long = bytes > CONNECTION_WORDS_BYTES_MAX;
        if long || self.words.is_empty() || self.words.iter().any(|word| word.contains('\0')) {
            let text = format!(
                "the command of the connection {:?} is empty, has a NUL, or is longer than {CONNECTION_WORDS_BYTES_MAX} bytes",
                self.name
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        Ok(())
    }
}

/// Checks the name of a connection, which becomes part of file names and of an iSCSI name.
pub fn check_name(name: &str) -> Result<(), Error> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
        let text = format!(
            "{name:?} is not a valid connection name: use up to 64 lower-case letters, digits and hyphens"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(name: &str) -> RecordedConnection {
        let words = ["connect", "ram:1MiB", "--name", name].map(str::to_owned).into();
        RecordedConnection {
            name: name.into(),
            url: "ram:1MiB".into(),
            words,
            directory: "/".into(),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut record = ConnectionRecords::default();
        record.add(connection("a")).unwrap();
        record.add(connection("b")).unwrap();
        record.add(RecordedConnection { directory: "/srv".into(), ..connection("a") }).unwrap();
        let again = ConnectionRecords::parse(&record.text()).unwrap();
        assert_eq!(again, record);
        assert_eq!(again.connections().len(), 2);
        assert_eq!(again.connections()[0].directory, PathBuf::from("/srv"));
        assert!(record.forget("a") && !record.forget("a") && !record.has("a") && record.has("b"));
    }

    #[test]
    fn a_record_of_version_1_is_read_and_written_as_it_was() {
        let text = r#"{
  "version": 1,
  "connections": [
    {
      "name": "a",
      "url": "ram:1MiB",
      "words": [
        "connect",
        "ram:1MiB",
        "--name",
        "a"
      ],
      "directory": "/"
    }
  ]
}
"#;
        let record = ConnectionRecords::parse(text).unwrap();
        assert_eq!(record.connections(), [connection("a")]);
        assert_eq!(record.text(), text);
    }

    #[test]
    fn a_damaged_record_is_refused_in_words() {
        let mut record = ConnectionRecords::default();
        record.add(connection("a")).unwrap();
        let good = record.text();
        let twice = good.replace("\"connections\": [", "\"connections\": [{\"name\":\"a\",\"url\":\"x\",\"words\":[\"connect\"],\"directory\":\"/\"},");
        for (text, word) in [
            ("", "damaged"),
            ("[]", "damaged"),
            (&good[..good.len() / 2], "damaged"),
            (&good.replace("\"version\": 1", "\"version\": 2"), "version 2"),
            (&good.replace("\"name\": \"a\"", "\"name\": \"../a\""), "lower-case"),
            (&good.replace("\"url\"", "\"secret\""), "unknown field"),
            (&twice, "two connections"),
        ] {
            let said = ConnectionRecords::parse(text).unwrap_err();
            assert!(said.contains(word) && !said.contains('\n'), "{text}: {said}");
        }
    }

    #[test]
    fn there_is_a_most_of_connections() {
        let mut record = ConnectionRecords::default();
        for n in 0..CONNECTIONS_RECORDED_MAX {
            record.add(connection(&n.to_string())).unwrap();
        }
        assert!(record.add(connection("0")).is_ok(), "it replaces one");
        assert_eq!(record.add(connection("x")).unwrap_err().kind(), ErrorKind::NoResources);
        let long = RecordedConnection { words: vec!["x".repeat(1 << 20)], ..connection("0") };
        assert!(long.check().is_err());
    }
}
