//! One connection as the writer knows it: bytes become packets.

use super::record::{Bytes, Opened};
use crate::limits::CAPTURE_WAITING_BYTES;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weft_proto::capture::packet::{SEGMENT_BYTES_MAX, TcpSegment, flag};
use weft_proto::capture::pcapng::{self, Way};
use weft_proto::capture::{CaptureBytes, End, Redactor};

/// A connection.
pub(super) struct Flow {
    redactor: Redactor,
    /// Its addresses, of the host and of the target.
    ends: [SocketAddr; 2],
    /// The end at which it is captured.
    local: End,
    /// Bytes that each end has sent, as far as they are shown or left out.
    shown: [u64; 2],
    /// Bytes of each end that belong to a message of which the beginning is missing.
    skip: [usize; 2],
    /// Whether it is that of the host that is asked about.
    pub(super) wanted: Wanted,
}

/// Whether a connection is to be in the file.
pub(super) enum Wanted {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// The name of its host is not known yet; its packets, and their number.
    Unknown(Vec<u8>, u64),
}

/// Packets that are ready to be written.
#[derive(Default)]
pub(super) struct Packets {
    pub(super) blocks: Vec<u8>,
    pub(super) count: u64,
}

impl Flow {
    /// A connection that was opened, and the packets with which that is said.
    pub(super) fn new(opened: &Opened, asked: Option<&str>, at: Duration) -> (Self, Packets) {
        let Opened { role, ends, host } = opened;
        let wanted = match (asked, host) {
            (None, _) => Wanted::Yes,
            (Some(asked), _) if is_at(ends[End::Host.index()], asked) => Wanted::Yes,
            (Some(asked), Some(host)) if host == asked => Wanted::Yes,
            (Some(_), Some(_)) => Wanted::No,
            (Some(_), None) => Wanted::Unknown(Vec::new(), 0),
        };
        let mut flow = Self {
            redactor: Redactor::new(role.protocol, host.is_some()),
            ends: *ends,
            local: role.end,
            shown: [0; 2],
            skip: [0; 2],
            wanted,
        };
        let mut packets = Packets::default();
        if host.is_none() {
            flow.greet(at, &mut packets);
        }
        let packets = flow.sift(packets, asked);
        (flow, packets)
    }

    /// Takes bytes; gives the packets with what may be shown of them, and the number of bytes that
    /// is withheld.
    pub(super) fn take(
        &mut self,
        bytes: Bytes,
        asked: Option<&str>,
        at: Duration,
    ) -> (Packets, u64) {
        let end = bytes.from.index();
        if matches!(self.wanted, Wanted::No) {
            return (Packets::default(), 0);
        }
        if let Some(skip) = bytes.skip {
            self.redactor.lose(bytes.from);
            self.skip[end] = skip;
            self.shown[end] = bytes.position;
        }
        let skipped = self.skip[end].min(bytes.bytes.len());
        self.skip[end] -= skipped;
        self.shown[end] += skipped as u64;
        let mut out = CaptureBytes::default();
        self.redactor.pass(bytes.from, &bytes.bytes[skipped..], &mut out);
        let mut packets = Packets::default();
        for piece in out.bytes.chunks(SEGMENT_BYTES_MAX) {
            self.packet(bytes.from, flag::PSH | flag::ACK, piece, at, &mut packets);
            self.shown[end] += piece.len() as u64;
        }
        self.shown[end] += out.withheld;
        (self.sift(packets, asked), out.withheld)
    }

    /// The connection is over.
    pub(super) fn close(&mut self, asked: Option<&str>, at: Duration) -> Packets {
        let mut packets = Packets::default();
        for end in [self.local, self.local.other()] {
            self.packet(end, flag::FIN | flag::ACK, &[], at, &mut packets);
        }
        self.sift(packets, asked)
    }

    /// The packets that belong into the file now.
    fn sift(&mut self, packets: Packets, asked: Option<&str>) -> Packets {
        let Wanted::Unknown(waiting, count) = &mut self.wanted else {
            return if matches!(self.wanted, Wanted::Yes) { packets } else { Packets::default() };
        };
        waiting.extend_from_slice(&packets.blocks);
        *count += packets.count;
        let (blocks, count) = match self.redactor.host() {
            Some(host) if Some(host) == asked => (core::mem::take(waiting), *count),
            None if waiting.len() <= CAPTURE_WAITING_BYTES => return Packets::default(),
            _ => {
                self.wanted = Wanted::No;
                return Packets::default();
            }
        };
        self.wanted = Wanted::Yes;
        Packets { blocks, count }
    }

    /// The handshake of TCP.
    fn greet(&self, at: Duration, packets: &mut Packets) {
        for (from, flags, sequence, acknowledgement) in [
            (End::Host, flag::SYN, 0, 0),
            (End::Target, flag::SYN | flag::ACK, 0, 1),
            (End::Host, flag::ACK, 1, 1),
        ] {
            let segment = self.segment(from, flags, sequence, acknowledgement);
            self.put(&segment, &[], at, packets);
        }
    }

    fn packet(&self, from: End, flags: u8, data: &[u8], at: Duration, packets: &mut Packets) {
        // Sequence numbers wrap.
        let number = |end: End| (self.shown[end.index()] as u32).wrapping_add(1);
        let segment = self.segment(from, flags, number(from), number(from.other()));
        self.put(&segment, data, at, packets);
    }

    fn segment(&self, from: End, flags: u8, sequence: u32, acknowledgement: u32) -> TcpSegment {
        let [from, to] = [from, from.other()].map(|end| self.ends[end.index()]);
        TcpSegment { from, to, sequence, acknowledgement, flags }
    }

    fn put(&self, segment: &TcpSegment, data: &[u8], at: Duration, packets: &mut Packets) {
        let is_own = segment.from == self.ends[self.local.index()];
        let way = if is_own { Way::Out } else { Way::In };
        pcapng::packet(at, way, &mut packets.blocks, |out| segment.encode(data, out));
        packets.count += 1;
    }
}

/// Whether an address is the one that is asked about, with or without its port.
fn is_at(address: SocketAddr, asked: &str) -> bool {
    // An address of IPv4 is the same one in the form that IPv6 has for it.
    let ip = address.ip().to_canonical();
    let is_ip = |text: &str| text.parse().is_ok_and(|asked: IpAddr| asked.to_canonical() == ip);
    let in_brackets = asked.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_both =
        |asked: SocketAddr| asked.ip().to_canonical() == ip && asked.port() == address.port();
    is_ip(in_brackets.unwrap_or(asked)) || asked.parse().is_ok_and(is_both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_in_each_of_its_forms() {
        let is = |address: &str, asked: &str| is_at(address.parse().unwrap(), asked);
        for asked in ["127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1:5", "[::ffff:127.0.0.1]:5"] {
            assert!(is("127.0.0.1:5", asked) && is("[::ffff:127.0.0.1]:5", asked), "{asked}");
        }
        assert!(is("[::1]:5", "[::1]") && is("[::1]:5", "::1"));
        assert!(!is("127.0.0.1:5", "127.0.0.1:6") && !is("127.0.0.1:5", "::1"));
        assert!(!is("127.0.0.1:5", "nqn.2026-01.example.host:one"));
    }
}
