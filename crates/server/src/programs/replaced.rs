//! The path of this process's program, after another version may have taken its place: a package
//! manager renames a new file over it. Linux then marks the name of the old file, and that name is
//! not a path.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weft_io::private_files::check_directory;

/// The program that runs, also if no path leads to it any more.
const RUNNING: &str = "/proc/self/exe";

/// What follows the path of a file that is gone, where Linux names it.
const MARK: &[u8] = b" (deleted)";

/// The program to start.
#[derive(Debug, PartialEq, Eq)]
pub enum Program {
    /// The file at this path: the one that runs, or what has replaced it.
    At(PathBuf),
    /// [`RUNNING`], which was at this path.
    Running(PathBuf),
}

impl Program {
    /// That of this process.
    pub fn of_this() -> io::Result<Self> {
        let named = std::fs::read_link(RUNNING)?;
        Ok(Self::choose(named, &std::fs::metadata(RUNNING)?))
    }

    /// `running` is the file of a process, and `named` what Linux calls it. What has replaced it is
    /// the next version, unless it is no program, or of a user who had nothing to say before.
    fn choose(named: PathBuf, running: &Metadata) -> Self {
        let found = std::fs::metadata(&named);
        if found.is_ok_and(|it| (it.dev(), it.ino()) == (running.dev(), running.ino())) {
            return Self::At(named);
        }
        let path = match named.as_os_str().as_bytes().strip_suffix(MARK) {
            Some(path) => Path::new(OsStr::from_bytes(path)).to_owned(),
            None => named,
        };
        match std::fs::metadata(&path) {
            Ok(found) if is_program(&found) && is_trusted(&found, running) && is_kept(&path) => {
                Self::At(path)
            }
            _ => Self::Running(path),
        }
    }

    /// The path to start, and the path that the program gets as its own.
    pub fn paths(&self) -> (&Path, &Path) {
        match self {
            Self::At(path) => (path, path),
            Self::Running(path) => (Path::new(RUNNING), path),
        }
    }
}

fn is_program(found: &Metadata) -> bool {
    found.is_file() && found.mode() & 0o111 != 0
}

/// Whether nobody else can put another file there before it is started.
fn is_kept(path: &Path) -> bool {
    path.parent().is_some_and(|directory| check_directory(directory).is_ok())
}

/// Whether it belongs to the owner of the program that runs, to this user, or to root.
fn is_trusted(found: &Metadata, running: &Metadata) -> bool {
    [0, running.uid(), rustix::process::geteuid().as_raw()].contains(&found.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    /// A directory with a program, which ends with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("weft-replaced-{name}-{}", std::process::id());
            let place = Self(std::env::temp_dir().join(name));
            let _ = fs::remove_dir_all(&place.0);
            fs::create_dir(&place.0).unwrap();
            place.install("weft", 0o755);
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        /// Puts a file there as a package manager does.
        fn install(&self, name: &str, mode: u32) {
            let new = self.path("new");
            fs::write(&new, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&new, Permissions::from_mode(mode)).unwrap();
            fs::rename(new, self.path(name)).unwrap();
        }

        /// What is started, where `running` runs and Linux gives it the name `named`.
        fn choose(&self, named: &str, running: &Metadata) -> Program {
            Program::choose(self.path(named), running)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn this_program_is_at_its_path() {
        let path = std::env::current_exe().unwrap();
        assert_eq!(Program::of_this().unwrap(), Program::At(path));
    }

    #[test]
    fn the_next_version_is_started() {
        let place = Place::new("next");
        let running = fs::metadata(place.path("weft")).unwrap();
        assert_eq!(place.choose("weft", &running), Program::At(place.path("weft")));
        place.install("weft", 0o755);
        assert_eq!(place.choose("weft (deleted)", &running), Program::At(place.path("weft")));
    }

    #[test]
    fn a_program_may_have_the_name_of_one_that_is_gone() {
        let place = Place::new("named");
        place.install("weft (deleted)", 0o755);
        let running = fs::metadata(place.path("weft (deleted)")).unwrap();
        let own = Program::At(place.path("weft (deleted)"));
        assert_eq!(place.choose("weft (deleted)", &running), own);
        // The name of another file.
        let other = fs::metadata("/proc/self/exe").unwrap();
        assert_eq!(place.choose("weft (deleted)", &other), Program::At(place.path("weft")));
    }

    #[test]
    fn without_a_next_version_the_one_that_runs_is_started() {
        let place = Place::new("none");
        let running = fs::metadata(place.path("weft")).unwrap();
        let own = Program::Running(place.path("weft"));
        place.install("weft", 0o644);
        assert_eq!(place.choose("weft (deleted)", &running), own, "no program");
        fs::remove_file(place.path("weft")).unwrap();
        assert_eq!(place.choose("weft (deleted)", &running), own, "nothing");
        fs::create_dir(place.path("weft")).unwrap();
        assert_eq!(place.choose("weft (deleted)", &running), own, "a directory");
        assert_eq!(own.paths(), (Path::new(RUNNING), place.path("weft").as_path()));
        // Another root directory, or a file system that was unmounted.
        assert_eq!(place.choose("gone", &running), Program::Running(place.path("gone")));
    }

    #[test]
    fn no_program_of_another_user_is_started() {
        if !rustix::process::geteuid().is_root() {
            return weft_testing::skip("only root can give files to other users");
        }
        let place = Place::new("foreign");
        let running = fs::metadata(place.path("weft")).unwrap();
        place.install("weft", 0o755);
        chown(place.path("weft"), Some(65_534), None).unwrap();
        let own = Program::Running(place.path("weft"));
        assert_eq!(place.choose("weft (deleted)", &running), own);
        // Who owned the program that runs can replace it.
        let running = fs::metadata(place.path("weft")).unwrap();
        place.install("other", 0o755);
        chown(place.path("other"), Some(65_534), None).unwrap();
        let next = Program::At(place.path("other"));
        assert_eq!(place.choose("other (deleted)", &running), next);
    }
}
