//! Secrets of NVMe in-band authentication (DH-HMAC-CHAP), and what is accepted of it.

use crate::secret::from_file;
use std::path::Path;
use weft_block::{Error, ErrorKind};
use weft_proto::nvme::auth::{DhchapSecret, Group, Hash};

/// A secret that both ends have would prove nothing of either: whoever has the one is the other
/// (Base §8.3.4.3).
pub fn check_distinct<'a>(
    mut hosts: impl Iterator<Item = &'a DhchapSecret>,
    controller: Option<&DhchapSecret>,
) -> Result<(), Error> {
    if hosts.all(|host| controller.is_none_or(|controller| !host.has_key_of(controller))) {
        return Ok(());
    }
    let text = "the secret of the controllers is that of a host, too: make another one with weft gen-dhchap-key";
    Err(Error::new(ErrorKind::Usage, text))
}

/// The secret in a file that nobody else can read.
pub fn read(file: &Path) -> Result<DhchapSecret, Error> {
    parse(&from_file(file)?, &file.display().to_string())
}

/// The secret in a text that stands at `place`.
pub fn parse(text: &[u8], place: &str) -> Result<DhchapSecret, Error> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    DhchapSecret::parse(text).map_err(|e| {
        let text = format!(
            "{place} does not contain a DH-HMAC-CHAP secret: {e}; weft gen-dhchap-key makes one"
        );
        Error::new(ErrorKind::Usage, text)
    })
}

/// A hash function by its name, or by the kernel's.
pub fn parse_hash(text: &str) -> Result<Hash, String> {
    let plain = text.strip_prefix("hmac(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    let found = Hash::ALL.into_iter().find(|hash| hash.name() == plain);
    found.ok_or_else(|| {
        format!(
            "there is no hash function \"{text}\": known are {}",
            Hash::ALL.map(Hash::name).join(", ")
        )
    })
}

/// A Diffie-Hellman group by its name.
pub fn parse_group(text: &str) -> Result<Group, String> {
    let found = Group::ALL.into_iter().find(|group| group.name() == text);
    found.ok_or_else(|| {
        format!(
            "there is no group \"{text}\": known are {}",
            Group::ALL.map(Group::name).join(", ")
        )
    })
}
