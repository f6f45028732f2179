//! Addresses of logical units (SAM-5 §4.7).

/// The number of a logical unit in the 8 bytes of a LUN (SAM-5 §4.7): single level, peripheral
/// device or flat space addressing.
#[inline]
pub fn unit_number(lun: u64) -> Option<usize> {
    let (first, rest) = ((lun >> 48) as u16, lun & 0xffff_ffff_ffff);
    match first >> 14 {
        // Bus identifier zero.
        0 if first >> 8 == 0 && rest == 0 => Some(usize::from(first)),
        1 if rest == 0 => Some(usize::from(first & 0x3fff)),
        _ => None,
    }
}

/// The 8 bytes of the LUN of a logical unit's number, which is below 16384.
pub const fn lun_of(number: usize) -> u64 {
    let first = if number < 256 { number as u64 } else { 0x4000 | number as u64 };
    first << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_are_of_one_level() {
        for number in [0, 1, 255, 256, 0x3fff] {
            assert_eq!(unit_number(lun_of(number)), Some(number));
        }
        assert_eq!(unit_number(0x4001_0000_0000_0000), Some(1));
        assert_eq!(unit_number(0x0101_0000_0000_0000), None);
        assert_eq!(unit_number(0x0001_0001_0000_0000), None);
        assert_eq!(unit_number(0xc101_0000_0000_0000), None);
    }
}
