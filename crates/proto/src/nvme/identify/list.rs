//! The lists returned by Identify, and the namespace identification descriptors.

use super::{Csi, IDENTIFY_BYTES};
use crate::nvme::types::{Cntlid, Id128, Nsid};
use crate::nvme::wire::{DecodeError, Field, structure};

fn whole(structure: &'static str, bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.len() < IDENTIFY_BYTES {
        return Err(DecodeError::Short {
            structure,
            expected: IDENTIFY_BYTES,
            received: bytes.len(),
        });
    }
    Ok(())
}

/// Namespace List (Base, "Namespace List Format"): up to 1,024 identifiers in ascending order,
/// ended by a zero. Identify returns it for CNS 02h, 07h and 10h with the identifiers above the
/// command's; the log page Changed Namespace List has the same form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceList(pub Vec<Nsid>);

impl NamespaceList {
    /// Bytes on the wire.
    pub const BYTES: usize = IDENTIFY_BYTES;
    /// Identifiers in one list, at most.
    pub const ENTRIES_MAX: usize = 1024;

    /// The list of those of `active` (ascending) that are above `above`, as many as fit.
    pub fn above(active: impl IntoIterator<Item = Nsid>, above: Nsid) -> Self {
        Self(active.into_iter().filter(|&nsid| nsid > above).take(Self::ENTRIES_MAX).collect())
    }

    /// Reads a list; fails where it does not ascend, so that a caller which asks for the
    /// identifiers above the last one always comes to an end.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        whole("Namespace List", bytes)?;
        let mut list = Vec::new();
        for offset in (0..Self::BYTES).step_by(4) {
            match Nsid::read(&bytes[offset..]) {
                Nsid(0) => break,
                nsid if list.last().is_some_and(|&last| nsid <= last) => {
                    return Err(DecodeError::Field {
                        structure: "Namespace List",
                        field: "namespace identifier",
                        offset,
                        problem: "is not above the one before it",
                    });
                }
                nsid => list.push(nsid),
            }
        }
        Ok(Self(list))
    }

    /// Writes the list over the first [`Self::BYTES`] bytes of `out`, which must be there;
    /// identifiers beyond [`Self::ENTRIES_MAX`] are left out.
    pub fn put(&self, out: &mut [u8]) {
        out[..Self::BYTES].fill(0);
        for (at, nsid) in out[..Self::BYTES].chunks_exact_mut(4).zip(&self.0) {
            nsid.write(at);
        }
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; Self::BYTES];
        self.put(&mut out);
        out
    }
}

/// Controller List (Base, "Controller List Format"): up to 2,047 identifiers in ascending order
/// behind their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerList(pub Vec<Cntlid>);

impl ControllerList {
    /// Bytes on the wire.
    pub const BYTES: usize = IDENTIFY_BYTES;
    /// Identifiers in one list, at most.
    pub const ENTRIES_MAX: usize = 2047;

    /// Reads a list; fails where the number of identifiers is more than the list can hold.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        whole("Controller List", bytes)?;
        let count = usize::from(u16::read(bytes));
        if count > Self::ENTRIES_MAX {
            return Err(DecodeError::Field {
                structure: "Controller List",
                field: "Number of Identifiers",
                offset: 0,
                problem: "is more than 2047",
            });
        }
        Ok(Self((0..count).map(|n| Cntlid::read(&bytes[2 + n * 2..])).collect()))
    }

    /// The wire form; identifiers beyond [`Self::ENTRIES_MAX`] are left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; Self::BYTES];
        let count = self.0.len().min(Self::ENTRIES_MAX);
        (count as u16).write(&mut out);
        for (n, id) in self.0.iter().take(count).enumerate() {
            id.write(&mut out[2 + n * 2..]);
        }
        out
    }
}

structure! {
    /// Identify I/O Command Set data structure, CNS 1Ch (Base §5.17.2.21): the combinations of
    /// command sets that a controller can run at once, each a bit per [`Csi`].
    pub struct CommandSetCombinations[4096] {
        /// I/O Command Set Vectors; the first zero ends the list.
        0 vectors: [u64; 512],
    }
}

/// Namespace Identification Descriptor list, CNS 03h (Base §5.17.2.3): how a namespace is known
/// everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceDescriptors {
    /// IEEE Extended Unique Identifier (NIDT 1).
    pub eui64: Option<[u8; 8]>,
    /// Namespace Globally Unique Identifier (NIDT 2).
    pub nguid: Option<Id128>,
    /// Namespace UUID (NIDT 3).
    pub uuid: Option<Id128>,
    /// Command set (NIDT 4).
    pub csi: Option<Csi>,
}

impl NamespaceDescriptors {
    /// Bytes on the wire.
    pub const BYTES: usize = IDENTIFY_BYTES;

    const NAME: &'static str = "Namespace Identification Descriptor";
    const EUI64: u8 = 1;
    const NGUID: u8 = 2;
    const UUID: u8 = 3;
    const CSI: u8 = 4;

    /// Reads the descriptors up to the one of length zero or the end. Unknown types are skipped; of
    /// two of one type the first counts. Fails on a known type of the wrong length and on a
    /// descriptor that does not fit.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        whole(Self::NAME, bytes)?;
        let mut found = Self::default();
        let mut offset = 0;
        while offset + 4 <= Self::BYTES {
            let length = usize::from(bytes[offset + 1]);
            let Some(value) = bytes[..Self::BYTES].get(offset + 4..offset + 4 + length) else {
                return Err(Self::bad_length(offset));
            };
            if length == 0 {
                break;
            }
            found.take(bytes[offset], value).ok_or_else(|| Self::bad_length(offset))?;
            offset += 4 + length;
        }
        Ok(found)
    }

    fn bad_length(offset: usize) -> DecodeError {
        DecodeError::Field {
            structure: Self::NAME,
            field: "Namespace Identifier Length",
            offset: offset + 1,
            problem: "does not fit the type or the list",
        }
    }

    fn take(&mut self, kind: u8, value: &[u8]) -> Option<()> {
        match kind {
            Self::EUI64 => self.eui64 = self.eui64.or(Some(value.try_into().ok()?)),
            Self::NGUID => self.nguid = self.nguid.or(Some(Id128(value.try_into().ok()?))),
            Self::UUID => self.uuid = self.uuid.or(Some(Id128(value.try_into().ok()?))),
            Self::CSI => {
                let [csi] = value.try_into().ok()?;
                self.csi = self.csi.or(Some(Csi(csi)));
            }
            _ => {}
        }
        Some(())
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        let mut descriptor = |kind: u8, value: &[u8]| {
            out.extend_from_slice(&[kind, value.len() as u8, 0, 0]);
            out.extend_from_slice(value);
        };
        self.eui64.inspect(|id| descriptor(Self::EUI64, id));
        self.nguid.inspect(|id| descriptor(Self::NGUID, &id.0));
        self.uuid.inspect(|id| descriptor(Self::UUID, &id.0));
        self.csi.inspect(|csi| descriptor(Self::CSI, &[csi.0]));
        out.resize(Self::BYTES, 0);
        out
    }
}
