//! Reservations as initiators see and change them: the holder and the registrants of a device that
//! other hosts use as well.

use crate::limits::RESERVATION_REPORT_BYTES;
use uuid::Uuid;

/// Bytes of the header of a report, and of each registrant (Base 2.1 §7.7, extended form).
const HEADER_BYTES: usize = 64;
const REGISTRANT_BYTES: usize = 64;

/// Type of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservationKind {
    /// Only the holder writes; all read.
    WriteExclusive,
    /// Only the holder reads and writes.
    ExclusiveAccess,
    /// Registrants write; all read.
    WriteExclusiveRegistrantsOnly,
    /// Registrants read and write.
    ExclusiveAccessRegistrantsOnly,
    /// Registrants, who are all holders, write; all read.
    WriteExclusiveAllRegistrants,
    /// Registrants, who are all holders, read and write.
    ExclusiveAccessAllRegistrants,
}

impl ReservationKind {
    /// All of them, in the order of their codes in NVMe, which start at 1.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrantsOnly,
        Self::ExclusiveAccessRegistrantsOnly,
        Self::WriteExclusiveAllRegistrants,
        Self::ExclusiveAccessAllRegistrants,
    ];

    /// Its code in NVMe (RTYPE).
    pub const fn nvme(self) -> u8 {
        self as u8 + 1
    }

    /// The type of an NVMe code (RTYPE).
    pub fn of_nvme(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.nvme() == code)
    }
}

/// The name of the opener that registers with a key, by the lower half of the key. A target that
/// knows hosts by one name only, as Linux' LIO does, lets no other session of a host take its
/// reservation: who knows the key opens the device as that opener, whose session ends by that, and
/// gives it back.
pub fn opener_of(key: u64) -> Uuid {
    Uuid::from_u128(u128::from(key as u32))
}

/// A change of the reservation of a device. Keys are those of the opener; zero means no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReserveAction {
    /// Registers the opener with this key, whatever key it has now.
    Register {
        /// The new key.
        key: u64,
    },
    /// Ends the registration, and with it the reservation if the opener alone holds that.
    Unregister {
        /// The key registered.
        key: u64,
    },
    /// Takes the reservation if nobody else holds one.
    Acquire {
        /// The key registered.
        key: u64,
        /// The type.
        kind: ReservationKind,
    },
    /// Ends the registrations with another key, and takes the reservation if one of these held it.
    Preempt {
        /// The key registered.
        key: u64,
        /// The key of those who lose their registrations.
        of: u64,
        /// The type.
        kind: ReservationKind,
    },
    /// Gives the reservation back, and stays registered.
    Release {
        /// The key registered.
        key: u64,
        /// The type that is held.
        kind: ReservationKind,
    },
}

/// A registrant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationHolder {
    /// The host identifier of NVMe, or what stands for the initiator port of SCSI.
    pub host: [u8; 16],
    /// Its key.
    pub key: u64,
    /// True if it holds the reservation.
    pub holds: bool,
}

/// The state of a device's reservation: what [`crate::OpKind::ReservationReport`] brings, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationReport {
    /// Counts registering and preempting.
    pub generation: u32,
    /// The type; `None`: nobody holds a reservation.
    pub kind: Option<ReservationKind>,
    /// Those registered, as far as the report has room for them.
    pub registrants: Vec<ReservationHolder>,
    /// There are more of them.
    pub is_cut: bool,
}

impl ReservationReport {
    /// Reads the Reservation Status data structure in its extended form (Base 2.1 §7.7); `None`:
    /// the bytes are not one. Reads at most [`RESERVATION_REPORT_BYTES`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = &bytes[..bytes.len().min(RESERVATION_REPORT_BYTES)];
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let kind = match header[4] {
            0 => None,
            code => Some(ReservationKind::of_nvme(code)?),
        };
        let count = usize::from(u16::from_le_bytes([header[5], header[6]]));
        let entries = rest.as_chunks::<REGISTRANT_BYTES>().0;
        let registrants: Vec<_> = entries.iter().take(count).map(registrant).collect();
        let generation = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        Some(Self { generation, kind, is_cut: registrants.len() < count, registrants })
    }

    /// Writes it in the form that [`Self::decode`] reads, for devices whose protocol has another
    /// one. It contains as many registrants as fit.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; RESERVATION_REPORT_BYTES];
        let (header, rest) = bytes.split_at_mut(HEADER_BYTES);
        let count = if self.is_cut {
            u16::MAX
        } else {
            u16::try_from(self.registrants.len()).unwrap_or(u16::MAX)
        };
        header[..4].copy_from_slice(&self.generation.to_le_bytes());
        header[4] = self.kind.map_or(0, ReservationKind::nvme);
        header[5..7].copy_from_slice(&count.to_le_bytes());
        for (entry, of) in rest.chunks_exact_mut(REGISTRANT_BYTES).zip(&self.registrants) {
            entry[2] = u8::from(of.holds);
            entry[8..16].copy_from_slice(&of.key.to_le_bytes());
            entry[16..32].copy_from_slice(&of.host);
        }
        bytes
    }
}

fn registrant(entry: &[u8; REGISTRANT_BYTES]) -> ReservationHolder {
    let (mut key, mut host) = ([0; 8], [0; 16]);
    key.copy_from_slice(&entry[8..16]);
    host.copy_from_slice(&entry[16..32]);
    ReservationHolder { host, key: u64::from_le_bytes(key), holds: entry[2] & 1 != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: u8, count: u16) -> Vec<u8> {
        let mut bytes = vec![0; RESERVATION_REPORT_BYTES];
        bytes[..4].copy_from_slice(&7u32.to_le_bytes());
        bytes[4] = kind;
        bytes[5..7].copy_from_slice(&count.to_le_bytes());
        bytes[64 + 2] = 1;
        bytes[64 + 8..64 + 16].copy_from_slice(&0xabcdu64.to_le_bytes());
        bytes[64 + 16..64 + 32].fill(9);
        bytes
    }

    #[test]
    fn a_report_tells_who_is_registered_and_who_holds() {
        let decoded = ReservationReport::decode(&report(3, 2)).unwrap();
        assert_eq!((decoded.generation, decoded.is_cut), (7, false));
        assert_eq!(decoded.kind, Some(ReservationKind::WriteExclusiveRegistrantsOnly));
        assert_eq!(
            decoded.registrants[0],
            ReservationHolder { host: [9; 16], key: 0xabcd, holds: true }
        );
        assert_eq!((decoded.registrants.len(), decoded.registrants[1].holds), (2, false));
        assert_eq!(ReservationReport::decode(&report(0, 1)).unwrap().kind, None);
    }

    #[test]
    fn one_that_is_too_short_or_of_no_type_is_none_and_one_that_is_cut_says_so() {
        assert_eq!(ReservationReport::decode(&report(0, 0)[..63]), None);
        assert_eq!(ReservationReport::decode(&report(7, 0)), None);
        let cut = ReservationReport::decode(&report(1, u16::MAX)).unwrap();
        assert_eq!((cut.registrants.len(), cut.is_cut), (63, true));
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let of = |key| ReservationHolder { host: [key as u8; 16], key, holds: key == 2 };
        let kind = Some(ReservationKind::ExclusiveAccess);
        let report = ReservationReport {
            generation: 3,
            kind,
            registrants: vec![of(1), of(2)],
            is_cut: false,
        };
        assert_eq!(ReservationReport::decode(&report.encode()), Some(report.clone()));
        let many = ReservationReport { registrants: (1..100).map(of).collect(), ..report.clone() };
        let read = ReservationReport::decode(&many.encode()).unwrap();
        assert_eq!((&read.registrants[..], read.is_cut), (&many.registrants[..63], true));
        assert!(
            ReservationReport::decode(&ReservationReport { is_cut: true, ..report }.encode())
                .unwrap()
                .is_cut
        );
    }

    #[test]
    fn codes_lead_back_to_their_types() {
        for kind in ReservationKind::ALL {
            assert_eq!(ReservationKind::of_nvme(kind.nvme()), Some(kind));
        }
    }
}
