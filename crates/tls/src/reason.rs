//! Why TLS failed, for people.

use crate::openssl::SslFailure;

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsRole {
    /// It accepted the connection.
    Server,
    /// It made the connection.
    Client,
}

/// Numbers of reasons in OpenSSL (`sslerr.h`; an alert that was received is 1000 and its number in
/// RFC 8446 §6).
mod code {
    pub(super) const NO_SUITABLE_SIGNATURE_ALGORITHM: u32 = 118;
    pub(super) const NO_SHARED_CIPHER: u32 = 193;
    pub(super) const HTTP_REQUEST: u32 = 156;
    pub(super) const NO_SUITABLE_KEY_SHARE: u32 = 101;
    pub(super) const BINDER_DOES_NOT_VERIFY: u32 = 253;
    pub(super) const UNSUPPORTED_PROTOCOL: u32 = 258;
    pub(super) const WRONG_VERSION_NUMBER: u32 = 267;
    pub(super) const BAD_RECORD_MAC: u32 = 281;
    pub(super) const CERTIFICATE_VERIFY_FAILED: u32 = 134;
    pub(super) const ALERT_HANDSHAKE_FAILURE: u32 = 1040;
    pub(super) const ALERT_BAD_RECORD_MAC: u32 = 1020;
    pub(super) const ALERT_ILLEGAL_PARAMETER: u32 = 1047;
    pub(super) const ALERT_DECRYPT_ERROR: u32 = 1051;
    pub(super) const ALERT_PROTOCOL_VERSION: u32 = 1070;
    pub(super) const ALERT_MISSING_EXTENSION: u32 = 1109;
    pub(super) const ALERT_UNKNOWN_PSK_IDENTITY: u32 = 1115;
}

/// Bytes of a peer's identity that are shown; it may have 65535.
const IDENTITY_BYTES_SHOWN: usize = 512;

/// One sentence without its subject, which is the connection.
pub(crate) fn reason(failure: &SslFailure, role: TlsRole) -> String {
    let text = match failure {
        SslFailure::UnknownIdentity(identity) => {
            return format!(
                "TLS: the peer offers the PSK identity \"{}\", for which there is no key here",
                String::from_utf8_lossy(&identity[..identity.len().min(IDENTITY_BYTES_SHOWN)])
                    .escape_debug()
            );
        }
        SslFailure::NoPsk => "the peer did not take the pre-shared key that was offered",
        SslFailure::Closed => "the peer closed the connection during the handshake",
        SslFailure::Flood => "the peer sends records without data, one after the other",
        SslFailure::KernelKeys => {
            "the keys have to be changed, which this kernel cannot do (Linux 6.14 can): the connection is opened again"
        }
        SslFailure::Reason(number, text) => match known(*number, role) {
            Some(known) => known,
            None => return format!("TLS: {text}"),
        },
    };
    format!("TLS: {text}")
}

fn known(number: u32, role: TlsRole) -> Option<&'static str> {
    Some(match (number, role) {
        (code::BINDER_DOES_NOT_VERIFY, _) => "the peer has another key for this PSK identity",
        (code::BAD_RECORD_MAC | code::ALERT_BAD_RECORD_MAC, _) => {
            "a record was changed on its way, or the keys differ"
        }
        (code::ALERT_DECRYPT_ERROR | code::ALERT_ILLEGAL_PARAMETER, TlsRole::Client) => {
            "the peer has another key for this PSK identity, and ended the handshake"
        }
        (code::ALERT_UNKNOWN_PSK_IDENTITY, _) => "the peer has no key for this PSK identity",
        (code::ALERT_HANDSHAKE_FAILURE | code::ALERT_MISSING_EXTENSION, TlsRole::Client) => {
            "the peer ended the handshake: it has no key for this PSK identity, or wants another cipher suite or a certificate"
        }
        (code::CERTIFICATE_VERIFY_FAILED, TlsRole::Client) => {
            "the peer showed a certificate in place of knowing the pre-shared key"
        }
        (code::NO_SUITABLE_SIGNATURE_ALGORITHM, TlsRole::Server) => {
            "the peer offers no pre-shared key that can be used"
        }
        (code::NO_SHARED_CIPHER, _) => {
            "the peer does not take the cipher suite of the pre-shared key"
        }
        (code::NO_SUITABLE_KEY_SHARE, _) => {
            "the peer has no group for the key exchange that is taken here"
        }
        (code::UNSUPPORTED_PROTOCOL | code::ALERT_PROTOCOL_VERSION, _) => {
            "the peer does not speak TLS 1.3"
        }
        (code::WRONG_VERSION_NUMBER | code::HTTP_REQUEST, _) => "the peer does not speak TLS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_is_shown_without_its_control_characters() {
        let text = reason(&SslFailure::UnknownIdentity(b"a\n\xff".to_vec()), TlsRole::Server);
        assert!(text.contains(r"a\n") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn what_is_not_known_is_told_as_the_library_says_it() {
        let text =
            |number, role| reason(&SslFailure::Reason(number, "length mismatch".into()), role);
        assert_eq!(text(159, TlsRole::Server), "TLS: length mismatch");
        assert!(text(1115, TlsRole::Client).contains("no key"));
        assert!(text(253, TlsRole::Server).contains("another key"));
    }
}
