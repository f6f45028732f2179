//! Files that hold one name, of this host or of a target: what is in them is used as a whole, or
//! not at all.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_proto::nvme::types::Id128;

/// Longest file with a name, bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// The text of a file. `None`: there is no such file, or this user may not read it.
///
/// # Errors
/// It cannot be read, is too long, or is not text.
pub(crate) fn text_in(path: &Path) -> Result<Option<String>, Error> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Ok(count) if count as u64 > FILE_BYTES_MAX => {
            return Err(unusable(path, &format!("is longer than {FILE_BYTES_MAX} bytes")));
        }
        Ok(_) => {}
        Err(e) => {
            let is_absent = matches!(
                e.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::PermissionDenied
            );
            let text = format!("cannot read {}: {e}", path.display());
            return if is_absent { Ok(None) } else { Err(Error::io(text, e)) };
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| unusable(path, "is not text in UTF-8"))?;
    Ok(Some(text))
}

/// The name in a file. `None`: there is none, or this user may not read the file.
///
/// # Errors
/// Those of [`text_in`]; or it has several lines: which one is meant is not known.
pub(crate) fn name_in(path: &Path) -> Result<Option<String>, Error> {
    let Some(text) = text_in(path)? else { return Ok(None) };
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let name = lines.next().map(str::to_owned);
    match lines.count() {
        0 => Ok(name),
        more => {
            let why = format!("has {} lines, and may have one: the name", more + 1);
            Err(unusable(path, &why))
        }
    }
}

/// The identifier of a host in a file. `None`: there is none.
///
/// # Errors
/// Those of [`name_in`]; or it is not an identifier.
pub(crate) fn host_id_in(path: &Path) -> Result<Option<Id128>, Error> {
    let Some(text) = name_in(path)? else { return Ok(None) };
    let why = || unusable(path, &format!("has \"{text}\", which is not a UUID other than zero"));
    host_id(&text).map(Some).ok_or_else(why)
}

/// The identifier of a host, as a UUID. Zero is none.
pub(crate) fn host_id(text: &str) -> Option<Id128> {
    let uuid = Uuid::parse_str(text).ok().filter(|uuid| !uuid.is_nil())?;
    Some(Id128(*uuid.as_bytes()))
}

/// Refuses a name that was generated, and of which a file has only a part: it would be another
/// name. `prefix` is what a UUID follows in generated names.
pub(crate) fn check_whole(path: &Path, name: &str, prefix: &str) -> Result<(), Error> {
    let is_part = match name.strip_prefix(prefix) {
        Some(uuid) => Uuid::parse_str(uuid).is_err(),
        None => prefix.starts_with(name),
    };
    if !is_part {
        return Ok(());
    }
    let why = format!("has \"{name}\", which is a part of a name: complete it, or delete the file");
    Err(unusable(path, &why))
}

fn unusable(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("the file {} {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const UUID: &str = "11111111-2222-3333-4444-555555555555";

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("weft-names-{}", Uuid::new_v4()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, bytes: &[u8]) -> PathBuf {
            let path = self.0.join("name");
            std::fs::write(&path, bytes).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_holds_one_name() {
        let scratch = Scratch::new();
        let of = |bytes: &[u8]| name_in(&scratch.file(bytes));
        for one in ["name", "name\n", "\r\n  name \r\n\n"] {
            assert_eq!(of(one.as_bytes()).unwrap().as_deref(), Some("name"), "{one:?}");
        }
        for none in ["", "\n", " \n\t\n"] {
            assert_eq!(of(none.as_bytes()).unwrap(), None, "{none:?}");
        }
        assert_eq!(name_in(&scratch.0.join("absent")).unwrap(), None);
        let said = of(b"one\ntwo\nthree\n").unwrap_err().to_string();
        assert!(said.contains("has 3 lines") && said.contains("name"), "{said}");
        assert!(of(b"one\xff\n").unwrap_err().to_string().contains("UTF-8"));
        assert!(name_in(&scratch.0).is_err(), "a directory is no file");
        let long = vec![b'n'; FILE_BYTES_MAX as usize + 1];
        assert_eq!(of(&long[1..]).unwrap().map(|name| name.len()), Some(long.len() - 1));
        assert!(of(&long).unwrap_err().to_string().contains("longer than 4096 bytes"));
    }

    #[test]
    fn an_identifier_is_a_uuid_other_than_zero() {
        let scratch = Scratch::new();
        let of = |text: &str| host_id_in(&scratch.file(text.as_bytes()));
        assert_eq!(of(&format!("{UUID}\n")).unwrap().unwrap().0[..4], [0x11; 4]);
        assert_eq!(of("\n").unwrap(), None);
        for wrong in [&UUID[1..], "host", &Uuid::nil().to_string(), &format!("{UUID}\n{UUID}\n")] {
            let said = of(wrong).unwrap_err().to_string();
            assert!(said.contains("UUID other than zero") || said.contains("2 lines"), "{said}");
        }
    }

    #[test]
    fn every_part_of_a_generated_name_is_refused() {
        let (path, prefix) = (Path::new("/name"), "nqn.2014-08.org.nvmexpress:uuid:");
        let whole = format!("{prefix}{UUID}");
        assert!(check_whole(path, &whole, prefix).is_ok());
        for end in 0..whole.len() {
            assert!(check_whole(path, &whole[..end], prefix).is_err(), "{}", &whole[..end]);
        }
        for own in ["nqn.2026-01.example:disks", "disks"] {
            assert!(check_whole(path, own, prefix).is_ok(), "{own}");
        }
    }
}
