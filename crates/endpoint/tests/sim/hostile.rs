//! Peers that break the rules, in the simulation: each row has a target of its own, and the answer
//! may be that nothing comes.

use crate::devices::Testing;
use crate::hostile::table::{self, Arena, Line, Table};
use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::puppet::{Puppet, Talk};
use crate::sim::scene::{Setup, options};
use std::time::Duration;
use weft_block::Error;

/// Time within which an answer must come.
const PATIENCE: Duration = Duration::from_secs(3);

struct Simulated {
    protocol: Protocol,
    scene: AnyScene,
}

impl Arena for Simulated {
    type End = Puppet;

    const IS_PATIENT: bool = true;

    fn connect(&mut self) -> Puppet {
        Puppet::new(&self.scene)
    }

    fn talk<'a>(&'a mut self, end: &'a mut Puppet) -> impl Line + 'a {
        end.within(&mut self.scene)
    }

    fn serves_others(&mut self) -> Result<(), Error> {
        self.scene.open_url(&self.protocol.url(), &options()).map(drop)
    }
}

impl Line for Talk<'_> {
    fn hear(&mut self, is_enough: impl FnMut(&[u8]) -> bool) -> (Vec<u8>, bool) {
        self.receive(is_enough, PATIENCE)
    }
}

fn check(table: &Table) {
    table.check(|protocol| Simulated {
        protocol,
        scene: protocol.scene(Setup::new(1, Testing::new("ram:16MiB"))),
    });
    table.check_page();
}

#[test]
fn nvme_tcp() {
    check(&table::NVME_TCP);
}

#[test]
fn fabrics() {
    check(&table::FABRICS);
}

#[test]
fn nvme() {
    check(&table::NVME);
}

#[test]
fn iscsi() {
    check(&table::ISCSI);
}

#[test]
fn iscsi_digests() {
    check(&table::ISCSI_DIGESTS);
}

#[test]
fn scsi() {
    check(&table::SCSI);
}

#[test]
fn nbd() {
    check(&table::NBD);
}
