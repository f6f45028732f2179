//! The fuzzer's bytes, read as choices.

/// Bytes that run out: from then on every choice is the first one.
pub struct Input {
    bytes: Vec<u8>,
    at: usize,
}

impl Input {
    /// Reads these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), at: 0 }
    }

    /// Returns whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// Returns the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// As many bytes as there are, up to `limit`.
    pub fn bytes(&mut self, limit: usize) -> Vec<u8> {
        let from = self.at.min(self.bytes.len());
        let to = (from + limit).min(self.bytes.len());
        self.at = to;
        self.bytes[from..to].to_vec()
    }

    /// Any number.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Any number.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Any number.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Yes in one of `n` cases, `n` being 2 to 256.
    pub fn one_in(&mut self, n: u16) -> bool {
        u16::from(self.byte()) % n == n - 1
    }

    /// A number below `end`, which is 1 to 65536.
    pub fn below(&mut self, end: usize) -> usize {
        if end <= 256 { usize::from(self.byte()) % end } else { usize::from(self.u16()) % end }
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
