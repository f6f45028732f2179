//! Rest of one Copy command.

use super::super::access;
use super::super::namespace::{Namespace, NamespaceMap};
use super::super::revocation::revocation;
use super::conflict_check::ConflictCheck;
use super::copy_command::{blocks_max, range_blocks_max};
use crate::limits::COPY_PIECE_BYTES;
use crate::nvme::copy::{Copy, CopyFormat, CopyRange};
use crate::nvme::status::Status;
use crate::nvme::types::{Lba, Nsid};
use crate::reservation::Effect;

/// A source range.
#[derive(Clone, Copy, Debug)]
struct Source {
    nsid: Nsid,
    lba: Lba,
    blocks: u32,
}

/// Blocks that are read, then written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Index of the namespace that is read.
    pub namespace: usize,
    pub from: Lba,
    pub to: Lba,
    pub blocks: u32,
    pub bytes: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct CopyWork {
    copy: Copy,
    sources: Vec<Source>,
    /// The source range that is copied, and how many blocks of it are.
    at: usize,
    done: u32,
    /// Blocks of earlier ranges.
    before: u32,
    block_bytes: u32,
}

impl CopyWork {
    /// Of a command whose ranges have not come.
    pub fn new(copy: Copy) -> Self {
        Self { copy, sources: Vec::new(), at: 0, done: 0, before: 0, block_bytes: 0 }
    }

    /// Reads the ranges of a command on a namespace. All are checked before the first is copied.
    pub fn read_ranges(
        &mut self,
        to: (Nsid, &Namespace),
        data: &[u8],
        namespaces: &NamespaceMap,
        conflicts: &ConflictCheck,
    ) -> Result<(), Status> {
        let (nsid, namespace) = to;
        self.block_bytes = namespace.block_bytes;
        self.sources = Vec::with_capacity(self.copy.ranges as usize);
        let (entries, _) = data.as_chunks::<{ CopyRange::BYTES }>();
        for range in entries.iter().take(self.copy.ranges as usize).map(CopyRange::decode) {
            let of = match self.copy.format {
                CopyFormat::SAME_NAMESPACE => nsid,
                _ => range.nsid,
            };
            if range.blocks > range_blocks_max(namespace) {
                return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
            }
            self.sources.push(Source { nsid: of, lba: range.lba, blocks: range.blocks });
            if range.fast_only && self.copy.format != CopyFormat::SAME_NAMESPACE {
                return Err(Status::FAST_COPY_NOT_POSSIBLE);
            }
        }
        if self.sources.len() < self.copy.ranges as usize {
            return Err(Status::DATA_SGL_LENGTH_INVALID);
        }
        let blocks = self.blocks().min(u64::from(u32::MAX)) as u32;
        if blocks > blocks_max(namespace) {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        if !namespace.holds(self.copy.to.0, blocks) {
            return Err(Status::LBA_OUT_OF_RANGE);
        }
        self.sources.iter().try_for_each(|source| {
            check_source(source, namespace, namespaces, conflicts)?;
            let overlaps = source.nsid == nsid && self.writes_to(source);
            if overlaps { Err(Status::OVERLAPPING_RANGE) } else { Ok(()) }
        })
    }

    /// Blocks of the whole command.
    fn blocks(&self) -> u64 {
        self.sources.iter().map(|source| u64::from(source.blocks)).sum()
    }

    /// Bytes of the whole command.
    pub fn bytes(&self) -> u64 {
        self.blocks() * u64::from(self.block_bytes)
    }

    /// Returns whether what is written, and a source of the same namespace, have a block in common.
    /// Both are within the namespace.
    fn writes_to(&self, source: &Source) -> bool {
        let (to, end) = (self.copy.to.0, self.copy.to.0 + self.blocks());
        source.lba.0 < end && to < source.lba.0 + u64::from(source.blocks)
    }

    /// The next piece; none if all is copied. Its size is what both devices and the transport do
    /// at once.
    pub fn next(
        &self,
        to: &Namespace,
        namespaces: &NamespaceMap,
        transfer_bytes_max: u32,
    ) -> Result<Option<Piece>, Status> {
        let Some(source) = self.sources.get(self.at) else { return Ok(None) };
        let (namespace, from) = namespaces.find(source.nsid).ok_or(Status::INVALID_NAMESPACE)?;
        let bytes_max = COPY_PIECE_BYTES
            .min(transfer_bytes_max)
            .min(from.transfer_bytes_max)
            .min(to.transfer_bytes_max);
        let blocks = (source.blocks - self.done).min((bytes_max / self.block_bytes).max(1));
        Ok(Some(Piece {
            namespace,
            from: Lba(source.lba.0 + u64::from(self.done)),
            to: Lba(self.copy.to.0 + u64::from(self.before + self.done)),
            blocks,
            bytes: blocks * self.block_bytes,
        }))
    }

    /// Returns whether the host may still read what the next piece is of.
    pub fn may_read(&self, namespaces: &NamespaceMap, conflicts: &ConflictCheck) -> bool {
        let Some(source) = self.sources.get(self.at) else { return true };
        let found = namespaces.find(source.nsid);
        found.is_none_or(|(index, from)| conflicts.allows(index, from, Effect::Reads))
    }

    /// `blocks` more blocks are written.
    pub fn advance(&mut self, blocks: u32) {
        let Some(source) = self.sources.get(self.at) else { return };
        self.done += blocks;
        if self.done >= source.blocks {
            self.before += source.blocks;
            (self.at, self.done) = (self.at + 1, 0);
        }
    }

    /// Dword 0 of the completion of a command that fails: the first range that is not copied
    /// wholly.
    pub fn first_undone(&self) -> u32 {
        self.at as u32
    }

    /// Returns whether it reads from a namespace.
    pub fn reads(&self, is_of: impl Fn(Nsid) -> bool) -> bool {
        self.sources.iter().any(|source| is_of(source.nsid))
    }

    /// Why it cannot go on, now that the namespaces are others.
    pub fn revocation(
        &self,
        to: Nsid,
        before: &NamespaceMap,
        now: &NamespaceMap,
    ) -> Option<Status> {
        let blocks = self.blocks().min(u64::from(u32::MAX)) as u32;
        revocation(to, (self.copy.to, blocks), before, now).or_else(|| {
            let left = self.sources.iter().skip(self.at);
            left.filter_map(|source| {
                revocation(source.nsid, (source.lba, source.blocks), before, now)
            })
            .next()
        })
    }
}

/// Checks a source for a namespace that is written. The tables of a queue have the namespaces that
/// its host sees and no others.
fn check_source(
    source: &Source,
    to: &Namespace,
    namespaces: &NamespaceMap,
    conflicts: &ConflictCheck,
) -> Result<(), Status> {
    let (index, from) = namespaces.find(source.nsid).ok_or(Status::INVALID_NAMESPACE)?;
    if let Some(status) = access::refusal(from.ana_state) {
        return Err(status);
    }
    if from.block_bytes != to.block_bytes {
        return Err(Status::INCOMPATIBLE_NAMESPACE);
    }
    if !conflicts.allows(index, from, Effect::Reads) {
        return Err(Status::RESERVATION_CONFLICT);
    }
    if from.holds(source.lba.0, source.blocks) { Ok(()) } else { Err(Status::LBA_OUT_OF_RANGE) }
}
