//! Data to send: headers and small payloads in one buffer, large payloads in place.

use std::io::{self, IoSlice, Write};

/// Payloads up to this size are copied behind their header, unless told otherwise: gathering a
/// piece costs about as much as copying it.
pub const COPY_BYTES_MAX: usize = 4096;

/// No more than so many bytes are copied for one send: beyond, the copies fall out of the
/// second-level cache before the system copies them in turn.
const COPIED_BYTES_MAX: usize = 192 << 10;

/// Pieces of one send; systems take 1024.
const PIECES_MAX: usize = 1024;

/// Bytes to send, in order.
#[derive(Debug)]
pub struct Gather {
    /// Payloads up to this many bytes are copied.
    pub copy_bytes_max: usize,
    own: Vec<u8>,
    pieces: Vec<Piece>,
    /// The first piece not sent completely, and how much of it is sent.
    next: usize,
    sent: usize,
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    /// A range of `own`.
    Own(usize, usize),
    /// A range of the payload memory.
    Lent(usize, usize),
}

impl Gather {
    /// Nothing to send yet; payloads up to `copy_bytes_max` bytes will be copied.
    pub fn new(copy_bytes_max: usize) -> Self {
        Self { copy_bytes_max, own: Vec::new(), pieces: Vec::new(), next: 0, sent: 0 }
    }

    /// Returns whether all is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds bytes, which are copied.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        let start = self.own.len();
        self.own.extend_from_slice(bytes);
        match self.pieces.last_mut() {
            Some(Piece::Own(_, end)) if *end == start => *end = self.own.len(),
            _ => self.pieces.push(Piece::Own(start, self.own.len())),
        }
    }

    /// Adds a range of `memory`; give the same memory to [`Gather::send`].
    #[inline]
    pub fn push_payload(&mut self, memory: &[u8], offset: usize, len: usize) {
        if len <= self.copy_bytes_max && self.own.len() + len <= COPIED_BYTES_MAX {
            self.push(&memory[offset..offset + len]);
        } else {
            self.pieces.push(Piece::Lent(offset, offset + len));
        }
    }

    /// Sends what the socket takes now; the number of calls that moved something.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&mut self, memory: &[u8], socket: &mut impl Write) -> io::Result<u64> {
        let mut calls = 0;
        while !self.pieces.is_empty() {
            let result = match self.pieces.len() - self.next {
                // Setting up an array costs more than a small send.
                1 => socket.write(self.piece(memory, self.next)),
                2..=16 => self.write::<16>(memory, socket),
                17..=96 => self.write::<96>(memory, socket),
                97..=288 => self.write::<288>(memory, socket),
                _ => self.write::<PIECES_MAX>(memory, socket),
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.advance(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            calls += 1;
        }
        Ok(calls)
    }

    fn write<const N: usize>(&self, memory: &[u8], socket: &mut impl Write) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); N];
        let count = (self.pieces.len() - self.next).min(N);
        for (at, slice) in slices[..count].iter_mut().enumerate() {
            *slice = IoSlice::new(self.piece(memory, self.next + at));
        }
        socket.write_vectored(&slices[..count])
    }

    /// What is left of a piece.
    #[inline]
    fn piece<'a>(&'a self, memory: &'a [u8], at: usize) -> &'a [u8] {
        let whole = match self.pieces[at] {
            Piece::Own(start, end) => &self.own[start..end],
            Piece::Lent(start, end) => &memory[start..end],
        };
        if at == self.next { &whole[self.sent..] } else { whole }
    }

    fn advance(&mut self, mut n: usize) {
        while let Some(Piece::Own(start, end) | Piece::Lent(start, end)) =
            self.pieces.get(self.next)
        {
            let left = end - start - self.sent;
            if n < left {
                self.sent += n;
                return;
            }
            n -= left;
            self.next += 1;
            self.sent = 0;
        }
        self.own.clear();
        self.pieces.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes at a time, and nothing now and then.
    struct Stingy {
        got: Vec<u8>,
        step: usize,
        calls: usize,
    }

    impl Write for Stingy {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(3) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let bytes: Vec<u8> =
                bufs.iter().flat_map(|b| b.iter().copied()).take(self.step).collect();
            self.got.extend_from_slice(&bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_leave_in_order_however_few_the_socket_takes() {
        let memory: Vec<u8> = (0..100_000u32).map(|i| (i * 7) as u8).collect();
        for step in [1, 7, 1000, 100_000] {
            let mut gather = Gather::new(COPY_BYTES_MAX);
            let mut expected = Vec::new();
            for (number, len) in [(1u8, 10), (2, 5000), (3, 0), (4, 4096), (5, 9000)] {
                gather.push(&[number; 24]);
                gather.push_payload(&memory, usize::from(number) * 100, len);
                expected.extend_from_slice(&[number; 24]);
                expected.extend_from_slice(&memory[usize::from(number) * 100..][..len]);
            }
            let mut socket = Stingy { got: Vec::new(), step, calls: 0 };
            while !gather.is_empty() {
                gather.send(&memory, &mut socket).unwrap();
            }
            assert_eq!(socket.got, expected, "{step}");
        }
    }

    #[test]
    fn small_payloads_become_one_piece_until_there_are_too_many() {
        let memory = vec![0; 4096];
        let mut gather = Gather::new(COPY_BYTES_MAX);
        for _ in 0..100 {
            gather.push(&[0; 24]);
            gather.push_payload(&memory, 0, 4096);
        }
        assert!(matches!(gather.pieces[0], Piece::Own(0, end) if end > 180 << 10));
        assert!(gather.pieces.len() > 50);
    }
}
