//! Rest of a reply before the next one is parsed.

use crate::stream::Tag;

/// What comes before the next chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// The end of a reply, as the layer above was told of its last part.
    End(Tag),
    /// Extents of a chunk.
    Extents {
        tag: Tag,
        last: bool,
        left: u64,
    },
}

impl Rest {
    /// Next state after a chunk.
    #[inline]
    pub fn after(tag: Tag, last: bool) -> Self {
        if last { Self::End(tag) } else { Self::Nothing }
    }
}
