//! Certificates and keys, from PEM files.

use crate::limits::TLS_SEND_BYTES;
use crate::stream::{Stream, StreamFilter};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, ConfigBuilder, ConfigSide, Connection, Error,
    RootCertStore, ServerConfig, ServerConnection, WantsVerifier,
};
use std::io;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
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

/// A stream inside of another.
struct TlsStream {
    socket: Box<dyn Stream>,
    tls: Connection,
    /// Bytes of the caller that are encrypted but not completely sent; they are reported as taken
    /// once they are sent.
    sealed: usize,
    /// Decrypted bytes that wait to be received.
    opened: usize,
}

/// Socket that rustls reads from and writes to.
struct Socket<'a>(&'a mut dyn Stream);

impl Read for Socket<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.recv(&mut [IoSliceMut::new(buf)])
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.send(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    fn new(socket: Box<dyn Stream>, mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(TLS_SEND_BYTES));
        Self { socket, tls, sealed: 0, opened: 0 }
    }

    /// Sends what is encrypted; `WouldBlock` while some is left.
    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(self.socket.as_mut())) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends what is encrypted, as far as that goes now.
    fn try_flush(&mut self) -> io::Result<()> {
        match self.flush() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Takes in one piece from the socket; `false` at its end.
    fn take_in(&mut self) -> io::Result<bool> {
        if self.tls.read_tls(&mut Socket(self.socket.as_mut()))? == 0 {
            return Ok(false);
        }
        match self.tls.process_new_packets() {
            Ok(state) => {
                self.opened = state.plaintext_bytes_to_read();
                self.try_flush()?;
                Ok(true)
            }
            Err(e) => {
                // The alert that tells the peer; the connection is lost anyway.
                let _ = self.try_flush();
                Err(io::Error::new(ErrorKind::InvalidData, reason(&e)))
            }
        }
    }

    /// Moves decrypted bytes to where they are wanted.
    fn hand_out(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut total = 0;
        for buf in bufs {
            let mut at = 0;
            while self.opened > 0 && at < buf.len() {
                let n = self.tls.reader().read(&mut buf[at..])?;
                if n == 0 {
                    self.opened = 0;
                }
                at += n;
                self.opened -= n.min(self.opened);
            }
            total += at;
        }
        Ok(total)
    }
}

impl StreamFilter for TlsStream {
    fn inner(&self) -> &dyn Stream {
        &*self.socket
    }

    fn inner_mut(&mut self) -> &mut dyn Stream {
        &mut *self.socket
    }

    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.try_flush()?;
        loop {
            let n = self.hand_out(bufs)?;
            // An end without close_notify is an end: the protocols above know how much belongs to a
            // message.
            if n > 0 || !self.take_in()? {
                return Ok(n);
            }
        }
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        if self.tls.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.sealed == 0 {
            self.sealed = self.tls.writer().write_vectored(bufs)?;
            self.flush()?;
        }
        Ok(core::mem::take(&mut self.sealed))
    }

    fn has_buffered(&self) -> bool {
        self.opened > 0
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        self.try_flush()?;
        self.socket.shutdown()
    }
}

/// Returns the end of a sentence that begins with the owner of the connection.
fn reason(error: &Error) -> String {
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
