//! Configurations of other targets, as a `weft.toml`.
//!
//! * [`nvmet`]: what nvmetcli saves (`/etc/nvmet/config.json`).
//! * [`spdk`]: the parts `bdev` and `nvmf` of what SPDK's `save_config` prints.
//! * [`writer`]: writes the file, with comments on what could not be carried over.

mod nvmet;
mod spdk;
mod writer;

use crate::exit::Failure;
use serde_json::Value;
use weft_block::ErrorKind;

/// A configuration from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    /// URLs to listen at.
    pub listen: Vec<String>,
    /// Subsystems.
    pub subsystems: Vec<ImportedSubsystem>,
    /// What could not be carried over, each in a sentence.
    pub left: Vec<String>,
}

/// A subsystem from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct ImportedSubsystem {
    /// NQN.
    pub nqn: String,
    /// Hosts that may connect; `None`: any.
    pub hosts: Option<Vec<String>>,
    /// Namespaces.
    pub namespaces: Vec<ImportedNamespace>,
}

/// A namespace from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct ImportedNamespace {
    /// Identifier.
    pub nsid: u64,
    /// Source URL.
    pub source: String,
    /// Identities, as text.
    pub uuid: Option<String>,
    /// See above.
    pub nguid: Option<String>,
    /// See above.
    pub eui64: Option<String>,
    /// Hosts that see it; `None`: all.
    pub hosts: Option<Vec<String>>,
    /// Refuses writes.
    pub read_only: bool,
}

/// The configuration in the text of a file, of whichever kind it is.
pub fn import(text: &str, file: &str) -> Result<(String, Vec<String>), Failure> {
    let wrong = |why: String| Failure::of(ErrorKind::Usage, format!("{file}: {why}"));
    let json: Value = serde_json::from_str(text).map_err(|e| wrong(format!("it is not JSON: {e}")))?;
    let mut imported = if spdk::is_of(&json) {
        spdk::import(&json)
    } else if nvmet::is_of(&json) {
        nvmet::import(&json)
    } else {
        let text = "it is neither a configuration that nvmetcli saved nor one of SPDK's save_config";
        return Err(wrong(text.into()));
    };
    if imported.subsystems.is_empty() {
        return Err(wrong("it has no NVMe subsystem, and nothing else is imported".into()));
    }
    if imported.listen.is_empty() {
        imported.left.push("there is no TCP listener: give addresses in listen, as in nvme+tcp://0.0.0.0:4420".into());
    }
    Ok((writer::write(&imported, file), imported.left))
}

/// The URL of an address; none for a transport that weft does not have.
fn listener(trtype: &str, traddr: &str, trsvcid: &str) -> Option<String> {
    let host = if traddr.contains(':') && !traddr.starts_with('[') { format!("[{traddr}]") } else { traddr.to_owned() };
    trtype.eq_ignore_ascii_case("tcp").then(|| format!("nvme+tcp://{host}:{trsvcid}"))
}

/// A text of an object; numbers count as texts, too.
fn text(of: &Value, name: &str) -> Option<String> {
    match &of[name] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A list of an object; empty if there is none.
fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Whether an identity was set: those of zeroes were not.
fn is_set(identity: &str) -> bool {
    identity.bytes().any(|byte| !matches!(byte, b'0' | b'-'))
}

#[cfg(test)]
mod tests;
