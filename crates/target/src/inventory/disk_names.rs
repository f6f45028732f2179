//! Names by which hosts know a disk, in addition to its UUID: those of `/dev/disk/by-id` and of
//! multipath. A disk that moves here from another target keeps them.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// Up to `MAX` printable ASCII characters, at least one, with no space at either end: names that
/// NVMe and SCSI fill up with spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrintableName<const MAX: usize>(String);

impl<const MAX: usize> PrintableName<MAX> {
    /// The characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> FromStr for PrintableName<MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = (1..=MAX).contains(&text.len()) && text.trim() == text;
        if fits && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("{text:?} is not 1 to {MAX} printable ASCII characters without spaces around"))
    }
}

impl<const MAX: usize> fmt::Display for PrintableName<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An NAA identifier of a logical unit (SPC-4 §7.8.6.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Naa(Vec<u8>);

impl Naa {
    /// Its 8 or 16 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for Naa {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_one = match text.bytes().next() {
            Some(b'2' | b'3' | b'5') => text.len() == 16,
            Some(b'6') => text.len() == 32,
            _ => false,
        };
        if !is_one || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!(
                "{text:?} is not an NAA identifier: 16 hexadecimal digits of which the first is 2, 3 or 5, or 32 of which it is 6"
            ));
        }
        let digits: Vec<u8> =
            text.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
        Ok(Self(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
    }
}

impl fmt::Display for Naa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Numbers of an NVMe subsystem, which all its controllers report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubsystemNumbers {
    /// Serial number (SN); `None`: one that is made of the name.
    pub serial: Option<PrintableName<20>>,
    /// Model number (MN); `None`: weft.
    pub model: Option<PrintableName<40>>,
    /// I/O queues that a controller may have at most, up to
    /// [`weft_proto::limits::IO_QUEUES_CONFIGURED_MAX`]; `None`:
    /// [`weft_proto::limits::IO_QUEUES_MAX`].
    pub queues: Option<NonZeroU16>,
}

/// Names by which initiators know a logical unit, where they are not made of the UUID and the
/// device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiIdentity {
    /// Unit serial number (VPD page 80h).
    pub serial: Option<PrintableName<36>>,
    /// T10 vendor identification.
    pub vendor: Option<PrintableName<8>>,
    /// Product identification.
    pub product: Option<PrintableName<16>>,
    /// NAA identifier, by which Linux and multipath know a disk first.
    pub naa: Option<Naa>,
    /// T10 vendor ID based designator; `None`: made of vendor, product and serial number.
    pub t10_id: Option<PrintableName<64>>,
}

impl ScsiIdentity {
    /// Returns whether initiators would take a disk with these names for the previous one.
    pub fn names_a_disk(&self) -> bool {
        self.serial.is_some() || self.naa.is_some() || self.t10_id.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printable_and_fit() {
        for text in ["a", "SPDK bdev", &"x".repeat(20)] {
            assert_eq!(text.parse::<PrintableName<20>>().unwrap().as_str(), text);
        }
        for text in ["", " a", "a ", "é", "a\n", "a\tb", &"x".repeat(21)] {
            let said = text.parse::<PrintableName<20>>().unwrap_err();
            assert!(
                said.ends_with("is not 1 to 20 printable ASCII characters without spaces around")
            );
        }
    }

    #[test]
    fn an_naa_identifier_has_the_length_of_its_kind() {
        for text in ["3000000100000001", "50014050abcdef01", "60000000000000000e00000000010001"] {
            assert_eq!(text.parse::<Naa>().unwrap().to_string(), text);
        }
        assert_eq!("600140500000000000000000000000ff".parse::<Naa>().unwrap().as_bytes()[15], 0xff);
        for text in ["", "3", "6001405000000000", "1000000000000000", "500140500000000g", "0x50"] {
            assert!(
                text.parse::<Naa>().unwrap_err().contains("is not an NAA identifier"),
                "{text}"
            );
        }
    }
}
