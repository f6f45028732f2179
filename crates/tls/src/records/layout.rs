//! Layout of a record (RFC 8446 §5.1, §5.2): a header, which is not encrypted, then the content
//! with its type and the padding behind it, encrypted, and the tag.

use crate::control::{Breach, record};
use crate::limits::TLS_RECORD_BYTES;

/// Bytes of a header: the outer type, the version of before, and the length of what follows.
pub(super) const HEADER_BYTES: usize = 5;

/// Bytes of a tag of AES-GCM.
pub(super) const TAG_BYTES: usize = 16;

/// Bytes of a record beside its content, if it is not padded: header, type and tag.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;

/// What follows a header, at most, bytes (RFC 8446 §5.2).
pub(super) const ENCRYPTED_BYTES_MAX: usize = TLS_RECORD_BYTES + 256;

/// A whole record, at most, bytes.
pub(super) const RECORD_BYTES_MAX: usize = HEADER_BYTES + ENCRYPTED_BYTES_MAX;

/// A header.
pub(super) type Header = [u8; HEADER_BYTES];

/// The header in front of so many encrypted bytes.
pub(super) const fn header(encrypted: usize) -> Header {
    let [high, low] = (encrypted as u16).to_be_bytes();
    [record::APPLICATION_DATA, 3, 3, high, low]
}

/// The bytes that follow a header. The version says nothing: receivers ignore it.
///
/// # Errors
/// No record after the handshake begins so.
pub(super) fn encrypted_bytes(header: Header) -> Result<usize, Breach> {
    let [kind, _, _, high, low] = header;
    let len = usize::from(u16::from_be_bytes([high, low]));
    if kind != record::APPLICATION_DATA {
        return Err(Breach::record());
    }
    if len > ENCRYPTED_BYTES_MAX { Err(Breach::long()) } else { Ok(len) }
}

/// The type and the length of the content of a decrypted record: the type is its last byte that is
/// not zero.
///
/// # Errors
/// It has no type, or is longer than it may be with its padding.
pub(super) fn content(decrypted: &[u8]) -> Result<(u8, usize), Breach> {
    if decrypted.len() > TLS_RECORD_BYTES + 1 {
        return Err(Breach::long());
    }
    let end = decrypted.iter().rposition(|byte| *byte != 0).ok_or_else(Breach::record)?;
    Ok((decrypted[end], end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::alert;

    #[test]
    fn a_header_says_what_follows_whatever_its_version() {
        assert_eq!(header(0x1234), [23, 3, 3, 0x12, 0x34]);
        let bytes = |header| encrypted_bytes(header).map_err(|breach| breach.alert);
        for version in [[3, 3], [3, 1], [0, 0xff]] {
            assert_eq!(bytes([23, version[0], version[1], 0x41, 0]), Ok(ENCRYPTED_BYTES_MAX));
        }
        assert_eq!(bytes([23, 3, 3, 0x41, 1]), Err(Some(alert::RECORD_OVERFLOW)));
        for kind in [0, 20, 21, 22, 24] {
            assert_eq!(bytes([kind, 3, 3, 0, 1]), Err(Some(alert::UNEXPECTED_MESSAGE)));
        }
    }

    #[test]
    fn the_type_stands_in_front_of_the_padding() {
        let of = |bytes: &[u8]| content(bytes).map_err(|breach| breach.alert);
        assert_eq!(of(b"data\x17"), Ok((23, 4)));
        assert_eq!(of(b"data\0\0\x17\0\0\0"), Ok((23, 6)));
        assert_eq!(of(b"\x15"), Ok((21, 0)));
        assert_eq!(of(&[0; 9]), Err(Some(alert::UNEXPECTED_MESSAGE)));
        assert_eq!(of(&[]), Err(Some(alert::UNEXPECTED_MESSAGE)));
        assert_eq!(of(&[9; TLS_RECORD_BYTES + 1]), Ok((9, TLS_RECORD_BYTES)));
        assert_eq!(of(&[9; TLS_RECORD_BYTES + 2]), Err(Some(alert::RECORD_OVERFLOW)));
    }
}
