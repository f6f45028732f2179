//! TLS PSKs in a keyring of the Linux kernel, where nvme-cli and the kernel's own host and target
//! have them: keys of the type `psk`, described by their identities (keyctl(2),
//! `drivers/nvme/common/keyring.c`).

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the system's calls for keys have no other interface")]
mod system;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(not(target_os = "linux"))]
use unsupported as system;

use std::io;
use zeroize::Zeroizing;

/// The keyring of NVMe.
pub const NVME: &str = ".nvme";

/// Why there is no keyring.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// Another system, or one without such a keyring.
    #[error(
        "there is no keyring \"{0}\": it comes with Linux's nvme-keyring (`modprobe nvme-keyring`); give --tls-key-file FILE instead"
    )]
    Missing(String),
    /// The system refuses it.
    #[error(
        "the keyring \"{0}\" cannot be used: {1}; this needs the right to search it, which root has"
    )]
    Refused(String, io::Error),
}

/// A keyring, by its serial number.
#[derive(Clone, Copy, Debug)]
pub struct Keyring(i32);

impl Keyring {
    /// The keyring of this name. The process is given what it needs to read keys that are in it: it
    /// is linked to the session's keyring.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open(name: &str) -> Result<Self, KeyringError> {
        let found = system::keys().ok().and_then(|keys| serial_of(&keys, name));
        let serial = found.ok_or_else(|| KeyringError::Missing(name.to_owned()))?;
        system::link_to_session(serial).map_err(|e| KeyringError::Refused(name.to_owned(), e))?;
        Ok(Self(serial))
    }

    /// The key of exactly this identity.
    pub fn find(&self, identity: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.find_prefix(identity).filter(|(found, _)| found == identity).map(|(_, key)| key)
    }

    /// A key whose identity begins like this, and the identity: the kernel compares beginnings
    /// only.
    pub fn find_prefix(&self, prefix: &str) -> Option<(String, Zeroizing<Vec<u8>>)> {
        let serial = system::search(self.0, prefix).ok()?;
        let description = system::describe(serial).ok()?;
        // TYPE;UID;GID;PERMISSIONS;DESCRIPTION
        let identity =
            description.splitn(5, ';').nth(4).filter(|identity| identity.starts_with(prefix))?;
        Some((identity.to_owned(), system::read(serial).ok()?))
    }

    /// The key of this serial number, and its identity.
    pub fn get(&self, serial: u32) -> Option<(String, Zeroizing<Vec<u8>>)> {
        let serial = serial.cast_signed();
        let description = system::describe(serial).ok()?;
        let identity = description.strip_prefix("psk;")?.splitn(4, ';').nth(3)?;
        Some((identity.to_owned(), system::read(serial).ok()?))
    }

    /// Adds a key, or replaces that of this identity; gives its serial number.
    ///
    /// # Errors
    /// What the system says.
    pub fn insert(&self, identity: &str, key: &[u8]) -> io::Result<u32> {
        Ok(system::add(self.0, identity, key)?.cast_unsigned())
    }
}

/// The serial number of a keyring in the text of `/proc/keys`: SERIAL FLAGS USES TIMEOUT
/// PERMISSIONS UID GID TYPE NAME: COUNT.
fn serial_of(keys: &str, name: &str) -> Option<i32> {
    keys.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = *words.get(7)? == "keyring" && words.get(8)?.strip_suffix(':') == Some(name);
        is_it.then(|| u32::from_str_radix(words[0], 16).ok()).flatten().map(u32::cast_signed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyring_is_found_by_its_name() {
        let keys = "0d732a6a I------     1 perm 1f0f0000     0     0 psk       NVMe0R01 a b: 32\n\
                    1b2c3d4e I------     2 perm 1f0f0000     0     0 keyring   .nvmex: 1\n\
                    2fffffff I------     2 perm 1f0f0000     0     0 keyring   .nvme: 1\n";
        assert_eq!(serial_of(keys, NVME), Some(0x2fff_ffff));
        assert_eq!(serial_of(keys, "NVMe0R01"), None);
        assert_eq!(serial_of("", NVME), None);
    }

    #[test]
    fn a_keyring_that_is_not_there_is_missed_in_words() {
        let why = Keyring::open("weft-none").unwrap_err().to_string();
        assert!(why.contains("weft-none") && why.contains("--tls-key-file"), "{why}");
    }
}
