//! Next bytes that a host receives, and their command.

use crate::stream::Tag;

/// Next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveStage {
    Header,
    /// The digest of the data before.
    Digest,
}

/// Command whose data the pump receives last, and whether the command has succeeded with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arriving {
    Nothing,
    Data { tag: Tag, success: bool },
}
