//! The region of each job, and how much it transfers there.

use super::direction::Direction;
use super::job_spec::Verify;
use super::plan::Plan;
use super::values::Size;
use crate::error::Error;
use crate::limits::VERIFIED_UNITS_MAX;
use crate::random::Pcg;

/// What one job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub index: u32,
    /// Start of the region, bytes.
    pub begin: u64,
    /// Units of the region.
    pub units: u64,
    /// Operations after which the job ends, if any number ends it.
    pub limit: Option<u64>,
    /// Units after which it ends, where operations have several sizes.
    pub unit_limit: Option<u64>,
    /// Bytes that it should transfer. It may end earlier, as the last operation does not fit.
    pub bytes: Option<u64>,
}

impl Plan {
    /// Returns the share of job `index`.
    pub fn share(&self, index: u32) -> Share {
        let (spec, region) = (&self.spec, self.region_bytes(index));
        let units = self.whole_units(region);
        let (first_unit, units) = if self.is_divided() {
            let at =
                |job: u32| (u128::from(units) * u128::from(job) / u128::from(spec.numjobs)) as u64;
            (at(index), at(index + 1) - at(index))
        } else {
            (0, units)
        };
        let loops = u64::from(spec.extent.loops.max(1));
        let pass_bytes = if self.is_divided() { units * self.unit_bytes } else { region };
        let asked = self.asked_bytes(region).map(|bytes| bytes.saturating_mul(loops));
        let ios = spec.number_ios.map(|ios| ios.saturating_mul(loops));
        let (by_ios, by_units) = match (spec.time_based, self.op_units()) {
            (true, _) => (None, None),
            // As in fio, the operation that reaches the number of bytes is the last one.
            (false, Some(op)) => {
                let all = (self.touched_units(units, op) / op).saturating_mul(loops);
                let ops = asked.map_or(all, |bytes| bytes.div_ceil(op * self.unit_bytes));
                (Some(ops), None)
            }
            (false, None) => {
                let mean = spec.mean_bytes(spec.rw.first_direction()) / self.unit_bytes;
                let all = self.touched_units(units, mean.max(1)).saturating_mul(loops);
                (None, Some(asked.map_or(all, |bytes| bytes / self.unit_bytes)))
            }
        };
        let limit = match (by_ios, ios) {
            _ if spec.create_only => Some(0),
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Share {
            index,
            begin: self.begin(index) + first_unit * self.unit_bytes,
            units,
            limit,
            unit_limit: by_units,
            bytes: (!spec.time_based).then_some(asked.unwrap_or(pass_bytes.saturating_mul(loops))),
        }
    }

    /// Units that operations of `op` units touch in a pass over `units`: all, or with a distance
    /// between sequential operations (`rw=read:8k`) those of one pass from the beginning to the
    /// end.
    fn touched_units(&self, units: u64, op: u64) -> u64 {
        match u64::try_from(self.spec.steps.skip) {
            Ok(skip) if skip > 0 => {
                let step = op + skip / self.unit_bytes;
                units.saturating_sub(op) / step * op + op
            }
            _ => units,
        }
    }

    /// Returns whether jobs share the region instead of each using all of it.
    fn is_divided(&self) -> bool {
        let apart = self.begin(1) != self.begin(0);
        self.spec.verify == Verify::Crc32c && !apart
    }

    /// Start of the region of job `index`, bytes. Percentages of the device are moved up to a
    /// multiple of `offset_align` or of the smallest operation.
    fn begin(&self, index: u32) -> u64 {
        let (spec, extent) = (&self.spec, &self.spec.extent);
        let whole = u128::from(self.geometry.bytes());
        let part = |percent: Option<u8>, bytes: u64| {
            percent.map_or(u128::from(bytes), |percent| whole * u128::from(percent) / 100)
        };
        let distance = part(extent.increment_percent, spec.offset_increment);
        let at = part(extent.offset_percent, spec.offset) + distance * u128::from(index);
        let at = match extent.offset_percent.or(extent.increment_percent) {
            None => at,
            Some(_) => {
                let least = u64::from(spec.all_sizes().0);
                let align = u128::from(extent.offset_align.unwrap_or(least).max(1));
                let block = u128::from(self.geometry.block_bytes);
                at.next_multiple_of(align).next_multiple_of(block)
            }
        };
        u64::try_from(at).unwrap_or(u64::MAX)
    }

    /// Bytes of a job's region, or of the whole where it is divided. Jobs that verify have regions
    /// of one size.
    fn region_bytes(&self, index: u32) -> u64 {
        let spec = &self.spec;
        let placed = if spec.verify == Verify::Crc32c { spec.numjobs - 1 } else { index };
        let whole = self.used_bytes(index);
        let left = whole.saturating_sub(self.begin(placed));
        let part = |percent: u8| (u128::from(whole) * u128::from(percent) / 100) as u64;
        let in_operations = |bytes: u64| bytes - bytes % u64::from(spec.all_sizes().0);
        match (spec.extent.end_percent, spec.size_percent, spec.size) {
            // The start was moved up, the end is not.
            (Some(end), ..) => in_operations(part(end).saturating_sub(self.begin(placed))),
            (None, Some(percent), _) => in_operations(part(percent).min(left)),
            (None, None, Some(size)) if spec.extent.filesize.is_none() => size,
            _ => left,
        }
    }

    /// Bytes of the device that are used (`filesize`).
    fn used_bytes(&self, index: u32) -> u64 {
        let bytes = self.geometry.bytes();
        match self.spec.extent.filesize {
            Some((least, most)) if !(least..=most).contains(&bytes) => {
                // The same in each run, as with fio's `randrepeat`.
                let mut rng = Pcg::new(self.seed ^ u64::from(index).rotate_left(32));
                least + super::permutation::below(most - least + 1, &mut rng)
            }
            _ => bytes,
        }
    }

    /// Bytes that a job transfers, if they are not those of its region.
    fn asked_bytes(&self, region: u64) -> Option<u64> {
        match self.spec.extent.io_size {
            Some(Size::Bytes(bytes)) => Some(bytes),
            Some(Size::Percent(percent)) => {
                Some((u128::from(region) * u128::from(percent) / 100) as u64)
            }
            None => {
                self.spec.size.filter(|size| self.spec.extent.filesize.is_some() && *size < region)
            }
        }
    }

    /// Units of a region that operations may use. If they cover whole blocks, none of these reaches
    /// beyond the region.
    fn whole_units(&self, region: u64) -> u64 {
        let block = u64::from(self.geometry.block_bytes);
        let usable = if self.is_odd() { region - region % block } else { region };
        usable / self.unit_bytes
    }

    /// Checks that all regions lie on the device and hold an operation.
    pub fn check_regions(&self) -> Result<(), Error> {
        let (spec, bytes) = (&self.spec, self.geometry.bytes());
        let last = spec.numjobs - 1;
        if self.begin(last) >= bytes {
            return Err(Error::option("offset", format!("the device ends at {bytes} bytes")));
        }
        for index in 0..spec.numjobs {
            let region = self.region_bytes(index);
            if self.begin(index).saturating_add(region) > bytes {
                let option = if spec.extent.filesize.is_some() { "filesize" } else { "size" };
                let problem = format!("offset and size reach beyond the device's {bytes} bytes");
                return Err(Error::option(option, problem));
            }
            self.check_region(region)?;
        }
        self.check_verify()
    }

    /// Checks that a region holds an operation, and what places operations in it.
    fn check_region(&self, region: u64) -> Result<(), Error> {
        let largest = u64::from(self.spec.all_sizes().1);
        let shares = if self.is_divided() { u64::from(self.spec.numjobs) } else { 1 };
        let units = self.whole_units(region);
        if units < shares * (largest / self.unit_bytes) {
            return Err(Error::option(
                "size",
                format!("{region} bytes are too few for a block of {largest} for each job"),
            ));
        }
        if self.spec.distribution.bytes() > region {
            return Err(Error::option(
                "random_distribution",
                format!("the parts of zoned_abs exceed the region of {region} bytes"),
            ));
        }
        match self.spec.extent.zones {
            Some(zones) if zones.range < largest => Err(Error::option(
                "zonerange",
                format!("{} bytes are too few for a block of {largest}", zones.range),
            )),
            _ => Ok(()),
        }
    }

    fn check_verify(&self) -> Result<(), Error> {
        let (spec, region) = (&self.spec, self.region_bytes(0));
        if spec.verify == Verify::None {
            return Ok(());
        }
        let distance = self.begin(1).saturating_sub(self.begin(0));
        if spec.numjobs > 1 && (1..region).contains(&distance) {
            return Err(Error::option(
                "offset_increment",
                "jobs that verify must not overlap: use at least the size, or none",
            ));
        }
        if self.writes_pattern() && self.whole_units(region) > VERIFIED_UNITS_MAX {
            let problem = format!(
                "at most {VERIFIED_UNITS_MAX} blocks of bs bytes can be verified: set size, or raise bs"
            );
            return Err(Error::option("size", problem));
        }
        let is_read_back = spec.do_verify && spec.rw.has(Direction::Write);
        let asked = self.asked_bytes(region).is_some_and(|bytes| bytes > region);
        if is_read_back && (asked || spec.extent.loops > 1) {
            let option = if asked { "io_size" } else { "loops" };
            let problem =
                "blocks are read back once, at the end: verify a single pass, or use do_verify=0";
            return Err(Error::option(option, problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::direction::Rw;
    use super::super::extent::JobExtent;
    use super::super::job_spec::JobSpec;
    use super::super::steps::Zones;
    use super::*;
    use weft_block::{Features, Geometry};

    /// 1 MiB.
    const GEOMETRY: Geometry = Geometry {
        block_bytes: 512,
        blocks: 2048,
        padding_bytes: 0,
        optimal_blocks: 1,
        max_transfer_bytes: 1 << 20,
        atomic: weft_block::Atomicity::ONE_BLOCK,
    };

    fn plan(change: impl FnOnce(&mut JobSpec)) -> Result<Plan, Error> {
        let mut spec = JobSpec::default();
        change(&mut spec);
        Plan::new(&spec, GEOMETRY, Features { write: true, ..Features::default() }, usize::MAX, 1)
    }

    #[test]
    fn a_part_of_the_device_is_fios() {
        let bytes = |change: fn(&mut JobSpec)| plan(change).unwrap().region_bytes(0);
        // 10 % of 1 MiB in whole blocks of 4 KiB; no more than what follows the offset.
        assert_eq!(bytes(|s| s.size_percent = Some(10)), 102_400);
        assert_eq!(bytes(|s| (s.size_percent, s.offset) = (Some(10), 8192)), 102_400);
        assert_eq!(bytes(|s| (s.size_percent, s.offset) = (Some(100), 8192)), (1 << 20) - 8192);
        assert_eq!(bytes(|s| s.extent.filesize = Some((65_536, 65_536))), 65_536);
        let within = bytes(|s| s.extent.filesize = Some((4096, 65_536)));
        assert!((4096..=65_536).contains(&within), "{within}");
        assert_eq!(bytes(|s| s.extent.filesize = Some((4096, 2 << 20))), 1 << 20);
    }

    #[test]
    fn places_in_per_cent_are_moved_up_to_whole_operations() {
        let begin = |job, change: fn(&mut JobSpec)| plan(change).unwrap().share(job).begin;
        assert_eq!(begin(0, |s| s.extent.offset_percent = Some(50)), 512 << 10);
        // A third of 1 MiB is 346030 bytes.
        assert_eq!(begin(0, |s| s.extent.offset_percent = Some(33)), 348_160);
        let aligned = |s: &mut JobSpec| {
            (s.extent.offset_percent, s.extent.offset_align) = (Some(33), Some(65_536));
        };
        assert_eq!(begin(0, aligned), 6 * 65_536);
        let apart = |s: &mut JobSpec| (s.numjobs, s.extent.increment_percent) = (4, Some(25));
        assert_eq!([0, 1, 3].map(|job| begin(job, apart)), [0, 256 << 10, 768 << 10]);
    }

    #[test]
    fn a_region_does_not_reach_beyond_its_end_in_per_cent() {
        let until = |from, end, change: fn(&mut JobSpec)| {
            let plan = plan(|s| {
                (s.extent.offset_percent, s.extent.end_percent) = (Some(from), Some(end));
                change(s);
            });
            plan.map(|plan| plan.begin(0) + plan.region_bytes(0))
        };
        // 60 % of 1 MiB are 629145 bytes: 153 blocks of 4 KiB, and a part of another one.
        assert_eq!(until(33, 60, |_| ()).unwrap(), 153 * 4096);
        assert_eq!(until(33, 100, |_| ()).unwrap(), 1 << 20);
        assert!(until(33, 60, |s| s.bs_bytes = 512).unwrap() <= 629_145);
        assert!(until(33, 60, |s| s.bssplit = "4k:64k".parse().ok()).unwrap() <= 629_145);
        for (from, end) in [(60, 60), (61, 60), (33, 34)] {
            let refused = until(from, end, |s| s.bs_bytes = 16_384);
            assert!(matches!(refused, Err(Error::Option { option: "size", .. })), "{refused:?}");
        }
    }

    #[test]
    fn as_much_is_transferred_as_fio_transfers() {
        let share = |change: fn(&mut JobSpec)| plan(change).unwrap().share(0);
        let ops = |change: fn(&mut JobSpec)| share(change).limit.unwrap();
        assert_eq!(ops(|s| s.extent.io_size = Some(Size::Bytes(65_536))), 16);
        assert_eq!(ops(|s| s.extent.io_size = Some(Size::Bytes(10_000))), 3);
        assert_eq!(ops(|s| s.extent.io_size = Some(Size::Percent(50))), 128);
        assert_eq!(ops(|s| s.extent.io_size = Some(Size::Bytes(4 << 20))), 1024);
        assert_eq!(ops(|s| s.extent.loops = 3), 768);
        assert_eq!(ops(|s| (s.extent.loops, s.number_ios) = (3, Some(10))), 30);
        // A distance between operations: one pass from the beginning to the end.
        assert_eq!(ops(|s| s.steps.skip = 4096), 128);
        assert_eq!(ops(|s| (s.steps.skip, s.extent.loops) = (8192, 2)), 172);
        assert_eq!(ops(|s| (s.steps.skip, s.bs_bytes) = (8192, 12_288)), 51);
        assert_eq!(ops(|s| s.steps.skip = -8192), 256);
        let skipping = |s: &mut JobSpec| {
            (s.steps.skip, s.extent.io_size) = (8192, Some(Size::Bytes(2 << 20)));
        };
        assert_eq!(ops(skipping), 512);
        let loops = |s: &mut JobSpec| {
            (s.extent.loops, s.extent.io_size) = (2, Some(Size::Bytes(8192)));
        };
        assert_eq!(ops(loops), 4);
        let sized = |s: &mut JobSpec| {
            (s.extent.filesize, s.size) = (Some((65_536, 65_536)), Some(8192));
        };
        assert_eq!((ops(sized), share(sized).units), (2, 16));
        assert_eq!(ops(|s| s.create_only = true), 0);
        let split = share(|s| (s.bsrange, s.extent.loops) = ("4k-64k".parse().ok(), 2));
        assert_eq!((split.limit, split.unit_limit, split.bytes), (None, Some(512), Some(2 << 20)));
    }

    #[test]
    fn operations_of_odd_sizes_stay_within_whole_blocks() {
        let odd = |s: &mut JobSpec| (s.bs_bytes, s.whole_blocks, s.rw) = (2300, true, Rw::Write);
        let whole = plan(odd).unwrap();
        let share = whole.share(0);
        assert_eq!((share.units, share.limit, share.bytes), (455, Some(455), Some(1 << 20)));
        assert_eq!((whole.is_odd(), whole.op_bytes()), (true, 6 * 512));
        let refused = |change: fn(&mut JobSpec)| {
            let mut spec = JobSpec::default();
            odd(&mut spec);
            change(&mut spec);
            plan(|s| *s = spec).is_err()
        };
        assert!(!refused(|_| ()) && refused(|s| s.whole_blocks = false));
        assert!(refused(|s| s.rw = Rw::Trim) && refused(|s| s.verify = Verify::Crc32c));
        // Writes that would replace bytes which no operation writes.
        assert!(refused(|s| s.rw = Rw::RandWrite) && refused(|s| s.rw = Rw::ReadWrite));
        assert!(refused(|s| s.rw = Rw::RandRw) && refused(|s| s.steps.skip = 2300));
        let zoned =
            |s: &mut JobSpec| s.extent.zones = Some(Zones { bytes: 4600, range: 4600, skip: 0 });
        assert!(refused(zoned) && !refused(|s| s.rw = Rw::RandRead));
    }

    #[test]
    fn wrong_extents_are_named() {
        let wrong = |change: fn(&mut JobSpec)| match plan(change) {
            Err(Error::Option { option, .. }) => option,
            other => panic!("{other:?}"),
        };
        assert_eq!(wrong(|s| s.extent.offset_percent = Some(100)), "offset");
        assert_eq!(wrong(|s| s.extent.filesize = Some((2 << 20, 2 << 20))), "filesize");
        assert_eq!(wrong(|s| s.extent.loops = 0), "loops");
        assert_eq!(
            wrong(|s| s.distribution = "zoned_abs:100/2m".parse().unwrap()),
            "random_distribution"
        );
        let zones = Some(Zones { bytes: 65_536, range: 2048, skip: 0 });
        let spec =
            JobSpec { extent: JobExtent { zones, ..JobExtent::default() }, ..JobSpec::default() };
        assert!(matches!(plan(|s| *s = spec), Err(Error::Option { option: "zonerange", .. })));
        let verified = |change: fn(&mut JobSpec)| {
            let mut spec = JobSpec { rw: Rw::Write, verify: Verify::Crc32c, ..JobSpec::default() };
            change(&mut spec);
            match plan(|s| *s = spec) {
                Err(Error::Option { option, .. }) => option,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(verified(|s| s.extent.loops = 2), "loops");
        assert_eq!(verified(|s| s.extent.io_size = Some(Size::Bytes(2 << 20))), "io_size");
        assert_eq!(verified(|s| s.steps.skip = 512), "rw");
        assert_eq!(wrong(|s| s.verify_only = true), "verify_only");
    }
}
