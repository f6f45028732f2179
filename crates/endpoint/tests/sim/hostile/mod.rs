//! Peers that break the rules, field by field: what an export answers. `docs/hostile-peers.md`
//! shows these tables; tests compare them.

mod fabrics;
mod iscsi;
mod iscsi_commands;
mod iscsi_digests;
mod iscsi_login;
mod nbd;
mod nbd_requests;
mod nvme;
mod nvme_tcp;
mod nvme_tcp_data;
mod scsi;

use crate::devices::Testing;
use crate::page::{check_page, row};
use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::puppet::Puppet;
use crate::sim::scene::{NQN, Setup, host};
use crate::wire::{self, Who};
use std::time::Duration;
use weft_proto::iscsi::pdu::R2t;
use weft_proto::nvme::types::{Cntlid, Nqn};

/// What a peer has done before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerState {
    /// Connected by TCP.
    Fresh,
    /// NVMe/TCP: exchanged ICReq and ICResp. NBD: greeted.
    Greeted,
    /// NVMe: an admin queue, and the controller is enabled.
    Admin,
    /// NVMe: an I/O queue. iSCSI: logged in. NBD: in the transmission phase.
    Ready,
    /// The same, and the target waits for the data of a write of 4096 bytes: NVMe command 1 with
    /// TTAG 0, iSCSI task 1.
    Asked,
    /// With digests of headers and of data. NVMe/TCP: the target waits for the data of Connect.
    /// iSCSI: as [`PeerState::Asked`].
    Digested,
}

/// One fault.
struct Fault {
    /// Sections of the specifications.
    section: &'static str,
    what: &'static str,
    state: PeerState,
    /// The bytes that the peer sends then.
    bytes: fn(&Peer) -> Vec<u8>,
    /// The answer.
    answer: &'static str,
}

const fn fault(
    section: &'static str,
    what: &'static str,
    state: PeerState,
    bytes: fn(&Peer) -> Vec<u8>,
    answer: &'static str,
) -> Fault {
    Fault { section, what, state, bytes, answer }
}

/// A peer of a fresh target with one disk of 16 MiB in blocks of 512 bytes.
struct Peer {
    scene: AnyScene,
    /// The connection that breaks the rules.
    puppet: Puppet,
    /// The controller's admin connection, where another one breaks the rules.
    admin: Option<Puppet>,
    cntlid: Cntlid,
    /// iSCSI: the target transfer tag of its R2T.
    transfer: u32,
}

/// Entries of an I/O queue.
const ENTRIES: u16 = 4;

/// NVMe: the host, without keep alive, so that an answer that does not come is the answer.
fn who() -> Who {
    Who { host: host("hostile"), subsystem: Nqn::new(NQN).unwrap(), keep_alive_ms: 0 }
}

impl Peer {
    fn new(protocol: Protocol, state: PeerState) -> Self {
        let mut scene = protocol.scene(Setup::new(1, Testing::new("ram:16MiB")));
        let puppet = Puppet::new(&scene);
        let (mut admin, mut cntlid, mut transfer) = (None, Cntlid::DYNAMIC, 0);
        match (protocol, state) {
            (_, PeerState::Fresh) => {}
            (Protocol::NvmeTcp, PeerState::Greeted) => wire::greet(&mut puppet.within(&mut scene)),
            (Protocol::NvmeTcp, PeerState::Admin) => {
                cntlid = wire::admin(&mut puppet.within(&mut scene), &who())
            }
            (Protocol::NvmeTcp, PeerState::Ready | PeerState::Asked) => {
                let of_admin = Puppet::new(&scene);
                cntlid = wire::admin(&mut of_admin.within(&mut scene), &who());
                wire::io_queue(&mut puppet.within(&mut scene), &who(), cntlid, 1, ENTRIES);
                admin = Some(of_admin);
            }
            (Protocol::NvmeTcp, PeerState::Digested) => {
                nvme_tcp::begin_digested(&mut scene, &puppet)
            }
            (Protocol::Iscsi, PeerState::Digested) => {
                transfer = iscsi_digests::begin(&mut scene, &puppet)
            }
            (Protocol::Iscsi, _) => iscsi::log_in(&mut scene, &puppet),
            (Protocol::Nbd, state) => nbd::begin(&mut scene, &puppet, state),
        }
        if state == PeerState::Asked {
            puppet.put(&if protocol == Protocol::Iscsi {
                iscsi::write(1)
            } else {
                nvme_tcp::asks(1)
            });
            scene.world.run_for(Duration::from_secs(1));
            let r2t = puppet.take_bytes();
            assert!(!r2t.is_empty());
            transfer = r2t
                .first_chunk()
                .filter(|_| protocol == Protocol::Iscsi)
                .map_or(0, |bhs| R2t::decode(bhs).transfer.0);
        }
        Self { scene, puppet, admin, cntlid, transfer }
    }

    /// What comes within a second: the bytes, and whether the connection is over.
    fn hears(&mut self) -> (Vec<u8>, bool) {
        self.scene.world.run_for(Duration::from_secs(3));
        (self.puppet.take_bytes(), self.puppet.has_ended())
    }
}

/// Sends what each row of the tables says to a target of its own, and compares the answer, in the words that
/// `words` finds. The target serves others afterwards.
fn check(protocol: Protocol, tables: &[&[Fault]], words: fn(Vec<u8>) -> String) {
    let mut wrong = Vec::new();
    for fault in tables.iter().copied().flatten() {
        let mut peer = Peer::new(protocol, fault.state);
        peer.puppet.put(&(fault.bytes)(&peer));
        let (bytes, ended) = peer.hears();
        let answer = match (words(bytes), ended) {
            (answer, false) if answer.is_empty() => "nothing".to_owned(),
            (answer, true) if answer.is_empty() => "closed".to_owned(),
            (answer, false) => answer,
            (answer, true) => format!("{answer}; closed"),
        };
        if answer != fault.answer {
            wrong.push(format!("{}: \"{answer}\" instead of \"{}\"", fault.what, fault.answer));
        }
        drop(peer.admin.take());
        let url = protocol.url();
        let again = peer.scene.open_url(&url, &crate::sim::scene::options());
        assert!(again.is_ok(), "{}: the target serves nobody else: {:?}", fault.what, again.err());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The rows of one protocol in the page.
fn check_rows(name: &str, tables: &[&[Fault]]) {
    let rows = tables
        .iter()
        .copied()
        .flatten()
        .map(|fault| row(&[fault.what, fault.section, fault.answer]));
    check_page("hostile-peers.md", name, &["Fault", "Section", "Answer"], rows);
}

/// The parts of an answer in order, equal ones that follow each other once.
fn join(mut parts: Vec<String>) -> String {
    parts.dedup();
    parts.join("; ")
}

#[test]
fn nvme_tcp() {
    let tables = [nvme_tcp::TABLE, nvme_tcp_data::TABLE];
    check(Protocol::NvmeTcp, &tables, nvme_tcp::words);
    check_rows("nvme-tcp", &tables);
}

#[test]
fn fabrics() {
    let tables = [fabrics::TABLE];
    check(Protocol::NvmeTcp, &tables, nvme_tcp::words);
    check_rows("fabrics", &tables);
}

#[test]
fn nvme() {
    let tables = [nvme::TABLE];
    check(Protocol::NvmeTcp, &tables, nvme_tcp::words);
    check_rows("nvme", &tables);
}

#[test]
fn iscsi() {
    let tables = [iscsi_login::TABLE, iscsi_commands::TABLE];
    check(Protocol::Iscsi, &tables, iscsi::words);
    check_rows("iscsi", &tables);
}

#[test]
fn iscsi_digests() {
    let tables = [iscsi_digests::TABLE];
    check(Protocol::Iscsi, &tables, iscsi_digests::words);
    check_rows("iscsi-digests", &tables);
}

#[test]
fn scsi() {
    let tables = [scsi::TABLE];
    check(Protocol::Iscsi, &tables, iscsi::words);
    check_rows("scsi", &tables);
}

#[test]
fn nbd() {
    let tables = [nbd::TABLE, nbd_requests::TABLE];
    check(Protocol::Nbd, &tables, nbd::words);
    check_rows("nbd", &tables);
}
