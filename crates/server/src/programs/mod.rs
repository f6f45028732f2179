//! Programs that weft starts. Programs of the system do not inherit its secrets: every one of them
//! could show its environment.

#[cfg(target_os = "linux")]
mod replaced;

use crate::secret::VARIABLES;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks whether a command has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A program of the system, without the environment variables that hold secrets of weft's.
pub fn system(program: &str) -> Command {
    let mut command = Command::new(program);
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// This program, which reads its secrets itself. If its file was replaced, this is the next
/// version, and the running one if there is none.
#[cfg(target_os = "linux")]
pub fn this_program() -> std::io::Result<Command> {
    Ok(to_start(&replaced::Program::of_this()?))
}

/// The path by which another program starts this one.
///
/// # Errors
/// Those of [`this_program`].
#[cfg(target_os = "linux")]
pub fn this_program_for_others() -> std::io::Result<PathBuf> {
    Ok(match replaced::Program::of_this()? {
        replaced::Program::At(path) => path,
        replaced::Program::Running(_) => format!("/proc/{}/exe", std::process::id()).into(),
    })
}

#[cfg(target_os = "linux")]
fn to_start(program: &replaced::Program) -> Command {
    let (path, told) = program.paths();
    let mut command = Command::new(path);
    std::os::unix::process::CommandExt::arg0(&mut command, told);
    command
}

/// The path by which another program starts this one.
///
/// # Errors
/// Those of [`this_program`].
#[cfg(not(target_os = "linux"))]
pub fn this_program_for_others() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

/// This program, which reads its secrets itself.
#[cfg(not(target_os = "linux"))]
pub fn this_program() -> std::io::Result<Command> {
    Ok(Command::new(std::env::current_exe()?))
}

/// The output of a command; `None` if it has not ended within the limit. Then it is killed, and not
/// waited for: what it asked the system for may last.
///
/// # Errors
/// It cannot be started.
pub fn output_within(command: &mut Command, limit: Duration) -> io::Result<Option<Output>> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (read_aside(child.stdout.take()), read_aside(child.stderr.take()));
    let until = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= until {
            // An error is that it has ended just now.
            let _ = child.kill();
            return Ok(None);
        }
        thread::sleep(LOOK);
    };
    let all = |read: Receiver<Vec<u8>>| read.recv().unwrap_or_default();
    Ok(Some(Output { status, stdout: all(stdout), stderr: all(stderr) }))
}

/// Reads a pipe to its end, on a thread of its own, so that the program at its other end never
/// waits for room in it.
fn read_aside(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (give, read) = mpsc::channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        // What was read until an error counts.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut all));
        let _ = give.send(all);
    });
    read
}

/// The error of a command of weft in its output: its last message, without its log; an error of
/// clap is the first line.
pub fn sentence(said: &str) -> Option<&str> {
    let own = said.lines().rev().find_map(|line| line.strip_prefix("weft: "));
    let parsed = said.lines().find_map(|line| line.strip_prefix("error: "));
    let any = said.lines().rev().find(|line| !line.trim().is_empty());
    own.or(parsed).or(any)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn programs_of_the_system_do_not_inherit_secrets() {
        let command = system("env");
        for variable in VARIABLES {
            let removed =
                command.get_envs().any(|(name, value)| name == variable && value.is_none());
            assert!(removed, "{variable}");
        }
    }

    /// Everything that is started is made here, but for `fusermount3`, which `io` starts without
    /// this process's environment.
    #[test]
    fn there_is_no_other_way_to_start_a_program() {
        fn look(at: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    if !path.ends_with("tests") {
                        look(&path, found);
                    }
                } else if path.extension().is_some_and(|kind| kind == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    // What comes before the tests is shipped.
                    let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
                    if [
                        "process::Command;",
                        "process::Command::",
                        "process::{Command",
                        "process::{Child, Command",
                    ]
                    .iter()
                    .any(|used| shipped.contains(used))
                    {
                        let room = path.parent().and_then(Path::file_name).unwrap().display();
                        let name = path.file_name().unwrap().display();
                        found.push(format!("{room}/{name}"));
                    }
                }
            }
        }
        let mut found = Vec::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for part in std::fs::read_dir(crates).unwrap() {
            let part = part.unwrap();
            // They are never shipped.
            if !["sim", "testing"].iter().any(|name| part.file_name() == *name) {
                look(&part.path().join("src"), &mut found);
            }
        }
        found.retain(|name| !name.ends_with("/tests.rs"));
        found.sort();
        assert_eq!(found, ["fuse/helper.rs", "programs/mod.rs"]);
        let helper = include_str!("../../../io/src/fuse/helper.rs");
        assert_eq!(helper.matches("Command::new(").count(), helper.matches(".env_clear()").count());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_without_a_file_can_be_started() {
        let program = replaced::Program::Running("/gone".into());
        let ran = to_start(&program).arg("--list").output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout);
        assert!(text.contains("a_program_without_a_file_can_be_started: test"), "{text}");
    }

    #[test]
    fn a_failure_is_one_sentence() {
        for (said, sentence_of) in [
            ("2026 WARN x\nweft: no answer\n", "no answer"),
            ("error: unexpected argument\n\nUsage: weft\n", "unexpected argument"),
            ("killed\n\n", "killed"),
        ] {
            assert_eq!(sentence(said), Some(sentence_of));
        }
        assert_eq!(sentence(""), None);
    }
}
