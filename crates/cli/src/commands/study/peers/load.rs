//! A load generator of another project.

use super::super::fio::{self, Fio};
use super::super::serving::scheme;
use super::super::watched::WatchedProcesses;
use super::peer::PeerProgram;
use crate::process::exit::Failure;
use std::rc::Rc;
use weft_bench::study::Generator;
use weft_bench::suite::Through;
use weft_block::Geometry;

/// A device of a target on this machine.
pub struct LoadDevice<'a> {
    pub url: &'a str,
    pub geometry: Geometry,
    /// The lane on which weft measures it.
    pub twin: &'a str,
    /// Processes of the target.
    pub pids: &'a [u32],
    /// They use their cores even while they are idle.
    pub polls: bool,
}

/// A load generator of another project.
pub struct Load {
    /// Last part of the names of its lanes, and its name in `--peers`.
    pub name: &'static str,
    /// The program that must be installed.
    pub program: PeerProgram,
    /// Drives disks of the kernel, too.
    pub disks: bool,
    /// Returns whether it can reach a protocol.
    pub reaches: fn(Through) -> bool,
    /// Returns why the installed program does not reach a protocol that it can reach.
    pub lacks: fn(Through) -> Option<String>,
    /// Returns one for a device.
    ///
    /// # Errors
    /// It does not reach this device.
    pub on: fn(&LoadDevice<'_>) -> Result<Rc<dyn Generator>, Failure>,
}

/// fio, with its clients for NBD and, where it was built with that, iSCSI.
pub const FIO: Load = Load {
    name: "fio",
    program: PeerProgram { name: "fio", package: Some("fio") },
    disks: true,
    reaches: |through| matches!(through, Through::Nbd | Through::Iscsi),
    lacks: |through| fio::engine(&format!("{}any", scheme(through))).err().map(|e| e.to_string()),
    on: |subject| {
        let engine = fio::engine(subject.url)?;
        let twin = Some(subject.twin.to_owned());
        let target = WatchedProcesses::new(subject.pids, subject.polls);
        Ok(Rc::new(Fio::new(engine, subject.url, subject.geometry, twin).watching(target)))
    },
};
