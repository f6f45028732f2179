//! Packets of a TCP connection (RFC 9293 §3.1) over IPv4 (RFC 791 §3.1) or IPv6 (RFC 8200 §3).

use std::net::{IpAddr, SocketAddr};

/// Bytes of data in one packet, at most: with all headers it fits IPv4's total length.
pub const SEGMENT_BYTES_MAX: usize = 32 * 1024;

const TCP: u8 = 6;
const TCP_BYTES: usize = 20;
const HOPS: u8 = 64;
const WINDOW: u16 = u16::MAX;

/// Flags of TCP.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// The first packet of a direction.
    pub const SYN: u8 = 0x02;
    /// The receiver passes the data on at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
}

/// Contents of a TCP header.
#[derive(Clone, Copy, Debug)]
pub struct TcpSegment {
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// See [`flag`].
    pub flags: u8,
}

impl TcpSegment {
    /// Appends the packet with at most [`SEGMENT_BYTES_MAX`] of data.
    pub fn encode(&self, data: &[u8], out: &mut Vec<u8>) {
        let (from, to) = (self.from.ip(), self.to.ip());
        let length = (TCP_BYTES + data.len()) as u16;
        let mut sum = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                put_v4(from.octets(), to.octets(), length, out);
                Sum::default().add(&from.octets()).add(&to.octets())
            }
            _ => {
                let [from, to] = [from, to].map(|ip| match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                });
                put_v6(from, to, length, out);
                Sum::default().add(&from).add(&to)
            }
        };
        sum = sum.add(&[0, TCP]).add(&length.to_be_bytes());
        let start = out.len();
        out.extend_from_slice(&self.from.port().to_be_bytes());
        out.extend_from_slice(&self.to.port().to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.acknowledgement.to_be_bytes());
        out.extend_from_slice(&[(TCP_BYTES as u8 / 4) << 4, self.flags]);
        out.extend_from_slice(&WINDOW.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(data);
        let sum = sum.add(&out[start..]).finish();
        out[start + 16..][..2].copy_from_slice(&sum);
    }
}

fn put_v4(from: [u8; 4], to: [u8; 4], length: u16, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0x45, 0]);
    out.extend_from_slice(&(20 + length).to_be_bytes());
    // No identification; not to be divided.
    out.extend_from_slice(&[0, 0, 0x40, 0, HOPS, TCP, 0, 0]);
    out.extend_from_slice(&from);
    out.extend_from_slice(&to);
    let sum = Sum::default().add(&out[start..]).finish();
    out[start + 10..][..2].copy_from_slice(&sum);
}

fn put_v6(from: [u8; 16], to: [u8; 16], length: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x60, 0, 0, 0]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[TCP, HOPS]);
    out.extend_from_slice(&from);
    out.extend_from_slice(&to);
}

/// The checksum of the Internet (RFC 1071), over pieces that begin at even offsets.
#[derive(Clone, Copy, Default)]
struct Sum(u64);

impl Sum {
    fn add(self, bytes: &[u8]) -> Self {
        let (pairs, last) = bytes.as_chunks::<2>();
        let last = last.first().map_or(0, |byte| u64::from(*byte) << 8);
        let words = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair)));
        Self(self.0 + words.sum::<u64>() + last)
    }

    fn finish(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_right_checksums() {
        for (from, to, ip) in [
            ("192.0.2.1:4420", "192.0.2.9:50000", 20),
            ("[2001:db8::1]:4420", "[2001:db8::2]:50000", 40),
        ] {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let segment =
                TcpSegment { from, to, sequence: 7, acknowledgement: 9, flags: flag::ACK };
            let mut packet = Vec::new();
            segment.encode(b"abc", &mut packet);
            assert_eq!(packet.len(), ip + TCP_BYTES + 3);
            let addresses = if ip == 20 { &packet[12..20] } else { &packet[8..40] };
            let length = (TCP_BYTES + 3) as u16;
            let sum = Sum::default().add(addresses).add(&[0, TCP]).add(&length.to_be_bytes());
            assert_eq!(sum.add(&packet[ip..]).finish(), [0, 0], "{from}");
            if ip == 20 {
                assert_eq!(Sum::default().add(&packet[..20]).finish(), [0, 0]);
            }
        }
    }
}
