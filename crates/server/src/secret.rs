//! Secrets from files or the environment. They are never on the command line, which every user can
//! read.

use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use weft_block::{Error, ErrorKind};
use weft_endpoint::Renewed;
use weft_endpoint::identity::Identities;
use weft_io::private_files::create_new;
use weft_io::secret_file;
use zeroize::Zeroizing;

/// Maximum length of a secret in bytes, to reject files that cannot be secrets.
pub const SECRET_BYTES_MAX: usize = 1024;

/// Longest file with a private key in bytes, likewise.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// The environment variables that may hold secrets; the last ones are libiscsi's.
pub const VARIABLES: [&str; 7] = [
    "WEFT_AGENT_KEY",
    "WEFT_DHCHAP_CTRL_SECRET",
    "WEFT_DHCHAP_SECRET",
    "WEFT_LOGIN_SECRET",
    "WEFT_LOGIN_TARGET_SECRET",
    "LIBISCSI_CHAP_PASSWORD",
    "LIBISCSI_CHAP_TARGET_PASSWORD",
];

/// Reads the secret in a file, without a trailing line end. Refuses a file that other users can
/// read.
pub fn from_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    whole(open(path)?, path)
}

/// Opens a file with a secret, which other users must not be able to read: from now on this process
/// holds one.
fn open(path: &Path) -> Result<File, Error> {
    held();
    secret_file::open(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied if e.raw_os_error().is_none() => {
            Error::io(format!("the secret in {} is not used: {e}", path.display()), e)
        }
        _ => Error::io(format!("cannot read the secret in {}: {e}", path.display()), e),
    })
}

/// The bytes of a file that is a secret as a whole, and no text.
pub fn bytes_of_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let cannot = |e| Error::io(format!("cannot read the secret in {}: {e}", path.display()), e);
    let mut secret = Zeroizing::new(Vec::with_capacity(KEY_FILE_BYTES_MAX as usize + 1));
    open(path)?.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut secret).map_err(cannot)?;
    if secret.len() as u64 > KEY_FILE_BYTES_MAX {
        let text = format!(
            "{} has more than the {KEY_FILE_BYTES_MAX} bytes that a private key may have",
            path.display()
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(secret)
}

/// The secret in an open file.
fn whole(file: File, path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let cannot = |e| Error::io(format!("cannot read the secret in {}: {e}", path.display()), e);
    // No more memory is asked for while it is read, which would leave a copy behind.
    let mut secret = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX + 3));
    file.take(SECRET_BYTES_MAX as u64 + 3).read_to_end(&mut secret).map_err(cannot)?;
    for end in [b'\n', b'\r'] {
        secret.pop_if(|last| *last == end);
    }
    check(secret, &path.display().to_string())
}

/// Reads again what is in these files, each time that it is needed. `None`: there is no file, or
/// one of them is, say, a pipe, which can be read only once and may wait for its writer.
pub fn again<T: Clone, E: Display>(
    files: Vec<PathBuf>,
    read: impl Fn() -> Result<T, E> + Send + Sync + 'static,
) -> Option<Renewed<T>> {
    let is_file = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|file| file.is_file());
    if files.is_empty() || !files.iter().all(is_file) {
        return None;
    }
    Some(Renewed::new(move || match files.iter().find(|path| !is_file(path)) {
        Some(path) => Err(format!("{} is no longer a file", path.display())),
        None => read().map_err(|e| e.to_string()),
    }))
}

/// The file that an option of nvme-cli's names instead of holding a secret: `@FILE`. `instead` is
/// what to give.
pub fn named_file<'a>(instead: &str, given: &'a str) -> Result<&'a Path, Error> {
    given.strip_prefix('@').map(Path::new).ok_or_else(|| {
        let text = format!(
            "a secret must not be on the command line, because every user of this machine can read it there; put it into a file, and give {instead}"
        );
        Error::new(ErrorKind::Usage, text)
    })
}

/// The bytes in a file with hexadecimal digits, which other users must not be able to read.
pub fn hexadecimal(path: &Path, bytes: usize) -> Result<Zeroizing<Vec<u8>>, Error> {
    let text = private_text(path, SECRET_BYTES_MAX as u64)?;
    let digits: Option<Vec<u32>> = text.trim().chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.map(Zeroizing::new).filter(|digits| digits.len() == bytes * 2);
    let Some(digits) = digits else {
        let text =
            format!("{} does not contain {bytes} bytes in hexadecimal digits", path.display());
        return Err(Error::new(ErrorKind::Usage, text));
    };
    Ok(Zeroizing::new(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()))
}

/// Writes a secret to a file that does not exist yet, and that only its owner can read.
pub fn create_private(path: &Path, secret: &str) -> Result<(), Error> {
    let cannot = |e: std::io::Error| {
        let hint = match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                "; give another name, or remove the file if its secret is no longer used"
            }
            std::io::ErrorKind::NotFound => "; make its directory first",
            _ => "",
        };
        Error::io(format!("cannot make {}: {e}{hint}", path.display()), e)
    };
    let mut file = create_new(path).map_err(cannot)?;
    writeln!(file, "{secret}").and_then(|()| file.sync_all()).map_err(cannot)?;
    Ok(())
}

/// What this process does as soon as it holds a secret.
static WHEN_HELD: OnceLock<fn()> = OnceLock::new();

/// Has a program do something, once or several times, as soon as it holds a secret: mostly
/// [`conceal`]. A library leaves that to its program.
pub fn when_held(act: fn()) {
    // The first word counts.
    let _ = WHEN_HELD.set(act);
}

/// This process holds a secret now.
pub fn held() {
    if let Some(act) = WHEN_HELD.get() {
        act();
    }
}

/// Keeps the memory of this process out of core dumps and from other processes of the same user
/// (`PR_SET_DUMPABLE`), as it holds a secret now. Where the system refuses, nothing else suffers.
#[cfg(target_os = "linux")]
pub fn conceal() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(e) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::debug!("the memory of this process is not kept out of core dumps: {e}");
    }
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
pub fn conceal() {}

/// Reads a text of secrets, which other users must not be able to read and which is no longer than
/// `bytes_max`.
pub fn private_text(path: &Path, bytes_max: u64) -> Result<Zeroizing<String>, Error> {
    let file = open(path)?;
    let cannot = |e| Error::io(format!("cannot read the secrets in {}: {e}", path.display()), e);
    // As above; a file that grows meanwhile is not worth more.
    let room = file.metadata().map_or(bytes_max, |file| file.len().min(bytes_max)) as usize + 2;
    let mut text = Zeroizing::new(String::with_capacity(room));
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > bytes_max {
        let text =
            format!("{} has more than the {bytes_max} bytes that secrets may have", path.display());
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(text)
}

/// Reads the secret from an environment variable, if it is set.
pub fn from_environment(variable: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    debug_assert!(VARIABLES.contains(&variable), "children do not inherit it");
    let value = std::env::var_os(variable);
    if value.is_some() {
        held();
    }
    value.map(|value| check(Zeroizing::new(value.into_encoded_bytes()), variable)).transpose()
}

/// Characters of a generated secret: Windows' initiator accepts 12 to 16.
const RANDOM_CHARS: usize = 16;

/// A new secret of letters and digits: 95 bits.
pub fn random() -> Zeroizing<String> {
    held();
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    // Bytes from here on would make some characters more likely than others.
    const FAIR: usize = 256 / ALPHABET.len() * ALPHABET.len();
    let bytes = std::iter::repeat_with(|| Identities::system().random::<RANDOM_CHARS>())
        .flatten()
        .map(usize::from);
    let letters =
        bytes.filter(|byte| *byte < FAIR).map(|byte| char::from(ALPHABET[byte % ALPHABET.len()]));
    Zeroizing::new(letters.take(RANDOM_CHARS).collect())
}

fn check(secret: Zeroizing<Vec<u8>>, place: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
    if secret.is_empty() || secret.len() > SECRET_BYTES_MAX {
        let text = format!(
            "{place} does not contain a secret: a secret has 1 to {SECRET_BYTES_MAX} bytes"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_secrets_suit_every_initiator() {
        let secrets: std::collections::HashSet<String> =
            (0..100).map(|_| random().to_string()).collect();
        assert_eq!(secrets.len(), 100);
        assert!(
            secrets
                .iter()
                .all(|secret| secret.len() == 16
                    && secret.bytes().all(|b| b.is_ascii_alphanumeric()))
        );
    }

    #[test]
    fn a_secret_ends_before_the_line_end() {
        let path = std::env::temp_dir().join(format!("weft-secret-{}", std::process::id()));
        for text in ["0123456789ab", "0123456789ab\n", "0123456789ab\r\n"] {
            let _ = std::fs::remove_file(&path);
            create_new(&path).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(**from_file(&path).unwrap(), *b"0123456789ab");
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(from_file(&path).is_err());
        #[cfg(unix)]
        {
            std::fs::write(&path, "0123456789ab\n").unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640))
                .unwrap();
            let said = [from_file(&path).err(), bytes_of_file(&path).err()]
                .map(|e| e.unwrap().to_string());
            assert!(said.iter().all(|said| said.contains("other users can read it")), "{said:?}");
        }
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
