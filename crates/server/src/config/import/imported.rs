//! What is read from a configuration of another target.

use weft_endpoint::inventory::{Naa, Printable};

/// A configuration from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    /// URLs to listen at.
    pub listen: Vec<String>,
    /// Name of the iSCSI target; `None`: nothing is said of it.
    pub iscsi_name: Option<String>,
    /// Subsystems.
    pub subsystems: Vec<ImportedSubsystem>,
    /// What could not be carried over, each in a sentence.
    pub left: Vec<String>,
}

/// A subsystem from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct ImportedSubsystem {
    /// NQN.
    pub nqn: String,
    /// Hosts that may connect; `None`: any.
    pub hosts: Option<Vec<String>>,
    /// iSCSI initiators that may log in; `None`: any.
    pub initiators: Option<Vec<String>>,
    /// Serial number that NVMe hosts see.
    pub serial: Option<String>,
    /// Model number that they see.
    pub model: Option<String>,
    /// Namespaces.
    pub namespaces: Vec<ImportedNamespace>,
}

/// A namespace from elsewhere.
#[derive(Debug, Default, PartialEq)]
pub struct ImportedNamespace {
    /// Identifier.
    pub nsid: u64,
    /// Source URL.
    pub source: String,
    /// Identities, as text.
    pub uuid: Option<String>,
    /// See above.
    pub nguid: Option<String>,
    /// See above.
    pub eui64: Option<String>,
    /// Names of the logical unit.
    pub scsi: ImportedScsi,
    /// Hosts that see it; `None`: all.
    pub hosts: Option<Vec<String>>,
    /// iSCSI initiators that see it; `None`: all.
    pub initiators: Option<Vec<String>>,
    /// Refuses writes.
    pub read_only: bool,
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

impl ImportedSubsystem {
    /// Takes over serial and model number, as far as hosts can be told them.
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
}

impl ImportedScsi {
    /// The same without names that initiators cannot be told.
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
    match text.parse::<Printable<MAX>>() {
        Ok(_) => Some(text),
        Err(_) if text.is_empty() => None,
        Err(e) => {
            left.push(format!("{whose} has the {what} {e}"));
            None
        }
    }
}
