//! By `clap_complete` and `clap_mangen`.

use crate::Error;
use clap::Command;
use std::path::Path;

/// Completions of `program`, called `name`, for a shell by its name.
///
/// # Errors
/// There is no such shell.
pub fn completions(shell: &str, program: &mut Command, name: &str) -> Result<Vec<u8>, Error> {
    let shell: clap_complete::Shell = shell.parse().map_err(Error::Failed)?;
    // The generator panics if it cannot write, as to a closed pipe.
    let mut text = Vec::new();
    clap_complete::generate(shell, program, name, &mut text);
    Ok(text)
}

/// Writes a page for `program` and one for each of its commands into a directory.
///
/// # Errors
/// A page cannot be written.
pub fn manual(program: Command, directory: &Path) -> Result<(), Error> {
    clap_mangen::generate_to(program, directory).map_err(|error| {
        Error::Failed(format!("cannot write manual pages to {}: {error}", directory.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_are_known_by_their_names() {
        let mut program = Command::new("a").arg(clap::Arg::new("b").long("bcd"));
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let text = completions(shell, &mut program, "a").unwrap();
            assert!(String::from_utf8(text).unwrap().contains("bcd"), "{shell}");
        }
        assert!(matches!(completions("tcsh", &mut program, "a"), Err(Error::Failed(_))));
    }
}
