//! Tuning of the ceiling's connections.

use super::gather::COPY_BYTES_MAX;
use core::fmt;
use core::str::FromStr;
use mio::net::TcpStream;
use socket2::SockRef;
use weft_block::units;

/// Largest socket buffers that a client may ask its server for, bytes.
pub(super) const SOCKET_BYTES_MAX: u32 = 4 << 20;

/// See [`CeilingTuning::flags`].
pub(super) const PREFETCH: u64 = 1;
/// See [`CeilingTuning::flags`].
pub(super) const BLOCK: u64 = 2;

/// Payload from which on it is large, bytes.
const LARGE_BYTES: u32 = 32 << 10;

/// Use of a connection, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeilingTuning {
    /// Socket buffers in each direction, bytes; 0 leaves them to the system.
    pub socket_bytes: u32,
    /// Send payloads of up to 4 KiB from where they lie instead of copying them behind their
    /// headers; larger ones always are.
    pub gather: bool,
    /// The server has the processor fetch all that was asked for before it answers the first.
    pub prefetch: bool,
    /// Both ends sleep in the system until something arrives, instead of polling: for one
    /// connection and one operation at a time.
    pub block: bool,
}

impl Default for CeilingTuning {
    fn default() -> Self {
        Self { socket_bytes: 1 << 20, gather: false, prefetch: false, block: false }
    }
}

impl CeilingTuning {
    /// The tunings to try. None is the best for all sizes and depths: small buffers keep data in
    /// flight in the caches, large ones let the ends run more independently; a copy is cheaper than
    /// a piece of a gather while it stays in the cache, and cache misses overlap if they are
    /// announced by prefetching.
    pub const ALL: [Self; 11] = [
        Self { socket_bytes: 1 << 20, gather: false, prefetch: false, block: false },
        Self { socket_bytes: 512 << 10, gather: false, prefetch: false, block: false },
        Self { socket_bytes: 256 << 10, gather: false, prefetch: false, block: false },
        Self { socket_bytes: 0, gather: false, prefetch: false, block: false },
        Self { socket_bytes: 1 << 20, gather: false, prefetch: true, block: false },
        Self { socket_bytes: 256 << 10, gather: false, prefetch: true, block: false },
        Self { socket_bytes: 1 << 20, gather: true, prefetch: false, block: false },
        Self { socket_bytes: 256 << 10, gather: true, prefetch: false, block: false },
        Self { socket_bytes: 512 << 10, gather: true, prefetch: true, block: false },
        Self { socket_bytes: 0, gather: true, prefetch: false, block: false },
        Self { socket_bytes: 0, gather: false, prefetch: false, block: true },
    ];

    /// Those of [`CeilingTuning::ALL`] that poll.
    const POLLING: usize = Self::ALL.len() - 1;

    /// Returns the usually good tuning, for users without time to try: large payloads that all go
    /// one way are a fifth faster with small buffers, large payloads both ways are a sixth slower
    /// with them.
    pub fn typical(bytes: u32, rwmixread: u8) -> Self {
        let one_way = rwmixread == 0 || rwmixread >= 100;
        let socket_bytes = if one_way && bytes >= LARGE_BYTES { 256 << 10 } else { 1 << 20 };
        Self { socket_bytes, ..Self::default() }
    }

    /// Returns the tunings worth trying for payloads of `bytes` by ends with a core each: beyond 4
    /// KiB nothing is copied in any case.
    pub fn worth_trying(bytes: u32) -> &'static [Self] {
        if bytes as usize > COPY_BYTES_MAX { &Self::ALL[..4] } else { &Self::ALL[..Self::POLLING] }
    }

    /// What the server has to know beside the sizes.
    pub(super) fn flags(self) -> u64 {
        u64::from(self.prefetch) * PREFETCH + u64::from(self.block) * BLOCK
    }

    /// Up to how many bytes payloads are copied.
    pub(super) fn copy_bytes_max(self) -> usize {
        if self.gather { 0 } else { COPY_BYTES_MAX }
    }

    /// Tunes a socket; one that refuses an option is still correct.
    pub(super) fn apply(self, stream: &TcpStream) {
        Self::for_any(stream);
        let socket = SockRef::from(stream);
        let _ = socket.set_nonblocking(!self.block);
        if self.socket_bytes > 0 {
            let _ = socket.set_send_buffer_size(self.socket_bytes as usize);
            let _ = socket.set_recv_buffer_size(self.socket_bytes as usize);
        }
    }

    /// What is right for every connection within a host.
    pub(super) fn for_any(stream: &TcpStream) {
        let socket = SockRef::from(stream);
        let _ = socket.set_tcp_nodelay(true);
        // The system's default may be to send at a pace.
        #[cfg(target_os = "linux")]
        if stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
            let _ = socket.set_tcp_congestion(b"reno");
        }
    }
}

impl fmt::Display for CeilingTuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket_bytes {
            0 => f.write_str("default")?,
            bytes => f.write_str(&units::format_size(bytes.into()).replace(' ', ""))?,
        }
        f.write_str(if self.gather { "+gather" } else { "+copy" })?;
        f.write_str(if self.prefetch { "+prefetch" } else { "" })?;
        f.write_str(if self.block { "+block" } else { "" })
    }
}

/// As [`CeilingTuning`] prints itself: `1MiB+copy`, `default+gather`.
impl FromStr for CeilingTuning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = || Self::ALL.map(|tuning| tuning.to_string()).join(", ");
        Self::ALL
            .into_iter()
            .find(|tuning| tuning.to_string() == text)
            .ok_or_else(|| format!("use one of {}", all()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for tuning in CeilingTuning::ALL {
            assert_eq!(tuning.to_string().parse(), Ok(tuning));
        }
        assert!("2MiB+copy".parse::<CeilingTuning>().is_err());
        assert_eq!(CeilingTuning::default().to_string(), "1MiB+copy");
    }

    #[test]
    fn large_payloads_are_never_copied() {
        assert!(CeilingTuning::worth_trying(4096).iter().all(|tuning| !tuning.block));
        assert!(
            CeilingTuning::worth_trying(65_536)
                .iter()
                .all(|tuning| !tuning.gather && !tuning.prefetch)
        );
    }
}
