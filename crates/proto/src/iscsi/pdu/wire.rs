//! Fields of a basic header segment, and the macro that defines a PDU by its layout.

use super::basic_header::{Lun, TaskTag};
use crate::iscsi::serial::Serial;

/// A field of a header.
pub(super) trait Field: Sized {
    /// Reads it from the front of `at`.
    fn read(at: &[u8]) -> Self;

    /// Writes it to the front of `at`, which holds zeroes or, where fields share a byte, their
    /// bits.
    fn write(self, at: &mut [u8]);
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Field for $type {
            #[inline]
            fn read(at: &[u8]) -> Self {
                at.first_chunk().map_or(0, |bytes| Self::from_be_bytes(*bytes))
            }

            #[inline]
            fn write(self, at: &mut [u8]) {
                for (to, from) in at.iter_mut().zip(self.to_be_bytes()) {
                    *to |= from;
                }
            }
        }
    )*};
}

integer!(u8, u16, u32, u64);

macro_rules! newtype {
    ($($type:ident),*) => {$(
        impl Field for $type {
            #[inline]
            fn read(at: &[u8]) -> Self {
                Self(Field::read(at))
            }

            #[inline]
            fn write(self, at: &mut [u8]) {
                self.0.write(at);
            }
        }
    )*};
}

newtype!(Serial, TaskTag, Lun);

/// The bit of the first byte that makes a request immediate.
pub(super) const IMMEDIATE: u8 = 0x40;

/// Only used for the I bit of the first byte.
impl Field for bool {
    #[inline]
    fn read(at: &[u8]) -> Self {
        at.first().is_some_and(|byte| byte & IMMEDIATE != 0)
    }

    #[inline]
    fn write(self, at: &mut [u8]) {
        if self && let Some(byte) = at.first_mut() {
            *byte |= IMMEDIATE;
        }
    }
}

impl<const N: usize> Field for [u8; N] {
    #[inline]
    fn read(at: &[u8]) -> Self {
        at.first_chunk().copied().unwrap_or([0; N])
    }

    #[inline]
    fn write(self, at: &mut [u8]) {
        at[..N].copy_from_slice(&self);
    }
}

/// Declares a PDU: its opcode, the constant part of its second byte, and each field with the byte
/// at which it starts.
macro_rules! pdu {
    ($(#[$doc:meta])* $name:ident = $opcode:ident, $second:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty = $at:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// The opcode.
            pub const OPCODE: $crate::iscsi::pdu::basic_header::Opcode = $crate::iscsi::pdu::basic_header::Opcode::$opcode;

            /// Reads the fields of a basic header segment with this opcode. Reserved bits are
            /// ignored.
            #[inline]
            pub fn decode(bhs: &[u8; $crate::iscsi::pdu::basic_header::BHS_BYTES]) -> Self {
                Self { $($field: $crate::iscsi::pdu::wire::Field::read(&bhs[$at..]),)* }
            }

            /// The basic header segment of the PDU with `data_bytes` (less than 2²⁴) in its data
            /// segment and no additional header segments.
            #[inline]
            pub fn encode(&self, data_bytes: u32) -> [u8; $crate::iscsi::pdu::basic_header::BHS_BYTES] {
                debug_assert!(data_bytes < 1 << 24);
                let mut bhs = [0; $crate::iscsi::pdu::basic_header::BHS_BYTES];
                bhs[0] = Self::OPCODE.0;
                bhs[1] = $second;
                bhs[4..8].copy_from_slice(&data_bytes.to_be_bytes());
                $($crate::iscsi::pdu::wire::Field::write(self.$field, &mut bhs[$at..]);)*
                bhs
            }
        }
    };
}

/// Declares a wire code: a newtype over a byte of which `$mask` belongs to it, and its known
/// values.
macro_rules! code {
    ($(#[$doc:meta])* $name:ident & $mask:literal { $($(#[$value_doc:meta])* $value:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u8);

        impl $name {
            $($(#[$value_doc])* pub const $value: Self = Self($number);)*
        }

        impl $crate::iscsi::pdu::wire::Field for $name {
            #[inline]
            fn read(at: &[u8]) -> Self {
                Self(at.first().map_or(0, |byte| byte & $mask))
            }

            #[inline]
            fn write(self, at: &mut [u8]) {
                if let Some(byte) = at.first_mut() {
                    *byte |= self.0 & $mask;
                }
            }
        }
    };
}

pub(super) use {code, pdu};
