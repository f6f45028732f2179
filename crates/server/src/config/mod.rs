//! The configuration of a server: a TOML file (`docs/configuration.md`).
//!
//! * [`tables`]: what the file holds, as it is written; the JSON schema comes from it.
//! * [`mod@read`]: from text to what is desired.
//! * [`faults`]: the mistakes of a text, and where they are.
//! * `shape`: from text to tables, with all mistakes of form.
//! * [`check`]: from tables to what is [`desired`], with all mistakes of the file.
//! * [`subsystems`]: a part of that.
//! * `authentication`: what hosts have to prove.
//! * `files`: the files that namespaces use.
//! * `host_identifiers`: the identifiers of hosts.
//! * `limits`: the limits of hosts.
//! * [`exposure`]: which addresses others can use although they have proved nothing.
//! * [`source_options`]: the options of connections to remote sources.
//! * [`group`]: the configuration that gateways of a group share.
//! * [`example`], [`import`]: files to begin with.

mod authentication;
pub mod check;
pub mod desired;
pub mod example;
pub mod exposure;
pub mod faults;
mod files;
pub mod group;
mod host_identifiers;
pub mod import;
mod limits;
pub mod read;
mod shape;
pub mod source_options;
pub mod subsystems;
pub mod tables;
#[cfg(test)]
pub(crate) mod tests;

pub use desired::Desired;
pub use read::read;
pub use source_options::{NoSourceOptions, SourceOptions};

use std::path::Path;
use weft_block::Error;

/// Reads and checks a file.
pub fn load(path: &Path, options: &dyn SourceOptions) -> Result<Desired, Error> {
    let text = text_of(path)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    Ok(read(&text, &path.display().to_string(), (directory, options))?)
}

/// The text of a file.
pub fn text_of(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path)
        .map_err(|e| Error::io(format!("cannot read {}: {e}", path.display()), e))
}
