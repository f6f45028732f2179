//! Running other programs: starting them, and reporting their failure.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};

/// The exit status that means "this machine cannot run it", as in automake and nbdkit.
pub const SKIPPED: u8 = 77;

/// What cargo tells a program of its package, besides variables that begin with `CARGO_PKG_`.
const PACKAGE: [&str; 3] = ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_LINKS", "OUT_DIR"];

/// The variable by which a tool of the lab knows the program that started it.
pub const XTASK: &str = "WEFT_XTASK";

/// The error of a task if the machine lacks something; `main` turns it into [`SKIPPED`].
#[derive(Debug)]
pub struct Missing(pub String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// The root of the workspace.
pub fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let is_root = |directory: &&Path| directory.join("xtask/Cargo.toml").exists();
    manifest.ancestors().find(is_root).unwrap_or(Path::new(".")).to_path_buf()
}

/// Cargo's target directory for this machine.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// This machine's cargo, in the workspace.
pub fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg(subcommand).current_dir(root());
    // Cargo tells the programs that it starts of their package. A build script that asks for these
    // variables (ring's does) runs again for other values, and what depends on it is built again.
    let is_of_package = |name: &OsString| {
        name.to_str().is_some_and(|it| it.starts_with("CARGO_PKG_") || PACKAGE.contains(&it))
    };
    let names = env::vars_os().map(|(name, _)| name).filter(is_of_package);
    names.for_each(|name| _ = command.env_remove(name));
    command
}

/// Another task of `cargo xtask`, as a separate process. Its program is this one, or the one that
/// started this one; a tool of the lab that was started by hand asks cargo for it.
pub fn chore(args: &[&str]) -> Result<Command> {
    let this = env::current_exe().context("cannot find this program")?;
    let mut command = match env::var_os(XTASK) {
        Some(program) => Command::new(program),
        None if this.file_stem().is_some_and(|name| name == "xtask") => Command::new(this),
        None => cargo("xtask"),
    };
    command.args(args).current_dir(root());
    Ok(command)
}

/// Returns the exit code of a program by the outcome of its task. Reports an error; the code is
/// [`SKIPPED`] where this machine lacks something.
pub fn exit(outcome: Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        if let Some(missing) = error.chain().find_map(|cause| cause.downcast_ref::<Missing>()) {
            println!("skipped: {missing}");
            return ExitCode::from(SKIPPED);
        }
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Returns the number of threads that can run at a time here.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs a program and fails if the program fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", line(command));
    }
    Ok(())
}

/// Runs a program and returns its standard output; fails if the program fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", line(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} wrote no UTF-8", line(command)))
}

/// Replaces this process by the command, so that signals and the exit status are its own.
#[cfg(unix)]
pub fn replace(command: &mut Command) -> Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", line(command)))
}

/// Runs the command, whose exit status becomes this process's.
#[cfg(not(unix))]
pub fn replace(command: &mut Command) -> Result<ExitCode> {
    run(command).map(|()| ExitCode::SUCCESS)
}

/// Returns whether a program of this name is in the search path.
pub fn have(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Writes an executable script.
pub fn script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(())
}

/// A command as typed in a shell.
pub fn line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
