//! The agent's certificate: made once, kept in the state directory, and known by its fingerprint.

use crate::output::hex::hex;
use crate::process::exit::Failure;
use ring::digest;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::path::Path;
use weft_block::{Error, ErrorKind};
use weft_endpoint::identity::state_dir;
use weft_io::durable::{self, Readers};
use weft_server::secret::bytes_of_file;

/// Files of the state directory.
const FILES: [&str; 2] = ["agent-certificate.der", "agent-key.der"];

/// The name in the certificate. Nobody checks it: the fingerprint is what counts.
const NAME: &str = "weft-agent";

/// A certificate and its private key.
pub struct AgentIdentity {
    pub certificate: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
}

/// The SHA-256 fingerprint of a certificate: `sha256:` and 64 digits.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    format!("sha256:{}", hex(digest::digest(&digest::SHA256, certificate).as_ref()))
}

impl AgentIdentity {
    /// That of this machine's agent; made the first time.
    pub fn lasting() -> Result<Self, Failure> {
        let dir = state_dir().ok_or_else(|| {
            Failure::of(
                ErrorKind::NotFound,
                "there is no place for the agent's certificate: set WEFT_STATE_DIR to a directory",
            )
        })?;
        Self::in_directory(&dir)
    }

    pub(super) fn in_directory(dir: &Path) -> Result<Self, Failure> {
        let [certificate, key] = FILES.map(|name| dir.join(name));
        // The certificate is written last, so it says that both are there.
        if !certificate.exists() {
            let made = Self::made()?;
            let cannot = |e| {
                Error::io(
                    format!("cannot keep the agent's certificate in {}: {e}", dir.display()),
                    e,
                )
            };
            std::fs::create_dir_all(dir).map_err(cannot)?;
            place(&key, made.key.secret_der()).map_err(cannot)?;
            place(&certificate, &made.certificate).map_err(cannot)?;
        }
        Self::read(&certificate, &key)
    }

    fn made() -> Result<Self, Failure> {
        let weft_extras::certificate::Made { certificate, key } =
            weft_extras::certificate::make(NAME)?;
        Ok(Self { certificate: certificate.into(), key: PrivatePkcs8KeyDer::from(key).into() })
    }

    fn read(certificate: &Path, key: &Path) -> Result<Self, Failure> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|e| {
                Error::io(format!("cannot read the agent's certificate {}: {e}", path.display()), e)
            })
        };
        let (certificate, secret) = (CertificateDer::from(read(certificate)?), bytes_of_file(key)?);
        let key = PrivatePkcs8KeyDer::from(secret.to_vec());
        Ok(Self { certificate, key: key.into() })
    }

    /// See [`fingerprint`].
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.certificate)
    }
}

/// Writes a file as a whole, readable for its owner only.
fn place(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    durable::replace(path, &fresh, bytes, Readers::Owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_lasts_and_its_key_is_private() {
        let dir = std::env::temp_dir().join(format!("weft-agent-identity-{}", std::process::id()));
        let first = AgentIdentity::in_directory(&dir).unwrap();
        let again = AgentIdentity::in_directory(&dir).unwrap();
        assert_eq!(first.fingerprint(), again.fingerprint());
        assert!(first.fingerprint().len() == 7 + 64);
        #[cfg(unix)]
        for name in FILES {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                std::fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777,
                0o600,
                "{name}"
            );
        }
        std::fs::remove_dir_all(&dir).unwrap();
        assert_ne!(AgentIdentity::in_directory(&dir).unwrap().fingerprint(), first.fingerprint());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
