//! Finds the size of the chunks and their number: it tries neighbours, and keeps what is faster.

use crate::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, DEPTH_MAX, TRIAL, TRIAL_BYTES};
use core::time::Duration;

/// How much faster a setting has to be to be kept, as noise makes each a little faster at times.
const GAIN: f64 = 1.05;

/// The size of the chunks, and how many are in flight on each loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Bytes of a chunk.
    pub chunk: u32,
    /// Chunks in flight on each loop.
    pub depth: u32,
}

/// What is changed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Deeper,
    Larger,
    Smaller,
    Shallower,
}

const DIRECTIONS: [Direction; 4] =
    [Direction::Deeper, Direction::Larger, Direction::Smaller, Direction::Shallower];

/// Limits set by the user or the devices.
#[derive(Clone, Copy, Debug)]
pub struct TuningBounds {
    /// The chunk is the user's choice.
    pub chunk_is_given: bool,
    /// The number of chunks is the user's choice.
    pub depth_is_given: bool,
    /// Largest chunk that both devices take.
    pub chunk_max: u32,
    /// Unit of chunks.
    pub unit: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Tuning {
    bounds: TuningBounds,
    best: Setting,
    /// Bytes a second of the best one; none before it was measured.
    rate: Option<f64>,
    /// Which direction is tried; none when all were.
    direction: Option<usize>,
    trial: Setting,
    bytes: u64,
    elapsed: Duration,
}

impl Tuning {
    /// Begins with a setting.
    pub fn new(start: Setting, bounds: TuningBounds) -> Self {
        Self {
            bounds,
            best: start,
            rate: None,
            direction: Some(0),
            trial: start,
            bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// The setting to copy with now.
    pub fn setting(&self) -> Setting {
        self.trial
    }

    /// `bytes` more bytes were copied in `elapsed`. The setting may be another one after that.
    pub fn copied(&mut self, bytes: u64, elapsed: Duration) {
        let Some(direction) = self.direction else { return };
        self.bytes += bytes;
        self.elapsed += elapsed;
        if self.elapsed < TRIAL || self.bytes < TRIAL_BYTES {
            return;
        }
        let rate = self.bytes as f64 / self.elapsed.as_secs_f64();
        (self.bytes, self.elapsed) = (0, Duration::ZERO);
        match self.rate {
            None => self.rate = Some(rate),
            // What helped is done again.
            Some(best) if rate > best * GAIN => {
                (self.best, self.rate) = (self.trial, Some(rate));
                return self.attempt(direction);
            }
            Some(_) => return self.attempt(direction + 1),
        }
        self.attempt(direction);
    }

    /// Tries this direction, or the next one in which there is something to try.
    fn attempt(&mut self, from: usize) {
        let found = (from..DIRECTIONS.len())
            .find_map(|at| self.neighbour(DIRECTIONS[at]).map(|trial| (at, trial)));
        (self.direction, self.trial) = match found {
            Some((at, trial)) => (Some(at), trial),
            None => (None, self.best),
        };
    }

    fn neighbour(&self, direction: Direction) -> Option<Setting> {
        let Setting { chunk, depth } = self.best;
        let of_depth = |depth: u32| {
            (!self.bounds.depth_is_given && (1..=DEPTH_MAX).contains(&depth))
                .then_some(Setting { chunk, depth })
        };
        let of_chunk = |chunk: u32| {
            let most = self.bounds.chunk_max.min(CHUNK_BYTES_MAX);
            let is_possible =
                (CHUNK_BYTES_MIN..=most).contains(&chunk) && chunk.is_multiple_of(self.bounds.unit);
            (!self.bounds.chunk_is_given && is_possible).then_some(Setting { chunk, depth })
        };
        match direction {
            Direction::Deeper => of_depth(depth * 2),
            Direction::Shallower => of_depth(depth / 2),
            Direction::Larger => of_chunk(chunk * 2),
            Direction::Smaller => of_chunk(chunk / 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Setting = Setting { chunk: 512 << 10, depth: 8 };
    const FREE: TuningBounds = TuningBounds {
        chunk_is_given: false,
        depth_is_given: false,
        chunk_max: 1 << 20,
        unit: 512,
    };

    /// The setting that is found on a device of this speed.
    fn found(bounds: TuningBounds, speed: impl Fn(Setting) -> f64) -> Setting {
        let mut tuning = Tuning::new(START, bounds);
        for _ in 0..50 {
            let bytes = (speed(tuning.setting()) * 1e9) as u64;
            tuning.copied(bytes, Duration::from_secs(1));
        }
        tuning.setting()
    }

    #[test]
    fn what_helps_is_kept_and_what_does_not_is_undone() {
        let deep = |setting: Setting| f64::from(setting.depth.min(32));
        assert_eq!(found(FREE, deep), Setting { depth: 32, ..START });
        let small = |setting: Setting| 1e6 / f64::from(setting.chunk);
        assert_eq!(found(FREE, small), Setting { chunk: CHUNK_BYTES_MIN, ..START });
        assert_eq!(found(FREE, |_| 1.0), START);
        let shallow = |setting: Setting| 1.0 / f64::from(setting.depth);
        assert_eq!(found(FREE, shallow), Setting { depth: 1, ..START });
    }

    #[test]
    fn chunks_are_whole_blocks() {
        let odd = TuningBounds { chunk_max: 65 * 4096, unit: 4096, ..FREE };
        let start = Setting { chunk: 65 * 4096, depth: 1 };
        let mut tuning = Tuning::new(start, odd);
        for _ in 0..50 {
            tuning
                .copied((1e15 / f64::from(tuning.setting().chunk)) as u64, Duration::from_secs(1));
            assert_eq!(tuning.setting().chunk % 4096, 0, "{:?}", tuning.setting());
        }
    }

    #[test]
    fn what_the_user_gave_stays() {
        let given = TuningBounds { chunk_is_given: true, depth_is_given: true, ..FREE };
        assert_eq!(found(given, |setting| f64::from(setting.depth * setting.chunk)), START);
    }

    #[test]
    fn little_is_not_judged() {
        let mut tuning = Tuning::new(START, FREE);
        tuning.copied(TRIAL_BYTES - 1, Duration::from_secs(5));
        tuning.copied(0, Duration::from_secs(5));
        assert_eq!(tuning.setting(), START);
    }
}
