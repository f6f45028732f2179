//! Work of the engines of iSCSI and NBD for each command, and nothing else, in functions whose
//! instructions can be counted: `cargo xtask race --gates` runs this program under callgrind, which
//! collects inside of `measured_…` only. The plain test pass runs it so that it cannot rot.
//!
//! Both ends are recorded first. Then a fresh engine of one end is shown what the other end sent,
//! so that nothing of the other is counted. Payload is never moved, as in the engines.

mod iscsi;
mod nbd;
mod replay;

/// Commands under way together.
const DEPTH: usize = 16;

/// Number of times that commands are sent and answered, and of those before the count.
const ROUNDS: usize = 260;
const WARM_UP: usize = 10;

/// Commands that are counted.
const COUNTED: usize = (ROUNDS - WARM_UP) * DEPTH;

const BYTES: u32 = 4096;
const BLOCKS: u32 = 8;
