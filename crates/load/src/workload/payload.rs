//! The payload of writes: new bytes, or those that the options of [`Buffers`] ask for.
//!
//! Every write gets its payload when it begins ([`Payload::fill`]), whatever its memory held
//! before. So data that a read left there is never written.
//!
//! A number determines the content of a buffer. By default each write has a number of its own. A
//! write that repeats an earlier one has the same number, and a buffer that keeps its content keeps
//! its number.

use super::buffers::{BufferPattern, Buffers, Renewal};
use super::direction::Direction;
use super::job_spec::{JobSpec, Verify};
use super::noise::{Keys, Noise, PIECE_BYTES};
use super::permutation::below;
use crate::random::Pcg;
use weft_io::segment::{pieces_mut, total_len};
use weft_io::{Segment, Segments};

/// Minimum size of payloads that are made ahead, while the job has nothing else to do. Smaller ones
/// take less time than an additional turn of the loop.
const AHEAD_BYTES_MIN: u32 = 32 << 10;

/// Bytes that are made ahead in one turn: few, so that responses do not wait.
const AHEAD_STEP_BYTES: usize = 16 * PIECE_BYTES;

/// Bytes of each block that is scrambled, as in fio.
const SCRAMBLED_BYTES: usize = 512;

/// Minimum length of the copies that fill a buffer with a pattern: shorter patterns are repeated.
const PATTERN_BYTES_MIN: usize = 4096;

/// The pattern where there is none.
const ZERO: &[u8] = &[0];

/// The payload of a job's writes.
#[derive(Debug)]
pub(super) struct Payload {
    content: Content,
    renewal: Renewal,
    dedupe: Option<Dedupe>,
    keys: Keys,
    /// Upper bound of the keys that one buffer takes.
    keys_per_buffer: u64,
    /// Number of payloads so far that do not repeat an earlier one.
    unique: u64,
    /// Number of payloads so far that were scrambled.
    scrambled: u64,
    ahead: Option<Ahead>,
}

/// The content of a buffer.
#[derive(Debug)]
enum Content {
    /// Random bytes.
    Random,
    /// These bytes, repeated.
    Fixed(Box<[u8]>),
    /// Chunks of `chunk` bytes: first `random` random bytes, then `fixed`, repeated.
    Mixed { random: usize, chunk: usize, fixed: Box<[u8]> },
}

/// The choice of the writes that repeat an earlier payload.
#[derive(Debug)]
struct Dedupe {
    /// Percentage of these writes.
    percent: u64,
    /// Number of the first new payloads that they repeat; none: they repeat the last new one.
    working_set: Option<u64>,
    rng: Pcg,
}

/// The payload of a later write, complete in its first `made` bytes.
#[derive(Debug)]
struct Ahead {
    data: Segments,
    number: u64,
    made: usize,
}

impl Ahead {
    fn is_made(&self) -> bool {
        self.made >= total_len(&self.data)
    }
}

/// Returns whether a job makes payloads ahead: not if its operations differ in their size.
pub(super) fn is_made_ahead(spec: &JobSpec) -> bool {
    spec.bssplit.is_none()
        && spec.bsrange.is_none()
        && spec.bs_bytes >= AHEAD_BYTES_MIN
        && spec.rw.has(Direction::Write)
        && spec.buffers.is_random()
        && spec.buffers.renewal(spec.verify != Verify::None) == Renewal::Fresh
}

impl Payload {
    /// The payload of a job with a region of `region_bytes` bytes, and operations of at most
    /// `op_bytes` bytes. `ahead` is memory for one operation, if the job [makes payloads
    /// ahead](is_made_ahead).
    pub fn new(spec: &JobSpec, region_bytes: u64, op_bytes: u64, ahead: Option<Segments>) -> Self {
        let (smallest, _) = spec.bs_range(Direction::Write);
        let content = Content::new(&spec.buffers, smallest);
        let keys = Keys::draw();
        let mut payload = Self {
            keys_per_buffer: content.keys(op_bytes),
            content,
            renewal: spec.buffers.renewal(spec.verify != Verify::None),
            dedupe: Dedupe::new(&spec.buffers, region_bytes / u64::from(smallest.max(1)), keys),
            keys,
            unique: 0,
            scrambled: 0,
            ahead: None,
        };
        payload.ahead = ahead.map(|data| Ahead { data, number: payload.number(0), made: 0 });
        payload
    }

    /// Returns the payload of a write at byte `offset`, in `data`, the memory of buffer `buffer`,
    /// or in other memory of the same length, and the number of bytes that were made for it now.
    #[inline]
    pub fn fill(
        &mut self,
        noise: &Noise,
        mut data: Segments,
        buffer: u64,
        offset: u64,
    ) -> (Segments, usize) {
        let number = self.number(buffer);
        if let Some(Ahead { data: ready, .. }) = self.ahead.take_if(|ahead| ahead.is_made()) {
            self.ahead = Some(Ahead { data, number, made: 0 });
            return (ready, 0);
        }
        self.content.fill(noise, &mut data, self.keys, number.wrapping_mul(self.keys_per_buffer));
        if self.renewal == (Renewal::Kept { scrambled: true }) {
            self.scrambled += 1;
            scramble(&mut data, offset, [self.keys.seed(), self.scrambled]);
        }
        let made = total_len(&data);
        (data, made)
    }

    /// Returns whether [`Payload::make_ahead`] has something to do.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| !ahead.is_made())
    }

    /// Makes a part of the payload of a later write. Returns whether there was anything to make.
    #[inline]
    pub fn make_ahead(&mut self, noise: &Noise) -> bool {
        let Some(ahead) = self.ahead.as_mut().filter(|ahead| !ahead.is_made()) else {
            return false;
        };
        let made = (ahead.made / PIECE_BYTES) as u64;
        let mut key = ahead.number.wrapping_mul(self.keys_per_buffer).wrapping_add(made);
        for part in pieces_mut(&mut ahead.data, ahead.made, AHEAD_STEP_BYTES) {
            key = noise.fill(part, self.keys, key);
        }
        ahead.made += AHEAD_STEP_BYTES;
        true
    }

    /// Returns the number of the payload of the next write from buffer `buffer`.
    #[inline]
    fn number(&mut self, buffer: u64) -> u64 {
        if self.renewal != Renewal::Fresh {
            return buffer;
        }
        if let Some(repeated) = self.dedupe.as_mut().and_then(|dedupe| dedupe.draw(self.unique)) {
            return repeated;
        }
        self.unique += 1;
        self.unique - 1
    }
}

impl Dedupe {
    /// For a region that `places` writes fill.
    fn new(buffers: &Buffers, places: u64, keys: Keys) -> Option<Self> {
        (buffers.dedupe_percent > 0).then(|| Self {
            percent: buffers.dedupe_percent.into(),
            working_set: buffers
                .working_set_percent
                .map(|percent| (u128::from(places) * u128::from(percent) / 100).max(1) as u64),
            rng: Pcg::new(keys.seed()),
        })
    }

    /// Returns the number that the next write repeats, if it repeats any. `unique` is the number of
    /// new payloads so far.
    fn draw(&mut self, unique: u64) -> Option<u64> {
        let repeats = below(100, &mut self.rng) < self.percent;
        repeats.then(|| match self.working_set {
            Some(writes) => below(writes, &mut self.rng),
            None => unique.saturating_sub(1),
        })
    }
}

impl Content {
    /// For writes of `smallest` bytes and more.
    fn new(buffers: &Buffers, smallest: u32) -> Self {
        if buffers.is_random() {
            return Self::Random;
        }
        let pattern = buffers.pattern.as_ref().map_or(ZERO, BufferPattern::bytes);
        let fixed = pattern.repeat(PATTERN_BYTES_MIN.div_ceil(pattern.len())).into();
        if !matches!(buffers.compress_percent, 1..=99) {
            return Self::Fixed(fixed);
        }
        let chunk = match buffers.compress_chunk {
            0 => smallest,
            bytes => bytes.min(smallest),
        };
        let random = u64::from(chunk) * u64::from(100 - buffers.compress_percent) / 100;
        Self::Mixed { random: random as usize, chunk: chunk as usize, fixed }
    }

    /// Returns an upper bound of the keys that a buffer of `bytes` bytes takes.
    fn keys(&self, bytes: u64) -> u64 {
        let of = |bytes: u64| bytes / PIECE_BYTES as u64 + 1;
        match self {
            Self::Random => of(bytes),
            Self::Fixed(_) => 0,
            Self::Mixed { random, chunk, .. } => {
                (bytes / *chunk as u64 + 1) * (of(*random as u64) + 1)
            }
        }
    }

    /// Fills a buffer; its random parts take the keys from number `key` on.
    #[inline]
    fn fill(&self, noise: &Noise, data: &mut [Segment], keys: Keys, mut key: u64) {
        match self {
            Self::Random => data.iter_mut().for_each(|part| key = noise.fill(part, keys, key)),
            Self::Fixed(fixed) => {
                let mut at = 0;
                for part in data {
                    repeat(fixed, at, part);
                    at += part.len();
                }
            }
            Self::Mixed { random, chunk, fixed } => {
                let mut at = 0;
                for part in data {
                    let mut rest = &mut part[..];
                    while !rest.is_empty() {
                        let end = if at < *random { *random } else { *chunk };
                        let len = (end - at).min(rest.len());
                        let (now, later) = core::mem::take(&mut rest).split_at_mut(len);
                        if at < *random {
                            key = noise.fill(now, keys, key);
                        } else {
                            repeat(fixed, at - random, now);
                        }
                        (at, rest) = ((at + len) % chunk, later);
                    }
                }
            }
        }
    }
}

/// Fills `into` with the repeated `pattern`, from byte `at` on.
fn repeat(pattern: &[u8], mut at: usize, mut into: &mut [u8]) {
    while !into.is_empty() {
        let from = at % pattern.len();
        let len = (pattern.len() - from).min(into.len());
        let (now, later) = core::mem::take(&mut into).split_at_mut(len);
        now.copy_from_slice(&pattern[from..][..len]);
        (at, into) = (at + len, later);
    }
}

/// Changes 24 bytes of each block, as fio does. The first eight bytes of one of its lines of 64
/// bytes become the block's offset on the device. The last sixteen of the first line become `mark`,
/// where fio puts the time.
fn scramble(data: &mut [Segment], offset: u64, mark: [u64; 2]) {
    let line = (mark[1] % (SCRAMBLED_BYTES as u64 / 64)) as usize * 64;
    let blocks = data.iter_mut().flat_map(|part| part.chunks_exact_mut(SCRAMBLED_BYTES));
    for (offset, block) in (offset..).step_by(SCRAMBLED_BYTES).zip(blocks) {
        block[line..][..8].copy_from_slice(&offset.to_le_bytes());
        block[48..56].copy_from_slice(&mark[0].to_le_bytes());
        block[56..64].copy_from_slice(&mark[1].to_le_bytes());
    }
}
