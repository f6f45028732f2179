//! Defines data structures and codes of NVMe as tables: a structure is a table of offset, name and
//! type, a code is a table of value, name and text.

use core::fmt;

use super::types::{Cntlid, Id128, Nqn, NqnError, Nsid};

/// Why bytes from the peer are not the data structure that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The structure is longer than what was received.
    #[error("{structure} has {expected} bytes, {received} were received")]
    Short {
        /// Name of the structure.
        structure: &'static str,
        /// Bytes of the structure.
        expected: usize,
        /// Bytes that are there.
        received: usize,
    },
    /// A field has a value that the specification rules out.
    #[error("{structure}: {field} at byte {offset} {problem}")]
    Field {
        /// Name of the structure.
        structure: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Offset of the field in the structure, in bytes.
        offset: usize,
        /// The problem, as the end of a sentence.
        problem: &'static str,
    },
}

/// A field of fixed size in a data structure. Numbers are little-endian.
pub trait Field: Sized {
    /// Bytes on the wire.
    const BYTES: usize;

    /// Reads the first [`Self::BYTES`] bytes, which must be there.
    fn read(bytes: &[u8]) -> Self;

    /// Writes the first [`Self::BYTES`] bytes, which must be there.
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! number_fields {
    ($($number:ty),*) => {$(
        impl Field for $number {
            const BYTES: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                let mut number = [0; size_of::<Self>()];
                number.copy_from_slice(&bytes[..size_of::<Self>()]);
                Self::from_le_bytes(number)
            }

            fn write(&self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
number_fields!(u8, u16, u32, u64, u128);

impl<T: Field, const N: usize> Field for [T; N] {
    const BYTES: usize = T::BYTES * N;

    fn read(bytes: &[u8]) -> Self {
        core::array::from_fn(|n| T::read(&bytes[n * T::BYTES..]))
    }

    fn write(&self, bytes: &mut [u8]) {
        for (n, item) in self.iter().enumerate() {
            item.write(&mut bytes[n * T::BYTES..]);
        }
    }
}

/// Makes a field of a newtype over one.
macro_rules! newtype_field {
    ($($name:ty = $inner:ty),*) => {$(
        impl $crate::nvme::wire::Field for $name {
            const BYTES: usize = <$inner as $crate::nvme::wire::Field>::BYTES;

            fn read(bytes: &[u8]) -> Self {
                Self(<$inner as $crate::nvme::wire::Field>::read(bytes))
            }

            fn write(&self, bytes: &mut [u8]) {
                self.0.write(bytes);
            }
        }
    )*};
}
pub(crate) use newtype_field;

newtype_field!(Nsid = u32, Cntlid = u16, Id128 = [u8; 16]);

/// ASCII text of a fixed size, padded with spaces at the end (Base §1.4.2). Texts that a peer pads
/// with NUL, or that are not ASCII, are read as well.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ascii<const N: usize>(pub [u8; N]);

newtype_field!(Ascii<4> = [u8; 4], Ascii<8> = [u8; 8], Ascii<20> = [u8; 20], Ascii<32> = [u8; 32]);
newtype_field!(Ascii<40> = [u8; 40], Ascii<256> = [u8; 256]);

impl<const N: usize> Ascii<N> {
    /// The text, cut off behind `N` bytes; what is not printable ASCII becomes a question mark.
    pub fn new(text: &str) -> Self {
        let mut field = [b' '; N];
        for (to, from) in field.iter_mut().zip(text.chars()) {
            *to = if from == ' ' || from.is_ascii_graphic() { from as u8 } else { b'?' };
        }
        Self(field)
    }

    /// The text without padding; what is not printable ASCII comes as a question mark, so that it
    /// can be shown to people.
    pub fn text(&self) -> String {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(N);
        let text = self.0[..end]
            .iter()
            .map(|&b| if b == b' ' || b.is_ascii_graphic() { b as char } else { '?' });
        text.collect::<String>().trim_end().to_owned()
    }
}

impl<const N: usize> fmt::Debug for Ascii<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text(), f)
    }
}

/// A qualified name in its NUL-terminated field of 256 bytes, as received: it may be malformed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NqnField(pub [u8; 256]);

newtype_field!(NqnField = [u8; 256]);

impl NqnField {
    /// The name, if it is one.
    pub fn nqn(&self) -> Result<Nqn, NqnError> {
        Nqn::from_field(&self.0)
    }

    /// Returns whether the field holds no name at all, as some hosts leave it.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

impl From<&Nqn> for NqnField {
    fn from(name: &Nqn) -> Self {
        let mut field = [0; 256];
        name.put(&mut field);
        Self(field)
    }
}

impl fmt::Debug for NqnField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Ascii(self.0).text(), f)
    }
}

/// Defines a data structure by a table of `offset name: type`, with `decode`, `encode`, `put` and
/// an all-zero `Default`. Bytes that no field covers are reserved: ignored when read, written as
/// zero.
macro_rules! structure {
    ($(#[$doc:meta])* pub struct $name:ident[$bytes:literal] {
        $($(#[$field_doc:meta])* $offset:literal $field:ident: $type:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* #[doc = concat!("\n\nByte ", stringify!($offset), ".")] pub $field: $type,)*
        }

        const _: () = {
            use $crate::nvme::wire::Field;
            let mut end = 0;
            $(
                assert!($offset >= end, "fields overlap or are not in order");
                end = $offset + <$type as Field>::BYTES;
            )*
            assert!(end <= $bytes, "the fields are longer than the structure");
        };

        impl $crate::nvme::wire::Field for $name {
            const BYTES: usize = $bytes;

            fn read(bytes: &[u8]) -> Self {
                use $crate::nvme::wire::Field;
                Self { $($field: <$type as Field>::read(&bytes[$offset..]),)* }
            }

            fn write(&self, bytes: &mut [u8]) {
                bytes[..$bytes].fill(0);
                $($crate::nvme::wire::Field::write(&self.$field, &mut bytes[$offset..]);)*
            }
        }

        impl $name {
            /// Bytes on the wire.
            pub const BYTES: usize = $bytes;

            /// Reads the wire form from the front of `bytes`; fails only if they are fewer than
            /// [`Self::BYTES`].
            pub fn decode(bytes: &[u8]) -> Result<Self, $crate::nvme::wire::DecodeError> {
                if bytes.len() < $bytes {
                    return Err($crate::nvme::wire::DecodeError::Short {
                        structure: stringify!($name),
                        expected: $bytes,
                        received: bytes.len(),
                    });
                }
                Ok($crate::nvme::wire::Field::read(bytes))
            }

            /// Writes the wire form over the first [`Self::BYTES`] bytes of `out`, which must be
            /// there.
            pub fn put(&self, out: &mut [u8]) {
                $crate::nvme::wire::Field::write(self, out);
            }

            /// The wire form: [`Self::BYTES`] bytes.
            pub fn encode(&self) -> Vec<u8> {
                let mut out = vec![0; $bytes];
                self.put(&mut out);
                out
            }
        }

        impl Default for $name {
            /// All fields zero.
            fn default() -> Self {
                $crate::nvme::wire::Field::read(&[0; $bytes])
            }
        }
    };
}
pub(crate) use structure;

/// The codes that are known of a type: a constant for each, and its text.
macro_rules! known_codes {
    ($name:ident { $($value:literal $constant:ident $text:literal;)* }) => {
        impl $name {
            $(#[doc = concat!($text, ".")] pub const $constant: Self = Self($value);)*

            /// The meaning of the code, if this crate knows it.
            pub const fn text(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use known_codes;

/// Defines a wire code: a newtype over an integer with a constant per known value. Unknown values
/// are kept.
macro_rules! codes {
    ($(#[$doc:meta])* pub struct $name:ident($inner:ty) { $($value:literal $constant:ident $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        $crate::nvme::wire::newtype_field!($name = $inner);

        $crate::nvme::wire::known_codes! { $name { $($value $constant $text;)* } }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.text() {
                    Some(text) => f.write_str(text),
                    None => write!(f, "{:#04x}", self.0),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{self}({:#x})", self.0)
            }
        }
    };
}
pub(crate) use codes;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_is_padded_and_trimmed() {
        assert_eq!(&Ascii::<8>::new("weft").0, b"weft    ");
        assert_eq!(&Ascii::<4>::new("weft é").0, b"weft");
        assert_eq!(&Ascii::<8>::new("a\nbé").0, b"a?b?    ");
        assert_eq!(Ascii(*b"ab c  \0\x01").text(), "ab c");
        assert_eq!(Ascii(*b"a\x1b\xffb").text(), "a??b");
    }

    #[test]
    fn nqn_field_keeps_malformed_names() {
        let name = Nqn::discovery();
        assert_eq!(NqnField::from(&name).nqn(), Ok(name));
        assert!(NqnField([b'n'; 256]).nqn().is_err());
        assert!(NqnField([0; 256]).nqn().is_err());
    }
}
