//! Records of connections: one file per connection. A directory that weft makes has mode 0700, each
//! file in it 0600; one that is there keeps its mode.
//!
//! The directory is that of [`super::runtime_place`]. The server of a connection locks the file
//! `NAME.lock` while it lives, however it ends. If the lock is free, the server is dead and its
//! record is removed, unless the system's initiator waits for another server: see
//! [`Runtime::left`].

use super::path_states::{self, EntryPath};
use super::plan::{self, AttachedExport};
use super::run;
use super::runtime_place::{self, DIRECTORY};
use crate::private_files::{LockFile, create_new, make_private};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};
use weft_block::{Error, ErrorKind};

/// A connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the connection, for `weft disconnect`.
    pub name: String,
    /// The source.
    pub url: String,
    /// Protocol: `iscsi`, `nbd`, `ublk`, `fuse` or `loop`.
    pub protocol: String,
    /// The address, socket, or file at which it is served.
    pub served: String,
    /// Name of the iSCSI target; empty for NBD.
    pub iqn: String,
    /// Port on the loopback, or 0.
    pub port: u16,
    /// CHAP user name of the initiator; empty for NBD. The secret is in [`Runtime::secret`].
    #[serde(default)]
    pub chap_user: String,
    /// Process ID of the server.
    pub pid: u32,
    /// Serial number; `model` is the model.
    pub serial: String,
    /// See above.
    pub model: String,
    /// Revision of its firmware; empty if unknown.
    #[serde(default)]
    pub firmware: String,
    /// Bytes in use, if the source told when it was connected.
    #[serde(default)]
    pub used_bytes: Option<u64>,
    /// Size in bytes, and bytes of a block.
    pub bytes: u64,
    /// See above.
    pub block_bytes: u32,
    /// Name of the device in the system; empty if unknown.
    #[serde(default)]
    pub device: String,
    /// The system's initiator attached it.
    #[serde(default)]
    pub attached: bool,
    /// The source is lost.
    #[serde(default)]
    pub lost: bool,
    /// A daemon holds it.
    #[serde(default)]
    pub by_daemon: bool,
    /// The UUID of the data; empty if it has none, or cannot be written to.
    #[serde(default)]
    pub uuid: String,
    /// Others may write to the data.
    #[serde(default)]
    pub shared: bool,
    /// The paths to the source, as its server has noted them last ([`Runtime::note_paths`]); empty
    /// if it does not reconnect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) paths: Vec<EntryPath>,
}

/// The lock of a server.
pub struct ServerLock {
    runtime: Runtime,
    name: String,
    /// What a killed server has left is that of this one by now.
    is_serving: bool,
    // Goes after what it guards.
    _lock: LockFile,
}

impl Entry {
    /// Returns whether something of it stays in the system when its server is killed: a disk whose
    /// initiator connects again, or a file, or a loop device on one, that answers with errors.
    pub fn outlives_server(&self) -> bool {
        self.attached && (self.is_continued() || self.is_by_fuse())
    }

    /// Returns whether the next server continues the disk.
    pub fn is_continued(&self) -> bool {
        self.protocol == "iscsi"
    }

    /// The paths to the source.
    pub fn paths(&self) -> Vec<EntryPath> {
        match self.paths.is_empty() {
            true => vec![EntryPath::only(&self.url, self.lost)],
            false => self.paths.clone(),
        }
    }

    /// The state of the source, as nvme-cli prints those of paths: `live`, `connecting` or `dead`.
    pub fn state(&self) -> &str {
        if self.lost { "dead" } else { path_states::best(&self.paths) }
    }

    /// Returns whether it is a file by FUSE, or a loop device on one.
    pub fn is_by_fuse(&self) -> bool {
        ["fuse", "loop"].contains(&self.protocol.as_str())
    }
}

/// The runtime directory.
#[derive(Clone, Debug)]
pub struct Runtime(PathBuf);

impl ServerLock {
    /// The directory that it is in.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The name of the connection.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The record that a server before this one has left; see [`Runtime::left`].
    pub fn left(&self) -> Option<Entry> {
        self.runtime.read(&self.name).filter(Entry::outlives_server)
    }

    /// Writes the record of this server. With the lock, all files of the connection go.
    pub fn serve(&mut self, entry: &Entry) -> io::Result<()> {
        self.runtime.write(entry)?;
        self.is_serving = true;
        Ok(())
    }
}

impl Runtime {
    /// The current user's directory, whether it is there or not.
    pub fn named() -> Self {
        Self(runtime_place::place())
    }

    /// The current user's directory, created if necessary.
    pub fn open() -> Result<Self, Error> {
        let path = runtime_place::place();
        let failed = |e| {
            Error::io(
                format!(
                    "cannot use the directory {}: {e}; set {DIRECTORY} to another one",
                    path.display()
                ),
                e,
            )
        };
        make_private(&path).map_err(failed)?;
        Ok(Self(path))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file of a kind with a name.
    pub fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.0.join(format!("{name}.{kind}"))
    }

    /// The socket at which the server of a connection listens, for NBD.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.file(name, "sock")
    }

    /// The file with the CHAP secret of a connection, for iSCSI.
    pub fn secret(&self, name: &str) -> PathBuf {
        self.file(name, "secret")
    }

    /// The file with the CHAP secret by which the server of a connection authenticates itself, for
    /// iSCSI.
    pub fn target_secret(&self, name: &str) -> PathBuf {
        self.file(name, "target-secret")
    }

    /// The export of a connection, as input for the commands that attach it.
    pub fn served(&self, entry: &Entry) -> AttachedExport {
        let Entry { name, port, iqn, by_daemon, .. } = entry;
        match entry.protocol.as_str() {
            "ublk" => AttachedExport::Ublk,
            "fuse" => AttachedExport::Fuse(file_of(entry)),
            "loop" => AttachedExport::Loop {
                file: file_of(entry),
                block_bytes: Some(entry.block_bytes),
                device: entry.device.clone(),
            },
            "iscsi" => AttachedExport::Iscsi {
                iqn: iqn.clone(),
                port: *port,
                secret: self.secret(name),
                target_secret: self.target_secret(name),
                by_daemon: *by_daemon,
            },
            _ => AttachedExport::Nbd {
                socket: self.socket(name),
                device: entry.device.clone(),
                block_bytes: Some(entry.block_bytes),
            },
        }
    }

    /// The directory in which a file by FUSE appears, unless another one is chosen.
    pub fn directory(&self, name: &str) -> PathBuf {
        self.file(name, "fuse")
    }

    /// The directory of such a file, if another one was chosen.
    pub fn chosen_directory(&self, entry: &Entry) -> Option<PathBuf> {
        let directory = file_of(entry).directory;
        (entry.is_by_fuse() && directory != self.directory(&entry.name)).then_some(directory)
    }

    /// The log file of a connection's server.
    pub fn log(&self, name: &str) -> PathBuf {
        self.file(name, "log")
    }

    /// A file whose existence tells a server to end, on systems without signals.
    pub fn stop(&self, name: &str) -> PathBuf {
        self.file(name, "stop")
    }

    /// Records that the source of a connection is lost. If that fails, weft continues: the loss is
    /// also in the log.
    pub fn note_loss(&self, name: &str) {
        let noted =
            self.find(name).map_or(Ok(()), |entry| self.write(&Entry { lost: true, ..entry }));
        if let Err(e) = noted {
            tracing::warn!("{e}");
        }
    }

    /// Records the states of the paths to the source of a connection, in a file of their own, as
    /// other processes than the server write the record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_paths(&self, name: &str, paths: &[EntryPath]) -> io::Result<()> {
        let fresh = self.file(name, "paths-new");
        create(&fresh)?.write_all(&serde_json::to_vec(paths)?)?;
        fs::rename(&fresh, self.file(name, "paths"))
    }

    /// Becomes the server of a connection, by taking its lock.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if the connection has a server.
    pub fn hold(&self, name: &str) -> Result<ServerLock, Error> {
        let lock = self.lock(name)?;
        let _ = fs::remove_file(self.stop(name));
        let (runtime, name) = (self.clone(), name.to_owned());
        Ok(ServerLock { runtime, name, is_serving: false, _lock: lock })
    }

    /// Checks that a connection of this name can be made now.
    ///
    /// # Errors
    /// Those of [`Self::hold`].
    pub fn check_free(&self, name: &str) -> Result<(), Error> {
        self.lock(name).map(drop)
    }

    /// Checks that this connection may write to its data next to the connections that have a
    /// server.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if another one writes to the same data, unless both are shared: each
    /// would assume that it is the only writer.
    pub fn check_writer(&self, entry: &Entry) -> Result<(), Error> {
        let all = self.list().map_err(|e| Error::io(e.to_string(), e))?;
        let other = all.iter().filter(|_| !entry.uuid.is_empty()).find(|other| {
            other.uuid == entry.uuid && other.name != entry.name && !(entry.shared && other.shared)
        });
        let Some(Entry { name, url, .. }) = other else { return Ok(()) };
        let text = format!(
            "{url} has the same data and is already connected, as \"{name}\"; use that, or connect both with --shared"
        );
        Err(Error::new(ErrorKind::InUse, text))
    }

    fn lock(&self, name: &str) -> Result<LockFile, Error> {
        let path = self.file(name, "lock");
        match LockFile::take(&path) {
            Ok(lock) => Ok(lock),
            Err(TryLockError::WouldBlock) => {
                let text = format!(
                    "\"{name}\" is already connected; `weft list` shows it, `weft disconnect {name}` ends it"
                );
                Err(Error::new(ErrorKind::InUse, text))
            }
            Err(TryLockError::Error(e)) => {
                Err(Error::io(format!("cannot lock {}: {e}", path.display()), e))
            }
        }
    }

    /// Returns whether the server of a connection is alive.
    pub fn is_held(&self, name: &str) -> bool {
        let Ok(lock) = File::open(self.file(name, "lock")) else { return false };
        matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// All connections with a live server, by name. Removes the records of dead servers, unless
    /// they are [left](Self::left).
    pub fn list(&self) -> io::Result<Vec<Entry>> {
        Ok(self.read_all()?.0)
    }

    /// The connections whose server was killed while the system's initiator had a disk of it: the
    /// initiator connects again, and a server with the same name continues the disk.
    pub fn left(&self) -> io::Result<Vec<Entry>> {
        Ok(self.read_all()?.1)
    }

    /// Those with a live server, and those that are left.
    fn read_all(&self) -> io::Result<(Vec<Entry>, Vec<Entry>)> {
        let (mut entries, mut left) = (Vec::new(), Vec::new());
        for file in fs::read_dir(&self.0)? {
            let path = file?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if path.extension().is_none_or(|kind| kind != "json") || name.is_empty() {
                continue;
            }
            let (entry, is_alive) = (self.read(name), self.is_held(name));
            match entry {
                Some(entry) if is_alive => entries.push(entry),
                Some(entry) if entry.outlives_server() => left.push(entry),
                None if is_alive => {}
                // Another one may have come meanwhile.
                _ => drop(self.forget_left(name)),
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        left.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((entries, left))
    }

    /// The connection with this name, if its server is alive.
    pub fn find(&self, name: &str) -> Option<Entry> {
        self.is_held(name).then(|| self.read(name))?
    }

    /// The record with this name, with the states of the paths.
    fn read(&self, name: &str) -> Option<Entry> {
        let recorded = fs::read(self.file(name, "json")).ok()?;
        let entry: Entry = serde_json::from_slice(&recorded).ok()?;
        Some(Entry { paths: path_states::read(&self.file(name, "paths")), ..entry })
    }

    /// Writes a record atomically, without the states of the paths.
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        let fresh = self.file(&entry.name, "new");
        let entry = Entry { paths: Vec::new(), ..entry.clone() };
        create(&fresh)?.write_all(&serde_json::to_vec_pretty(&entry)?)?;
        fs::rename(&fresh, self.file(&entry.name, "json"))
    }

    /// The file that records how the previous server ended, in the form of [`weft_endpoint`].
    pub fn kept(&self, name: &str) -> PathBuf {
        self.file(name, "disk")
    }

    /// Forgets what a killed server has [left](Self::left).
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if another one has it by now.
    pub fn forget_left(&self, name: &str) -> Result<(), Error> {
        let lock = self.lock(name)?;
        self.forget(name);
        let _ = fs::remove_file(self.log(name));
        drop(lock);
        Ok(())
    }

    /// Removes the files of a server, except its log, which may say why it ended.
    fn forget(&self, name: &str) {
        let kinds = ["json", "sock", "secret", "target-secret", "disk", "stop", "new"];
        for kind in kinds.into_iter().chain(["paths", "paths-new"]) {
            let _ = fs::remove_file(self.file(name, kind));
        }
        // It stays if something is mounted there.
        let _ = fs::remove_dir(self.directory(name));
    }
}

impl Drop for ServerLock {
    fn drop(&mut self) {
        // What was left stays for the next attempt.
        if self.is_serving || self.left().is_none() {
            self.runtime.forget(&self.name);
        }
    }
}

/// The file of a connection by FUSE.
fn file_of(entry: &Entry) -> plan::File {
    let directory = Path::new(&entry.served).parent().unwrap_or(Path::new("/"));
    plan::File { directory: directory.to_owned(), by_root: run::is_root() }
}

/// Replaces `path` with an empty file that only the user can read.
pub fn create(path: &Path) -> io::Result<File> {
    // An existing file would keep its mode, and processes that have it open.
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    create_new(path)
}

#[cfg(test)]
mod tests;
