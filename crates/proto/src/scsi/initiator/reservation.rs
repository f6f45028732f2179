//! Data of PERSISTENT RESERVE IN (SPC-4 §6.15).

use crate::reservation::Kind;
use crate::scsi::bytes::{be16, be32, be64};

/// Bytes before the descriptors of READ FULL STATUS.
const HEADER_BYTES: usize = 8;
/// Bytes of a descriptor without its TransportID.
const DESCRIPTOR_BYTES: usize = 24;

/// R_HOLDER: the registrant holds the reservation.
const R_HOLDER: u8 = 0x01;

/// TMV: the supported types are reported.
const TMV: u8 = 0x80;
/// WR_EX, in byte 4: Write Exclusive can be had.
const WR_EX: u8 = 0x02;

/// Returns whether the parameter data of REPORT CAPABILITIES describes a disk that can be reserved.
pub(super) fn can_reserve(capabilities: &[u8]) -> bool {
    capabilities
        .first_chunk::<8>()
        .is_some_and(|it| be16(it, 0) >= 8 && (it[3] & TMV == 0 || it[4] & WR_EX != 0))
}

/// Somebody who is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedRegistrant<'a> {
    /// Its key.
    pub key: u64,
    /// It holds the reservation, or is one of those who do.
    pub holds: bool,
    /// Its TransportID: the name of the initiator port.
    pub initiator: &'a [u8],
}

/// The parameter data of READ FULL STATUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullStatus<'a> {
    /// PRGENERATION.
    pub generation: u32,
    /// The type of the reservation; `None`: nobody holds one.
    pub kind: Option<Kind>,
    /// Those registered, as far as the data goes.
    pub registrants: Vec<ReportedRegistrant<'a>>,
    /// There are more of them.
    pub is_cut: bool,
}

impl<'a> FullStatus<'a> {
    /// Reads an answer with room for `allocation` bytes. `None`: it is invalid, or of a type that
    /// SPC-4 does not have.
    pub fn decode(data: &'a [u8], allocation: usize) -> Option<Self> {
        let (header, rest) = data.split_at_checked(HEADER_BYTES)?;
        let length = be32(header, 4) as usize;
        let is_cut = length > allocation.saturating_sub(HEADER_BYTES);
        let mut rest = if is_cut { rest } else { rest.get(..length)? };
        let mut status =
            Self { generation: be32(header, 0), kind: None, registrants: Vec::new(), is_cut };
        while !rest.is_empty() {
            let Some((descriptor, initiator, others)) = descriptor(rest) else {
                return Some(status).filter(|_| is_cut);
            };
            let holds = descriptor[12] & R_HOLDER != 0;
            if holds {
                status.kind = Some(Kind::of_scsi(descriptor[13] & 0xf)?);
            }
            status.registrants.push(ReportedRegistrant {
                key: be64(descriptor, 0),
                holds,
                initiator,
            });
            rest = others;
        }
        Some(status)
    }
}

/// The first descriptor, its TransportID, and what follows.
fn descriptor(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (descriptor, rest) = data.split_at_checked(DESCRIPTOR_BYTES)?;
    let (initiator, rest) = rest.split_at_checked(be32(descriptor, 20) as usize)?;
    Some((descriptor, initiator, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(registrants: &[(u64, u8, u8)]) -> Vec<u8> {
        let mut data = vec![0, 0, 0, 9, 0, 0, 0, 0];
        for &(key, flags, kind) in registrants {
            data.extend_from_slice(&key.to_be_bytes());
            data.extend_from_slice(&[
                0, 0, 0, 0, flags, kind, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4, 0x45, 0, 0, 0,
            ]);
        }
        let length = data.len() as u32 - 8;
        data[4..8].copy_from_slice(&length.to_be_bytes());
        data
    }

    #[test]
    fn a_full_status_tells_who_is_registered_and_who_holds() {
        let data = status(&[(5, 0, 0), (6, 1, 5)]);
        let told = FullStatus::decode(&data, 4096).unwrap();
        assert_eq!((told.generation, told.kind, told.is_cut), (9, Kind::of_scsi(5), false));
        let keys: Vec<_> =
            told.registrants.iter().map(|of| (of.key, of.holds, of.initiator)).collect();
        assert_eq!(keys, [(5, false, &[0x45, 0, 0, 0][..]), (6, true, &[0x45, 0, 0, 0][..])]);
        assert_eq!(FullStatus::decode(&status(&[]), 4096).unwrap().registrants, []);
    }

    #[test]
    fn one_that_is_longer_than_its_room_is_cut_and_one_that_ends_early_is_none() {
        let data = status(&[(5, 0, 0), (6, 1, 5)]);
        for room in 8..data.len() {
            let cut = FullStatus::decode(&data[..room], room).unwrap();
            assert_eq!((cut.is_cut, cut.registrants.len()), (true, (room - 8) / 28));
            assert_eq!(FullStatus::decode(&data[..room], 4096), None);
        }
        assert_eq!(FullStatus::decode(&data[..7], 7), None);
        assert_eq!(FullStatus::decode(&status(&[(5, 1, 2)]), 4096), None, "no such type");
        let mut endless = data.clone();
        endless[8 + 20..8 + 24].fill(0xff);
        assert_eq!(FullStatus::decode(&endless, 4096), None);
    }

    #[test]
    fn a_disk_without_write_exclusive_cannot_be_reserved() {
        assert!(
            can_reserve(&[0, 8, 0, 0x80, 0xea, 1, 0, 0]) && can_reserve(&[0, 8, 0, 0, 0, 0, 0, 0])
        );
        assert!(
            !can_reserve(&[0, 8, 0, 0x80, 0x20, 0, 0, 0])
                && !can_reserve(&[0, 8, 0])
                && !can_reserve(&[0; 8])
        );
    }
}
