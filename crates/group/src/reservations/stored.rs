//! Registrations and the reservation in the forms in which they are stored.

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use weft_proto::crc32c::crc32c;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::{Kind, Registrant, Registration, Reservation, ReservationState};
use weft_proto::scsi::lun::{NexusName, TransportId};

/// A registration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRegistration {
    registrant: StoredRegistrant,
    /// 16 hexadecimal digits.
    key: String,
    /// The name that the host has proved. From version 2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proven: Option<String>,
}

/// The version of the forms that is written. Older ones are read.
pub const VERSION: u32 = 2;

/// The version in which registrations have the names that their hosts have proved.
const HAS_NAMES: u32 = 2;

/// A registrant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum StoredRegistrant {
    /// The identifier of an NVMe host.
    Host(Uuid),
    /// An I_T nexus of SCSI; its initiator port is a TransportID in hexadecimal digits.
    Nexus {
        /// The TransportID.
        initiator: String,
        /// The relative target port.
        target_port: u16,
        /// It is registered at all target ports.
        all_ports: bool,
    },
}

/// The reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredReservation {
    /// RTYPE of NVMe.
    r#type: u8,
    /// Its place in the list of registrants.
    holder: usize,
}

/// Stored content, with a checksum and a version.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document<C> {
    version: u32,
    /// CRC-32C of `content` as compact JSON.
    crc32c: u32,
    content: C,
}

impl<C: Serialize> Document<C> {
    /// A document of this version of the form, which is that of the content.
    pub fn new(version: u32, content: C) -> Self {
        Self { version, crc32c: checksum(&content), content }
    }

    /// Returns the stored content.
    ///
    /// # Errors
    /// It is damaged.
    pub fn content(self) -> Result<C, String> {
        if self.crc32c != checksum(&self.content) {
            return Err("its checksum is wrong".to_owned());
        }
        Ok(self.content)
    }
}

/// Reads a document. A later version may have further fields, too, and is refused for its version.
pub fn document<C: Serialize + for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<C, String> {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let Head { version } = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if !(1..=VERSION).contains(&version) {
        return Err(format!(
            "it has version {version} of the format, this weft knows versions 1 to {VERSION}: update it"
        ));
    }
    let document: Document<C> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    document.content()
}

fn checksum(content: &impl Serialize) -> u32 {
    crc32c(serde_json::to_string(content).unwrap_or_default().as_bytes())
}

/// The registrations and the reservation of a state, for this version of the form.
pub fn parts(
    state: &ReservationState,
    version: u32,
) -> (Vec<StoredRegistration>, Option<StoredReservation>) {
    let place = |held: &Reservation| {
        state.registrations().iter().position(|known| known.registrant == held.holder)
    };
    let held = state.reservation().and_then(|held| {
        Some(StoredReservation { r#type: held.kind.nvme(), holder: place(held)? })
    });
    (state.registrations().iter().map(|of| stored(of, version)).collect(), held)
}

/// The state of these registrations and this reservation.
///
/// # Errors
/// The reason why they are invalid.
pub fn state(
    registrants: &[StoredRegistration],
    held: Option<&StoredReservation>,
) -> Result<ReservationState, String> {
    let registrations: Option<Vec<Registration>> = registrants.iter().map(restored).collect();
    let registrations = registrations.ok_or("it has an invalid registrant")?;
    let held = match held {
        None => None,
        Some(stored) => Some(Reservation {
            kind: Kind::of_nvme(stored.r#type).ok_or("it has an unknown type of reservation")?,
            holder: registrations
                .get(stored.holder)
                .ok_or("the reservation's holder is not registered")?
                .registrant
                .clone(),
        }),
    };
    ReservationState::restore(registrations, held).map_err(|e| e.to_string())
}

fn stored(of: &Registration, version: u32) -> StoredRegistration {
    let registrant = StoredRegistrant::of(&of.registrant, of.all_ports);
    let proven =
        of.proven.as_ref().filter(|_| version >= HAS_NAMES).map(|name| name.as_str().to_owned());
    StoredRegistration { registrant, key: format!("{:016x}", of.key), proven }
}

fn restored(of: &StoredRegistration) -> Option<Registration> {
    let key = u64::from_str_radix(&of.key, 16).ok()?;
    let all_ports = matches!(of.registrant, StoredRegistrant::Nexus { all_ports: true, .. });
    let proven = of.proven.as_deref().map(Nqn::new).transpose().ok()?;
    Some(Registration { registrant: of.registrant.restored()?, key, all_ports, proven })
}

impl StoredRegistrant {
    /// A registrant, registered at all target ports or not.
    pub fn of(registrant: &Registrant, all_ports: bool) -> Self {
        match registrant {
            Registrant::Host(host) => Self::Host(Uuid::from_bytes(host.0)),
            Registrant::Nexus(nexus) => Self::Nexus {
                initiator: nexus
                    .initiator
                    .as_bytes()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
                target_port: nexus.target_port,
                all_ports,
            },
        }
    }

    /// Returns the registrant; `None`: it is invalid.
    pub fn restored(&self) -> Option<Registrant> {
        match self {
            Self::Host(host) => Some(Registrant::Host(Id128(*host.as_bytes()))),
            Self::Nexus { initiator, target_port, all_ports } => {
                let digits =
                    initiator.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
                let bytes: Option<Vec<u8>> =
                    digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
                let initiator = TransportId::decode(&bytes?)?;
                // Written by a weft that knew one port only.
                let target_port = if *all_ports { NexusName::ALL_PORTS } else { *target_port };
                Some(Registrant::Nexus(NexusName { initiator, target_port }))
            }
        }
    }
}
