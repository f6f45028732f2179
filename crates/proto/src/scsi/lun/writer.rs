//! Writes response data into memory that may be too short for it, because of the allocation length.

use crate::scsi::bytes::put;

/// Counts all, keeps what fits.
pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    /// Bytes so far, whether they fitted or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that are in the memory.
    pub fn written(&self) -> u32 {
        self.len.min(self.out.len()) as u32
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.at(self.len, bytes);
        self.len += bytes.len();
    }

    pub fn zeroes(&mut self, count: usize) {
        let (from, to) = (self.len.min(self.out.len()), (self.len + count).min(self.out.len()));
        self.out[from..to].fill(0);
        self.len += count;
    }

    /// Writes a number in `bytes` bytes.
    pub fn number(&mut self, bytes: usize, number: u64) {
        let mut field = [0; 8];
        put(&mut field[..bytes], number);
        self.bytes(&field[..bytes]);
    }

    /// Writes a number in `bytes` bytes over the contents at `at`.
    pub fn set(&mut self, at: usize, bytes: usize, number: u64) {
        let mut field = [0; 8];
        put(&mut field[..bytes], number);
        self.at(at, &field[..bytes]);
    }

    /// Writes text into a field of `bytes` bytes, padded with spaces; everything that is not
    /// printable ASCII becomes a question mark.
    pub fn text(&mut self, bytes: usize, text: &str) {
        let printable =
            text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c as u8 } else { b'?' });
        for byte in printable.chain(core::iter::repeat(b' ')).take(bytes) {
            self.bytes(&[byte]);
        }
    }

    fn at(&mut self, at: usize, bytes: &[u8]) {
        if let Some(room) = self.out.get_mut(at..) {
            let fits = bytes.len().min(room.len());
            room[..fits].copy_from_slice(&bytes[..fits]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut out = [0xff; 5];
        let mut writer = Writer::new(&mut out);
        writer.bytes(&[0, 0, 1]);
        writer.text(4, "aé");
        writer.zeroes(3);
        writer.set(0, 2, 0x0102);
        writer.set(9, 2, 0x0102);
        assert_eq!((writer.len(), writer.written()), (10, 5));
        assert_eq!(out, [1, 2, 1, b'a', b'?']);
    }
}
