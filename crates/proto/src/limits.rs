//! Every limit of the engines, with its unit and what happens when it is reached.

/// Commands that one queue may have outstanding: the largest queue this crate offers (CAP.MQES + 1). A host that submits more
/// than its queue holds is cut off with a TermReq.
pub const QUEUE_ENTRIES_MAX: u16 = 1024;

/// Entries of an admin queue, at most.
pub const ADMIN_QUEUE_ENTRIES_MAX: u16 = 128;
