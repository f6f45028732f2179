//! The state file of one namespace: registrations and reservation that outlast a restart and a loss
//! of power.
//!
//! `UUID.json` is replaced as a whole. While nothing has to persist there is no file. `UUID.lock`
//! is held by the one process that may write it.

use crate::replaced_file::replace;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_group::reservations::stored::{
    self, Document, StoredRegistration, StoredReservation, VERSION,
};
use weft_io::durable;
use weft_io::private_files::kept_lock_file;
use weft_proto::reservation::ReservationState;

/// What is in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    namespace: Uuid,
    registrants: Vec<StoredRegistration>,
    reservation: Option<StoredReservation>,
}

/// The state file of a namespace, which need not be there yet.
pub(super) struct StateFile {
    directory: PathBuf,
    uuid: Uuid,
    lock: Option<File>,
    /// What the file holds.
    stored: Option<String>,
    /// The last attempt to store something failed, so that the file may hold something else.
    uncertain: bool,
}

/// What was found.
pub(super) enum Opened {
    /// What is stored, if anything, and the file for what follows.
    State(ReservationState, StateFile),
    /// Another process has the file: here nothing is stored.
    Nothing,
}

impl StateFile {
    /// Reads the file of a namespace.
    pub(super) fn open(directory: &Path, uuid: Uuid) -> Result<Opened, Error> {
        let mut file = Self {
            directory: directory.to_owned(),
            uuid,
            lock: None,
            stored: None,
            uncertain: false,
        };
        if matches!(file.path().try_exists(), Ok(false)) {
            return Ok(Opened::State(ReservationState::default(), file));
        }
        // Read only after that: the process of before may still have written.
        match file.hold() {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                tracing::warn!(
                    "namespace {uuid}: another process keeps its reservations in {}; here they end with this process",
                    file.path().display()
                );
                return Ok(Opened::Nothing);
            }
            Err(e) => return Err(file.damaged(&e.to_string())),
        }
        let text = match fs::read_to_string(file.path()) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Opened::State(ReservationState::default(), file));
            }
            Err(e) => return Err(file.damaged(&e.to_string())),
        };
        let state = decode(&text, uuid).map_err(|reason| file.damaged(&reason))?;
        file.stored = Some(text);
        // One of an older version becomes one of this. Where that cannot be now, it does with the
        // next change.
        if let Err(e) = file.store(&state) {
            tracing::warn!(
                "the reservations of the namespace {uuid} stay in their old form for now: {e}"
            );
        }
        Ok(Opened::State(state, file))
    }

    fn damaged(&self, reason: &str) -> Error {
        let text = format!(
            "the reservations of the namespace {} in {} cannot be read: {reason}; restore the file, or delete it if no host relies on them",
            self.uuid,
            self.path().display()
        );
        Error::new(ErrorKind::Io, text)
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.uuid))
    }

    /// Becomes the process that writes the file.
    fn hold(&mut self) -> io::Result<()> {
        if self.lock.is_none() {
            fs::create_dir_all(&self.directory)?;
            let path = self.directory.join(format!("{}.lock", self.uuid));
            let lock = kept_lock_file(&path)?;
            lock.try_lock().map_err(|e| match e {
                TryLockError::WouldBlock => {
                    io::Error::new(io::ErrorKind::WouldBlock, "another process keeps them")
                }
                TryLockError::Error(e) => e,
            })?;
            self.lock = Some(lock);
        }
        Ok(())
    }

    /// Stores a state. On return it is durable; on an error what was stored before is.
    pub(super) fn store(&mut self, state: &ReservationState) -> io::Result<()> {
        let text = state.is_persistent().then(|| encode(state, self.uuid));
        if text == self.stored && !self.uncertain {
            return Ok(());
        }
        self.hold()?;
        self.uncertain = true;
        match &text {
            Some(text) => replace(&self.path(), text)?,
            None => remove(&self.path())?,
        }
        (self.stored, self.uncertain) = (text, false);
        Ok(())
    }
}

/// Removes a file for good.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        other => other?,
    }
    durable::sync_directory_of(path)
}

/// The text of a state file.
pub fn encode(state: &ReservationState, namespace: Uuid) -> String {
    let (registrants, reservation) = stored::parts(state, VERSION);
    let content = Content { namespace, registrants, reservation };
    serde_json::to_string_pretty(&Document::new(VERSION, content)).unwrap_or_default() + "\n"
}

/// The state in a text.
///
/// # Errors
/// Why it is not one of [`encode`], or of an older version, for this namespace.
pub fn decode(text: &str, uuid: Uuid) -> Result<ReservationState, String> {
    let Content { namespace, registrants, reservation } = stored::document(text.as_bytes())?;
    if namespace != uuid {
        return Err(format!("it is about the namespace {namespace}"));
    }
    stored::state(&registrants, reservation.as_ref())
}
