//! Contiguous pieces of segment lists, for pumps, and copies between such lists.

use crate::pump::Pieces;
use std::io::IoSliceMut;
use weft_io::Segment;
use weft_io::segment::pieces_mut;

/// The piece of `segments` that starts at `offset`, at most `len` bytes long. `None` beyond the
/// end.
#[inline]
pub fn piece(segments: &[Segment], offset: u32, len: u32) -> Option<&[u8]> {
    let mut at = offset as usize;
    for segment in segments {
        if at < segment.len() {
            let end = segment.len().min(at + len as usize);
            return Some(&segment[at..end]);
        }
        at -= segment.len();
    }
    None
}

/// Like [`piece`], but writable.
#[inline]
pub fn piece_mut(segments: &mut [Segment], offset: u32, len: u32) -> Option<&mut [u8]> {
    let mut at = offset as usize;
    for segment in segments {
        if at < segment.len() {
            let end = segment.len().min(at + len as usize);
            return Some(&mut segment[at..end]);
        }
        at -= segment.len();
    }
    None
}

/// Appends the pieces of `segments` from `offset`, up to `len` bytes, as long as they fit into
/// `into` without allocating and leave room for one piece that its owner may add.
#[inline]
pub fn add_pieces<'a>(segments: &'a mut [Segment], offset: u32, len: u32, into: &mut Pieces<'a>) {
    let room = into.inline_size().saturating_sub(into.len() + 1);
    into.extend(
        pieces_mut(segments, offset as usize, len as usize).take(room).map(IoSliceMut::new),
    );
}

/// Copies data from one memory to another one of the same length.
pub fn copy(from: &[Segment], to: &mut [Segment]) {
    let mut at = 0;
    for segment in from {
        let mut rest = &segment[..];
        for piece in pieces_mut(to, at, segment.len()) {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
        }
        at += segment.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_io::Pool;

    #[test]
    fn pieces_end_where_their_segment_ends() {
        let pool = Pool::new(1 << 20);
        let mut segments: Vec<Segment> = [100, 50].map(|n| pool.take(n).unwrap().into()).into();
        segments[1].fill(9);
        assert_eq!(piece(&segments, 90, 100).unwrap().len(), 10);
        assert_eq!(piece(&segments, 100, 20).unwrap(), [9; 20]);
        assert_eq!(piece_mut(&mut segments, 149, 20).unwrap().len(), 1);
        assert!(piece(&segments, 150, 1).is_none());
    }
}
