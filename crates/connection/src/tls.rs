//! Files and keys of TLS: the files that hold the certificates of a connection (NBD), and
//! pre-shared keys (NVMe/TCP).

use crate::psk::TlsPsk;
use std::path::{Path, PathBuf};
use weft_block::{Error, ErrorKind};
use weft_io::tls::{TlsClient, TlsError, TlsServer};

/// Files in PEM format, as options name them, and keys.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Our certificate, and those that lead from it to an authority.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Certificates of the authorities that we trust to name our peers.
    pub ca: Option<PathBuf>,
    /// Pre-shared keys of NVMe/TCP: with them there is no NVMe/TCP without TLS.
    pub psk: Option<TlsPsk>,
    /// NVMe/TCP with keys that come of an authentication (secure channel concatenation). A host
    /// authenticates on a connection of its own, and does all else with TLS. A server takes both
    /// kinds of connections.
    pub concat: bool,
    /// Their records stay in user space even where the kernel would take them. (Pre-shared keys say
    /// it themselves: [`TlsPsk::in_user_space`].)
    pub concat_in_user_space: bool,
}

fn wrong(e: &TlsError) -> Error {
    let kind = match e {
        TlsError::File { .. } => ErrorKind::NotFound,
        TlsError::Empty(_) | TlsError::Unusable(_) | TlsError::Name(_) => ErrorKind::Usage,
    };
    Error::new(kind, e.to_string())
}

impl TlsFiles {
    /// Returns whether an option names a file, or asks for keys.
    pub fn is_some(&self) -> bool {
        self.certificate.is_some()
            || self.key.is_some()
            || self.ca.is_some()
            || self.psk.is_some()
            || self.concat
    }

    /// The files that an option does not name, from a directory where they have the names that
    /// libnbd and nbdkit look for: `ca-cert.pem`, `ROLE-cert.pem`, `ROLE-key.pem`.
    fn with_directory(&self, directory: Option<&Path>, role: &str) -> Self {
        let Some(directory) = directory else { return self.clone() };
        let in_directory = |name: String| Some(directory.join(name)).filter(|path| path.exists());
        let or =
            |given: &Option<PathBuf>, name: String| given.clone().or_else(|| in_directory(name));
        Self {
            certificate: or(&self.certificate, format!("{role}-cert.pem")),
            key: or(&self.key, format!("{role}-key.pem")),
            ca: or(&self.ca, "ca-cert.pem".into()),
            psk: None,
            concat: false,
            concat_in_user_space: false,
        }
    }

    /// Encrypts accepted connections. Where there is an authority, by option or in the
    /// directory, clients have to show a certificate that it signed: a server has no other use for
    /// one.
    #[doc(hidden)]
    pub fn server(&self, directory: Option<&Path>) -> Result<TlsServer, Error> {
        let files = self.with_directory(directory, "server");
        let (Some(certificate), Some(key)) = (&files.certificate, &files.key) else {
            let text = "TLS needs a certificate: use --tls-cert-file FILE and --tls-cert-key-file FILE (cert_file and cert_key_file of [tls] in a configuration), \
                        or ?tls-certificates=DIR in the URL";
            return Err(Error::new(ErrorKind::Usage, text));
        };
        TlsServer::from_files(certificate, key, files.ca.as_deref()).map_err(|e| wrong(&e))
    }

    /// Encrypts outgoing connections.
    #[doc(hidden)]
    pub fn client(&self, directory: Option<&Path>) -> Result<TlsClient, Error> {
        let files = self.with_directory(directory, "client");
        let Some(ca) = &files.ca else {
            let text = "TLS needs a CA certificate to trust: use --tls-ca-file FILE, or ?tls-certificates=DIR in the URL";
            return Err(Error::new(ErrorKind::Usage, text));
        };
        let identity = files.certificate.as_deref().zip(files.key.as_deref());
        TlsClient::from_files(ca, identity).map_err(|e| wrong(&e))
    }
}
