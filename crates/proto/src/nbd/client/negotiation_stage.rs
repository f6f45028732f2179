//! Where a negotiation is, and how a server can end it.

use crate::nbd::code::{OptionCode, ReplyCode};

/// Refusal of a server and its reason, in the server's own words if it gave any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionRefusal {
    /// The refused option.
    pub option: OptionCode,
    /// The answer.
    pub code: ReplyCode,
    /// The server's message, for people; may be empty.
    pub message: String,
}

/// Expected message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NegotiationStage {
    Greeting,
    /// A reply to an option; this many have come.
    Reply {
        option: OptionCode,
        count: u32,
    },
    /// The rest of the data of a reply.
    Data {
        option: OptionCode,
        count: u32,
        reply: ReplyCode,
        left: u32,
    },
    /// TLS has to be set up.
    Tls,
    /// The answer to an export name.
    NameAnswer,
    /// The zeroes behind it.
    Zeroes,
    /// The zeroes were discarded, or there are none.
    Ready,
    /// Nothing: the server refused.
    Refused,
}
