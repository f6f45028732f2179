//! Secrets in NVMe/TCP (NVMe TCP Transport 1.1 §3.6): the data of Authentication Send and
//! Authentication Receive.
//!
//! Data that is not in a command's capsule is shown only if its command was seen, and is not
//! authentication: a capture that begins late, or has a gap, blanks the data of commands that it
//! has not seen.

use super::dhchap;
use super::piece::{CaptureBytes, End, name};
use crate::crc32c::crc32c;
use std::collections::BTreeSet;

/// Bytes of a PDU that is read whole.
const COLLECTED_BYTES_MAX: usize = 16 * 1024;
/// Authentication commands whose data is awaited; a host has one at a time.
const AUTHENTICATING_MAX: usize = 64;
const COMMON_BYTES: usize = 8;
const COMMAND_BYTES: usize = 72;
/// Header of data, and of a response.
const DATA_BYTES: usize = 24;
const DIGEST_BYTES: usize = 4;
/// Header of a TermReq.
const TERM_REQ_BYTES: usize = 24;

mod flag {
    pub(super) const DATA_DIGEST: u8 = 2;
    pub(super) const LAST: u8 = 4;
    /// The command has ended with its data: no response follows.
    pub(super) const SUCCESS: u8 = 8;
}

const FABRICS: u8 = 0x7f;
const CONNECT: u8 = 0x01;
const AUTHENTICATION_SEND: u8 = 0x05;
const AUTHENTICATION_RECEIVE: u8 = 0x06;
/// Place of the host's name in the data of Connect.
const HOST_NQN: core::ops::Range<usize> = 512..768;

/// The state of a connection.
#[derive(Debug)]
pub(super) struct NvmeTcpRedactor {
    ends: [Direction; 2],
    commands: Commands,
}

/// Known commands.
#[derive(Debug)]
struct Commands {
    /// By command identifier: the last command is not authentication.
    is_plain: Box<[u64; 1024]>,
    /// Command identifiers of authentications.
    authenticating: BTreeSet<u16>,
    host: Option<String>,
    /// The command identifier of the last Connect, if it was the last command.
    connecting: Option<u16>,
}

#[derive(Debug, Default)]
struct Direction {
    /// The beginning of a PDU, or all of one that is read whole.
    held: Vec<u8>,
    now: Now,
}

/// Treatment of the next bytes.
#[derive(Clone, Copy, Debug, Default)]
enum Now {
    /// A header begins.
    #[default]
    Header,
    /// This many are shown.
    Show(usize),
    /// This many are blanked.
    Blank(usize),
    /// This many are missing of a PDU that is read whole.
    Collect(usize, Content),
    /// The beginning of PDUs is lost.
    Lost,
}

/// Contents of a PDU that is read whole.
#[derive(Clone, Copy, Debug)]
enum Content {
    Connect,
    /// The repetition in a TermReq.
    Repeated,
    /// A whole message of an authentication.
    Authentication,
}

impl Default for NvmeTcpRedactor {
    fn default() -> Self {
        let commands = Commands {
            is_plain: Box::new([0; 1024]),
            authenticating: BTreeSet::new(),
            host: None,
            connecting: None,
        };
        Self { ends: Default::default(), commands }
    }
}

impl NvmeTcpRedactor {
    pub(super) fn pass(&mut self, from: End, bytes: &[u8], out: &mut CaptureBytes) {
        self.ends[from.index()].pass(&mut self.commands, bytes, out);
    }

    pub(super) fn lose(&mut self, from: End) {
        self.ends[from.index()] = Direction::default();
        if from == End::Host {
            self.commands.is_plain.fill(0);
            self.commands.authenticating.clear();
        }
    }

    pub(super) fn host(&self) -> Option<&str> {
        self.commands.host.as_deref()
    }
}

impl Commands {
    /// Notes a command; returns the kind of its data.
    fn note(&mut self, sqe: &[u8]) -> Option<Content> {
        let (opcode, id, fabrics) = (sqe[0], u16::from_le_bytes([sqe[2], sqe[3]]), sqe[4]);
        let authenticates =
            opcode == FABRICS && matches!(fabrics, AUTHENTICATION_SEND | AUTHENTICATION_RECEIVE);
        let (word, bit) = (usize::from(id / 64), 1 << (id % 64));
        if authenticates {
            self.is_plain[word] &= !bit;
            if self.authenticating.len() < AUTHENTICATING_MAX {
                self.authenticating.insert(id);
            }
            return Some(Content::Authentication);
        }
        // One that takes the identifier of an authentication is no reason to show its data.
        if !self.authenticating.contains(&id) {
            self.is_plain[word] |= bit;
        }
        let connects = opcode == FABRICS && fabrics == CONNECT;
        self.connecting = connects.then_some(id);
        connects.then_some(Content::Connect)
    }

    /// Notes a response.
    fn end(&mut self, id: u16) {
        self.authenticating.remove(&id);
    }

    fn is_plain(&self, id: u16) -> bool {
        self.is_plain[usize::from(id / 64)] & 1 << (id % 64) != 0
    }
}

impl Direction {
    fn pass(&mut self, commands: &mut Commands, mut bytes: &[u8], out: &mut CaptureBytes) {
        while !bytes.is_empty() {
            let wanted = match self.now {
                Now::Header => self.header_bytes().unwrap_or(COMMON_BYTES) - self.held.len(),
                Now::Show(left) | Now::Blank(left) | Now::Collect(left, _) => left,
                Now::Lost => bytes.len(),
            };
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            bytes = later;
            self.take(commands, now, wanted, out);
        }
    }

    /// Takes some of the bytes that are wanted.
    fn take(
        &mut self,
        commands: &mut Commands,
        bytes: &[u8],
        wanted: usize,
        out: &mut CaptureBytes,
    ) {
        let left = wanted - bytes.len();
        let then = |now: fn(usize) -> Now| if left == 0 { Now::Header } else { now(left) };
        match self.now {
            Now::Show(_) => {
                out.pass(bytes);
                self.now = then(Now::Show);
            }
            Now::Blank(_) => {
                out.blank(bytes.len());
                self.now = then(Now::Blank);
            }
            Now::Lost => out.withhold(bytes.len()),
            Now::Collect(_, content) => {
                self.held.extend_from_slice(bytes);
                self.now = Now::Collect(left, content);
                if left == 0 {
                    let mut pdu = core::mem::take(&mut self.held);
                    show_whole(&mut pdu, content, commands);
                    out.pass(&pdu);
                    self.now = Now::Header;
                }
            }
            Now::Header => {
                self.held.extend_from_slice(bytes);
                if left == 0 {
                    self.begin(commands, out);
                }
            }
        }
    }

    /// Bytes of the header at hand, once its type is known.
    fn header_bytes(&self) -> Option<usize> {
        let header = self.held.first_chunk::<COMMON_BYTES>()?;
        Some(match header[0] {
            4 => COMMAND_BYTES,
            5..=7 => DATA_BYTES,
            _ => COMMON_BYTES,
        })
    }

    /// The wanted bytes have arrived: those of the common header, or all of it.
    fn begin(&mut self, commands: &mut Commands, out: &mut CaptureBytes) {
        let (kind, flags) = (self.held[0], self.held[1]);
        let length = u32::from_le_bytes([self.held[4], self.held[5], self.held[6], self.held[7]]);
        let (length, wanted) = (length as usize, self.header_bytes().unwrap_or(COMMON_BYTES));
        if !matches!(kind, 0..=7 | 9) || length < wanted {
            out.withhold(core::mem::take(&mut self.held).len());
            self.now = Now::Lost;
            return;
        }
        if self.held.len() < wanted {
            return;
        }
        let left = length - wanted;
        let content = match kind {
            4 => commands.note(&self.held[COMMON_BYTES..]).map(Some),
            5 => {
                commands.end(u16::from_le_bytes([self.held[20], self.held[21]]));
                None
            }
            6 | 7 => {
                let id = u16::from_le_bytes([self.held[8], self.held[9]]);
                let is_whole = flags & flag::LAST != 0 && self.held[12..16] == [0; 4];
                let authenticates = is_whole && commands.authenticating.contains(&id);
                if kind == 7 && flags & flag::SUCCESS != 0 {
                    commands.end(id);
                }
                let connects = kind == 6 && is_whole && commands.connecting == Some(id);
                if connects {
                    Some(Some(Content::Connect))
                } else {
                    (!commands.is_plain(id))
                        .then_some(authenticates.then_some(Content::Authentication))
                }
            }
            _ => None,
        };
        self.now = match content {
            _ if left == 0 => Now::Header,
            None if matches!(kind, 2 | 3) && length > TERM_REQ_BYTES + COMMON_BYTES => {
                return self.term_req(left);
            }
            None => Now::Show(left),
            Some(Some(content)) if length <= COLLECTED_BYTES_MAX => {
                self.now = Now::Collect(left, content);
                return;
            }
            Some(Some(Content::Connect)) => Now::Show(left),
            Some(_) => Now::Blank(left),
        };
        out.pass(&self.held);
        self.held.clear();
    }

    /// Has a TermReq that is long read whole: what it repeats may be data.
    fn term_req(&mut self, left: usize) {
        self.now = if left <= COLLECTED_BYTES_MAX {
            Now::Collect(left, Content::Repeated)
        } else {
            Now::Lost
        };
    }
}

/// Blanks what is secret in a PDU, and notes the name of the host.
fn show_whole(pdu: &mut [u8], content: Content, commands: &mut Commands) {
    let start = usize::from(pdu[3]).min(pdu.len());
    match content {
        Content::Repeated => {
            // The header of the PDU with which it finds fault is shown, and nothing behind that.
            let header = match pdu.get(TERM_REQ_BYTES) {
                Some(4) => COMMAND_BYTES,
                Some(5..=7 | 9) => DATA_BYTES,
                _ => COMMON_BYTES,
            };
            pdu.iter_mut().skip(TERM_REQ_BYTES + header).for_each(|byte| *byte = 0);
        }
        Content::Connect => {
            if let Some(nqn) = pdu[start..].get(HOST_NQN) {
                commands.host = name(nqn);
            }
        }
        Content::Authentication => {
            let start = start.max(if pdu[0] == 4 { COMMAND_BYTES } else { DATA_BYTES });
            let digest = has_digest(pdu, start);
            dhchap::blank(&mut pdu[start..]);
            if let Some(at) = digest {
                let digest = crc32c(&pdu[start..at]).to_le_bytes();
                pdu[at..].copy_from_slice(&digest);
            }
        }
    }
}

/// Returns the offset of the digest of the data at `start`, if it is there and correct. A wrong one
/// must stay visible.
fn has_digest(pdu: &[u8], start: usize) -> Option<usize> {
    let at = pdu.len().checked_sub(DIGEST_BYTES).filter(|at| *at >= start)?;
    let is_right =
        pdu[1] & flag::DATA_DIGEST != 0 && crc32c(&pdu[start..at]).to_le_bytes() == pdu[at..];
    is_right.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pdu(kind: u8, flags: u8, header: usize, fields: &[(usize, &[u8])], data: &[u8]) -> Vec<u8> {
        let mut pdu = vec![0; header];
        (pdu[0], pdu[1], pdu[2]) = (kind, flags, header as u8);
        pdu[3] = if data.is_empty() { 0 } else { header as u8 };
        for (at, bytes) in fields {
            pdu[*at..][..bytes.len()].copy_from_slice(bytes);
        }
        pdu.extend_from_slice(data);
        if flags & flag::DATA_DIGEST != 0 && !data.is_empty() {
            pdu.extend_from_slice(&crc32c(data).to_le_bytes());
        }
        let length = pdu.len() as u32;
        pdu[4..8].copy_from_slice(&length.to_le_bytes());
        pdu
    }

    fn command(opcode: u8, id: u8, fabrics: u8, flags: u8, data: &[u8]) -> Vec<u8> {
        pdu(4, flags, COMMAND_BYTES, &[(8, &[opcode, 0, id, 0, fabrics])], data)
    }

    fn to_host(id: u8, flags: u8, data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u32).to_le_bytes();
        pdu(7, flags, DATA_BYTES, &[(8, &[id, 0]), (16, &length)], data)
    }

    fn reply(id: u8) -> Vec<u8> {
        let mut message = vec![0xaa; 96];
        message[..7].copy_from_slice(&[1, id, 0, 0, 1, 0, 32]);
        message
    }

    fn passed(
        redactor: &mut NvmeTcpRedactor,
        from: End,
        bytes: &[u8],
        piece: usize,
    ) -> CaptureBytes {
        let mut out = CaptureBytes::default();
        bytes.chunks(piece).for_each(|piece| redactor.pass(from, piece, &mut out));
        out
    }

    fn has(bytes: &[u8], byte: u8) -> usize {
        bytes.iter().filter(|b| **b == byte).count()
    }

    #[test]
    fn responses_are_blanked_and_digests_renewed() {
        for piece in [1, 7, 80, 4096] {
            for flags in [0, flag::DATA_DIGEST] {
                let mut redactor = NvmeTcpRedactor::default();
                let send = command(FABRICS, 7, AUTHENTICATION_SEND, flags, &reply(2));
                let out = passed(&mut redactor, End::Host, &send, piece);
                assert_eq!(out.bytes.len(), send.len());
                assert_eq!(has(&out.bytes[COMMAND_BYTES..][..96], 0xaa), 96 - 7 - 32);
                if flags != 0 {
                    let digest = crc32c(&out.bytes[COMMAND_BYTES..][..96]).to_le_bytes();
                    assert_eq!(out.bytes[COMMAND_BYTES + 96..], digest);
                }
            }
        }
    }

    #[test]
    fn data_of_an_authentication_or_an_unknown_command_is_not_shown() {
        let mut redactor = NvmeTcpRedactor::default();
        let data = vec![0x55; 4096];
        let unknown = passed(&mut redactor, End::Target, &to_host(3, flag::LAST, &data), 1000);
        assert_eq!(has(&unknown.bytes, 0x55), 0);
        passed(&mut redactor, End::Host, &command(2, 3, 0, 0, &[]), 50);
        let known = passed(&mut redactor, End::Target, &to_host(3, flag::LAST, &data), 1000);
        assert_eq!(has(&known.bytes, 0x55), 4096);
        redactor.lose(End::Host);
        let again = passed(&mut redactor, End::Target, &to_host(3, flag::LAST, &data), 1000);
        assert_eq!(has(&again.bytes, 0x55), 0);

        passed(&mut redactor, End::Host, &command(FABRICS, 9, AUTHENTICATION_RECEIVE, 0, &[]), 50);
        let success = to_host(9, flag::LAST, &reply(3));
        let shown = passed(&mut redactor, End::Target, &success, 10);
        assert_eq!(shown.bytes.len(), success.len());
        assert_eq!(has(&shown.bytes[DATA_BYTES..][16..48], 0xaa), 0);
        assert_eq!(has(&shown.bytes[DATA_BYTES..][48..], 0xaa), 48);
        let part = passed(&mut redactor, End::Target, &to_host(9, 0, &reply(3)), 10);
        assert_eq!(has(&part.bytes[DATA_BYTES..], 0xaa), 0, "a part of a message");
        // A command that ends without a response ends, too.
        let mut ended = NvmeTcpRedactor::default();
        passed(&mut ended, End::Host, &command(FABRICS, 9, AUTHENTICATION_RECEIVE, 0, &[]), 50);
        let whole = to_host(9, flag::LAST | flag::SUCCESS, &reply(3));
        assert_eq!(has(&passed(&mut ended, End::Target, &whole, 10).bytes[40..72], 0xaa), 0);
        passed(&mut ended, End::Host, &command(2, 9, 0, 0, &[]), 50);
        let known = passed(&mut ended, End::Target, &to_host(9, flag::LAST, &data), 1000);
        assert_eq!(has(&known.bytes, 0x55), 4096);
        // Another command with the same identifier changes nothing before the response.
        passed(&mut redactor, End::Host, &command(2, 9, 0, 0, &[]), 50);
        let shown = passed(&mut redactor, End::Target, &success, 10);
        assert_eq!(has(&shown.bytes[DATA_BYTES..][16..48], 0xaa), 0);
    }

    #[test]
    fn the_host_is_known_by_connect_and_garbage_is_withheld() {
        let mut redactor = NvmeTcpRedactor::default();
        let mut data = vec![0; 1024];
        data[512..522].copy_from_slice(b"nqn.2024-a");
        let connect = command(FABRICS, 0, CONNECT, 0, &data);
        assert_eq!(passed(&mut redactor, End::Host, &connect, 100).bytes, connect);
        assert_eq!(redactor.host(), Some("nqn.2024-a"));
        let out = passed(&mut redactor, End::Target, b"HTTP/1.1 400 Bad Request", 5);
        assert_eq!((out.bytes.len(), out.withheld), (0, 24));
        redactor.lose(End::Target);
        let response = pdu(5, 0, DATA_BYTES, &[], &[]);
        assert_eq!(passed(&mut redactor, End::Target, &response, 5).bytes, response);
    }

    #[test]
    fn what_a_term_req_repeats_of_data_is_blanked() {
        // Its header is shown, whose first byte is the type.
        for (kind, shown) in [(4, COMMAND_BYTES - 1), (6, DATA_BYTES - 1), (0x77, COMMON_BYTES)] {
            let mut redactor = NvmeTcpRedactor::default();
            let mut found = [0x77; 128];
            found[0] = kind;
            let repeated = pdu(3, 0, 24, &[], &found);
            let out = passed(&mut redactor, End::Target, &repeated, 30);
            assert_eq!((out.bytes.len(), has(&out.bytes, 0x77)), (152, shown), "{kind}");
        }
    }
}
