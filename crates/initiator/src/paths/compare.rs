//! Check that a device that was opened again still has the unflushed data: it is read back and
//! compared, and nothing is written.

use super::unflushed::{Unflushed, UnflushedPiece};
use std::collections::VecDeque;
use weft_block::{Completion, Op, OpKind, Outcome, StatusKind};
use weft_connection::limits::{LOOK_BYTES, LOOK_ZEROES_BYTES_MAX, REPLAY_OPS};
use weft_io::{Buf, Segments};

/// Blocks that a device does not have any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) blocks: u64,
    /// The least of them.
    pub(super) first: u64,
}

impl Lost {
    pub(super) fn add(&mut self, piece: &UnflushedPiece) {
        self.first = if self.blocks == 0 { piece.lba } else { self.first.min(piece.lba) };
        self.blocks += u64::from(piece.blocks);
    }
}

/// What is compared.
pub(super) struct Look {
    block_bytes: u32,
    /// What is being read, by the names of the operations.
    reading: [Option<UnflushedPiece>; REPLAY_OPS],
    /// Bytes of zeroes that may still be read.
    zeroes: u64,
    lost: Vec<UnflushedPiece>,
}

impl Look {
    pub(super) fn new(block_bytes: u32) -> Self {
        Self {
            block_bytes,
            reading: [None; REPLAY_OPS],
            zeroes: LOOK_ZEROES_BYTES_MAX,
            lost: Vec::new(),
        }
    }

    /// Takes what is read next from the pieces, at most [`LOOK_BYTES`] of it.
    pub(super) fn next(&mut self, pieces: &mut VecDeque<UnflushedPiece>) -> Option<UnflushedPiece> {
        while let Some(piece) = pieces.pop_front() {
            let bytes = u64::from(piece.blocks) * u64::from(self.block_bytes);
            if piece.len == 0 && bytes > self.zeroes {
                self.lost.push(piece);
                continue;
            }
            let (piece, rest) = piece.split((LOOK_BYTES as u32 / self.block_bytes).max(1));
            rest.into_iter().for_each(|rest| pieces.push_front(rest));
            return Some(piece);
        }
        None
    }

    pub(super) fn bytes(&self, piece: &UnflushedPiece) -> usize {
        piece.blocks as usize * self.block_bytes as usize
    }

    /// The read of a piece; fewer than [`REPLAY_OPS`] others are under way.
    pub(super) fn read(&mut self, piece: UnflushedPiece, into: Buf) -> Option<Op> {
        let slot = self.reading.iter().position(Option::is_none)?;
        if piece.len == 0 {
            self.zeroes -= self.bytes(&piece) as u64;
        }
        self.reading[slot] = Some(piece);
        Some(Op::new(
            OpKind::Read,
            piece.lba,
            piece.blocks,
            slot as u64,
            Segments::from([into.into()]),
        ))
    }

    /// A read has ended. Returns why it says nothing of the data, if so.
    pub(super) fn take(
        &mut self,
        log: &Unflushed,
        Completion { op, outcome }: Completion,
    ) -> Option<String> {
        let piece = self.reading.get_mut(op.user as usize)?.take()?;
        let has_it = match outcome {
            _ if outcome.is_success() => {
                op.data.first().is_some_and(|read| log.agrees(&piece, read))
            }
            Outcome::Done(status)
                if !status.kind.is_passing() && status.kind != StatusKind::Gone =>
            {
                false
            }
            _ => {
                return Some(format!(
                    "reading unflushed data back failed at block {}: {:?}",
                    op.lba,
                    outcome.status().kind
                ));
            }
        };
        if !has_it {
            self.lost.push(piece);
        }
        None
    }

    /// All was compared: what the device does not have is not looked for again, unless it lies
    /// below an unresolved write.
    pub(super) fn lost(&mut self, log: &Unflushed) -> (Lost, Vec<UnflushedPiece>) {
        let (below, certain): (Vec<UnflushedPiece>, Vec<UnflushedPiece>) =
            self.lost.drain(..).partition(|piece| piece.is_under);
        let mut lost = Lost::default();
        for piece in &certain {
            log.lose(piece);
            lost.add(piece);
        }
        (lost, below)
    }
}
