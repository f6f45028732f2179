//! In-band authentication: DH-HMAC-CHAP (Base 2.0 §8.13; 2.1 §8.3.4, §8.3.5), for both ends,
//! without a transport.
//!
//! A host that is asked for it (AUTHREQ in the response to Connect), or that wants to know with
//! whom it speaks, exchanges messages by the commands Authentication Send and Authentication
//! Receive, on each queue: [`HostAuthentication`] and [`ControllerAuthentication`] say what to send
//! and judge what arrives. Both prove that they know a [`DhchapSecret`] and never send it. With a
//! Diffie-Hellman group what was recorded cannot be tried against a guessed secret.
//!
//! Comparisons take the same time for right and wrong; secrets, and what is derived from them, are
//! wiped when they are dropped, and have no `Debug`.

mod algorithm;
mod controller;
mod digest;
mod group;
mod host;
mod message;
mod psk;
mod secret;

pub use algorithm::{Group, Hash};
pub use controller::{AuthenticationVerdict, ControllerAuthentication, ControllerKeys};
pub use digest::Digest;
pub use group::{Arithmetic, Computed};
pub use host::{HostAuthentication, HostKeys, HostStep};
pub use message::{FailureReason, MESSAGE_BYTES_MAX};
pub use psk::{
    Derivation, GeneratedPsk, IdentityVersion, InterchangeKey, KeyError, KeyFileError,
    KeyFileProblem, Named, PskIdentity, PskKeys, psk_digest,
};
pub use secret::{DhchapSecret, SecretError};

/// SECP of Authentication Send and Receive: NVMe in-band authentication (Base §6.1, §6.2).
pub const SECURITY_PROTOCOL: u8 = 0xe9;

/// SPSP0 and SPSP1 that come with it.
pub const PROTOCOL_SPECIFIC: u8 = 1;

/// Source of random numbers. They must not be predictable.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Secure channel concatenation (SC_C): whether a pre-shared key for TLS comes out of an
/// authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concatenation {
    /// No: the connection goes on as it is.
    #[default]
    None,
    /// A new one, over a connection without TLS.
    New,
    /// One that replaces the key of this connection's TLS.
    Replace,
}

/// Secure channel concatenation of a subsystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecureChannel {
    /// No keys are made.
    #[default]
    None,
    /// A host may ask for one.
    Allowed,
    /// A host on a connection without TLS has to ask for one (ASCR).
    Required,
}

impl Concatenation {
    const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::New => 2,
            Self::Replace => 3,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            2 => Some(Self::New),
            3 => Some(Self::Replace),
            _ => None,
        }
    }
}
