//! The files in which keys are kept that stand in configurations of nvme-cli: connections name keys
//! by files, and no command line may hold one.

use crate::exit::Failure;
use std::path::PathBuf;
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_endpoint::identity::state_dir;
use weft_server::secret::create_private;

/// An option of nvme-cli that can hold a key.
struct KeyOption {
    names: &'static [&'static str],
    short: Option<char>,
    /// The option that names a file instead.
    instead: &'static str,
    /// Whether a value is a key, and not a name for one.
    is_key: fn(&str) -> bool,
}

/// All of them.
static OPTIONS: [KeyOption; 3] = [
    KeyOption {
        names: &["dhchap-secret"],
        short: Some('S'),
        instead: "dhchap-secret-file",
        is_key: |value| !value.starts_with('@'),
    },
    KeyOption {
        names: &["dhchap-ctrl-secret"],
        short: Some('C'),
        instead: "dhchap-ctrl-secret-file",
        is_key: |value| !value.starts_with('@'),
    },
    KeyOption {
        names: &["tls-key", "tls_key"],
        short: None,
        instead: "tls-key-file",
        is_key: |value| value.starts_with("NVMeTLSkey-1:"),
    },
];

/// The words of a line, with files in place of the keys in it.
///
/// # Errors
/// A key cannot be kept.
pub fn in_files(words: &[String]) -> Result<Vec<String>, Failure> {
    let mut with_files = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some((option, value)) = OPTIONS.iter().find_map(|of| Some((of, of.value_in(word)?)))
        else {
            with_files.push(word.clone());
            continue;
        };
        let value = value.or_else(|| rest.next().map(String::as_str));
        match value.filter(|value| (option.is_key)(value)) {
            Some(key) => {
                with_files.push(format!("--{}={}", option.instead, kept(key)?.display()));
            }
            None => {
                with_files.push(format!("--{}", option.names[0]));
                with_files.extend(value.map(str::to_owned));
            }
        }
    }
    Ok(with_files)
}

impl KeyOption {
    /// Whether a word is this option; with the value, if that is in the same word.
    fn value_in<'a>(&self, word: &'a str) -> Option<Option<&'a str>> {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            return self.names.contains(&name).then_some(value);
        }
        let value = word.strip_prefix('-')?.strip_prefix(self.short?)?;
        let value = value.strip_prefix('=').unwrap_or(value);
        Some(Some(value).filter(|value| !value.is_empty()))
    }
}

/// The file in which a key is kept.
pub fn kept(key: &str) -> Result<PathBuf, Error> {
    let directory = state_dir().ok_or_else(|| {
        let text =
            "there is no place for keys of a configuration: set WEFT_STATE_DIR to a directory";
        Error::new(ErrorKind::NotFound, text)
    })?;
    let directory = directory.join("keys");
    std::fs::create_dir_all(&directory)
        .map_err(|e| Error::io(format!("cannot make {}: {e}", directory.display()), e))?;
    let name = Uuid::new_v5(&Uuid::NAMESPACE_OID, key.as_bytes()).simple().to_string();
    let file = directory.join(format!("{name}.dhchap"));
    if !file.exists() {
        create_private(&file, key)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_keys_are_known_in_every_form() {
        let of = |word: &'static str| {
            OPTIONS.iter().find_map(|of| Some((of.instead, of.value_in(word)?)))
        };
        for word in ["-SDHHC-1:a", "-S=DHHC-1:a", "--dhchap-secret=DHHC-1:a"] {
            assert_eq!(of(word), Some(("dhchap-secret-file", Some("DHHC-1:a"))), "{word}");
        }
        for word in ["-C", "--dhchap-ctrl-secret"] {
            assert_eq!(of(word), Some(("dhchap-ctrl-secret-file", None)), "{word}");
        }
        assert_eq!(of("--tls_key=x"), Some(("tls-key-file", Some("x"))));
        for word in ["--dhchap-secret-file=x", "-s", "8009", "--tls", "-", "--", ""] {
            assert_eq!(of(word), None, "{word}");
        }
    }

    #[test]
    fn names_of_keys_stay_as_they_are() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, same) in [
            ("-t tcp -S @/a -C", "-t tcp --dhchap-secret @/a --dhchap-ctrl-secret"),
            ("--tls_key=0x2f --tls", "--tls-key 0x2f --tls"),
            ("-a 192.0.2.1 -g", "-a 192.0.2.1 -g"),
        ] {
            assert_eq!(in_files(&words(text)).unwrap(), words(same), "{text}");
        }
    }
}
