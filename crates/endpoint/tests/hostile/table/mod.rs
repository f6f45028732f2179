//! Peers that break the rules, field by field: what an export answers. `docs/hostile-peers.md`
//! shows these tables. The simulation and real sockets drive them, each by an [`Arena`].

mod fabrics;
pub mod iscsi;
mod iscsi_commands;
mod iscsi_digests;
mod iscsi_login;
mod nbd;
mod nbd_requests;
mod nvme;
mod nvme_tcp;
mod nvme_tcp_data;
mod scsi;

use crate::page::{check_page, row};
use crate::sim::protocols::Protocol;
use crate::sim::scene::{NQN, host};
use crate::wire::{self, Peer as _, Who};
use weft_proto::iscsi::pdu::{BHS_BYTES, R2t};
use weft_proto::nvme::types::{Cntlid, Nqn};

/// A network with a target that has one disk of 16 MiB in blocks of 512 bytes.
pub trait Arena {
    /// The end of a connection to the target.
    type End;

    /// It costs nothing to wait for an answer that does not come.
    const IS_PATIENT: bool;

    /// Connects.
    fn connect(&mut self) -> Self::End;

    /// That end, while a test talks through it.
    fn talk<'a>(&'a mut self, end: &'a mut Self::End) -> impl Line + 'a;

    /// The target serves others.
    fn serves_others(&mut self) -> Result<(), weft_block::Error>;
}

/// A connection that breaks the rules.
pub trait Line: wire::Peer {
    /// Waits until the bytes received are enough, the connection is over or the time has passed.
    /// Returns the bytes, and whether the connection is over.
    fn hear(&mut self, is_enough: impl FnMut(&[u8]) -> bool) -> (Vec<u8>, bool);

    /// Waits for an answer, in words that begin like this.
    fn expect(&mut self, answer: &str, words: fn(Vec<u8>) -> String) -> Vec<u8> {
        let (bytes, _) = self.hear(|bytes| words(bytes.to_vec()).starts_with(answer));
        let heard = words(bytes.clone());
        assert!(heard.starts_with(answer), "{heard} instead of {answer}");
        bytes
    }
}

/// State of a peer before its fault.
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

/// Numbers that the target gave a peer.
struct Peer {
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

/// A connection in a state, and that of the admin queue of its controller.
fn begin<A: Arena>(
    protocol: Protocol,
    state: PeerState,
    arena: &mut A,
) -> (Peer, A::End, Option<A::End>) {
    let mut end = arena.connect();
    let mut peer = Peer { cntlid: Cntlid::DYNAMIC, transfer: 0 };
    let mut admin = None;
    if protocol == Protocol::NvmeTcp && matches!(state, PeerState::Ready | PeerState::Asked) {
        let end = admin.insert(arena.connect());
        peer.cntlid = wire::admin(&mut arena.talk(end), &who());
    }
    let mut line = arena.talk(&mut end);
    match (protocol, state) {
        (_, PeerState::Fresh) => {}
        (Protocol::NvmeTcp, PeerState::Greeted) => wire::greet(&mut line),
        (Protocol::NvmeTcp, PeerState::Admin) => peer.cntlid = wire::admin(&mut line, &who()),
        (Protocol::NvmeTcp, PeerState::Ready | PeerState::Asked) => {
            wire::io_queue(&mut line, &who(), peer.cntlid, 1, ENTRIES)
        }
        (Protocol::NvmeTcp, PeerState::Digested) => nvme_tcp::begin_digested(&mut line),
        (Protocol::Iscsi, PeerState::Digested) => peer.transfer = iscsi_digests::begin(&mut line),
        (Protocol::Iscsi, _) => iscsi::log_in(&mut line),
        (Protocol::Nbd, state) => nbd::begin(&mut line, state),
    }
    if state == PeerState::Asked && protocol == Protocol::Iscsi {
        line.put(&iscsi::write(1));
        let (r2t, _) = line.hear(|bytes| bytes.len() >= BHS_BYTES);
        peer.transfer = R2t::decode(r2t.first_chunk().unwrap()).transfer.0;
    } else if state == PeerState::Asked {
        line.put(&nvme_tcp::asks(1));
        assert!(line.pdu().is_some());
    }
    drop(line);
    (peer, end, admin)
}

impl Fault {
    /// The answer of the target, in the words that `words` finds.
    fn answer<A: Arena>(
        &self,
        protocol: Protocol,
        arena: &mut A,
        words: fn(Vec<u8>) -> String,
    ) -> String {
        let (peer, mut end, admin) = begin(protocol, self.state, arena);
        let mut line = arena.talk(&mut end);
        line.put(&(self.bytes)(&peer));
        let (bytes, is_over) = if A::IS_PATIENT {
            line.hear(|_| false)
        } else {
            line.hear(|bytes| self.answer == "nothing" || words(bytes.to_vec()) == self.answer)
        };
        drop((line, admin));
        match (words(bytes), is_over) {
            (answer, false) if answer.is_empty() => "nothing".to_owned(),
            (answer, true) if answer.is_empty() => "closed".to_owned(),
            (answer, false) => answer,
            (answer, true) => format!("{answer}; closed"),
        }
    }
}

/// One kind of peer: the name of its table in the page, and the rows.
pub struct Table {
    name: &'static str,
    protocol: Protocol,
    parts: &'static [&'static [Fault]],
    words: fn(Vec<u8>) -> String,
}

pub const NVME_TCP: Table = Table {
    name: "nvme-tcp",
    protocol: Protocol::NvmeTcp,
    parts: &[nvme_tcp::TABLE, nvme_tcp_data::TABLE],
    words: nvme_tcp::words,
};
pub const FABRICS: Table = Table {
    name: "fabrics",
    protocol: Protocol::NvmeTcp,
    parts: &[fabrics::TABLE],
    words: nvme_tcp::words,
};
pub const NVME: Table = Table {
    name: "nvme",
    protocol: Protocol::NvmeTcp,
    parts: &[nvme::TABLE],
    words: nvme_tcp::words,
};
pub const ISCSI: Table = Table {
    name: "iscsi",
    protocol: Protocol::Iscsi,
    parts: &[iscsi_login::TABLE, iscsi_commands::TABLE],
    words: iscsi::words,
};
pub const ISCSI_DIGESTS: Table = Table {
    name: "iscsi-digests",
    protocol: Protocol::Iscsi,
    parts: &[iscsi_digests::TABLE],
    words: iscsi_digests::words,
};
pub const SCSI: Table =
    Table { name: "scsi", protocol: Protocol::Iscsi, parts: &[scsi::TABLE], words: iscsi::words };
pub const NBD: Table = Table {
    name: "nbd",
    protocol: Protocol::Nbd,
    parts: &[nbd::TABLE, nbd_requests::TABLE],
    words: nbd::words,
};

impl Table {
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn rows(&self) -> impl Iterator<Item = &'static Fault> {
        self.parts.iter().copied().flatten()
    }

    /// Sends what each row says to the target that `arena` gives, and compares the answer. The
    /// target serves others afterwards.
    pub fn check<A: Arena>(&self, mut arena: impl FnMut(Protocol) -> A) {
        let mut wrong = Vec::new();
        for fault in self.rows() {
            let mut arena = arena(self.protocol);
            let answer = fault.answer(self.protocol, &mut arena, self.words);
            if answer != fault.answer {
                wrong.push(format!("{}: \"{answer}\" instead of \"{}\"", fault.what, fault.answer));
            }
            let others = arena.serves_others();
            assert!(others.is_ok(), "{}: the target serves nobody else: {others:?}", fault.what);
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Compares the rows with the page.
    pub fn check_page(&self) {
        let rows = self.rows().map(|fault| row(&[fault.what, fault.section, fault.answer]));
        check_page("hostile-peers.md", self.name, &["Fault", "Section", "Answer"], rows);
    }
}

/// The parts of an answer in order, equal ones that follow each other once.
fn join(mut parts: Vec<String>) -> String {
    parts.dedup();
    parts.join("; ")
}
