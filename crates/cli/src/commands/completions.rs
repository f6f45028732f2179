//! `weft completions` and `weft man`: shell completions and manual pages, generated from the
//! definition of the command line.

use crate::process::exit::Failure;
use clap::{Args, Command};
use std::io::Write;
use std::path::{Path, PathBuf};
use weft_block::Error;
use weft_extras::generators;
use weft_io::output;

/// Options of `weft completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft completions bash > /etc/bash_completion.d/weft
  weft completions zsh > ~/.zfunc/_weft")]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
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
    let text = generators::completions(&args.shell, &mut program, "weft")?;
    Ok(std::io::stdout().write_all(&text)?)
}

/// The section into which the generator puts what stands behind the options of a command.
const EXTRA: &str = ".SH EXTRA\n";

/// Where packages put the documentation.
const SEE_ALSO: &str = "\
.SH SEE ALSO
The documentation that packages install begins with
.IR /usr/share/doc/weft/docs/README.md .
";

/// Writes the manual pages of `program`.
pub fn man(args: &ManArgs, program: Command) -> Result<(), Failure> {
    let directory = &args.directory;
    let failed =
        |e| Error::io(format!("cannot write manual pages to {}: {e}", directory.display()), e);
    std::fs::create_dir_all(directory).map_err(failed)?;
    generators::manual(program, directory)?;
    Ok(complete_pages(directory).map_err(failed)?)
}

/// Adds to the pages what the generator has no place for.
fn complete_pages(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let name = name.to_string_lossy();
        if !name.starts_with("weft") || !name.ends_with(".1") {
            continue;
        }
        let page = std::fs::read_to_string(&path)?;
        // Those of an earlier call are whole, and other pages may be there.
        if !page.contains(SEE_ALSO) {
            output::write(&path, whole(&page))?;
        }
    }
    Ok(())
}

/// A page with sections by their names, whose rows stay rows.
fn whole(page: &str) -> String {
    let Some((before, extra)) = page.split_once(EXTRA) else { return format!("{page}{SEE_ALSO}") };
    let (extra, after) = match extra.find("\n.SH ") {
        Some(end) => extra.split_at(end + 1),
        None => (extra, ""),
    };
    let (mut text, mut in_rows) = (before.to_owned(), false);
    for line in extra.lines() {
        let is_row = line.starts_with(|first: char| first == ' ' || first.is_ascii_digit());
        let heading = line.strip_suffix(':').filter(|_| !is_row);
        if in_rows && !is_row && !line.is_empty() {
            text.push_str(".fi\n");
            in_rows = false;
        }
        if let Some(heading) = heading {
            let name = if heading == "Example" { "Examples" } else { heading };
            text.extend([".SH ", &name.to_uppercase(), "\n.nf\n"]);
            in_rows = true;
        } else if in_rows || !line.is_empty() {
            // What is said before any heading.
            text.push_str(if text.len() == before.len() { ".SH NOTES\n" } else { "" });
            text.extend([line, "\n"]);
        }
    }
    text.push_str(if in_rows { ".fi\n" } else { "" });
    text + after + SEE_ALSO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_page_stay_rows() {
        let page = ".SH NAME\nweft\n.SH EXTRA\nProse.\n\nExample:\n  weft list\n\nExit status:\n  0  done\n130  ended\n.SH VERSION\n1\n";
        let expected = ".SH NAME\nweft\n.SH NOTES\nProse.\n.SH EXAMPLES\n.nf\n  weft list\n\n.fi\n.SH EXIT STATUS\n.nf\n  0  done\n130  ended\n.fi\n.SH VERSION\n1\n";
        assert_eq!(whole(page), format!("{expected}{SEE_ALSO}"));
        assert_eq!(whole(".SH NAME\n"), format!(".SH NAME\n{SEE_ALSO}"));
    }
}
