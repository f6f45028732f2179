//! Pre-shared keys of NVMe/TCP from files and keyrings. They are never on the command line, which
//! every user can read.

use crate::limits::PSK_FILE_BYTES_MAX;
use crate::secret::{again, held, named_file, private_text};
use std::path::Path;
use weft_block::{Error, ErrorKind};
use weft_endpoint::TlsPsk;
use weft_proto::nvme::auth::{InterchangeKey, Named, PskKeys};
use weft_tls::keyring::{Keyring, NVME};
use zeroize::Zeroizing;

/// The keys that the options ask for.
#[derive(Debug, Default)]
pub struct WantedPsk<'a> {
    /// `--tls-key-file`.
    pub file: Option<&'a Path>,
    /// `--keyring`.
    pub keyring: Option<&'a str>,
    /// `--tls-key`: `@FILE`, or the serial number of a key in the keyring.
    pub key: Option<&'a str>,
    /// `--tls-key-identity`.
    pub identity: Option<&'a str>,
}

/// The keys for `--tls`.
pub fn wanted(wanted: &WantedPsk<'_>) -> Result<TlsPsk, Error> {
    let WantedPsk { file, keyring, key, identity } = *wanted;
    let usage = |text: &str| Error::new(ErrorKind::Usage, text);
    match (key, identity) {
        (None, None) => required(file, keyring),
        (None, Some(identity)) => {
            let found = open(keyring)?.find(identity);
            let none = || {
                Error::new(
                    ErrorKind::NotFound,
                    format!("the keyring has no TLS PSK with the identity \"{identity}\""),
                )
            };
            of_identity(identity, &found.ok_or_else(none)?)
        }
        (Some(key), identity) => match (serial(key), identity) {
            (Some(_), Some(_)) => Err(usage(
                "a key in the keyring has its identity there: leave --tls-key-identity out",
            )),
            (Some(number), None) => {
                let none = || {
                    Error::new(
                        ErrorKind::NotFound,
                        format!(
                            "there is no TLS PSK with the serial number {key} that can be read"
                        ),
                    )
                };
                let (identity, found) = open(keyring)?.get(number).ok_or_else(none)?;
                of_identity(&identity, &found)
            }
            (None, None) => required(Some(named_file("--tls-key-file FILE", key)?), None),
            (None, Some(identity)) => {
                let text = private_text(named_file("--tls-key @FILE", key)?, PSK_FILE_BYTES_MAX)?;
                let mut keys = text.split_whitespace();
                let one = keys.next().filter(|_| keys.next().is_none());
                let one =
                    one.ok_or_else(|| usage("with --tls-key-identity the file of --tls-key has one TLS PSK and nothing else"))?;
                of_line(identity, one)
            }
        },
    }
}

/// The keys of a file, or of a keyring of Linux.
pub fn required(file: Option<&Path>, keyring: Option<&str>) -> Result<TlsPsk, Error> {
    Ok(match file {
        Some(path) => {
            let of = path.to_owned();
            TlsPsk::new(from_file(path)?)?
                .renewed(again(vec![of.clone()], move || some_of_file(&of)))
        }
        None => {
            held();
            TlsPsk::of_keyring(keyring.unwrap_or(NVME))?
        }
    })
}

/// Reads a file of keys, which other users must not be able to read.
pub fn from_file(path: &Path) -> Result<PskKeys, Error> {
    let text = private_text(path, PSK_FILE_BYTES_MAX)?;
    PskKeys::parse(&text)
        .map_err(|e| Error::new(ErrorKind::Usage, format!("{}: {e}", path.display())))
}

/// The same, at least one.
fn some_of_file(path: &Path) -> Result<PskKeys, Error> {
    let none = || Error::new(ErrorKind::Usage, format!("{} no longer has a key", path.display()));
    Some(from_file(path)?).filter(|keys| !keys.is_empty()).ok_or_else(none)
}

/// The serial number of a key: decimal, or hexadecimal behind `0x`.
fn serial(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn open(keyring: Option<&str>) -> Result<Keyring, Error> {
    held();
    Keyring::open(keyring.unwrap_or(NVME))
        .map_err(|why| Error::new(ErrorKind::NotFound, why.to_string()))
}

/// A TLS PSK of this identity, as a keyring has it.
fn of_identity(identity: &str, key: &[u8]) -> Result<TlsPsk, Error> {
    let hash = Named::parse(identity.as_bytes()).map(|named| named.hash);
    let text = hash.and_then(|hash| InterchangeKey::of_key(key, Some(hash))).map(|key| key.text());
    let wrong = || {
        Error::new(ErrorKind::Usage, format!("the key \"{identity}\" is not a TLS PSK of NVMe/TCP"))
    };
    of_line(identity, &text.ok_or_else(wrong)?)
}

fn of_line(identity: &str, key: &str) -> Result<TlsPsk, Error> {
    if Named::parse(identity.as_bytes()).is_none() {
        let text = format!(
            "\"{identity}\" is not an identity of a TLS PSK: it is like \"NVMe1R01 HOSTNQN SUBNQN DIGEST\""
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    let line = Zeroizing::new(format!("{identity} {key}"));
    let keys = PskKeys::parse(&line)
        .map_err(|e| Error::new(ErrorKind::Usage, format!("the TLS PSK: {}", e.problem)))?;
    TlsPsk::new(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_is_no_file_and_no_key() {
        assert_eq!(
            (serial("17"), serial("0x2fa1b3c4"), serial("0xg"), serial("@17"), serial("")),
            (Some(17), Some(0x2fa1_b3c4), None, None, None)
        );
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let refused = |key, identity| {
            wanted(&WantedPsk { key, identity, ..WantedPsk::default() }).err().unwrap().to_string()
        };
        let literal = refused(
            Some("NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"),
            None,
        );
        assert!(literal.contains("--tls-key-file FILE") && !literal.contains("VRLb"), "{literal}");
        assert!(
            refused(Some("17"), Some("NVMe1R01 h s d")).contains("leave --tls-key-identity out")
        );
    }
}
