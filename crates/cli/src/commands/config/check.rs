//! `weft config check`: the mistakes of a configuration, and whether its sources are there.

use crate::args::source_options::CommandLineOptions;
use crate::process::exit::{Failure, tell};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use weft_block::file::no_permission_to_write;
use weft_block::units::format_size;
use weft_block::{Error, ErrorKind, Refusal, grammar};
use weft_endpoint::url::without_secret;
use weft_endpoint::{ConnectOptions, Control, PathOptions};
use weft_server::config::{self, Desired, SourceOptions, read, text_of};

/// The scheme of what only reads.
const READ_ONLY: &str = "readonly";

/// Checks the configuration of a group of gateways.
pub fn group(file: &Path) -> Result<(), Failure> {
    let (text, name) = (text_of(file)?, file.display().to_string());
    config::group::read(&text, &name).map_err(|faults| said(&name, faults.lines()))?;
    Ok(writeln!(std::io::stdout().lock(), "{name}: no mistakes; its images were not opened")?)
}

/// Checks the configuration of a server, and opens its sources if there is something to open them
/// with.
pub fn server(file: &Path, control: Option<&Control>) -> Result<(), Failure> {
    let (text, name) = (text_of(file)?, file.display().to_string());
    let directory = file.parent().unwrap_or(Path::new(""));
    let desired = read(&text, &name, (directory, &CommandLineOptions))
        .map_err(|faults| said(&name, faults.lines()))?;
    let sources = sources(&desired)?;
    let mut out = std::io::stdout().lock();
    let Some(control) = control else {
        let unseen = match sources.len() {
            0 => "",
            1 => "; its source was not opened, --open does that",
            _ => "; its sources were not opened, --open does that",
        };
        return Ok(writeln!(out, "{name}: no mistakes{unseen}")?);
    };
    let options = CommandLineOptions.options(&desired.connect, 1, control)?;
    let options = ConnectOptions { paths: PathOptions::once(), ..options };
    let mut first = None;
    for (source, is_read_only) in &sources {
        match look_at(source, *is_read_only, &options) {
            Ok(found) => writeln!(out, "{}: {found}", without_secret(source))?,
            Err(e) => {
                tell(&format!("{e}"));
                first.get_or_insert(e.kind());
            }
        }
    }
    match first {
        None => Ok(writeln!(out, "{name}: no mistakes")?),
        Some(kind) => Err(Failure::of(kind, format!("{name} has sources that cannot be opened"))),
    }
}

/// Mistakes, each told, and the failure that they are.
fn said(name: &str, lines: &[String]) -> Failure {
    if let [one] = lines {
        return Failure::of(ErrorKind::Usage, one);
    }
    lines.iter().for_each(|line| tell(line));
    Failure::of(ErrorKind::Usage, format!("{name} has {} mistakes", lines.len()))
}

/// What is opened for the namespaces: files, disks and remote devices, each once, and whether for
/// reading only.
fn sources(desired: &Desired) -> Result<BTreeSet<(String, bool)>, Error> {
    let mut all = BTreeSet::new();
    for (_, namespace) in desired.namespaces() {
        weft_endpoint::check(&namespace.source)?;
        let is_read_only = |above: &[&str]| above.contains(&READ_ONLY);
        let of = grammar::sources(&namespace.source).into_iter();
        all.extend(of.map(|of| (of.url.to_owned(), is_read_only(&of.above))));
    }
    Ok(all)
}

/// Refuses a file or disk that this user may not write to, as a server would.
fn check_writable(source: &str, is_read_only: bool) -> Result<(), Error> {
    let Some(path) = grammar::path(source).filter(|_| !is_read_only) else { return Ok(()) };
    #[cfg(unix)]
    let is_writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    #[cfg(not(unix))]
    let is_writable = std::fs::metadata(path).is_ok_and(|of| !of.permissions().readonly());
    if is_writable {
        return Ok(());
    }
    Err(Error::new(ErrorKind::PermissionDenied, no_permission_to_write(source)))
}

/// What a source is, or would be.
fn look_at(source: &str, is_read_only: bool, options: &ConnectOptions) -> Result<String, Error> {
    let size = grammar::options(source).1.iter().find(|(name, _)| *name == "size").cloned();
    let is_missing = |path: &&str| Path::new(path).try_exists().is_ok_and(|exists| !exists);
    let path = grammar::path(source).filter(is_missing);
    if let (Some(path), Some((_, size)), false) = (path, size, is_read_only) {
        let above = Path::new(path).parent().filter(|above| !above.as_os_str().is_empty());
        if above.is_some_and(|above| !above.is_dir()) {
            let text = format!("{source}: there is no directory for it; create that first");
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        return Ok(format!("is not there yet, and will be created with {size}"));
    }
    if path.is_some() {
        return Err(Error::refused(source, Refusal::NoSuchFile));
    }
    match weft_endpoint::open(&format!("readonly:{source}"), options) {
        Ok(device) => {
            check_writable(source, is_read_only)?;
            let geometry = device.geometry();
            if geometry.padding_bytes > 0 && !is_read_only {
                drop(device);
                weft_endpoint::open(source, options)?;
            }
            let size = format_size(geometry.data_bytes());
            Ok(format!("{size} in blocks of {} bytes", geometry.block_bytes))
        }
        // A server that runs with this configuration has it.
        Err(e) if e.kind() == ErrorKind::InUse => Ok(format!("in use: {e}")),
        Err(e) => Err(e),
    }
}
