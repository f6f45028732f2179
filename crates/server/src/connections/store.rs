//! The file of the record, in the directory of lasting things: only its user can read or change it,
//! because a daemon does what is in it.

use super::record::ConnectionRecords;
use crate::limits::CONNECTIONS_FILE_BYTES_MAX;
use crate::private_files::{lock_file, make_private};
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind as Kind, Read};
use std::path::{Path, PathBuf};
use weft_block::{Error, ErrorKind};
use weft_endpoint::identity::state_dir;
use weft_io::durable::{self, Readers};
use weft_io::secret_file;

/// The record, which no other process may change while this lives.
pub struct ConnectionStore {
    path: PathBuf,
    _lock: File,
}

impl ConnectionStore {
    /// Takes the record of this user.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if another process has it.
    pub fn of_this_user() -> Result<Self, Error> {
        let directory = state_dir().ok_or_else(|| {
            let text = "there is no place for the record of connections: set WEFT_STATE_DIR to a directory";
            Error::new(ErrorKind::NotFound, text)
        })?;
        Self::take(&directory)
    }

    /// Takes the record in a directory, which is made if it is not there.
    pub fn take(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("connections.record");
        let failed = |e| Error::io(format!("cannot use {}: {e}", path.display()), e);
        make_private(directory).map_err(failed)?;
        let lock = lock_file(&directory.join("connections.record.lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let text = format!(
                    "another weft daemon holds the connections in {}; end that one first",
                    path.display()
                );
                Err(Error::new(ErrorKind::InUse, text))
            }
            Err(TryLockError::Error(e)) => Err(failed(e)),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the record; one that is not there is empty.
    pub fn read(&self) -> Result<ConnectionRecords, Error> {
        let path = self.path.display();
        let failed = |e: io::Error| {
            Error::io(format!("cannot use the record of connections in {path}: {e}"), e)
        };
        let file = match secret_file::open(&self.path) {
            Err(e) if e.kind() == Kind::NotFound => return Ok(ConnectionRecords::default()),
            other => other.map_err(failed)?,
        };
        let mut text = String::new();
        file.take(CONNECTIONS_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        let record = if text.len() as u64 > CONNECTIONS_FILE_BYTES_MAX {
            Err(format!("it has more than {CONNECTIONS_FILE_BYTES_MAX} bytes"))
        } else {
            ConnectionRecords::parse(&text)
        };
        record.map_err(|why| {
            let text = format!(
                "the record of connections in {path} cannot be used: {why}; correct it, or move it away and connect again"
            );
            Error::new(ErrorKind::Usage, text)
        })
    }

    /// Writes the record: whatever happens, the file has either the old one or the new one.
    pub fn write(&self, record: &ConnectionRecords) -> Result<(), Error> {
        let fresh = self.path.with_extension("new");
        let text = record.text();
        durable::replace(&self.path, &fresh, text.as_bytes(), Readers::Owner).map_err(|e| {
            let path = self.path.display();
            Error::io(format!("cannot write the record of connections to {path}: {e}"), e)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::RecordedConnection;
    use super::*;
    use std::fs;

    fn directory(name: &str) -> PathBuf {
        let own = format!("weft-connections-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn record() -> ConnectionRecords {
        let mut record = ConnectionRecords::default();
        let connection = RecordedConnection {
            name: "a".into(),
            url: "ram:1MiB".into(),
            words: vec!["connect".into(), "ram:1MiB".into()],
            directory: "/".into(),
        };
        record.add(connection).unwrap();
        record
    }

    #[test]
    fn a_record_is_private_and_lasts() {
        let directory = directory("lasts");
        let store = ConnectionStore::take(&directory).unwrap();
        assert_eq!(ConnectionStore::take(&directory).err().unwrap().kind(), ErrorKind::InUse);
        assert_eq!(store.read().unwrap(), ConnectionRecords::default());
        store.write(&record()).unwrap();
        store.write(&record()).unwrap();
        assert_eq!(store.read().unwrap(), record());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(store.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            fs::set_permissions(store.path(), fs::Permissions::from_mode(0o644)).unwrap();
            assert_eq!(store.read().unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_damaged_record_is_named() {
        let directory = directory("damaged");
        let store = ConnectionStore::take(&directory).unwrap();
        store.write(&record()).unwrap();
        let whole = fs::read(store.path()).unwrap();
        for part in [&whole[..whole.len() - 9], b"\xff", &vec![b' '; 9 << 20]] {
            fs::write(store.path(), part).unwrap();
            let said = store.read().unwrap_err().to_string();
            assert!(said.contains("connections.record"), "{said}");
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
