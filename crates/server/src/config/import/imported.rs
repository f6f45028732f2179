//! The data of a configuration of another target.
//!
//! Access is closed by default: nobody is admitted, and nothing is written to, unless the code that
//! reads a configuration grants it. A rule that an import does not know can therefore not open
//! anything.

use std::collections::{BTreeMap, HashMap};

use weft_endpoint::inventory::{Naa, PrintableName};
use weft_proto::limits::{IO_QUEUES_CONFIGURED_MAX, IO_QUEUES_MAX};

/// Hosts or initiators that have access.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmittedHosts {
    /// All.
    Any,
    /// Those with these names.
    Only(Vec<String>),
}

impl Default for AdmittedHosts {
    /// Nobody.
    fn default() -> Self {
        Self::Only(Vec::new())
    }
}

impl AdmittedHosts {
    /// Admits a name, too.
    pub fn add(&mut self, name: String) {
        if let Self::Only(names) = self
            && !names.contains(&name)
        {
            names.push(name);
        }
    }

    /// The names; none where all are admitted.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Any => &[],
            Self::Only(names) => names,
        }
    }
}

/// A configuration from elsewhere.
#[derive(Debug, Default)]
pub struct Imported {
    /// URLs to listen at.
    pub listen: Vec<String>,
    /// Identifiers of the server's controllers; `None`: all.
    pub cntlids: Option<(u16, u16)>,
    /// Options of connections to remote sources, each with its value in TOML.
    pub connect: BTreeMap<&'static str, String>,
    /// File with the keys of NVMe/TCP hosts; with it TLS is mandatory.
    pub psk_file: Option<String>,
    /// ANA states of groups.
    pub states: Vec<ImportedState>,
    /// Name of the iSCSI target; `None`: the default.
    pub iscsi_name: Option<String>,
    /// CHAP users of initiators.
    pub users: Vec<ImportedUser>,
    /// The CHAP user that the target is, and the file with its secret.
    pub target_user: Option<(String, String)>,
    /// Subsystems; the first one is the iSCSI target.
    pub subsystems: Vec<ImportedSubsystem>,
    /// Settings that could not be carried over, one sentence each.
    pub left: Vec<String>,
    /// Names of the files for secrets.
    pub files: SecretFiles,
}

/// The ANA state of a group of namespaces.
#[derive(Debug, PartialEq)]
pub struct ImportedState {
    /// The group.
    pub group: u32,
    /// The word for the state.
    pub state: &'static str,
    /// `ADDR:PORT` of the only listener that it applies to.
    pub listener: Option<String>,
}

/// A CHAP user.
#[derive(Debug, PartialEq)]
pub struct ImportedUser {
    /// Name.
    pub name: String,
    /// File with the secret.
    pub secret_file: String,
    /// Initiators that log in with it; empty: all that have no other user.
    pub initiators: Vec<String>,
}

/// A subsystem from elsewhere.
#[derive(Debug, Default)]
pub struct ImportedSubsystem {
    /// NQN.
    pub nqn: String,
    /// Hosts that may connect.
    pub hosts: AdmittedHosts,
    /// iSCSI initiators that may log in.
    pub initiators: AdmittedHosts,
    /// Authentication of hosts; `None`: none is needed.
    pub authentication: Option<ImportedAuthentication>,
    /// Serial number that NVMe hosts see.
    pub serial: Option<String>,
    /// Model number that they see.
    pub model: Option<String>,
    /// Identifiers of its controllers; `None`: all.
    pub cntlids: Option<(u16, u16)>,
    /// I/O queues of a controller, where they are limited to other than the default.
    pub max_queues: Option<u64>,
    /// Namespaces.
    pub namespaces: Vec<ImportedNamespace>,
}

/// Authentication of a subsystem's NVMe hosts by DH-HMAC-CHAP.
#[derive(Debug, Default)]
pub struct ImportedAuthentication {
    /// Hosts, each with the file of its secret. All others are refused.
    pub hosts: Vec<(String, String)>,
    /// File with the secret of the controllers.
    pub controller: Option<String>,
    /// Hash functions; empty: the default.
    pub hashes: Vec<String>,
    /// Diffie-Hellman groups; empty: the default.
    pub groups: Vec<String>,
}

/// A namespace from elsewhere.
#[derive(Debug, Default)]
pub struct ImportedNamespace {
    /// Identifier.
    pub nsid: u64,
    /// Source URL.
    pub source: String,
    /// URLs of further paths to it.
    pub paths: Vec<String>,
    /// Bytes to serve at most; `None`: all.
    pub bytes: Option<u64>,
    /// Identities, as text.
    pub uuid: Option<String>,
    /// See above.
    pub nguid: Option<String>,
    /// See above.
    pub eui64: Option<String>,
    /// Names of the logical unit.
    pub scsi: ImportedScsi,
    /// Hosts that see it, of those that may connect.
    pub hosts: AdmittedHosts,
    /// iSCSI initiators that see it, of those that may log in.
    pub initiators: AdmittedHosts,
    /// Accepts writes.
    pub is_writable: bool,
    /// ANA group; `None`: the default.
    pub ana_group: Option<u32>,
    /// Offers reservations; `None`: the default.
    pub reservations: Option<bool>,
}

/// Names of a logical unit from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct ImportedScsi {
    /// Unit serial number.
    pub serial: Option<String>,
    /// Vendor.
    pub vendor: Option<String>,
    /// Product.
    pub product: Option<String>,
    /// NAA identifier.
    pub naa: Option<String>,
    /// T10 vendor ID based designator.
    pub t10_id: Option<String>,
}

impl Imported {
    /// Reports what could not be carried over, once.
    pub fn leave(&mut self, sentence: String) {
        if !self.left.contains(&sentence) {
            self.left.push(sentence);
        }
    }

    /// Serves a target by iSCSI if it is the first one, and reports others. Returns whether it is
    /// served.
    pub fn serve_first(&mut self, iqn: &str) -> bool {
        let is_first = self.iscsi_name.is_none();
        if is_first {
            self.iscsi_name = Some(iqn.to_owned());
        } else {
            self.leave(format!(
                "{iqn} is another target: a weft serves one by iSCSI, the first; start another weft for it"
            ));
        }
        is_first
    }
}

impl ImportedSubsystem {
    /// The subsystem of an iSCSI target: it has the target's name, and no NVMe hosts.
    pub fn of_target(iqn: &str, left: &mut Vec<String>) -> Self {
        left.push(format!("{iqn} has no NVMe hosts: name those that may connect in hosts"));
        let nqn =
            iqn.strip_prefix("iqn.").map_or_else(|| iqn.to_owned(), |rest| format!("nqn.{rest}"));
        Self { nqn, ..Self::default() }
    }

    /// Takes over serial and model number, as far as the protocol can report them to hosts.
    pub fn number(
        &mut self,
        serial: Option<String>,
        model: Option<String>,
        left: &mut Vec<String>,
    ) {
        let whose = self.nqn.clone();
        self.serial = printable::<20>(serial, (&whose, "serial number"), left);
        self.model = printable::<40>(model, (&whose, "model"), left);
    }

    /// Takes over a limit of I/O queues. One that is too large becomes the largest.
    pub fn limit_queues(&mut self, queues: Option<u64>, left: &mut Vec<String>) {
        let most = u64::from(IO_QUEUES_CONFIGURED_MAX);
        let Some(queues) = queues.filter(|queues| *queues > 0) else { return };
        if queues > most {
            let nqn = &self.nqn;
            left.push(format!(
                "{nqn} allows a controller {queues} I/O queues: in weft it is {most} at most"
            ));
        }
        let queues = queues.min(most);
        self.max_queues = Some(queues).filter(|queues| *queues != u64::from(IO_QUEUES_MAX));
    }
}

impl ImportedScsi {
    /// The same without names that the protocol cannot report to initiators.
    pub fn checked(self, whose: &str, left: &mut Vec<String>) -> Self {
        Self {
            serial: printable::<36>(self.serial, (whose, "serial number"), left),
            vendor: printable::<8>(self.vendor, (whose, "vendor"), left),
            product: printable::<16>(self.product, (whose, "product"), left),
            naa: self.naa.filter(|text| text.parse::<Naa>().is_ok()),
            t10_id: printable::<64>(self.t10_id, (whose, "T10 vendor identifier"), left),
        }
    }
}

/// A name without the spaces around it. One that cannot be told is left out, in words.
fn printable<const MAX: usize>(
    text: Option<String>,
    (whose, what): (&str, &str),
    left: &mut Vec<String>,
) -> Option<String> {
    let text = text?.trim().to_owned();
    match text.parse::<PrintableName<MAX>>() {
        Ok(_) => Some(text),
        Err(_) if text.is_empty() => None,
        Err(e) => {
            left.push(format!("{whose} has the {what} {e}"));
            None
        }
    }
}

// Names of the files for secrets. An import writes no secret: it names a file that must exist, so
// that the result does not start without it.

/// Longest name of a file, without its ending.
const STEM_CHARS_MAX: usize = 200;

/// The names that were given.
#[derive(Debug, Default)]
pub struct SecretFiles {
    /// Whose each file is.
    owners: HashMap<String, String>,
}

impl SecretFiles {
    /// Returns the file of an owner, which is the same each time, and of no other owner.
    pub fn of(&mut self, owner: &str, ending: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let stem: String = owner.chars().map(plain).take(STEM_CHARS_MAX).collect();
        // A leading dot would hide it, or name another directory.
        let stem = stem.trim_start_matches('.');
        let names = (1..).map(|n| match n {
            1 if !stem.is_empty() => format!("{stem}.{ending}"),
            _ => format!("{stem}-{n}.{ending}"),
        });
        let is_free = |name: &String| self.owners.get(name).is_none_or(|of| of == owner);
        let name = names.into_iter().find(is_free).unwrap_or_default();
        self.owners.insert(name.clone(), owner.to_owned());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_a_file_of_its_own() {
        let mut files = SecretFiles::default();
        let host = "nqn.2014-08.org.nvmexpress:uuid:1";
        let first = files.of(host, "dhchap");
        assert_eq!(first, "nqn.2014-08.org.nvmexpress-uuid-1.dhchap");
        assert_eq!(files.of(host, "dhchap"), first);
        let other = files.of("nqn.2014-08.org.nvmexpress:uuid/1", "dhchap");
        assert_eq!(other, "nqn.2014-08.org.nvmexpress-uuid-1-2.dhchap");
        assert_eq!(files.of("../../etc/passwd", "secret"), "-..-etc-passwd.secret");
        assert_eq!(files.of("..", "secret"), "-1.secret");
        assert!(files.of(&"é".repeat(500), "secret").len() < 255);
    }
}
