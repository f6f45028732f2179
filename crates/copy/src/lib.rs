//! Copies one block device to another.
//!
//! ```text
//! FROM ──read──▶ chunk ──zero or data?──▶ write, write zeroes, or nothing ──▶ TO
//! ```
//!
//! * [`CopyEnds`]: the two devices, and why they cannot be copied.
//! * [`copy()`]: copies, on event loops of its own; each has queues of both devices, and takes the
//!   next chunk from the [`ledger`] when it has room.
//! * `offload`: first, where the server of both devices copies by itself, it does that.
//! * [`ledger`]: the next work, and the end of the part that is written completely.
//! * [`map`]: where a device may hold data.
//! * [`tuning`]: finds the size of the chunks and their number.
//! * [`UnreadableRanges`]: what FROM cannot deliver, where a copy goes on all the same.
//! * [`journal`]: up to where a flush covers the copy, for the process that goes on with it.
//!
//! Nothing here parses a command line or prints. Errors are [`weft_block::Error`].
#![forbid(unsafe_code)]

mod chunk;
mod digest;
mod ends;
mod failed;
pub mod journal;
pub mod ledger;
pub mod limits;
mod loops;
pub mod map;
mod offload;
mod run;
mod shared;
mod stopping;
pub mod tuning;
mod unreadable;
mod worker;
mod zeroes;

pub use ends::{CopyEnds, room, shown};
pub use journal::Journal;
pub use run::{CopyEnd, CopyOptions, CopyPhase, CopyProgress, CopyStart, Summary, copy};
pub use unreadable::{UnreadableRange, UnreadableRanges};
