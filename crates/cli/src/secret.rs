//! Secrets from files or the environment. They are never on the command line, which every user can read.

use crate::exit::Failure;
use std::io::{Read, Write};
use std::path::Path;
use weft_block::{Error, ErrorKind};
use weft_endpoint::identity::Identities;
use zeroize::Zeroizing;

/// Maximum length of a secret in bytes, to reject files that cannot be secrets.
pub const SECRET_BYTES_MAX: usize = 1024;

/// Reads the secret in a file, without a trailing line end. Warns if other users can read the file.
pub fn from_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |e| Error::io(format!("cannot read the secret in {}: {e}", path.display()), e);
    let mut secret = std::fs::read(path).map_err(cannot)?;
    warn_if_public(path);
    for end in [b'\n', b'\r'] {
        secret.pop_if(|last| *last == end);
    }
    check(secret, &path.display().to_string())
}

/// Like [`from_file`], but refuses a file that other users can read.
pub fn from_private_file(path: &Path) -> Result<Vec<u8>, Failure> {
    refuse_public(path)?;
    from_file(path)
}

/// The file that an option of nvme-cli's names instead of holding a secret: `@FILE`. `instead` is what to give.
pub fn named_file<'a>(instead: &str, given: &'a str) -> Result<&'a Path, Failure> {
    given.strip_prefix('@').map(Path::new).ok_or_else(|| {
        let text = format!(
            "a secret must not be on the command line, because every user of this machine can read it there; put it into a file, and give {instead}"
        );
        Failure::of(ErrorKind::Usage, text)
    })
}

/// The bytes in a file with hexadecimal digits, which other users must not be able to read.
pub fn hexadecimal(path: &Path, bytes: usize) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let text = private_text(path, SECRET_BYTES_MAX as u64)?;
    let digits: Option<Vec<u32>> = text.trim().chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.map(Zeroizing::new).filter(|digits| digits.len() == bytes * 2);
    let Some(digits) = digits else {
        let text = format!("{} does not contain {bytes} bytes in hexadecimal digits", path.display());
        return Err(Failure::of(ErrorKind::Usage, text));
    };
    Ok(Zeroizing::new(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()))
}

/// Refuses a file that other users can read; from now on this process holds a secret.
fn refuse_public(path: &Path) -> Result<(), Failure> {
    if is_public(path) {
        let text = format!("other users can read the secret in {}; restrict it with chmod 600", path.display());
        return Err(Failure::of(ErrorKind::PermissionDenied, text));
    }
    conceal();
    Ok(())
}

/// Writes a secret to a file that does not exist yet, and that only its owner can read.
pub fn create_private(path: &Path, secret: &str) -> Result<(), Failure> {
    let cannot = |e| Error::io(format!("cannot make {}: {e}", path.display()), e);
    let mut file = private(path).map_err(cannot)?;
    writeln!(file, "{secret}").and_then(|()| file.sync_all()).map_err(cannot)?;
    Ok(())
}

/// A new file that only its owner can read, where the system knows such.
pub fn private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Keeps the memory of this process out of core dumps and from other processes of the same user (`PR_SET_DUMPABLE`), as it holds a secret now.
/// Where the system refuses, nothing else suffers.
#[cfg(target_os = "linux")]
fn conceal() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(e) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::debug!("the memory of this process is not kept out of core dumps: {e}");
    }
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
fn conceal() {}

/// Reads a text of secrets, which other users must not be able to read and which is no longer than so many bytes.
pub fn private_text(path: &Path, bytes_max: u64) -> Result<Zeroizing<String>, Failure> {
    refuse_public(path)?;
    let cannot = |e| Error::io(format!("cannot read the secrets in {}: {e}", path.display()), e);
    let mut text = Zeroizing::new(String::new());
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > bytes_max {
        let text = format!("{} has more than the {bytes_max} bytes that secrets may have", path.display());
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    Ok(text)
}

/// Reads the secret from an environment variable, if it is set.
pub fn from_environment(variable: &str) -> Result<Option<Vec<u8>>, Failure> {
    let value = std::env::var_os(variable);
    if value.is_some() {
        conceal();
    }
    value.map(|value| check(value.into_encoded_bytes(), variable)).transpose()
}

/// Characters of a generated secret: Windows' initiator accepts 12 to 16.
const RANDOM_CHARS: usize = 16;

/// A new secret of letters and digits: 95 bits.
pub fn random() -> String {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    // Bytes from here on would make some characters more likely than others.
    const FAIR: usize = 256 / ALPHABET.len() * ALPHABET.len();
    let bytes = std::iter::repeat_with(|| Identities::system().random::<RANDOM_CHARS>()).flatten().map(usize::from);
    bytes.filter(|byte| *byte < FAIR).map(|byte| char::from(ALPHABET[byte % ALPHABET.len()])).take(RANDOM_CHARS).collect()
}

fn check(secret: Vec<u8>, place: &str) -> Result<Vec<u8>, Failure> {
    if secret.is_empty() || secret.len() > SECRET_BYTES_MAX {
        let text = format!("{place} does not contain a secret: a secret has 1 to {SECRET_BYTES_MAX} bytes");
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    Ok(secret)
}

fn warn_if_public(path: &Path) {
    if is_public(path) {
        tracing::warn!("other users can read the secret in {}; restrict it with chmod 600", path.display());
    }
}

/// Whether other users can read a file.
#[cfg(unix)]
fn is_public(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

/// Not known on this system.
#[cfg(not(unix))]
fn is_public(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_secrets_suit_every_initiator() {
        let secrets: std::collections::HashSet<String> = (0..100).map(|_| random()).collect();
        assert_eq!(secrets.len(), 100);
        assert!(secrets.iter().all(|secret| secret.len() == 16 && secret.bytes().all(|b| b.is_ascii_alphanumeric())));
    }

    #[test]
    fn a_secret_ends_before_the_line_end() {
        let path = std::env::temp_dir().join(format!("weft-secret-{}", std::process::id()));
        for text in ["0123456789ab", "0123456789ab\n", "0123456789ab\r\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(from_file(&path).unwrap(), b"0123456789ab");
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(from_file(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(from_file(&path).is_err());
    }

    #[test]
    fn a_secret_on_the_command_line_is_refused_and_not_repeated() {
        let refused = named_file("--secret @FILE", "0123456789abcdef").unwrap_err().to_string();
        assert!(refused.contains("--secret @FILE") && !refused.contains("0123"), "{refused}");
        assert_eq!(named_file("--secret @FILE", "@/a/b").unwrap(), Path::new("/a/b"));
    }
}
