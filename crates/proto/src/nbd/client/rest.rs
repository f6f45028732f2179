//! Rest of a reply before the next one is parsed.

use crate::stream::Tag;

/// Work before the next chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// The end of a reply, whose last part the layer above has got.
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
