//! A chunk on its way.

use crate::ledger::WorkRange;
use crate::zeroes::is_zero;
use weft_io::Segments;
use weft_io::segment::Divided;

/// A chunk and its memory.
#[derive(Default)]
pub struct Chunk {
    /// Its work; none while it is free.
    pub work: Option<WorkRange>,
    /// Operations of it that are not complete.
    pub pending: u32,
    /// One of them failed.
    pub failed: bool,
    /// Data that was read from FROM.
    pub data: Option<Segments>,
    /// Data that was read from TO, to be compared.
    pub found: Option<Segments>,
    /// The data, while parts of it are written.
    pub parts: Divided,
}

impl Chunk {
    /// Returns whether all of its operations are complete.
    pub fn is_complete(&self) -> bool {
        self.work.is_some() && self.pending == 0
    }

    /// Frees it; the memory of its parts is back. The work, if it is done.
    pub fn free(&mut self) -> Option<WorkRange> {
        (self.data, self.found) = (None, None);
        // Without parts there is nothing to take back.
        let _ = self.parts.take_back();
        let failed = core::mem::take(&mut self.failed);
        self.work.take().filter(|_| !failed)
    }

    /// The first byte in which the ends differ, from the start of the chunk.
    pub fn difference(&self) -> Option<u64> {
        let found = || self.found.iter().flatten();
        let bytes = || found().flat_map(|segment| segment.iter());
        let at = match &self.data {
            None if found().all(|segment| is_zero(segment)) => None,
            None => bytes().position(|byte| *byte != 0),
            // Both have the same pieces.
            Some(data) if data.iter().zip(found()).all(|(a, b)| a[..] == b[..]) => None,
            Some(data) => data
                .iter()
                .flat_map(|segment| segment.iter())
                .zip(bytes())
                .position(|(a, b)| a != b),
        };
        at.map(|at| at as u64)
    }
}
