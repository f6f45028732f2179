//! The library as it is installed, and programs that are linked with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use weft_testing::programs;

/// Options of every compiler.
pub const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// The directory of this crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A directory for the files of these tests, of this process alone: tests may run in several.
/// Directories of processes that have ended are removed.
pub fn scratch() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
        let made = all.join(std::process::id().to_string());
        std::fs::create_dir_all(&made).unwrap();
        let ended = |of: &PathBuf| !Path::new("/proc").join(of.file_name().unwrap()).exists();
        if Path::new("/proc/self").exists() {
            let others = std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path());
            // Another process may remove them, too.
            others.filter(ended).for_each(|other| _ = std::fs::remove_dir_all(other));
        }
        made
    })
}

/// The output of a command that succeeds.
pub fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        said(&output.stdout),
        said(&output.stderr)
    );
    output
}

/// The shared library in a directory, with the names under which it is installed. `None`: a program
/// for that is missing, and the calling test counts as skipped.
pub fn library() -> Option<&'static Path> {
    static LINKED: OnceLock<PathBuf> = OnceLock::new();
    if !programs::have(&["cc", "nm"]) {
        return None;
    }
    Some(LINKED.get_or_init(|| {
        let directory = scratch().join("lib");
        std::fs::create_dir_all(&directory).unwrap();
        let archive = archive();
        let shared = directory.join("libweft.so.1");
        let mut link = Command::new("sh");
        succeeds(link.arg(here().join("link.sh")).arg(archive).arg(&shared));
        let link = directory.join("libweft.so");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("libweft.so.1", link).unwrap();
        directory
    }))
}

/// The static library. Cargo puts it beside this program, behind those of earlier builds.
fn archive() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let beside = std::fs::read_dir(program.parent().unwrap()).unwrap();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libweft_capi") && name.ends_with(".a")
    };
    let archives = beside.map(|entry| entry.unwrap().path()).filter(is_it);
    archives.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("a library")
}

/// A command that starts a program with names of its own, in place of this user's.
pub fn with_names(mut command: Command) -> Command {
    command.env("WEFT_STATE_DIR", scratch().join("state"));
    command
}

/// Compiles a program in C, which is linked with the shared library.
pub fn compile(source: &Path, name: &str, library: &Path) -> PathBuf {
    let program = scratch().join(name);
    let mut cc = programs::command("cc");
    cc.args(["-std=gnu99", "-g", "-O1", "-pthread"]).args(WARNINGS);
    cc.arg("-I").arg(here().join("include")).arg("-I").arg(here().join("tests/c"));
    cc.arg("-o").arg(&program).arg(source);
    cc.arg("-L").arg(library).args(["-lweft", "-ldl"]);
    succeeds(cc.arg(format!("-Wl,-rpath,{}", library.display())));
    program
}
