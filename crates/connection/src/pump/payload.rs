//! The payload that a pump receives at present.

use weft_proto::stream::Tag;

/// Bytes being received at the place that the engine named.
pub(super) struct Moving {
    /// `None`: to nowhere.
    pub(super) to: Option<(Tag, u32)>,
    pub(super) left: u32,
    pub(super) digest: bool,
    /// Shown to the handler in one piece, when all of it is staged.
    pub(super) whole: bool,
}
