//! Identifiers of a host's commands (Base §3.3.3.1).
//!
//! The tag is in the lower bits of a CID, and in the upper ones a number that changes whenever the
//! slot is used again, so that a late response is not taken for another command's. One bit stays
//! clear, because FFFFh is not a valid CID.

use crate::limits::QUEUE_ENTRIES_MAX;
use crate::nvme::types::Cid;
use crate::stream::Tag;

const TAG_BITS: u32 = 10;
const CID_MASK: u16 = 0x7fff;
const _: () =
    assert!(QUEUE_ENTRIES_MAX as u32 <= 1 << TAG_BITS, "a tag does not fit into its part of a CID");

/// The identifier for the next use of a slot; that of a tag which was never used is the tag.
#[inline]
pub(crate) fn next_cid(cid: Cid) -> Cid {
    Cid(cid.0.wrapping_add(1 << TAG_BITS) & CID_MASK)
}

/// The slot that an identifier names.
#[inline]
pub(crate) fn tag_of(cid: Cid) -> Tag {
    Tag(cid.0 & ((1 << TAG_BITS) - 1))
}
