//! `weft apply`: makes a running server serve what a configuration asks for.

use crate::args::server::ServerArgs;
use crate::args::source_options::CommandLineOptions;
use crate::process::exit::{Failure, tell};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use weft_server::config::{group, load, text_of};
use weft_server::served::Changed;
use weft_server::served::verbs::Apply;

/// Options of `weft apply`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft apply weft.toml --dry-run
      what would change
  weft apply weft.toml
      only what differs changes; connected hosts stay")]
pub struct ApplyArgs {
    /// Configuration file, as for weft serve --config
    file: PathBuf,
    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// `--force`.
#[derive(Args, Clone, Copy, Debug)]
pub struct ForceArgs {
    /// Also take away what connected hosts use
    #[arg(long)]
    pub force: bool,
}

/// Asks the server.
pub fn run(args: &ApplyArgs) -> Result<(), Failure> {
    // Mistakes are told by the name under which the file is known here.
    let text = text_of(&args.file)?;
    let name = match group::is_of_group(&text) {
        true => group::read(&text, &args.file.display().to_string()).map(|_| None)?,
        false => load(&args.file, &CommandLineOptions)?.name,
    };
    let server = ServerArgs { control: args.server.control.clone().or(name) };
    let file = std::path::absolute(&args.file)?;
    let params = Apply { file, text, force: args.force.force, dry_run: args.dry_run };
    let changed = server.connect()?.ask("config.apply", params)?;
    print(&changed, args.dry_run)
}

/// Prints what changed, or would change.
pub fn print(changed: &Changed, dry_run: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for change in &changed.changes {
        let sign = match change.kind.as_str() {
            "add" => '+',
            "remove" => '-',
            _ => '~',
        };
        writeln!(out, "{sign} {}", change.text)?;
        if dry_run && !change.hosts.is_empty() {
            writeln!(out, "  needs --force: in use by {}", change.hosts.join(", "))?;
        }
    }
    match changed.changes.len() {
        0 => writeln!(out, "nothing differs")?,
        _ if dry_run => writeln!(out, "nothing was changed (--dry-run)")?,
        _ => writeln!(out, "done: generation {}", changed.generation)?,
    }
    changed.notes.iter().for_each(|note| tell(&format!("note: {note}")));
    Ok(())
}
