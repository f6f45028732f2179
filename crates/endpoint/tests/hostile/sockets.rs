//! Peers that break the rules, over real sockets: a table has one target, which serves a
//! well-behaved host all along.

use crate::hostile::table::{self, Arena, Line, Table};
use crate::hostile::tcp::{Tcp, identity};
use crate::served::{Served, devices, loops};
use crate::sim::protocols::IQN;
use crate::sim::scene::NQN;
use std::io::{ErrorKind, Read};
use std::mem::take;
use std::net::SocketAddr;
use weft_block::Error;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::{ConnectOptions, Disk, PathOptions, TlsFiles, open};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::Nqn;

/// Blocks of the well-behaved host, to which no row writes.
const LBA: u64 = 20_000;

struct Sockets<'a> {
    address: SocketAddr,
    others: &'a Disk,
    round: u8,
}

impl Arena for Sockets<'_> {
    type End = Tcp;

    const IS_PATIENT: bool = false;

    fn connect(&mut self) -> Tcp {
        Tcp::new(self.address)
    }

    fn talk<'a>(&'a mut self, end: &'a mut Tcp) -> impl Line + 'a {
        end
    }

    fn serves_others(&mut self) -> Result<(), Error> {
        let (data, mut back) = ([self.round; 4096], [0; 4096]);
        self.others.write(LBA, &data)?;
        self.others.read(LBA, &mut back)?;
        assert_eq!(back, data);
        Ok(())
    }
}

impl Line for &mut Tcp {
    fn hear(&mut self, mut is_enough: impl FnMut(&[u8]) -> bool) -> (Vec<u8>, bool) {
        let mut bytes = [0; 4096];
        while !is_enough(&self.received) {
            match self.stream.read(&mut bytes) {
                Ok(read) if read > 0 => self.received.extend_from_slice(&bytes[..read]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                _ => return (take(&mut self.received), true),
            }
        }
        (take(&mut self.received), false)
    }
}

fn check(table: &Table) {
    let protocol = table.protocol();
    let subsystem = SubsystemConfig::new(Nqn::new(NQN).unwrap());
    let config = ExportConfig {
        inventory: LiveInventory::of_devices(subsystem, devices(&["ram:16MiB"])).unwrap(),
        iscsi: Settings { name: Some(Name::new(IQN).unwrap()), ..Settings::default() },
        tls: TlsFiles::default(),
        late_writers: Default::default(),
    };
    let listen = [protocol.listen()];
    let served = Served::start(&loops(1), |on| export::start(&config, &listen, on).unwrap());
    let address: SocketAddr = served.urls()[0].split('/').nth(2).unwrap().parse().unwrap();
    let options = ConnectOptions {
        host: Some(identity("good")),
        paths: PathOptions::once(),
        ..ConnectOptions::default()
    };
    let others = open(&protocol.url_at("127.0.0.1", address.port()), &options);
    let others = others.and_then(Disk::on).unwrap();
    let mut round = 0_u8;
    table.check(|_| {
        round = round.wrapping_add(1);
        Sockets { address, others: &others, round }
    });
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
