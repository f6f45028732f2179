//! Zeroes for all that reads them: one copy in the program.

/// Number of [`ZEROES`].
pub(crate) const ZEROES_BYTES: usize = 64 << 10;

/// Bytes that begin at a page.
#[repr(align(4096))]
pub(crate) struct Zeroes(pub [u8; ZEROES_BYTES]);

/// Zeroes that are never written to.
pub(crate) static ZEROES: Zeroes = Zeroes([0; ZEROES_BYTES]);
