//! Certificates that sign themselves, whose peers know them by their fingerprints.

#[cfg(any(not(feature = "certificates"), test))]
mod left_out;
#[cfg(feature = "certificates")]
mod made;

#[cfg(not(feature = "certificates"))]
pub use left_out::make;
#[cfg(feature = "certificates")]
pub use made::make;

/// A certificate and its private key, as DER (the key in PKCS #8).
pub struct Made {
    /// The certificate (X.509).
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}
