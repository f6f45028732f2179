//! Certificates and keys, from PEM files.

use super::stream::TlsStream;
use crate::stream::Stream;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, ConfigSide, RootCertStore, ServerConfig,
    ServerConnection, WantsVerifier,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not a PEM file.
    #[error("cannot read {what} from {}: {why}", .path.display())]
    File {
        /// Its expected contents.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// A file holds no certificate.
    #[error("{} contains no certificate", .0.display())]
    Empty(PathBuf),
    /// Certificate and key do not fit, or one of them cannot be used.
    #[error("TLS cannot be set up with these certificates: {0}")]
    Unusable(String),
    /// The expected name of the peer's certificate is not a valid name.
    #[error("\"{0}\" is neither a host name nor an address, so certificates cannot be checked")]
    Name(String),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unusable(e: impl core::fmt::Display) -> TlsError {
    TlsError::Unusable(e.to_string())
}

fn versions<S: ConfigSide>(
    builder: ConfigBuilder<S, rustls::WantsVersions>,
) -> Result<ConfigBuilder<S, WantsVerifier>, TlsError> {
    builder.with_safe_default_protocol_versions().map_err(unusable)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong =
        |e| TlsError::File { what: "certificates", path: path.to_owned(), why: pem_problem(e) };
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(wrong)?;
    if found.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(found) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let wrong = |why| TlsError::File { what: "a private key", path: path.to_owned(), why };
    let file = crate::secret_file::open(path).map_err(|e| wrong(e.to_string()))?;
    PrivateKeyDer::from_pem_reader(std::io::BufReader::new(file)).map_err(|e| wrong(pem_problem(e)))
}

fn pem_problem(e: rustls::pki_types::pem::Error) -> String {
    match e {
        rustls::pki_types::pem::Error::Io(e) => e.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "there is none".into(),
        other => format!("it is not in PEM format ({other})"),
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(unusable)?;
    }
    Ok(store)
}

/// Wraps accepted connections.
#[derive(Clone)]
pub struct TlsServer(Arc<ServerConfig>);

impl TlsServer {
    /// With a certificate chain and its key. With `ca`, clients have to show a certificate that one
    /// of these authorities signed.
    pub fn from_files(
        certificate: &Path,
        private_key: &Path,
        ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let builder = versions(ServerConfig::builder_with_provider(provider()))?;
        let builder = match ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                    .build()
                    .map_err(unusable)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(certificates(certificate)?, key(private_key)?)
            .map_err(unusable)?;
        Ok(Self(Arc::new(config)))
    }

    /// Encrypts a connection that was accepted.
    pub fn wrap(&self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, TlsError> {
        let tls = ServerConnection::new(Arc::clone(&self.0)).map_err(unusable)?;
        Ok(Box::new(TlsStream::new(stream, tls.into())))
    }
}

/// Wraps outgoing connections.
#[derive(Clone)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Trusts servers whose certificate one of the authorities in `ca` signed; `identity` is the
    /// certificate and the key to show to servers that ask.
    pub fn from_files(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<Self, TlsError> {
        let builder = versions(ClientConfig::builder_with_provider(provider()))?
            .with_root_certificates(authorities(ca)?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, private_key)) => builder
                .with_client_auth_cert(certificates(certificate)?, key(private_key)?)
                .map_err(unusable)?,
        };
        Ok(Self(Arc::new(config)))
    }

    /// Encrypts a connection that was made; the server's certificate has to be for `name`, a host
    /// name or address.
    pub fn wrap(&self, stream: Box<dyn Stream>, name: &str) -> Result<Box<dyn Stream>, TlsError> {
        let server =
            ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let tls = ClientConnection::new(Arc::clone(&self.0), server).map_err(unusable)?;
        Ok(Box::new(TlsStream::new(stream, tls.into())))
    }
}
