//! The fingerprints of agents that a study has met, like ssh's known_hosts: a line
//! `HOST:PORT FINGERPRINT` for each.

use crate::limits::AGENT_FILE_BYTES_MAX;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use weft_io::private_files::append;

/// Name of the file in the state directory.
const FILE: &str = "known-agents";

/// The file.
#[derive(Clone, Debug)]
pub struct KnownAgents(PathBuf);

impl KnownAgents {
    /// That of this user; none if there is no place for it.
    pub fn of_this_user() -> Option<Self> {
        weft_endpoint::identity::state_dir().map(|dir| Self(dir.join(FILE)))
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The fingerprint of an agent, if it is known.
    pub fn fingerprint(&self, name: &str) -> io::Result<Option<String>> {
        let mut text = String::new();
        match std::fs::File::open(&self.0) {
            Ok(file) => file.take(AGENT_FILE_BYTES_MAX).read_to_string(&mut text)?,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let of = |line: &str| {
            line.split_once(' ')
                .filter(|(known, _)| *known == name)
                .map(|(_, print)| print.trim().to_owned())
        };
        Ok(text.lines().find_map(of))
    }

    /// Keeps the fingerprint of an agent that is not known yet.
    pub fn keep(&self, name: &str, fingerprint: &str) -> io::Result<()> {
        if let Some(dir) = self.0.parent() {
            std::fs::create_dir_all(dir)?;
        }
        // A line at a time, so that studies that end together do not mix theirs.
        let line = format!("{name} {fingerprint}\n");
        append(&self.0)?.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fingerprint_is_kept() {
        let dir = std::env::temp_dir().join(format!("weft-known-agents-{}", std::process::id()));
        let known = KnownAgents(dir.join("state").join(FILE));
        assert_eq!(known.fingerprint("a:1").unwrap(), None);
        known.keep("a:1", "sha256:00").unwrap();
        known.keep("a:11", "sha256:11").unwrap();
        assert_eq!(known.fingerprint("a:1").unwrap().as_deref(), Some("sha256:00"));
        assert_eq!(known.fingerprint("a:11").unwrap().as_deref(), Some("sha256:11"));
        assert_eq!(known.fingerprint("b:1").unwrap(), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
