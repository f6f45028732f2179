//! The checks that every device without a peer that makes them makes on an operation.

use crate::device::{Features, Geometry};
use crate::op::{Op, OpKind};
use crate::outcome::status::{Status, StatusKind};

/// The error of an operation, if any: range, amount of data, length, kind.
#[inline]
pub fn refusal(op: &Op, geometry: &Geometry, features: &Features) -> Option<Status> {
    refusal_with_data(op, weft_io::segment::total_len(&op.data) as u64, geometry, features)
}

/// Like [`refusal`], for an operation of `data` bytes whose memory is somewhere else.
#[inline]
pub fn refusal_with_data(
    op: &Op,
    data: u64,
    geometry: &Geometry,
    features: &Features,
) -> Option<Status> {
    if matches!(op.kind, OpKind::Reserve(_) | OpKind::ReservationReport) && !features.reservations {
        return Some(Status::new(StatusKind::Unsupported));
    }
    let kind = if op.lba.checked_add(u64::from(op.blocks)).is_none_or(|end| end > geometry.blocks) {
        StatusKind::OutOfRange
    } else if !data_fits(op, data, geometry) {
        StatusKind::Invalid
    } else if op.kind.is_write() && (!features.write || geometry.padding_of(op.lba, op.blocks) > 0)
    {
        // What would be written to the padding is stored nowhere.
        StatusKind::WriteProtected
    } else {
        match op.kind {
            OpKind::Compare | OpKind::CompareAndWrite { .. } if !features.compare => {
                StatusKind::Unsupported
            }
            OpKind::WriteZeroes { .. } if !features.write_zeroes => StatusKind::Unsupported,
            _ => return None,
        }
    };
    Some(Status::new(kind))
}

#[inline]
fn data_fits(op: &Op, data: u64, geometry: &Geometry) -> bool {
    let bytes = u64::from(op.blocks) * u64::from(geometry.block_bytes);
    let factor = op.kind.data_factor() as u64;
    data == bytes * factor && (factor == 0 || bytes <= u64::from(geometry.max_transfer_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        block_bytes: 512,
        blocks: 10,
        padding_bytes: 0,
        optimal_blocks: 1,
        max_transfer_bytes: 1024,
        atomic: crate::device::Atomicity::ONE_BLOCK,
    };
    const ALL: Features = Features {
        write: true,
        volatile_cache: true,
        cache_unknown: false,
        discard: true,
        discard_zeroes: true,
        write_zeroes: true,
        compare: true,
        reservations: false,
    };

    fn refused(
        kind: OpKind,
        lba: u64,
        blocks: u32,
        bytes: usize,
        features: &Features,
    ) -> Option<StatusKind> {
        let mut op = Op::bare(kind, lba, blocks, 0);
        if bytes > 0 {
            op.data.push(weft_io::Pool::new(1 << 20).take(bytes).unwrap().into());
        }
        let refused = refusal(&op, &GEOMETRY, features).map(|status| status.kind);
        op.give_up();
        refused
    }

    #[test]
    fn rules() {
        let write = OpKind::Write { fua: false };
        assert_eq!(refused(OpKind::Read, 9, 1, 512, &ALL), None);
        assert_eq!(refused(OpKind::Read, 9, 2, 1024, &ALL), Some(StatusKind::OutOfRange));
        assert_eq!(refused(OpKind::Read, u64::MAX, 2, 1024, &ALL), Some(StatusKind::OutOfRange));
        assert_eq!(refused(OpKind::Read, 0, 2, 512, &ALL), Some(StatusKind::Invalid));
        assert_eq!(refused(write, 0, 3, 1536, &ALL), Some(StatusKind::Invalid));
        assert_eq!(refused(OpKind::CompareAndWrite { fua: false }, 0, 2, 2048, &ALL), None);
        assert_eq!(refused(OpKind::Flush, 0, 0, 0, &Features::default()), None);
        assert_eq!(
            refused(write, 0, 1, 512, &Features::default()),
            Some(StatusKind::WriteProtected)
        );
        assert_eq!(
            refused(OpKind::Compare, 0, 1, 512, &Features::default()),
            Some(StatusKind::Unsupported)
        );
        assert_eq!(refused(OpKind::Discard, 0, 10, 0, &ALL), None);
    }

    #[test]
    fn a_block_that_the_device_has_in_part_is_not_written() {
        let geometry = Geometry { padding_bytes: 100, ..GEOMETRY };
        let refused = |kind, lba, blocks| {
            let op = Op::bare(kind, lba, blocks, 0);
            let bytes = u64::from(blocks) * 512 * kind.data_factor() as u64;
            let refused = refusal_with_data(&op, bytes, &geometry, &ALL);
            op.give_up();
            refused.map(|status| status.kind)
        };
        let zeroes = OpKind::WriteZeroes { deallocate: true, fua: false };
        let write = OpKind::Write { fua: false };
        for kind in [write, zeroes, OpKind::Discard, OpKind::CompareAndWrite { fua: false }] {
            assert_eq!(refused(kind, 9, 1), Some(StatusKind::WriteProtected), "{kind:?}");
            assert_eq!(refused(kind, 8, 1), None, "{kind:?}");
        }
        assert_eq!([refused(OpKind::Read, 9, 1), refused(OpKind::Compare, 8, 2)], [None; 2]);
    }

    #[test]
    fn reservations_are_refused_where_there_are_none() {
        let register = OpKind::Reserve(crate::ReserveAction::Register { key: 1 });
        let with = Features { reservations: true, ..Features::default() };
        for kind in [register, OpKind::ReservationReport] {
            assert_eq!(refused(kind, 0, 0, 0, &ALL), Some(StatusKind::Unsupported), "{kind:?}");
            assert_eq!(refused(kind, 0, 0, 0, &with), None, "{kind:?}");
        }
    }
}
