//! Where a device may hold data, as its system or its server tells.

use core::ops::Range;
use weft_block::Device;

/// See the module.
pub struct Map {
    device: Device,
    /// Bytes that may hold data, as a server told at the start; each begins behind the one before.
    runs: Option<Vec<Range<u64>>>,
}

impl Map {
    /// That of a device. A server is asked, and waited for: not for an event loop.
    pub fn of(device: &Device) -> Self {
        let block = u64::from(device.geometry().block_bytes);
        let is_local = device.next_data(0).is_some();
        let runs = if is_local { None } else { device.data_runs() };
        let in_bytes = |run: Range<u64>| run.start * block..run.end * block;
        let runs =
            runs.map(|runs| runs.into_iter().filter(|run| !run.is_empty()).map(in_bytes).collect());
        Self { device: device.clone(), runs }
    }

    /// That of a device whose server is not asked.
    pub fn local(device: &Device) -> Self {
        Self { device: device.clone(), runs: None }
    }

    /// The first run of bytes that ends behind byte `at` and may hold data; an empty one at the end
    /// of the device if there is none. `None`: it is not told.
    pub fn next(&self, at: u64) -> Option<Range<u64>> {
        let Some(runs) = &self.runs else {
            let block = u64::from(self.device.geometry().block_bytes);
            let run = self.device.next_data(at / block)?;
            return Some(run.start * block..run.end * block);
        };
        let end = self.device.geometry().bytes();
        let next = runs.partition_point(|run| run.end <= at);
        Some(runs.get(next).cloned().unwrap_or(end..end))
    }

    /// Returns whether all of these bytes are known to be zeroes.
    pub fn is_zero(&self, at: u64, len: u64) -> bool {
        self.next(at).is_some_and(|run| run.is_empty() || run.start >= at + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::OpenOptions;

    #[test]
    fn what_a_server_told_is_looked_up() {
        let device = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let untold = Map::of(&device);
        assert_eq!((untold.next(0), untold.is_zero(0, 512)), (None, false));
        let map = Map { device, runs: Some(vec![512..1024, 1024..4096, 65_536..131_072]) };
        let next = [0, 512, 1024, 4095, 4096, 131_071, 131_072].map(|at| map.next(at).unwrap());
        let (first, third, end) = (512..1024, 65_536..131_072, 1 << 20..1 << 20);
        let expected = [first.clone(), first, 1024..4096, 1024..4096, third.clone(), third, end];
        assert_eq!(next, expected);
        let zero = [(0, 512), (0, 513), (4096, 61_440), (4096, 61_952), (131_072, 1 << 19)];
        let zero = zero.map(|(at, len)| map.is_zero(at, len));
        assert_eq!(zero, [true, false, true, false, true]);
    }
}
