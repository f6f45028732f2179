//! Sense data (SPC-4 §4.5): the reason for CHECK CONDITION, in fixed and descriptor format.

use super::bytes::{be16, be64, number, put};
use super::status::{AdditionalSense, SenseKey};
use core::fmt;

/// Bytes of the longest sense data that this crate writes: descriptor format with information and
/// field pointer.
pub const SENSE_BYTES_MAX: usize = 28;

/// Bytes of sense data in the fixed format.
const FIXED_BYTES: usize = 18;

const FIXED_CURRENT: u8 = 0x70;
const DESCRIPTOR_CURRENT: u8 = 0x72;
const VALID: u8 = 0x80;
/// SKSV: the sense key specific field holds something.
const SPECIFIC_VALID: u8 = 0x80;
const COMMAND_DATA: u8 = 0x40;
const BIT_POINTER_VALID: u8 = 0x08;

const INFORMATION: u8 = 0x00;
const SENSE_KEY_SPECIFIC: u8 = 0x02;

/// Refused field (SPC-4 §4.5.2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPointer {
    /// In the CDB, or otherwise in the parameter list.
    pub in_cdb: bool,
    /// Byte of the field, or its first one.
    pub byte: u16,
    /// Highest bit of the field in that byte, where it is less than the byte.
    pub bit: Option<u8>,
}

/// Why a command ended in CHECK CONDITION.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Sense {
    /// Error class.
    pub key: SenseKey,
    /// Error in detail.
    pub code: AdditionalSense,
    /// Value defined by the code, usually a block address (INFORMATION, valid).
    pub information: Option<u64>,
    /// The field that was refused.
    pub field: Option<FieldPointer>,
}

impl Sense {
    /// Key and code, and nothing more.
    pub const fn new(key: SenseKey, code: AdditionalSense) -> Self {
        Self { key, code, information: None, field: None }
    }

    /// ILLEGAL REQUEST with this code.
    pub const fn illegal(code: AdditionalSense) -> Self {
        Self::new(SenseKey::ILLEGAL_REQUEST, code)
    }

    /// INVALID FIELD IN CDB: the whole byte, or the field that begins there.
    pub const fn cdb_byte(byte: u16) -> Self {
        let field = FieldPointer { in_cdb: true, byte, bit: None };
        Self { field: Some(field), ..Self::illegal(AdditionalSense::INVALID_FIELD_IN_CDB) }
    }

    /// INVALID FIELD IN CDB: a field that begins with this bit of this byte.
    pub const fn cdb_bit(byte: u16, bit: u8) -> Self {
        let field = FieldPointer { in_cdb: true, byte, bit: Some(bit) };
        Self { field: Some(field), ..Self::illegal(AdditionalSense::INVALID_FIELD_IN_CDB) }
    }

    /// INVALID FIELD IN PARAMETER LIST: the field that begins with this byte.
    pub const fn parameter(byte: u16) -> Self {
        let field = FieldPointer { in_cdb: false, byte, bit: None };
        Self {
            field: Some(field),
            ..Self::illegal(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST)
        }
    }

    /// The same with the INFORMATION field.
    pub const fn with_information(mut self, information: u64) -> Self {
        self.information = Some(information);
        self
    }

    /// Writes the fixed format (SPC-4 §4.5.3) and returns its length, 18 bytes. An INFORMATION of
    /// more than 32 bits has no room there and is left out.
    pub fn put_fixed(&self, out: &mut [u8; SENSE_BYTES_MAX]) -> usize {
        out[..FIXED_BYTES].fill(0);
        out[0] = FIXED_CURRENT;
        if let Some(information) =
            self.information.and_then(|information| u32::try_from(information).ok())
        {
            out[0] |= VALID;
            put(&mut out[3..7], information.into());
        }
        out[2] = self.key.0;
        out[7] = (FIXED_BYTES - 8) as u8;
        put(&mut out[12..14], self.code.0.into());
        if let Some(field) = self.field {
            out[15..18].copy_from_slice(&field.specific());
        }
        FIXED_BYTES
    }

    /// Writes the descriptor format (SPC-4 §4.5.2) and returns its length, 8 to 28 bytes.
    pub fn put_descriptor(&self, out: &mut [u8; SENSE_BYTES_MAX]) -> usize {
        out.fill(0);
        out[0] = DESCRIPTOR_CURRENT;
        out[1] = self.key.0;
        put(&mut out[2..4], self.code.0.into());
        let mut end = 8;
        if let Some(information) = self.information {
            out[end..end + 3].copy_from_slice(&[INFORMATION, 10, VALID]);
            put(&mut out[end + 4..end + 12], information);
            end += 12;
        }
        if let Some(field) = self.field {
            out[end..end + 2].copy_from_slice(&[SENSE_KEY_SPECIFIC, 6]);
            out[end + 4..end + 7].copy_from_slice(&field.specific());
            end += 8;
        }
        out[7] = (end - 8) as u8;
        end
    }

    /// Reads sense data of either format, current or deferred. `None` where there is none, or none
    /// that SPC describes; what was cut off counts as not there.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? & 0x7f {
            0x70 | 0x71 if bytes.len() >= 3 => Some(Self::from_fixed(bytes)),
            0x72 | 0x73 if bytes.len() >= 4 => Some(Self::from_descriptors(bytes)),
            _ => None,
        }
    }

    fn from_fixed(bytes: &[u8]) -> Self {
        let mut padded = [0; FIXED_BYTES];
        // ADDITIONAL SENSE LENGTH counts from byte 8 on.
        let told = if bytes.len() > 7 { 8 + usize::from(bytes[7]) } else { bytes.len() };
        let have = bytes.len().min(told).min(FIXED_BYTES);
        padded[..have].copy_from_slice(&bytes[..have]);
        let key = SenseKey(padded[2] & 0x0f);
        Self {
            key,
            code: AdditionalSense(be16(&padded, 12)),
            information: (padded[0] & VALID != 0).then(|| number(&padded[3..7])),
            field: FieldPointer::from_specific(key, &padded[15..18]),
        }
    }

    fn from_descriptors(bytes: &[u8]) -> Self {
        let mut sense = Self::new(SenseKey(bytes[1] & 0x0f), AdditionalSense(be16(bytes, 2)));
        let end = bytes.get(7).map_or(0, |&more| 8 + usize::from(more)).min(bytes.len());
        let mut rest = bytes.get(8..end).unwrap_or_default();
        while let [kind, length, ..] = *rest {
            let Some((descriptor, after)) = rest.split_at_checked(2 + usize::from(length)) else {
                break;
            };
            match kind {
                INFORMATION if descriptor.len() >= 12 && descriptor[2] & VALID != 0 => {
                    sense.information = Some(be64(descriptor, 4));
                }
                SENSE_KEY_SPECIFIC if descriptor.len() >= 7 => {
                    sense.field = FieldPointer::from_specific(sense.key, &descriptor[4..7]);
                }
                _ => {}
            }
            rest = after;
        }
        sense
    }
}

impl FieldPointer {
    fn specific(self) -> [u8; 3] {
        let place = if self.in_cdb { COMMAND_DATA } else { 0 };
        let bit = self.bit.map_or(0, |bit| BIT_POINTER_VALID | bit & 7);
        let [high, low] = self.byte.to_be_bytes();
        [SPECIFIC_VALID | place | bit, high, low]
    }

    /// The field has this meaning only with ILLEGAL REQUEST.
    fn from_specific(key: SenseKey, specific: &[u8]) -> Option<Self> {
        let is_pointer = key == SenseKey::ILLEGAL_REQUEST && specific[0] & SPECIFIC_VALID != 0;
        is_pointer.then(|| Self {
            in_cdb: specific[0] & COMMAND_DATA != 0,
            byte: be16(specific, 1),
            bit: (specific[0] & BIT_POINTER_VALID != 0).then_some(specific[0] & 7),
        })
    }
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.code)?;
        if let Some(field) = self.field {
            write!(
                f,
                ", byte {} of the {}",
                field.byte,
                if field.in_cdb { "CDB" } else { "parameter list" }
            )?;
        }
        if let Some(information) = self.information {
            write!(f, ", information {information:#x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTED: Sense = Sense::cdb_bit(1, 7);

    #[test]
    fn fixed_format_is_laid_out_as_the_standard_shows() {
        let mut out = [0xff; SENSE_BYTES_MAX];
        let sense = Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE).with_information(0x0102_0304);
        let bytes = sense.put_fixed(&mut out);
        assert_eq!(out[..bytes], [0xf0, 0, 5, 1, 2, 3, 4, 10, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0]);
        let bytes = POINTED.put_fixed(&mut out);
        assert_eq!(out[..bytes], [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcf, 0, 1]);
    }

    #[test]
    fn descriptor_format_is_laid_out_as_the_standard_shows() {
        let mut out = [0xff; SENSE_BYTES_MAX];
        let bytes = POINTED.with_information(0x1122_3344_5566_7788).put_descriptor(&mut out);
        let head = [0x72, 5, 0x24, 0, 0, 0, 0, 20];
        let information = [0, 10, 0x80, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
        let pointer = [2, 6, 0, 0, 0xcf, 0, 1, 0];
        assert_eq!(out[..bytes], [&head[..], &information, &pointer].concat());
        let bytes = Sense::new(SenseKey::UNIT_ATTENTION, AdditionalSense::POWER_ON)
            .put_descriptor(&mut out);
        assert_eq!(out[..bytes], [0x72, 6, 0x29, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn both_formats_come_back() {
        for sense in [
            POINTED,
            Sense::parameter(300),
            Sense::default(),
            Sense::new(SenseKey::MEDIUM_ERROR, AdditionalSense::UNRECOVERED_READ_ERROR)
                .with_information(77),
        ] {
            let mut out = [0; SENSE_BYTES_MAX];
            let bytes = sense.put_fixed(&mut out);
            assert_eq!(Sense::decode(&out[..bytes]), Some(sense));
            let bytes = sense.put_descriptor(&mut out);
            assert_eq!(Sense::decode(&out[..bytes]), Some(sense));
        }
    }

    #[test]
    fn what_is_cut_off_counts_as_not_there() {
        let mut out = [0; SENSE_BYTES_MAX];
        let bytes = POINTED.with_information(9).put_descriptor(&mut out);
        for cut in 0..bytes {
            let sense = Sense::decode(&out[..cut]);
            assert_eq!(sense.is_some(), cut >= 4, "{cut}");
        }
        assert_eq!(Sense::decode(&[0x70, 0, 5]), Some(Sense::illegal(AdditionalSense::NONE)));
        assert_eq!(Sense::decode(&[0x7f; 18]), None);
    }
}
