//! TLS 1.3 with a certificate that is known by its fingerprint. Names, authorities and dates in it
//! say nothing.

use super::identity::{AgentIdentity, fingerprint};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;
use weft_base::lock::Lock;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The configuration of an agent's connections.
pub fn server(identity: &AgentIdentity) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth();
    let mut config =
        builder.with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())?;
    // A session that is resumed shows no certificate.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The fingerprint that an agent has shown.
#[derive(Clone, Debug, Default)]
pub struct ShownFingerprint(Arc<Lock<Option<String>>>);

impl ShownFingerprint {
    /// None before the handshake.
    pub fn fingerprint(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

/// A connection of a study. With `expected`, another fingerprint ends the handshake, before
/// anything that the key made is sent.
pub fn client(expected: Option<String>) -> Result<(ClientConnection, ShownFingerprint), Error> {
    let shown = ShownFingerprint::default();
    let verifier = Verifier {
        expected,
        shown: shown.clone(),
        algorithms: provider().signature_verification_algorithms,
    };
    let builder =
        ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    let name = ServerName::try_from("weft-agent").map_err(|_| Error::General("no name".into()))?;
    Ok((ClientConnection::new(Arc::new(config), name)?, shown))
}

/// Compares fingerprints, and checks that the peer has the private key of what it shows.
#[derive(Debug)]
struct Verifier {
    expected: Option<String>,
    shown: ShownFingerprint,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = fingerprint(certificate);
        let accepted = self.expected.as_ref().is_none_or(|expected| *expected == found);
        *self.shown.0.lock() = Some(found);
        if accepted {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("an agent speaks TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
