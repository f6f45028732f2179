//! The directory in which the command of a connection runs: that in which it was given, as its
//! relative paths begin there. If that directory no longer exists, a command without such paths
//! does not need it. Only the command knows which of its words are paths, so it runs where no
//! relative path leads anywhere.

use std::path::Path;
use std::{fs, io};
use weft_block::Error;

#[cfg(target_os = "linux")]
use std::{
    fs::File,
    os::fd::AsRawFd,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

/// The directory in which a command runs.
pub struct WorkingDirectory<'a> {
    given: &'a Path,
    /// Why not there, and where instead.
    #[cfg(target_os = "linux")]
    instead: Option<(io::Error, Nowhere)>,
}

/// A directory that was removed: nothing is found there, and nothing can be made there.
#[cfg(target_os = "linux")]
struct Nowhere(File);

impl<'a> WorkingDirectory<'a> {
    /// The directory `given`. `own` is one of this process alone.
    ///
    /// # Errors
    /// It cannot be entered, and there is nowhere else.
    pub fn of(given: &'a Path, own: &Path) -> Result<Self, Error> {
        // This needs what it needs to enter it.
        match fs::metadata(given.join(".")) {
            Ok(_) => Ok(Self {
                given,
                #[cfg(target_os = "linux")]
                instead: None,
            }),
            Err(e) => Self::without(given, e, own),
        }
    }

    #[cfg(target_os = "linux")]
    fn without(given: &'a Path, error: io::Error, own: &Path) -> Result<Self, Error> {
        match Nowhere::new(own) {
            Ok(nowhere) => Ok(Self { given, instead: Some((error, nowhere)) }),
            Err(_) => Err(cannot_enter(given, error)),
        }
    }

    /// Other systems have no way into a directory that was removed.
    #[cfg(not(target_os = "linux"))]
    fn without(given: &'a Path, error: io::Error, _own: &Path) -> Result<Self, Error> {
        Err(cannot_enter(given, error))
    }

    /// Has `run` use its path. An error tells if the command had to do without its directory.
    pub fn within<T>(&self, run: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
        #[cfg(target_os = "linux")]
        if let Some((error, nowhere)) = &self.instead {
            return run(&nowhere.path()).map_err(|e| {
                let given = self.given.display();
                let text = format!(
                    "{e} (tried without the directory {given}, in which relative paths begin: {error})"
                );
                Error::new(e.kind(), text)
            });
        }
        run(self.given)
    }
}

#[cfg(target_os = "linux")]
impl Nowhere {
    fn new(own: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = own.join(format!("nowhere-{}-{number}", std::process::id()));
        // A killed process may have left it.
        if let Err(e) = fs::create_dir(&path)
            && e.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(e);
        }
        let opened = File::open(&path);
        fs::remove_dir(path)?;
        opened.map(Self)
    }

    /// Leads there in a process that is about to run another program.
    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

fn cannot_enter(given: &Path, error: io::Error) -> Error {
    let given = given.display();
    Error::io(format!("the directory {given} cannot be entered: {error}"), error)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::system;
    use weft_block::ErrorKind;

    /// What a shell prints that runs in a place.
    fn shell(place: &WorkingDirectory<'_>, script: &str) -> String {
        let ran = place.within(|path| {
            let ran = system("sh").args(["-c", script]).current_dir(path).output();
            ran.map_err(|e| Error::io("cannot start sh", e))
        });
        String::from_utf8(ran.unwrap().stdout).unwrap().trim_end().to_owned()
    }

    fn own(name: &str) -> PathBuf {
        let name = format!("weft-place-{name}-{}", std::process::id());
        let own = std::env::temp_dir().canonicalize().unwrap().join(name);
        let _ = fs::remove_dir_all(&own);
        fs::create_dir(&own).unwrap();
        own
    }

    #[test]
    fn a_command_runs_in_its_directory() {
        let own = own("there");
        let place = WorkingDirectory::of(&own, Path::new("/nonexistent")).unwrap();
        assert_eq!(Path::new(&shell(&place, "readlink /proc/self/cwd")), own);
        fs::remove_dir_all(own).unwrap();
    }

    #[test]
    fn without_its_directory_no_relative_path_leads_anywhere() {
        let own = own("gone");
        let gone = own.join("gone");
        let place = WorkingDirectory::of(&gone, &own).unwrap();
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "nothing stays");
        assert_eq!(shell(&place, "ls -A .; cat file; echo >file || echo none"), "none");
        assert_eq!(shell(&place, "test -e /proc/self/exe && echo yes"), "yes");
        let failed = place.within(|_| Err::<(), _>(Error::new(ErrorKind::Usage, "no key")));
        let failed = failed.unwrap_err();
        let text = failed.to_string();
        assert_eq!(failed.kind(), ErrorKind::Usage);
        assert!(text.starts_with("no key (tried without the directory "), "{text}");
        assert!(text.contains(gone.to_str().unwrap()), "{text}");
        fs::remove_dir_all(own).unwrap();
    }

    #[test]
    fn a_file_is_no_directory() {
        let own = own("file");
        let file = own.join("file");
        fs::write(&file, "").unwrap();
        let failed = WorkingDirectory::of(&file, &own.join("none")).err().unwrap().to_string();
        assert!(failed.contains("cannot be entered"), "{failed}");
        fs::remove_dir_all(own).unwrap();
    }
}
