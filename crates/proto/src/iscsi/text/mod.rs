//! `key=value` text in Login and Text PDUs (RFC 7143 §6), and the operational keys (§13).
//!
//! * [`pairs`] parses the pairs of a text, [`Writer`] writes one; [`Collector`] assembles a text
//!   from several PDUs.
//! * [`Key`] lists the keys and how each is negotiated; [`OfferedParameters`] is what an end
//!   proposes, [`Parameters`] what both agreed on.
//! * [`negotiate`] computes the responder's answer to an offer, [`settle`] evaluates an answer for
//!   the offerer.
//! * [`binary`]: large binary values, [`name`]: iSCSI names.

pub mod binary;
mod key;
pub mod name;
mod negotiation;
mod parameters;

pub use key::{Key, KeyKind};
pub use name::{FormError, Name, NameError};
pub use negotiation::{KeyAnswer, NegotiationError, is_essential, negotiate, settle};
pub use parameters::{OfferedParameters, Parameters};

use crate::limits::TEXT_BYTES_MAX;

/// Bytes of a key's name, at most (§6.1).
pub const KEY_BYTES_MAX: usize = 63;

/// The answer to a key that is not understood (§6.2).
pub const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// The answer to a value that is not acceptable.
pub const REJECT: &str = "Reject";
/// The answer to a key that does not matter here.
pub const IRRELEVANT: &str = "Irrelevant";

/// A text that breaks the rules of its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A pair has no equals sign, or no key before it.
    #[error("a text pair is not of the form key=value")]
    NotAPair,
    /// A key's name is too long, or has characters that no key has.
    #[error("a text key has an invalid name")]
    KeyName,
    /// A value is not UTF-8, or has control characters.
    #[error("the value of a text key is not text")]
    Value,
    /// More than [`TEXT_BYTES_MAX`] bytes.
    #[error("a text is longer than {TEXT_BYTES_MAX} bytes")]
    TooLong,
}

/// A key and its value.
pub type Pair<'a> = (&'a str, &'a str);

/// The pairs of a whole text. Further null bytes between pairs are passed over, and one behind the
/// last pair is not insisted on, as real peers send them.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = Result<Pair<'_>, TextError>> {
    text.split(|&byte| byte == 0).filter(|pair| !pair.is_empty()).map(pair)
}

/// A peer's text with the replacement character for everything that is not text: bytes that are not
/// UTF-8, and control characters. Peers put their system's bytes into names for people
/// (InitiatorAlias, TargetAlias), which must not keep them out.
pub fn readable(text: &[u8]) -> Vec<u8> {
    let hidden = |c: char| c != '\0' && c.is_control();
    String::from_utf8_lossy(text).replace(hidden, "\u{fffd}").into_bytes()
}

fn pair(bytes: &[u8]) -> Result<Pair<'_>, TextError> {
    let text = core::str::from_utf8(bytes).map_err(|_| TextError::Value)?;
    let (key, value) = text.split_once('=').ok_or(TextError::NotAPair)?;
    if key.is_empty() {
        return Err(TextError::NotAPair);
    }
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b".-+@_#".contains(&byte);
    if key.len() > KEY_BYTES_MAX || !key.bytes().all(named) {
        return Err(TextError::KeyName);
    }
    if value.chars().any(char::is_control) {
        return Err(TextError::Value);
    }
    Ok((key, value))
}

/// Puts a text together that comes in pieces, up to [`TEXT_BYTES_MAX`] bytes.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    bytes: Vec<u8>,
}

impl Collector {
    /// Appends what came.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TextError> {
        if self.bytes.len() + bytes.len() > TEXT_BYTES_MAX {
            return Err(TextError::TooLong);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The text so far.
    pub fn text(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins again, and keeps no memory.
    pub fn clear(&mut self) {
        self.bytes = Vec::new();
    }
}

/// Makes a text.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Appends a pair. Null bytes, which no text can hold, are left out.
    pub fn put(&mut self, key: &str, value: &str) {
        self.bytes.extend(key.bytes().filter(|&byte| byte != 0));
        self.bytes.push(b'=');
        self.bytes.extend(value.bytes().filter(|&byte| byte != 0));
        self.bytes.push(0);
    }

    /// Appends a pair with a number.
    pub fn number(&mut self, key: Key, value: u32) {
        self.put(key.name(), &value.to_string());
    }

    /// Appends a pair with a truth value.
    pub fn boolean(&mut self, key: Key, value: bool) {
        self.put(key.name(), yes_or_no(value));
    }

    /// Returns whether nothing was put.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        &self.bytes
    }

    /// The text, for keeps.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A truth value as text.
pub const fn yes_or_no(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

/// A truth value.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// A number as a "numerical value": decimal or hexadecimal (§6.1).
pub fn number(text: &str) -> Option<u64> {
    let digits = |text: &str, radix| {
        let plain = !text.is_empty() && text.bytes().all(|byte| char::from(byte).is_digit(radix));
        plain.then(|| u64::from_str_radix(text, radix).ok()).flatten()
    };
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => digits(hexadecimal, 16),
        None => digits(text, 10),
    }
}

#[cfg(test)]
mod tests;
