//! Types of reservations, as block devices name them and as the engines do.

use weft_block::ReservationKind;
use weft_proto::reservation::Kind;

/// The engines' name of a type.
pub fn kind_of(kind: ReservationKind) -> Kind {
    match kind {
        ReservationKind::WriteExclusive => Kind::WriteExclusive,
        ReservationKind::ExclusiveAccess => Kind::ExclusiveAccess,
        ReservationKind::WriteExclusiveRegistrantsOnly => Kind::WriteExclusiveRegistrantsOnly,
        ReservationKind::ExclusiveAccessRegistrantsOnly => Kind::ExclusiveAccessRegistrantsOnly,
        ReservationKind::WriteExclusiveAllRegistrants => Kind::WriteExclusiveAllRegistrants,
        ReservationKind::ExclusiveAccessAllRegistrants => Kind::ExclusiveAccessAllRegistrants,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_keep_their_codes() {
        for kind in ReservationKind::ALL {
            assert_eq!(kind_of(kind).nvme(), kind.nvme());
        }
    }
}
