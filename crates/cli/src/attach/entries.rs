//! Notes of what is connected: a file per connection. The directory has mode 0700, each file in it 0600.
//!
//! The directory is `$WEFT_RUNTIME_DIR`, or `$XDG_RUNTIME_DIR/weft`, `/run/weft` for root, `%LOCALAPPDATA%\weft\run`, or one with the
//! user's name among the temporary files. The server of a connection holds a lock on the file `NAME.lock` for as long as it lives,
//! however it ends; so notes of the dead are known by a lock that can be had, and are taken away.

use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use weft_block::{Error, ErrorKind};

/// A connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// What it is called, for `weft disconnect`.
    pub name: String,
    /// The source.
    pub url: String,
    /// By which protocol it is served: `iscsi` or `nbd`.
    pub protocol: String,
    /// Where it is served.
    pub served: String,
    /// Name of the iSCSI target; empty for NBD.
    pub iqn: String,
    /// Port on the loopback, or 0.
    pub port: u16,
    /// CHAP name that the initiator logs in with; empty for NBD. The secret is in [`Runtime::secret`].
    #[serde(default)]
    pub chap_user: String,
    /// Process of the server.
    pub pid: u32,
    /// Serial number, model.
    pub serial: String,
    /// See above.
    pub model: String,
    /// Bytes, and bytes of a block.
    pub bytes: u64,
    /// See above.
    pub block_bytes: u32,
    /// What the system calls it; empty where that is not known.
    #[serde(default)]
    pub device: String,
    /// Whether the system's own initiator was told to attach it.
    #[serde(default)]
    pub attached: bool,
    /// Whether the source is lost.
    #[serde(default)]
    pub lost: bool,
}

/// The lock that a server holds.
pub struct Held {
    runtime: Runtime,
    name: String,
    _lock: File,
}

/// The directory.
#[derive(Clone, Debug)]
pub struct Runtime(PathBuf);

impl Held {
    /// The directory that it is in.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

impl Runtime {
    /// This user's, made if need be.
    pub fn open() -> Result<Self, Error> {
        let path = place();
        let failed =
            |e| Error::io(format!("cannot use the directory {}: {e}; name another in WEFT_RUNTIME_DIR", path.display()), e);
        make_private(&path).map_err(failed)?;
        Ok(Self(path))
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.0.join(format!("{name}.{kind}"))
    }

    /// Where the server of a connection listens, for NBD.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.file(name, "sock")
    }

    /// The file with the CHAP secret of a connection, for iSCSI.
    pub fn secret(&self, name: &str) -> PathBuf {
        self.file(name, "secret")
    }

    /// Where the server of a connection writes its log.
    pub fn log(&self, name: &str) -> PathBuf {
        self.file(name, "log")
    }

    /// The file whose being there asks a server to end, where there are no signals.
    pub fn stop(&self, name: &str) -> PathBuf {
        self.file(name, "stop")
    }

    /// Notes that the source of a connection is lost. That it cannot be noted changes nothing: the log has it too.
    pub fn note_loss(&self, name: &str) {
        let noted = self.find(name).map_or(Ok(()), |entry| self.write(&Entry { lost: true, ..entry }));
        if let Err(e) = noted {
            tracing::warn!("{e}");
        }
    }

    /// Becomes the server of a connection.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] when there is one.
    pub fn hold(&self, name: &str) -> Result<Held, Error> {
        let path = self.file(name, "lock");
        let failed = |e| Error::io(format!("cannot write {}: {e}", path.display()), e);
        let lock = private().truncate(false).open(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {
                let _ = fs::remove_file(self.stop(name));
                Ok(Held { runtime: self.clone(), name: name.to_owned(), _lock: lock })
            }
            Err(TryLockError::WouldBlock) => {
                let text = format!("\"{name}\" is connected already; `weft list` shows it, `weft disconnect {name}` ends it");
                Err(Error::new(ErrorKind::InUse, text))
            }
            Err(TryLockError::Error(e)) => Err(Error::io(format!("cannot lock {}: {e}", path.display()), e)),
        }
    }

    /// Whether the server of a connection lives.
    pub fn is_held(&self, name: &str) -> bool {
        let Ok(lock) = File::open(self.file(name, "lock")) else { return false };
        matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// All connections whose server lives, by name. What others left behind is taken away.
    pub fn list(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.0)? {
            let path = file?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if path.extension().is_none_or(|kind| kind != "json") || name.is_empty() {
                continue;
            }
            if !self.is_held(name) {
                self.forget(name);
                let _ = fs::remove_file(self.log(name));
            } else if let Some(entry) = read(&path) {
                entries.push(entry);
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// One connection whose server lives.
    pub fn find(&self, name: &str) -> Option<Entry> {
        self.is_held(name).then(|| read(&self.file(name, "json")))?
    }

    /// Writes a note, whole or not at all.
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        let fresh = self.file(&entry.name, "new");
        create(&fresh)?.write_all(&serde_json::to_vec_pretty(entry)?)?;
        fs::rename(&fresh, self.file(&entry.name, "json"))
    }

    /// Takes away what a server left, but for its log, which may say why it ended. The lock's file stays: another one may just be taking it.
    fn forget(&self, name: &str) {
        for kind in ["json", "sock", "secret", "stop", "new"] {
            let _ = fs::remove_file(self.file(name, kind));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.runtime.forget(&self.name);
    }
}

/// Opens files for writing, made if need be; new ones can be read by their user only.
fn private() -> OpenOptions {
    let mut options = File::options();
    options.create(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// An empty file in place of `path` that its user alone can read.
pub fn create(path: &Path) -> io::Result<File> {
    // A file that is there would keep its mode, and those who have it open.
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    private().create_new(true).open(path)
}

fn read(path: &Path) -> Option<Entry> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn place() -> PathBuf {
    let of = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let own = || {
        let user = of("USER").or_else(|| of("USERNAME")).and_then(|user| user.file_name().map(ToOwned::to_owned));
        env::temp_dir().join(format!("weft-{}", user.unwrap_or_default().to_string_lossy()))
    };
    of("WEFT_RUNTIME_DIR")
        .or_else(|| of("XDG_RUNTIME_DIR").map(|dir| dir.join("weft")))
        .or_else(|| of("LOCALAPPDATA").map(|dir| dir.join("weft").join("run")))
        .or_else(system_place)
        .unwrap_or_else(own)
}

/// Root's place on systems that have one.
fn system_place() -> Option<PathBuf> {
    let path = PathBuf::from("/run/weft");
    (cfg!(unix) && make_private(&path).is_ok()).then_some(path)
}

/// Makes a directory that nobody else can enter. One of somebody else is refused, also to root, who would believe the notes in it; so is a link, which
/// may lead anywhere.
#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a link, or belongs to another user"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry {
            name: name.into(),
            url: "ram:1MiB".into(),
            protocol: "nbd".into(),
            served: "nbd+unix:///1?socket=x".into(),
            iqn: String::new(),
            port: 0,
            chap_user: String::new(),
            pid: 1,
            serial: String::new(),
            model: String::new(),
            bytes: 1 << 20,
            block_bytes: 512,
            device: String::new(),
            attached: false,
            lost: false,
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_directory_that_may_be_anybodys_is_refused() {
        let root = env::temp_dir().join(format!("weft-entries-link-{}", std::process::id()));
        make_private(&root.join("own")).unwrap();
        std::os::unix::fs::symlink(root.join("own"), root.join("link")).unwrap();
        assert_eq!(make_private(&root.join("link")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(root.join("own"), Some(65_534), None).unwrap();
            assert_eq!(make_private(&root.join("own")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn notes_of_the_dead_are_taken_away() {
        let path = env::temp_dir().join(format!("weft-entries-{}", std::process::id()));
        make_private(&path).unwrap();
        let runtime = Runtime(path.clone());
        let held = runtime.hold("a").unwrap();
        assert_eq!(runtime.hold("a").err().unwrap().kind(), ErrorKind::InUse);
        runtime.write(&entry("a")).unwrap();
        runtime.write(&entry("b")).unwrap();
        fs::write(runtime.file("c", "json"), "{").unwrap();
        let names = |runtime: &Runtime| runtime.list().unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(names(&runtime), ["a"]);
        assert!(!runtime.file("b", "json").exists() && !runtime.file("c", "json").exists());
        assert!(runtime.find("a").is_some() && runtime.find("b").is_none());
        drop(held);
        // A process that another test is just starting has the lock's descriptor until its program begins.
        while runtime.hold("a").is_err() || !names(&runtime).is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        fs::remove_dir_all(path).unwrap();
    }
}
