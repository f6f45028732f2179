//! Why a handshake failed, for people.

use rustls::{CertificateError, Error};

/// Returns the end of a sentence that begins with the owner of the connection.
pub(super) fn reason(error: &Error) -> String {
    let Error::InvalidCertificate(certificate) = error else { return format!("TLS: {error}") };
    let why = match certificate {
        CertificateError::UnknownIssuer => {
            "no trusted CA has signed it; check the file with CA certificates".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; check the clocks".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it is for another name: {error}; the names are in its subjectAltName")
        }
        // rustls wraps what its verifier has no word for.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            AUTHORITY.into()
        }
        _ => error.to_string(),
    };
    format!("TLS: the peer's certificate is not accepted: {why}")
}

/// Result of `openssl req -x509` without further options.
const AUTHORITY: &str = "it is that of an authority (basicConstraints CA:TRUE), as \"openssl req -x509\" makes them by default, and not that of a \
                         server or client; sign one with it, or make one that stands for itself with \"openssl req -x509 -newkey rsa:2048 \
                         -nodes -keyout key.pem -out cert.pem -subj /CN=HOST -addext basicConstraints=critical,CA:FALSE -addext \
                         subjectAltName=DNS:HOST\" (IP:ADDRESS for an address)";
