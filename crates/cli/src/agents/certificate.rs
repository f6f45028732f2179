//! A certificate (X.509, RFC 5280) that signs itself. Its peers know it by its fingerprint, so it has
//! what a certificate must have and no more: a name, and a key (ECDSA on P-256).

use crate::exit::Failure;
use ring::digest::{SHA256, digest};
use ring::error::{KeyRejected, Unspecified};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use weft_block::ErrorKind;

/// Tags of DER (X.690).
mod tag {
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
    /// A name of a host in a list of names.
    pub const DNS_NAME: u8 = 0x82;
    /// The version in a certificate.
    pub const VERSION: u8 = 0xa0;
    /// The extensions in a certificate.
    pub const EXTENSIONS: u8 = 0xa3;
}

/// Object identifiers, as DER has them.
mod oid {
    pub const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];
    pub const SUBJECT_ALT_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
    pub const EC_PUBLIC_KEY: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    pub const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    pub const ECDSA_WITH_SHA256: &[u8] =
        &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
}

/// Version 3 has extensions.
const VERSION_3: &[u8] = &[2];

/// It is valid for ever: from a time that no clock is before to the one that RFC 5280 has for this.
const FROM: &[u8] = b"750101000000Z";
const UNTIL: &[u8] = b"99991231235959Z";

/// Bytes of a serial number.
const SERIAL_BYTES: usize = 16;

/// A certificate and its private key, as DER (the key in PKCS #8).
pub struct Made {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// Makes a key, and a certificate for it with this name.
pub fn make(name: &str) -> Result<Made, Failure> {
    fn failed<E: std::fmt::Display>(error: E) -> Failure {
        Failure::of(ErrorKind::Io, format!("cannot make a certificate: {error}"))
    }
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed::<Unspecified>)?;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random)
        .map_err(failed::<KeyRejected>)?;
    let signed = to_be_signed(name, pair.public_key().as_ref());
    let signature = pair.sign(&random, &signed).map_err(failed::<Unspecified>)?;
    let certificate =
        value(tag::SEQUENCE, &[&signed, &algorithm_of_signatures(), &bits(signature.as_ref())]);
    Ok(Made { certificate, key: key.as_ref().to_vec() })
}

/// What the signature of a certificate covers.
fn to_be_signed(name: &str, public_key: &[u8]) -> Vec<u8> {
    let common =
        value(tag::SEQUENCE, &[oid::COMMON_NAME, &value(tag::UTF8_STRING, &[name.as_bytes()])]);
    let names = value(tag::SEQUENCE, &[&value(tag::SET, &[&common])]);
    let validity = value(
        tag::SEQUENCE,
        &[&value(tag::UTC_TIME, &[FROM]), &value(tag::GENERALIZED_TIME, &[UNTIL])],
    );
    let kind = value(tag::SEQUENCE, &[oid::EC_PUBLIC_KEY, oid::P256]);
    let alternative = value(tag::SEQUENCE, &[&value(tag::DNS_NAME, &[name.as_bytes()])]);
    let extension =
        value(tag::SEQUENCE, &[oid::SUBJECT_ALT_NAME, &value(tag::OCTET_STRING, &[&alternative])]);
    value(
        tag::SEQUENCE,
        &[
            &value(tag::VERSION, &[&value(tag::INTEGER, &[VERSION_3])]),
            &value(tag::INTEGER, &[&serial(public_key)]),
            &algorithm_of_signatures(),
            &names,
            &validity,
            &names,
            &value(tag::SEQUENCE, &[&kind, &bits(public_key)]),
            &value(tag::EXTENSIONS, &[&value(tag::SEQUENCE, &[&extension])]),
        ],
    )
}

/// A positive number, another for each key.
fn serial(public_key: &[u8]) -> [u8; SERIAL_BYTES] {
    let hash = digest(&SHA256, public_key);
    let mut serial = [0; SERIAL_BYTES];
    serial.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}

fn algorithm_of_signatures() -> Vec<u8> {
    value(tag::SEQUENCE, &[oid::ECDSA_WITH_SHA256])
}

/// Whole bytes as a string of bits.
fn bits(bytes: &[u8]) -> Vec<u8> {
    const UNUSED_BITS: u8 = 0;
    value(tag::BIT_STRING, &[&[UNUSED_BITS], bytes])
}

/// A value: its tag, its length and its content. A certificate has less than 64 KiB.
fn value(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let [high, low] = (content.len() as u16).to_be_bytes();
    let length: &[u8] = match (high, low) {
        (0, ..0x80) => &[low],
        (0, _) => &[0x81, low],
        _ => &[0x82, high, low],
    };
    [&[tag], length, &content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};

    /// The content of a value, and what is behind it.
    fn open(der: &[u8]) -> (&[u8], &[u8]) {
        let (length, at) = match der[1] {
            0x81 => (usize::from(der[2]), 3),
            0x82 => (usize::from(der[2]) << 8 | usize::from(der[3]), 4),
            short => (usize::from(short), 2),
        };
        der[at..].split_at(length)
    }

    #[test]
    fn a_certificate_is_signed_by_its_own_key() {
        let Made { certificate, key } = make("weft-agent").unwrap();
        let (content, end) = open(&certificate);
        assert!(end.is_empty());
        let signed = &content[..content.len() - open(content).1.len()];
        let (_, signature) = open(open(content).1);
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &key, &SystemRandom::new());
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, *pair.unwrap().public_key());
        // The number of unused bits comes first.
        public.verify(signed, &open(signature).0[1..]).expect("the signature is right");
        let another = make("weft-agent").unwrap();
        assert_ne!(another.certificate, certificate);
    }

    #[test]
    fn lengths_have_as_many_bytes_as_they_need() {
        let header = |bytes: usize| {
            let all = value(tag::OCTET_STRING, &[&vec![7; bytes]]);
            assert_eq!(open(&all), (&vec![7; bytes][..], &[][..]));
            all[..all.len() - bytes].to_vec()
        };
        assert_eq!(header(0), [4, 0]);
        assert_eq!(header(127), [4, 127]);
        assert_eq!(header(128), [4, 0x81, 128]);
        assert_eq!(header(255), [4, 0x81, 255]);
        assert_eq!(header(256), [4, 0x82, 1, 0]);
    }
}
