//! Recognition of data on a disk by the magic numbers at its start and end: a partition table, a
//! file system, swap space, or a part of a volume manager, of an array or of encryption. Each
//! format documents its numbers; `table` lists them.
//!
//! Recognition is for people who are about to overwrite a disk. So it prefers to recognise too
//! much: also a signature that was left over counts.

mod checks;
mod ends;
mod table;

pub use ends::{Content, DiskEnds, END_BYTES, START_BYTES};

/// Returns the first recognised content; `None`: nothing.
pub fn find(ends: &DiskEnds<'_>) -> Option<Content> {
    table::SIGNATURES.iter().find_map(|signature| signature.find(ends))
}

#[cfg(test)]
mod tests;
