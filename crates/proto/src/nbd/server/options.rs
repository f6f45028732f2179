//! Queries of a client about exports, and the replies.

use crate::nbd::code::{ALLOCATION, InfoType};
use crate::nbd::export::ExportInfo;
use crate::nbd::wire::Reader;

/// An export in the answer to LIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
}

/// Properties of an export that a client requests.
#[derive(Clone, Copy, Debug)]
pub struct ExportOffer<'a> {
    /// Its canonical name and its description.
    pub listed: &'a Listed,
    /// Size, flags and block sizes, now. Whether reads may ask for one chunk is the server's own
    /// matter.
    pub info: ExportInfo,
}

/// By which option an export is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum How {
    /// EXPORT_NAME.
    #[default]
    Name,
    /// INFO.
    Info,
    /// GO.
    Go,
}

/// The export that a client wants, and what it wants to know.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub how: How,
    pub name: String,
    pub canonical_name: bool,
    pub description: bool,
    pub sizes: bool,
}

impl Wanted {
    /// Reads the data of INFO and GO; `None` when it is malformed.
    pub fn decode(how: How, data: &[u8]) -> Option<Self> {
        let mut reader = Reader(data);
        let mut wanted = Self { how, name: reader.string()?.to_owned(), ..Self::default() };
        for _ in 0..reader.u16()? {
            match InfoType(reader.u16()?) {
                InfoType::NAME => wanted.canonical_name = true,
                InfoType::DESCRIPTION => wanted.description = true,
                InfoType::BLOCK_SIZE => wanted.sizes = true,
                _ => {}
            }
        }
        reader.is_empty().then_some(wanted)
    }
}

/// The queries of LIST_META_CONTEXT and SET_META_CONTEXT.
pub(super) struct Queries<'a> {
    /// The export that they are about.
    pub export: &'a str,
    /// There are none.
    pub none: bool,
    /// base:allocation is named.
    pub allocation: bool,
    /// All of the namespace base: are meant.
    pub base: bool,
}

impl<'a> Queries<'a> {
    /// Reads them; `None` when they are malformed.
    pub fn decode(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(data);
        let export = reader.string()?;
        let count = reader.u32()?;
        let mut queries = Self { export, none: count == 0, allocation: false, base: false };
        for _ in 0..count {
            match reader.string()? {
                ALLOCATION => queries.allocation = true,
                "base:" => queries.base = true,
                // Queries of other namespaces, or of none, find nothing.
                _ => {}
            }
        }
        reader.is_empty().then_some(queries)
    }
}
