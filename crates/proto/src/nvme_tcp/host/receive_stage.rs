//! Next bytes that a host receives, and their command.

use crate::stream::Tag;

/// What comes next on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveStage {
    Header,
    /// The digest of the data before.
    Digest,
}

/// Whose data the pump was told to receive last, and whether the command has succeeded with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arriving {
    Nothing,
    Data { tag: Tag, success: bool },
}
