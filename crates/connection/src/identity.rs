//! Permanent names: the identity of this host for targets, and of this target and its files for
//! hosts.
//!
//! The host's name is that of the system if it has one (`/etc/nvme/hostnqn` and `/etc/nvme/hostid`,
//! as nvme-cli keeps them, and `/etc/iscsi/initiatorname.iscsi` of open-iscsi). Otherwise it is
//! generated once and kept in the state directory, like the default subsystem name:
//! `$WEFT_STATE_DIR`, or `$XDG_STATE_HOME/weft`, `~/.local/state/weft`, `%LOCALAPPDATA%\weft`.

use crate::name_files::{check_whole, host_id, host_id_in, name_in, text_in};
use crate::naming::{StateNames, forget, settle};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Once};
use std::{env, fs, io};
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_block::naming::{Naming, PassingNames};
use weft_block::{Error, ErrorKind};
use weft_io::durable::{self, Readers};
use weft_io::rng::Rng;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Id128, Nqn};

/// Prefix of NQNs with a UUID (Base §4.7).
const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// The host NQN of the system.
const HOSTNQN: &str = "/etc/nvme/hostnqn";

/// The host identifier of the system.
const HOSTID: &str = "/etc/nvme/hostid";

/// The iSCSI initiator name of the system.
const INITIATORNAME: &str = "/etc/iscsi/initiatorname.iscsi";

/// Prefix of iSCSI names with a UUID.
const IQN_PREFIX: &str = "iqn.2024-07.internal.weft:";

/// The files with lasting names.
const NAMES: [&str; 4] = ["hostnqn", "subsysnqn", "initiatorname", "targetiqn"];

/// The identity of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// Host NQN.
    pub nqn: Nqn,
    /// Host identifier.
    pub id: Id128,
}

impl HostIdentity {
    /// This host's permanent identity.
    pub fn of_this_host() -> Result<Self, Error> {
        Self::named(host_nqn()?)
    }

    /// The identity of a host with a given name: the identifier is the one in the name, the
    /// system's, or derived from the name.
    ///
    /// # Errors
    /// It is the system's name, and the system's identifier is not one.
    pub fn named(nqn: Nqn) -> Result<Self, Error> {
        Self::named_by(nqn, (Path::new(HOSTNQN), Path::new(HOSTID)))
    }

    fn named_by(nqn: Nqn, (hostnqn, hostid): (&Path, &Path)) -> Result<Self, Error> {
        let is_system = name_in(hostnqn).is_ok_and(|name| name.as_deref() == Some(nqn.as_str()));
        let of_system = if is_system { host_id_in(hostid)? } else { None };
        let in_name = || nqn.as_str().strip_prefix(UUID_PREFIX).and_then(host_id);
        let derived =
            || Id128(*Uuid::new_v5(&Uuid::NAMESPACE_OID, nqn.as_str().as_bytes()).as_bytes());
        let id = of_system.or_else(in_name).unwrap_or_else(derived);
        Ok(Self { nqn, id })
    }

    /// The identity of a host with a given identifier; without a name, that of this host.
    ///
    /// # Errors
    /// The identifier is not a UUID other than zero.
    pub fn identified(nqn: Option<Nqn>, id: &str) -> Result<Self, Error> {
        let wrong = || {
            let text = format!("\"{id}\" is not a UUID other than zero; `uuidgen` makes one");
            Error::new(ErrorKind::Usage, text)
        };
        let id = host_id(id).ok_or_else(wrong)?;
        Ok(Self { nqn: nqn.map_or_else(host_nqn, Ok)?, id })
    }

    /// The same host with an identifier for one of those who open devices on it, which is the same
    /// each time.
    #[must_use]
    pub fn for_opener(self, opener: Uuid) -> Self {
        let id = Uuid::new_v5(&Uuid::from_bytes(self.id.0), opener.as_bytes());
        Self { id: Id128(*id.as_bytes()), ..self }
    }
}

/// The NQN of this host: the system's, or a generated one that is kept.
fn host_nqn() -> Result<Nqn, Error> {
    host_nqn_by(Path::new(HOSTNQN))
}

fn host_nqn_by(hostnqn: &Path) -> Result<Nqn, Error> {
    let text = match name_in(hostnqn)? {
        Some(text) => {
            check_whole(hostnqn, &text, UUID_PREFIX)?;
            text
        }
        None => lasting("hostnqn", UUID_PREFIX)?,
    };
    Nqn::new(&text).map_err(|e| {
        Error::new(
            ErrorKind::Usage,
            format!("the host NQN \"{text}\" in the file hostnqn is unusable: {e}"),
        )
    })
}

/// The default name of a subsystem: generated once per user and machine.
pub fn subsystem_nqn() -> Result<Nqn, Error> {
    let text = lasting("subsysnqn", UUID_PREFIX)?;
    Nqn::new(&text).map_err(|e| {
        Error::new(
            ErrorKind::Usage,
            format!("the subsystem NQN \"{text}\" in the file subsysnqn is unusable: {e}"),
        )
    })
}

/// The iSCSI initiator name of this host: the system's, if it can be read, or a generated one that
/// is kept.
pub fn initiator_name() -> Result<Name, Error> {
    let text = match text_in(Path::new(INITIATORNAME))?.map(|text| in_file_of_system(&text)) {
        Some(Ok(Some(name))) => name,
        Some(Err(why)) => {
            return Err(Error::new(ErrorKind::Usage, format!("the file {INITIATORNAME} {why}")));
        }
        Some(Ok(None)) | None => lasting("initiatorname", IQN_PREFIX)?,
    };
    Name::new(&text).map_err(|e| {
        let text = format!("the iSCSI initiator name \"{text}\" is unusable: {e}; set another with --initiator-name");
        Error::new(ErrorKind::Usage, text)
    })
}

/// The name in a file of open-iscsi, among comments; why there is none, if it is not clear.
fn in_file_of_system(text: &str) -> Result<Option<String>, &'static str> {
    let mut names =
        text.lines().filter_map(|line| Some(line.trim().strip_prefix("InitiatorName=")?.trim()));
    let first = names.next().filter(|name| !name.is_empty());
    match names.all(|name| Some(name) == first) {
        true => Ok(first.map(str::to_owned)),
        false => Err("has several lines with InitiatorName=, and may have one"),
    }
}

/// The default name of an iSCSI target: generated once per user and machine. Its naming authority
/// is the domain reserved for private use.
pub fn target_iqn() -> Result<Name, Error> {
    let text = lasting("targetiqn", IQN_PREFIX)?;
    Name::new(&text).map_err(|e| {
        Error::new(
            ErrorKind::Usage,
            format!("the iSCSI name \"{text}\" in the file targetiqn is unusable: {e}"),
        )
    })
}

/// The UUID of a namespace whose device has none: derived from the subsystem and the namespace ID,
/// so it is as permanent as they are.
pub fn namespace_uuid(subsystem: &Nqn, nsid: u32) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{}/{nsid}", subsystem.as_str()).as_bytes())
}

/// The directory in which lasting names and identities are kept; none if the system tells no place
/// for it.
pub fn state_dir() -> Option<PathBuf> {
    static SETTLED: Once = Once::new();
    let of = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let directory = of("WEFT_STATE_DIR")
        .or_else(|| of("XDG_STATE_HOME").map(|p| p.join("weft")))
        .or_else(|| of("LOCALAPPDATA").map(|p| p.join("weft")))
        .or_else(|| of("HOME").map(|p| p.join(".local/state/weft")));
    // Before this process puts anything there.
    directory.iter().for_each(|directory| SETTLED.call_once(|| settle(directory)));
    directory
}

/// Result of [`renew`]: the names that it has removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The state directory.
    pub directory: PathBuf,
    /// Files with names of this host and of its targets.
    pub names: Vec<&'static str>,
    /// Names of files and disks.
    pub disks: usize,
}

/// Removes all names that this user's state directory has, so that the next process draws others:
/// after a machine was copied with it. Processes that run keep theirs.
///
/// # Errors
/// That there is no such directory, or that a name cannot be removed.
pub fn renew() -> Result<Removed, Error> {
    let directory = state_dir().ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "there is no state directory: set WEFT_STATE_DIR to it")
    })?;
    let failed = |e| Error::io(format!("cannot remove names in {}: {e}", directory.display()), e);
    let mut names = Vec::new();
    for name in NAMES {
        match fs::remove_file(directory.join(name)) {
            Ok(()) => names.push(name),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
    }
    let disks = forget(&directory).map_err(failed)?;
    Ok(Removed { directory, names, disks })
}

/// The name in the file `name` of the state directory; the first time it is generated: `prefix` and
/// a UUID. If it cannot be stored, a new one is used for this run.
fn lasting(name: &str, prefix: &str) -> Result<String, Error> {
    let make = || format!("{prefix}{}", Uuid::new_v4());
    let Some(dir) = state_dir() else {
        tracing::warn!(
            "there is no directory for lasting names, so this run uses new ones: set HOME, or WEFT_STATE_DIR"
        );
        return Ok(make());
    };
    let path = dir.join(name);
    if let Some(text) = name_in(&path)? {
        check_whole(&path, &text, prefix)?;
        return Ok(text);
    }
    match keep(&dir, &path, &make()) {
        Ok(()) => name_in(&path)?.ok_or_else(|| {
            Error::new(ErrorKind::Io, format!("{} is empty; delete it", path.display()))
        }),
        Err(e) => {
            tracing::warn!(
                "cannot save the generated name in {}: {e}; this run uses a new one",
                path.display()
            );
            Ok(make())
        }
    }
}

/// Creates the file atomically, unless another process was first. It is durable as a whole.
fn keep(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let fresh = dir.join(format!(".{}", Uuid::new_v4()));
    let written = durable::create(&fresh, format!("{text}\n").as_bytes(), Readers::Mask)
        .and_then(|file| file.sync_all());
    let placed = written.and_then(|()| match fs::hard_link(&fresh, path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(_) => fs::rename(&fresh, path),
        Ok(()) => Ok(()),
    });
    let _ = fs::remove_file(&fresh);
    placed.and_then(|()| durable::sync_directory_of(path))
}

/// The source of names and random numbers: the system, or a seed with reproducible results.
#[derive(Clone, Debug, Default)]
pub struct Identities(Option<Arc<Seeded>>);

#[derive(Debug)]
struct Seeded {
    /// Included in the names.
    uuid: Uuid,
    rng: Lock<Rng>,
}

impl Identities {
    /// The identities of this machine and user, and true randomness.
    pub fn system() -> Self {
        Self(None)
    }

    /// The identities of a seed, for simulations only: they are not secret.
    pub fn seeded(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut bytes = [0; 16];
        rng.fill(&mut bytes);
        let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
        Self(Some(Arc::new(Seeded { uuid, rng: Lock::new(rng) })))
    }

    /// The identity of this host for NVMe targets.
    pub fn host(&self) -> Result<HostIdentity, Error> {
        match &self.0 {
            None => HostIdentity::of_this_host(),
            Some(seeded) => {
                let text = format!("{UUID_PREFIX}{}", seeded.uuid);
                let nqn = Nqn::new(&text)
                    .map_err(|e| Error::new(ErrorKind::Usage, format!("{text}: {e}")))?;
                Ok(HostIdentity { nqn, id: Id128(*seeded.uuid.as_bytes()) })
            }
        }
    }

    /// The identity of this host for iSCSI targets.
    pub fn initiator_name(&self) -> Result<Name, Error> {
        match &self.0 {
            None => initiator_name(),
            Some(seeded) => {
                let text = format!("{IQN_PREFIX}{}", seeded.uuid);
                Name::new(&text).map_err(|e| Error::new(ErrorKind::Usage, format!("{text}: {e}")))
            }
        }
    }

    /// The default name of an iSCSI target.
    pub fn target_name(&self) -> Result<Name, Error> {
        if self.0.is_some() { self.initiator_name() } else { target_iqn() }
    }

    /// Whoever names files, and disks that have no name.
    #[doc(hidden)]
    pub fn of_disks(&self) -> &dyn Naming {
        static KEPT: LazyLock<StateNames> = LazyLock::new(|| StateNames::new(state_dir()));
        static SEEDED: LazyLock<PassingNames> = LazyLock::new(PassingNames::default);
        if self.0.is_some() { &*SEEDED } else { &*KEPT }
    }

    /// Random bytes; those of the system are suitable for secrets and challenges.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// The same, into memory of the caller.
    pub fn fill(&self, bytes: &mut [u8]) {
        match &self.0 {
            Some(seeded) => seeded.rng.lock().fill(bytes),
            None => weft_io::random::fill(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_uuid_gives_the_identifier() {
        let nqn = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555")
            .unwrap();
        assert_eq!(HostIdentity::named(nqn).unwrap().id.0[..4], [0x11; 4]);
    }

    #[test]
    fn a_part_of_the_systems_name_is_not_used() {
        let file = env::temp_dir().join(format!("weft-hostnqn-{}", Uuid::new_v4()));
        let whole = format!("{UUID_PREFIX}11111111-2222-3333-4444-555555555555");
        fs::write(&file, &whole).unwrap();
        assert_eq!(host_nqn_by(&file).unwrap().as_str(), whole);
        fs::write(&file, &whole[..whole.len() - 9]).unwrap();
        let said = host_nqn_by(&file).unwrap_err().to_string();
        fs::remove_file(&file).unwrap();
        assert!(said.contains("which is a part of a name"), "{said}");
    }

    #[test]
    fn an_identifier_that_is_none_is_not_replaced() {
        let dir = env::temp_dir().join(format!("weft-identity-{}", Uuid::new_v4()));
        fs::create_dir(&dir).unwrap();
        let (hostnqn, hostid) = (dir.join("hostnqn"), dir.join("hostid"));
        let nqn = || Nqn::new("nqn.2026-01.example:host").unwrap();
        let of = || HostIdentity::named_by(nqn(), (&hostnqn, &hostid));
        let derived = of().unwrap();
        fs::write(&hostnqn, "nqn.2026-01.example:host\n").unwrap();
        assert_eq!(of().unwrap(), derived);
        for wrong in ["x\n".to_owned(), format!("{}\n", Uuid::nil()), "a\nb\n".to_owned()] {
            fs::write(&hostid, &wrong).unwrap();
            assert!(of().is_err(), "{wrong:?}");
        }
        let id = "11111111-2222-3333-4444-555555555555";
        fs::write(&hostid, id).unwrap();
        assert_eq!(of().unwrap().id.0[..4], [0x11; 4]);
        assert_eq!(HostIdentity::identified(Some(nqn()), id).unwrap(), of().unwrap());
        // Of another name it is not the identifier, whatever it is.
        fs::write(&hostnqn, "nqn.2026-01.example:other\n").unwrap();
        fs::write(&hostid, "x\n").unwrap();
        assert_eq!(of().unwrap(), derived);
        for wrong in ["", "x", &Uuid::nil().to_string()] {
            assert!(HostIdentity::identified(Some(nqn()), wrong).is_err(), "{wrong}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_of_open_iscsi_has_one_name() {
        let of = |text| in_file_of_system(text).map(|name| name.unwrap_or_default());
        assert_eq!(of("# InitiatorName=iqn.no\nInitiatorName=iqn.a\n"), Ok("iqn.a".into()));
        assert_eq!(of("InitiatorName=iqn.a\nInitiatorName=iqn.a \n"), Ok("iqn.a".into()));
        assert_eq!([of(""), of("InitiatorName=\n")], [Ok(String::new()), Ok(String::new())]);
        assert!(of("InitiatorName=iqn.a\nInitiatorName=iqn.b\n").is_err());
    }

    #[test]
    fn a_seed_is_one_identity_and_one_sequence() {
        let of = |seed| {
            let identities = Identities::seeded(seed);
            (
                identities.host().unwrap(),
                identities.initiator_name().unwrap(),
                identities.random::<16>(),
            )
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let system = Identities::system();
        assert_ne!(system.random::<16>(), system.random::<16>());
    }

    #[test]
    fn a_lasting_name_is_kept_once() {
        let dir = env::temp_dir().join(format!("weft-identity-{}", Uuid::new_v4()));
        let path = dir.join("name");
        keep(&dir, &path, "first").unwrap();
        keep(&dir, &path, "second").unwrap();
        assert_eq!(name_in(&path).unwrap().as_deref(), Some("first"));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(&dir).unwrap();
    }
}
