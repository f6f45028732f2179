//! The identifiers of controllers that each of several processes gives, which serve one subsystem:
//! ranges that overlap are refused.
//!
//! The processes of one user know of each other by files in the directory `controllers` of the
//! state directory: one directory for each subsystem, with a file `MIN-MAX-PID` for each process,
//! which it holds locked for as long as it lives. A file that nobody holds was left by a process
//! that has died.

use super::{ControllerRange, Sharing};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_connection::identity::state_dir;
use weft_connection::limits::CLAIM_S;
use weft_io::private_files::{kept_lock_file, lock_within};
use weft_proto::nvme::types::Nqn;

/// The namespace of UUIDs that stand for names of subsystems.
const SUBSYSTEMS: Uuid = Uuid::from_u128(0x1d0a_84c5_92f3_4a0e_8f27_6b1c_50de_7732);

/// The identifiers that this process gives, known to others.
#[derive(Debug)]
pub struct ControllerClaims {
    range: (u16, u16),
    /// `None`: no other process serves the same subsystems.
    directory: Option<PathBuf>,
}

/// The range of this process for one subsystem, until it is dropped: its file.
#[derive(Debug)]
pub struct ControllerClaim {
    path: PathBuf,
    _file: File,
}

impl Drop for ControllerClaim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl ControllerClaims {
    /// The claims of a process with this range, which are of effect where others are not known
    /// otherwise.
    pub fn new(range: ControllerRange) -> Self {
        let directory = state_dir()
            .filter(|_| range.sharing == Sharing::Blind)
            .map(|dir| dir.join("controllers"));
        Self { range: range.cntlids, directory }
    }

    /// The same in this directory.
    pub fn stored_in(directory: PathBuf, range: (u16, u16)) -> Self {
        Self { range, directory: Some(directory) }
    }

    /// Claims the range for a subsystem of which this process has no claim yet. `None`: others are
    /// not known.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`]: another process gives some of the same identifiers. Where files cannot be written there is a warning only.
    pub fn claim(&self, nqn: &Nqn) -> Result<Option<ControllerClaim>, Error> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let directory =
            directory.join(Uuid::new_v5(&SUBSYSTEMS, nqn.as_str().as_bytes()).to_string());
        match enter(&directory, self.range) {
            Ok(Ok(claim)) => Ok(Some(claim)),
            Ok(Err((other, process))) => Err(overlap(nqn, self.range, other, &process)),
            Err(e) => {
                tracing::warn!(
                    "{nqn}: whether other processes give the same controller identifiers is not known, as {} cannot be used: {e}",
                    directory.display()
                );
                Ok(None)
            }
        }
    }
}

fn overlap(nqn: &Nqn, (first, last): (u16, u16), other: (u16, u16), process: &str) -> Error {
    let text = format!(
        "the controller identifiers {first}-{last} overlap with {}-{}, which process {process} gives for {nqn}; a host would refuse one of two \
         controllers with the same: use another --cntlid-range",
        other.0, other.1
    );
    Error::new(ErrorKind::InUse, text)
}

/// The range and the number of a process.
type Taken = ((u16, u16), String);

/// The claim, or the range of the process that has some of it.
fn enter(directory: &Path, range: (u16, u16)) -> io::Result<Result<ControllerClaim, Taken>> {
    fs::create_dir_all(directory)?;
    // One process looks at a time.
    let door = kept_lock_file(&directory.join("lock"))?;
    lock_within(&door, Duration::from_secs(CLAIM_S))?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let Some((other, process)) = path.file_name().and_then(|name| parse(name.to_str()?)) else {
            continue;
        };
        if is_left(&path) {
            fs::remove_file(&path)?;
        } else if other.0 <= range.1 && range.0 <= other.1 {
            return Ok(Err((other, process)));
        }
    }
    let path = directory.join(format!("{}-{}-{}", range.0, range.1, std::process::id()));
    let file = kept_lock_file(&path)?;
    file.try_lock()?;
    Ok(Ok(ControllerClaim { path, _file: file }))
}

/// Returns whether no process holds a file.
fn is_left(path: &Path) -> bool {
    let Ok(file) = kept_lock_file(path) else { return false };
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// The range and the process of a file.
fn parse(name: &str) -> Option<Taken> {
    let mut parts = name.splitn(3, '-');
    let range = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((range, parts.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nqn(name: &str) -> Nqn {
        Nqn::new(name).unwrap()
    }

    #[test]
    fn ranges_that_overlap_are_refused_while_their_process_lives() {
        let directory = std::env::temp_dir().join(format!("weft-claims-{}", Uuid::new_v4()));
        let process = |range| ControllerClaims::stored_in(directory.clone(), range);
        let (one, other) = (nqn("nqn.2026-01.example:a"), nqn("nqn.2026-01.example:b"));
        let first = process((1, 1000));
        let held = first.claim(&one).unwrap();
        assert!(held.is_some());
        for range in [(1, 1), (1000, 2000), (1, 65519), (500, 600)] {
            let error = process(range).claim(&one).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InUse);
            assert!(error.to_string().contains("overlap with 1-1000"), "{error}");
        }
        let second = process((1001, 2000));
        let of_second = second.claim(&one).unwrap();
        process((1, 1000)).claim(&other).unwrap();
        drop(held);
        process((1, 1000)).claim(&one).unwrap();
        // The file that a dead process leaves behind.
        drop(of_second);
        let left =
            fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path().join("1-65519-1");
        fs::write(&left, "").unwrap();
        process((1, 1000)).claim(&one).unwrap();
        process((1, 1000)).claim(&other).unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_process_that_is_alone_claims_nothing() {
        let claims = ControllerClaims::new(ControllerRange::default());
        assert!(claims.claim(&nqn("nqn.2026-01.example:a")).unwrap().is_none());
    }
}
