//! Captures of traffic: the bytes of connections without secrets, and the file that network
//! analysers read.
//!
//! * [`Redactor`]: lets the bytes of one connection pass, and blanks secrets in them.
//! * [`packet`]: the headers of TCP and IP that such bytes never had, or had below.
//! * [`pcapng`]: the blocks of a file.
//!
//! No engine is needed for that, so that a capture also shows what no engine understands. Secrets
//! are the responses of CHAP and DH-HMAC-CHAP: whoever has one can try passwords against it. What
//! may contain one, and cannot be read with certainty, is blanked or withheld as a whole.

mod dhchap;
mod iscsi;
mod nvme_tcp;
pub mod packet;
pub mod pcapng;
mod piece;

use iscsi::IscsiRedactor;
use nvme_tcp::NvmeTcpRedactor;
pub use piece::{CaptureBytes, End};

/// The protocol on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// NVMe/TCP.
    NvmeTcp,
    /// iSCSI.
    Iscsi,
    /// NBD.
    Nbd,
}

impl Protocol {
    /// The TCP port that it has been assigned.
    pub const fn port(self) -> u16 {
        match self {
            Self::NvmeTcp => 4420,
            Self::Iscsi => 3260,
            Self::Nbd => 10809,
        }
    }
}

/// Role of an engine, for captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its protocol.
    pub protocol: Protocol,
    /// The end at which it is.
    pub end: End,
}

/// Blanks secrets in the bytes of one connection. Every byte passes, is blanked, or is withheld
/// together with all that follows; none is added.
#[derive(Debug)]
pub struct Redactor(Of);

#[derive(Debug)]
enum Of {
    NvmeTcp(Box<NvmeTcpRedactor>),
    Iscsi(Box<IscsiRedactor>),
    /// It has no secrets.
    Nbd,
}

impl Redactor {
    /// For a connection from its first byte on, or (`is_known`) one whose host has been admitted.
    pub fn new(protocol: Protocol, is_known: bool) -> Self {
        Self(match protocol {
            Protocol::NvmeTcp => Of::NvmeTcp(Box::default()),
            Protocol::Iscsi => Of::Iscsi(Box::new(IscsiRedactor::new(is_known))),
            Protocol::Nbd => Of::Nbd,
        })
    }

    /// Takes bytes that `from` has sent, which follow the last ones. The output may lag behind
    /// them: it ends with a whole message, or in the middle of data.
    pub fn pass(&mut self, from: End, bytes: &[u8], out: &mut CaptureBytes) {
        match &mut self.0 {
            Of::NvmeTcp(redactor) => redactor.pass(from, bytes, out),
            Of::Iscsi(redactor) => redactor.pass(from, bytes, out),
            Of::Nbd => out.pass(bytes),
        }
    }

    /// Some bytes of `from` are missing; the next ones begin a message.
    pub fn lose(&mut self, from: End) {
        match &mut self.0 {
            Of::NvmeTcp(redactor) => redactor.lose(from),
            Of::Iscsi(redactor) => redactor.lose(),
            Of::Nbd => {}
        }
    }

    /// The name that the host has given, once it has.
    pub fn host(&self) -> Option<&str> {
        match &self.0 {
            Of::NvmeTcp(redactor) => redactor.host(),
            Of::Iscsi(redactor) => redactor.host(),
            Of::Nbd => None,
        }
    }
}
