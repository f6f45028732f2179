//! Configurations of other targets, as a `weft.toml`.
//!
//! * `ceph_iscsi`: what Ceph's iSCSI gateway keeps in the object `gateway.conf`.
//! * `lio`: what targetcli saves (`/etc/target/saveconfig.json`, `/etc/rtslib-fb-target/…`).
//! * `lio_names`: what Linux's target calls its disks.
//! * `nvmet`: what nvmetcli saves (`/etc/nvmet/config.json`).
//! * `spdk`: the parts `bdev` and `nvmf` of what SPDK's `save_config` prints.
//! * `tgt`: what tgt-admin reads (`/etc/tgt/targets.conf`); `tgt_text`: the form of that.
//! * `imported`: what is read from them. Access is closed unless it is granted.
//! * `json`: their parts. `sources`: files and disks, with their block sizes.
//! * `ports`: listeners of NVMe. `iscsi_access`: initiators, their passwords and rights.
//! * `gateways`: the part of it that a group of gateways shares.
//! * `writer`: writes the file, with comments on what could not be carried over.
//!
//! An import never serves more data, to more hosts, or with weaker authentication than the
//! original. What weft cannot express is closed and reported.

mod ceph_iscsi;
mod gateways;
mod imported;
mod iscsi_access;
mod json;
mod lio;
mod lio_names;
mod nvmet;
mod ports;
mod sources;
mod spdk;
mod tgt;
mod tgt_text;
mod writer;

use imported::Imported;
use serde_json::Value;
use std::collections::HashSet;
use weft_block::{Error, ErrorKind};

/// The configuration in the text of a file, of whichever kind it is; `group`: for a group of
/// gateways.
pub fn import(text: &str, file: &str, group: bool) -> Result<(String, Vec<String>), Error> {
    let wrong = |why: String| Error::new(ErrorKind::Usage, format!("{file}: {why}"));
    let mut imported = read(text).map_err(wrong)?;
    if imported.subsystems.is_empty() {
        return Err(wrong("it has no subsystem or target, and nothing else is imported".into()));
    }
    distinguish(&mut imported);
    number_controllers(&mut imported);
    match group {
        true => gateways::leave(&mut imported),
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

/// What a text says, of whichever kind it is.
fn read(text: &str) -> Result<Imported, String> {
    if tgt::is_of(text) {
        return tgt::import(text);
    }
    let json: Value = serde_json::from_str(text)
        .map_err(|e| format!("it is not JSON, and no targets.conf of tgt: {e}"))?;
    if spdk::is_of(&json) {
        Ok(spdk::import(&json))
    } else if nvmet::is_of(&json) {
        Ok(nvmet::import(&json))
    } else if lio::is_of(&json) {
        Ok(lio::import(&json))
    } else if ceph_iscsi::is_of(&json) {
        ceph_iscsi::import(&json)
    } else {
        Err("it is neither a configuration that nvmetcli, targetcli or SPDK's save_config saved, nor a gateway.conf of ceph-iscsi".into())
    }
}

/// Leaves each NAA identifier to the first disk that has it: those of Linux's target are a part of
/// the serial number, so that two may be alike.
fn distinguish(imported: &mut Imported) {
    let mut seen = HashSet::new();
    for subsystem in &mut imported.subsystems {
        for namespace in &mut subsystem.namespaces {
            let Some(naa) = &namespace.scsi.naa else { continue };
            if !seen.insert(naa.clone()) {
                imported.left.push(format!(
                    "{}, namespace {}, has the NAA identifier {naa} of another disk: initiators see another disk",
                    subsystem.nqn, namespace.nsid
                ));
                namespace.scsi.naa = None;
            }
        }
    }
}

/// Takes over the identifiers of controllers, which in weft belong to the server.
fn number_controllers(imported: &mut Imported) {
    let mut all: Vec<_> = imported.subsystems.iter().map(|of| of.cntlids).collect();
    all.dedup();
    match all[..] {
        [same] => imported.cntlids = same,
        _ => imported.left.push(
            "subsystems have other ranges of controller identifiers: in weft the server has one, cntlid_range in [server]"
                .into(),
        ),
    }
}

#[cfg(test)]
mod identity_tests;
#[cfg(test)]
mod tests;
