//! Numbers on the wire: options, replies, commands, chunks, errors and flags. Unknown values are
//! preserved.

use crate::nvme::wire::codes;

codes! {
    /// Option of a client during negotiation ("Option types").
    pub struct OptionCode(u32) {
        1 EXPORT_NAME "choose an export, without an error reply";
        2 ABORT "end the negotiation";
        3 LIST "list the exports";
        5 STARTTLS "start TLS";
        6 INFO "get information about an export";
        7 GO "choose an export";
        8 STRUCTURED_REPLY "use structured replies";
        9 LIST_META_CONTEXT "list metadata contexts";
        10 SET_META_CONTEXT "select metadata contexts";
        11 EXTENDED_HEADERS "use extended headers";
    }
}

codes! {
    /// Reply of a server to an option ("Option reply types").
    pub struct ReplyCode(u32) {
        1 ACK "done";
        2 SERVER "an export";
        3 INFO "information about an export";
        4 META_CONTEXT "a metadata context";
        0x8000_0001 ERR_UNSUP "the server does not know the option";
        0x8000_0002 ERR_POLICY "the server does not allow it";
        0x8000_0003 ERR_INVALID "the server considers the option malformed";
        0x8000_0004 ERR_PLATFORM "the server's platform cannot do it";
        0x8000_0005 ERR_TLS_REQD "the server requires TLS";
        0x8000_0006 ERR_UNKNOWN "there is no such export";
        0x8000_0007 ERR_SHUTDOWN "the server is being shut down";
        0x8000_0008 ERR_BLOCK_SIZE_REQD "the server requires the use of its block sizes";
        0x8000_0009 ERR_TOO_BIG "the option is too large for the server";
        0x8000_000a ERR_EXT_HEADER_REQD "the server requires extended headers";
    }
}

impl ReplyCode {
    /// Returns whether it is an error, known or not.
    pub const fn is_error(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }
}

codes! {
    /// Subject of an information reply.
    pub struct InfoType(u16) {
        0 EXPORT "size and transmission flags";
        1 NAME "canonical name";
        2 DESCRIPTION "description";
        3 BLOCK_SIZE "block sizes";
    }
}

codes! {
    /// Type of a request ("Request types").
    pub struct CommandCode(u16) {
        0 READ "read";
        1 WRITE "write";
        2 DISC "disconnect";
        3 FLUSH "flush";
        4 TRIM "trim";
        5 CACHE "cache";
        6 WRITE_ZEROES "write zeroes";
        7 BLOCK_STATUS "block status";
    }
}

codes! {
    /// Type of a chunk of a structured or extended reply ("Structured reply types").
    pub struct ChunkType(u16) {
        0 NONE "nothing";
        1 OFFSET_DATA "data";
        2 OFFSET_HOLE "a hole";
        5 BLOCK_STATUS "block status";
        6 BLOCK_STATUS_EXT "block status with 64-bit lengths";
        0x8001 ERROR "an error";
        0x8002 ERROR_OFFSET "an error at an offset";
    }
}

impl ChunkType {
    /// Returns whether it reports an error, in any form.
    pub const fn is_error(self) -> bool {
        self.0 & 0x8000 != 0
    }
}

codes! {
    /// Outcome of a request ("Error values"); 0 is success.
    pub struct ErrorCode(u32) {
        0 SUCCESS "success";
        1 EPERM "operation not permitted";
        5 EIO "input/output error";
        12 ENOMEM "out of memory";
        22 EINVAL "invalid argument";
        28 ENOSPC "no space left";
        75 EOVERFLOW "value too large";
        95 ENOTSUP "operation not supported";
        108 ESHUTDOWN "the server is being shut down";
    }
}

macro_rules! flags {
    ($(#[$doc:meta])* pub struct $name:ident($inner:ty) { $($bit:literal $constant:ident $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            $(#[doc = concat!($text, ".")] pub const $constant: Self = Self(1 << $bit);)*

            /// Returns whether all of `flags` are set.
            pub const fn has(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// With `flags` set too, where the condition holds.
            #[must_use]
            pub const fn with_if(self, flags: Self, condition: bool) -> Self {
                if condition { Self(self.0 | flags.0) } else { self }
            }

            /// With `flags` set too.
            #[must_use]
            pub const fn with(self, flags: Self) -> Self {
                Self(self.0 | flags.0)
            }
        }
    };
}

flags! {
    /// Capabilities of a server, from its greeting.
    pub struct HandshakeFlags(u16) {
        0 FIXED_NEWSTYLE "Options beyond the export name are answered";
        1 NO_ZEROES "The zeroes behind the answer to an export name may be left out";
    }
}

flags! {
    /// Capabilities of a client, in answer to the greeting.
    pub struct ClientFlags(u32) {
        0 FIXED_NEWSTYLE "It sends options beyond the export name";
        1 NO_ZEROES "It wants the zeroes left out";
    }
}

flags! {
    /// Capabilities of an export ("Transmission flags").
    pub struct TransmissionFlags(u16) {
        0 HAS_FLAGS "Always set";
        1 READ_ONLY "Writes are refused";
        2 SEND_FLUSH "Flush is understood";
        3 SEND_FUA "Force unit access is understood";
        4 ROTATIONAL "It is a rotational medium";
        5 SEND_TRIM "Trim is understood";
        6 SEND_WRITE_ZEROES "Write zeroes is understood";
        7 SEND_DF "Reads may ask for one chunk";
        8 CAN_MULTI_CONN "A flush on one connection covers what was written on all";
        9 SEND_RESIZE "Defined by an experimental extension";
        10 SEND_CACHE "Cache is understood";
        11 SEND_FAST_ZERO "Write zeroes may be asked to fail unless it is fast";
        12 BLOCK_STATUS_PAYLOAD "Block status may name contexts";
    }
}

flags! {
    /// Flags of a command ("Command flags").
    pub struct CommandFlags(u16) {
        0 FUA "Durable before it is answered";
        1 NO_HOLE "Zeroes shall take up space";
        2 DF "One chunk";
        3 REQ_ONE "One extent";
        4 FAST_ZERO "Fail unless it is faster than writing";
        5 PAYLOAD_LEN "The length is that of a payload";
    }
}

flags! {
    /// About a chunk of a reply ("Structured and extended header reply flags").
    pub struct ChunkFlags(u16) {
        0 DONE "The last chunk";
    }
}

flags! {
    /// State of an extent in base:allocation.
    pub struct ExtentFlags(u64) {
        0 HOLE "Nothing is allocated for it";
        1 ZERO "It reads as zeroes";
    }
}

/// The metadata context with holes and ranges that read as zeroes.
pub(super) const ALLOCATION: &str = "base:allocation";
