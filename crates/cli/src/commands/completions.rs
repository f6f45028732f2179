//! `weft completions` and `weft man`: shell completions and manual pages, generated from the
//! definition of the command line.

use crate::exit::Failure;
use clap::{Args, Command};
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

/// Prints completions of `program` for a shell.
pub fn completions(args: &CompletionsArgs, mut program: Command) -> Result<(), Failure> {
    // The generator panics if it cannot write, as to a closed pipe.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "weft", &mut text);
    Ok(std::io::stdout().write_all(&text)?)
}

/// Writes the manual pages of `program`.
pub fn man(args: &ManArgs, program: Command) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(program, &args.directory));
    let failed =
        |e| Error::io(format!("cannot write manual pages to {}: {e}", args.directory.display()), e);
    Ok(written.map_err(failed)?)
}
