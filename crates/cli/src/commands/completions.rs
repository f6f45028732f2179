//! `weft completions` and `weft man`: shell completions and manual pages, generated from the
//! definition of the command line.

use crate::args::Cli;
use crate::exit::Failure;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;
use weft_block::Error;

/// Options of `weft completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft completions bash > /etc/bash_completion.d/weft
  weft completions zsh > ~/.zfunc/_weft")]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Options of `weft man`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  weft man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Directory for the pages, weft.1 and weft-COMMAND.1; created if it does not exist
    directory: PathBuf,
}

/// Prints completions for a shell.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    // The generator panics if it cannot write, as to a closed pipe.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weft", &mut text);
    Ok(std::io::stdout().write_all(&text)?)
}

/// Writes the manual pages.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.directory));
    let failed =
        |e| Error::io(format!("cannot write manual pages to {}: {e}", args.directory.display()), e);
    Ok(written.map_err(failed)?)
}
