//! Configurations of other targets, as a `weft.toml`.
//!
//! * `ceph_iscsi`: what Ceph's iSCSI gateway keeps in the object `gateway.conf`.
//! * `nvmet`: what nvmetcli saves (`/etc/nvmet/config.json`).
//! * `spdk`: the parts `bdev` and `nvmf` of what SPDK's `save_config` prints.
//! * `writer`: writes the file, with comments on what could not be carried over.

mod ceph_iscsi;
mod nvmet;
mod spdk;
mod writer;

use serde_json::Value;
use weft_block::{Error, ErrorKind};

/// A configuration from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    /// URLs to listen at.
    pub listen: Vec<String>,
    /// Name of the iSCSI target; `None`: nothing is said of it.
    pub iscsi_name: Option<String>,
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
    /// iSCSI initiators that may log in; `None`: any.
    pub initiators: Option<Vec<String>>,
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
    /// iSCSI initiators that see it; `None`: all.
    pub initiators: Option<Vec<String>>,
    /// Refuses writes.
    pub read_only: bool,
}

/// The configuration in the text of a file, of whichever kind it is; `group`: for a group of
/// gateways.
pub fn import(text: &str, file: &str, group: bool) -> Result<(String, Vec<String>), Error> {
    let wrong = |why: String| Error::new(ErrorKind::Usage, format!("{file}: {why}"));
    let json: Value =
        serde_json::from_str(text).map_err(|e| wrong(format!("it is not JSON: {e}")))?;
    let mut imported = if spdk::is_of(&json) {
        spdk::import(&json)
    } else if nvmet::is_of(&json) {
        nvmet::import(&json)
    } else if ceph_iscsi::is_of(&json) {
        ceph_iscsi::import(&json).map_err(&wrong)?
    } else {
        let text = "it is no configuration that nvmetcli saved, none of SPDK's save_config, and no gateway.conf of ceph-iscsi";
        return Err(wrong(text.into()));
    };
    if imported.subsystems.is_empty() {
        return Err(wrong("it has no subsystem or target, and nothing else is imported".into()));
    }
    match group {
        true => leave_to_gateways(&mut imported),
        false if imported.listen.is_empty() => {
            imported.left.push(
                "there is no TCP listener: give addresses in listen, as in nvme+tcp://0.0.0.0:4420"
                    .into(),
            );
        }
        false => {}
    }
    Ok((writer::write(&imported, file, group), imported.left))
}

/// Takes out what each gateway of a group has on its command line.
fn leave_to_gateways(imported: &mut Imported) {
    for url in core::mem::take(&mut imported.listen) {
        imported
            .left
            .push(format!("{url} is an address of one gateway: give each its own with --listen"));
    }
    if let Some(name) = imported.iscsi_name.take() {
        imported
            .left
            .push(format!("the iSCSI target is called {name}: give all gateways --iqn {name}"));
    }
}

/// The URL of an address; none for a transport that weft does not have.
fn listener(trtype: &str, traddr: &str, trsvcid: &str) -> Option<String> {
    let host = if traddr.contains(':') && !traddr.starts_with('[') {
        format!("[{traddr}]")
    } else {
        traddr.to_owned()
    };
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
