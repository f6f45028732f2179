//! Converts a [`JobSpec`] and a device into the work of each job, and checks all options.

use super::direction::Direction;
use super::payload::is_made_ahead;
use super::spec::{JobSpec, SEED_DEFAULT, Verify};
use crate::error::Error;
use crate::limits::{
    BLOCK_BYTES_MAX, IODEPTH_MAX, JOBS_MAX, PAYLOAD_BYTES_MAX, THREADS_MAX, VERIFIED_UNITS_MAX,
};
use weft_block::{Features, Geometry};

/// What all jobs have in common.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub spec: JobSpec,
    pub geometry: Geometry,
    /// Blocks of an operation.
    pub unit_blocks: u32,
    pub seed: u64,
    /// Tells this run's blocks from those of all others.
    pub run: u64,
    pub threads: u32,
    /// Queues that the device grants, for all loops.
    pub queues: usize,
}

/// What one job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub index: u32,
    pub first_lba: u64,
    /// Units of the region.
    pub units: u64,
    /// Operations after which the job ends, if any number ends it.
    pub limit: Option<u64>,
    /// Units after which it ends, where operations have several sizes.
    pub unit_limit: Option<u64>,
}

impl Plan {
    /// Checks the options against one another and the device. `run` names the run.
    ///
    /// There are no more loops than `queues`, which the device grants: a further one could only
    /// hand its work to them.
    pub fn new(
        spec: &JobSpec,
        geometry: Geometry,
        features: Features,
        queues: usize,
        run: u64,
    ) -> Result<Self, Error> {
        check_numbers(spec)?;
        check_device(spec, geometry, features)?;
        let plan = Self {
            spec: spec.clone(),
            geometry,
            unit_blocks: spec.unit_bytes() / geometry.block_bytes,
            seed: spec.randseed.unwrap_or(SEED_DEFAULT),
            run,
            threads: spec
                .threads
                .min(spec.numjobs)
                .min(u32::try_from(queues).unwrap_or(u32::MAX))
                .max(1),
            queues,
        };
        plan.check_regions()?;
        Ok(plan)
    }

    /// What job `index` does.
    pub fn share(&self, index: u32) -> Share {
        let spec = &self.spec;
        let begin = spec.offset + spec.offset_increment * u64::from(index);
        let units = self.region_bytes() / u64::from(self.unit_bytes());
        let block_bytes = u64::from(self.geometry.block_bytes);
        let (first_unit, units) = if self.is_divided() {
            let at =
                |job: u32| (u128::from(units) * u128::from(job) / u128::from(spec.numjobs)) as u64;
            (at(index), at(index + 1) - at(index))
        } else {
            (0, units)
        };
        let by_units = (!spec.time_based).then_some(units);
        let (limit, unit_limit) = match spec.bssplit {
            Some(_) => (spec.number_ios, by_units),
            None => (
                spec.number_ios
                    .map_or(by_units, |ios| Some(by_units.map_or(ios, |units| units.min(ios)))),
                None,
            ),
        };
        Share {
            index,
            unit_limit,
            first_lba: begin / block_bytes + first_unit * u64::from(self.unit_blocks),
            units,
            limit,
        }
    }

    /// Jobs of loop `thread`.
    pub fn jobs_of(&self, thread: u32) -> impl Iterator<Item = u32> + use<> {
        (thread..self.spec.numjobs).step_by(self.threads as usize)
    }

    /// Queues of loop `thread`: the loops share what is granted evenly.
    pub fn queues_of(&self, thread: u32) -> usize {
        let (threads, thread) = (self.threads as usize, thread as usize);
        self.queues / threads + usize::from(thread < self.queues % threads)
    }

    /// Bytes of payload memory for `jobs` jobs.
    pub fn payload_bytes(&self, jobs: u32) -> u64 {
        let each = self
            .spec
            .sizes()
            .into_iter()
            .map(|bytes| u64::from(bytes).next_power_of_two().max(4096))
            .sum::<u64>();
        let depth = u64::from(self.spec.iodepth) + u64::from(is_made_ahead(&self.spec));
        u64::from(jobs) * depth * each
    }

    /// Whether blocks are written in such a way that they can be checked.
    pub fn writes_pattern(&self) -> bool {
        self.spec.verify == Verify::Crc32c && self.spec.rw.has(Direction::Write)
    }

    /// Whether jobs share the region instead of each using all of it.
    fn is_divided(&self) -> bool {
        self.spec.verify == Verify::Crc32c && self.spec.offset_increment == 0
    }

    /// Bytes of which all operations are multiples.
    pub fn unit_bytes(&self) -> u32 {
        self.unit_blocks * self.geometry.block_bytes
    }

    /// Units of the smallest operation.
    pub fn shortest(&self) -> u64 {
        self.spec.sizes().first().map_or(1, |bytes| u64::from(bytes / self.unit_bytes()))
    }

    /// Bytes of a job's region, or of the whole where it is divided.
    fn region_bytes(&self) -> u64 {
        let last_begin =
            self.spec.offset + self.spec.offset_increment * u64::from(self.spec.numjobs - 1);
        let left = self.geometry.bytes().saturating_sub(last_begin);
        match self.spec.size_percent {
            Some(percent) => {
                let part = u128::from(self.geometry.bytes()) * u128::from(percent) / 100;
                let part = u64::try_from(part).unwrap_or(u64::MAX).min(left);
                part - part % u64::from(self.unit_bytes())
            }
            None => self.spec.size.unwrap_or(left),
        }
    }

    fn check_regions(&self) -> Result<(), Error> {
        let spec = &self.spec;
        let last = u128::from(spec.offset)
            + u128::from(spec.offset_increment) * u128::from(spec.numjobs - 1);
        if last >= u128::from(self.geometry.bytes()) {
            return Err(Error::option(
                "offset",
                format!("the device ends at {} bytes", self.geometry.bytes()),
            ));
        }
        let bytes = self.region_bytes();
        if last + u128::from(bytes) > u128::from(self.geometry.bytes()) {
            let problem = format!(
                "offset and size reach beyond the device's {} bytes",
                self.geometry.bytes()
            );
            return Err(Error::option("size", problem));
        }
        if spec.verify == Verify::Crc32c
            && spec.numjobs > 1
            && (1..bytes).contains(&spec.offset_increment)
        {
            return Err(Error::option(
                "offset_increment",
                "jobs that verify must not overlap: use at least the size, or none",
            ));
        }
        let units = bytes / u64::from(self.unit_bytes());
        let largest = spec.sizes().last().map_or(1, |bytes| u64::from(bytes / self.unit_bytes()));
        let shares = if self.is_divided() { u64::from(spec.numjobs) } else { 1 };
        if units < shares * largest {
            let bs = largest * u64::from(self.unit_bytes());
            return Err(Error::option(
                "size",
                format!("{bytes} bytes are too few for a block of {bs} for each job"),
            ));
        }
        if self.writes_pattern() && units > VERIFIED_UNITS_MAX {
            let problem = format!(
                "at most {VERIFIED_UNITS_MAX} blocks of bs bytes can be verified: set size, or raise bs"
            );
            return Err(Error::option("size", problem));
        }
        Ok(())
    }
}

fn check_numbers(spec: &JobSpec) -> Result<(), Error> {
    let between = |option, value: u32, max: u32| match (1..=max).contains(&value) {
        true => Ok(()),
        false => Err(Error::option(option, format!("it is {value} but must be 1 to {max}"))),
    };
    between("iodepth", spec.iodepth, IODEPTH_MAX)?;
    between("numjobs", spec.numjobs, JOBS_MAX)?;
    between("threads", spec.threads, THREADS_MAX)?;
    between("rate_iops", spec.rate_iops.unwrap_or(1), u32::MAX)?;
    if spec.rwmixread > 100 {
        return Err(Error::option(
            "rwmixread",
            format!("it is {} but must be 0 to 100", spec.rwmixread),
        ));
    }
    if spec.time_based && spec.runtime.is_none_or(|runtime| runtime.is_zero()) {
        return Err(Error::option("time_based", "it needs runtime"));
    }
    if spec.number_ios == Some(0) {
        return Err(Error::option("number_ios", "it must be at least 1"));
    }
    if spec.rate_iops.is_some() && spec.rate.iter().any(Option::is_some) {
        return Err(Error::option("rate", "rate and rate_iops exclude each other: use only one"));
    }
    if spec.size.is_some() && spec.size_percent.is_some() {
        return Err(Error::option("size", "use bytes or a percentage, not both"));
    }
    if spec.bssplit.is_some() && spec.verify != Verify::None {
        return Err(Error::option("bssplit", "verifying needs blocks of one size: use bs instead"));
    }
    spec.buffers.check()?;
    let bytes: u64 = spec.sizes().into_iter().map(u64::from).sum();
    if u64::from(spec.numjobs) * u64::from(spec.iodepth) * bytes > PAYLOAD_BYTES_MAX {
        let problem = format!(
            "numjobs × iodepth × bs exceeds {} GiB of memory: lower one of them",
            PAYLOAD_BYTES_MAX >> 30
        );
        return Err(Error::option("iodepth", problem));
    }
    Ok(())
}

fn check_device(spec: &JobSpec, geometry: Geometry, features: Features) -> Result<(), Error> {
    let block = geometry.block_bytes;
    let multiple = |bytes: u64| bytes.is_multiple_of(block.into());
    for bs in spec.sizes() {
        if bs == 0 || !multiple(bs.into()) {
            return Err(Error::option(
                "bs",
                format!("{bs} is not a multiple of the device's block size, {block}"),
            ));
        }
        if bs > BLOCK_BYTES_MAX {
            return Err(Error::option(
                "bs",
                format!("{bs} exceeds the maximum block size, {} MiB", BLOCK_BYTES_MAX >> 20),
            ));
        }
    }
    for (option, value) in [("offset", spec.offset), ("offset_increment", spec.offset_increment)] {
        if !multiple(value) {
            return Err(Error::option(
                option,
                format!("{value} is not a multiple of the device's block size, {block}"),
            ));
        }
    }
    let needs_write = spec.rw.has(Direction::Write) || spec.rw.has(Direction::Trim);
    if needs_write && !features.write {
        return Err(Error::option("rw", format!("{} needs a writable device", spec.rw)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::direction::Rw;
    use super::*;
    use core::time::Duration;

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
    fn a_job_covers_the_device_once() {
        let plan = plan(|_| ()).unwrap();
        assert_eq!(
            plan.share(0),
            Share { index: 0, first_lba: 0, units: 256, limit: Some(256), unit_limit: None }
        );
    }

    #[test]
    fn jobs_use_the_same_region_unless_they_verify() {
        let shares = |verify| {
            let plan = plan(|s| (s.numjobs, s.offset, s.verify) = (3, 4096, verify)).unwrap();
            [0, 1, 2].map(|job| (plan.share(job).first_lba, plan.share(job).units))
        };
        assert_eq!(shares(Verify::None), [(8, 255); 3]);
        assert_eq!(shares(Verify::Crc32c), [(8, 85), (8 + 85 * 8, 85), (8 + 170 * 8, 85)]);
    }

    #[test]
    fn limits_follow_fio() {
        let limit = |change: fn(&mut JobSpec)| plan(change).unwrap().share(0).limit;
        assert_eq!(limit(|s| s.number_ios = Some(7)), Some(7));
        assert_eq!(limit(|s| s.number_ios = Some(7000)), Some(256));
        assert_eq!(
            limit(|s| (s.time_based, s.runtime) = (true, Some(Duration::from_secs(1)))),
            None
        );
        assert_eq!(limit(|s| s.size = Some(65_536)), Some(16));
    }

    #[test]
    fn a_part_of_the_device_is_fios() {
        let bytes = |change: fn(&mut JobSpec)| plan(change).unwrap().region_bytes();
        // 10 % of 1 MiB in whole blocks of 4 KiB; no more than what follows the offset.
        assert_eq!(bytes(|s| s.size_percent = Some(10)), 102_400);
        assert_eq!(bytes(|s| (s.size_percent, s.offset) = (Some(10), 8192)), 102_400);
        assert_eq!(bytes(|s| (s.size_percent, s.offset) = (Some(100), 8192)), (1 << 20) - 8192);
    }

    #[test]
    fn jobs_are_dealt_to_loops() {
        let plan = plan(|s| (s.numjobs, s.threads) = (5, 2)).unwrap();
        assert_eq!(plan.jobs_of(0).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(plan.jobs_of(1).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(super::super::plan::Plan { threads: 1, ..plan }.jobs_of(0).count(), 5);
    }

    #[test]
    fn loops_share_the_queues_that_are_granted() {
        let granted = |queues| {
            let spec = JobSpec { numjobs: 256, threads: 3, ..JobSpec::default() };
            let plan = Plan::new(&spec, GEOMETRY, Features::default(), queues, 1).unwrap();
            (0..plan.threads).map(|thread| plan.queues_of(thread)).collect::<Vec<_>>()
        };
        assert_eq!(
            (granted(128), granted(3), granted(2), granted(0)),
            (vec![43, 43, 42], vec![1; 3], vec![1; 2], vec![0])
        );
    }

    #[test]
    fn wrong_options_are_named() {
        let wrong = |change: fn(&mut JobSpec)| match plan(change) {
            Err(Error::Option { option, .. }) => option,
            other => panic!("{other:?}"),
        };
        assert_eq!(wrong(|s| s.bs_bytes = 1000), "bs");
        assert_eq!(wrong(|s| s.bs_bytes = BLOCK_BYTES_MAX + 512), "bs");
        assert_eq!(wrong(|s| s.bs_bytes = 2 << 20), "size");
        assert_eq!(wrong(|s| (s.rate, s.rate_iops) = ([Some(1); 3], Some(1))), "rate");
        assert_eq!(
            wrong(|s| (s.bssplit, s.verify) = ("4k:8k".parse().ok(), Verify::Crc32c)),
            "bssplit"
        );
        assert_eq!(wrong(|s| s.bssplit = "512:700".parse().ok()), "bs");
        assert_eq!(
            wrong(|s| (s.size_percent, s.bssplit) = (Some(1), "4k:64k".parse().ok())),
            "size"
        );
        assert_eq!(wrong(|s| s.iodepth = 0), "iodepth");
        assert_eq!(wrong(|s| s.rwmixread = 101), "rwmixread");
        assert_eq!(wrong(|s| s.time_based = true), "time_based");
        assert_eq!(wrong(|s| s.offset = 100), "offset");
        assert_eq!(wrong(|s| s.offset = 1 << 20), "offset");
        assert_eq!(
            wrong(|s| (s.offset, s.offset_increment, s.numjobs) = (0, 1 << 40, 4000)),
            "offset"
        );
        assert_eq!(wrong(|s| s.size = Some(2 << 20)), "size");
        assert_eq!(wrong(|s| s.size = Some(100)), "size");
        assert_eq!(
            wrong(|s| (s.numjobs, s.verify, s.size) = (5, Verify::Crc32c, Some(16_384))),
            "size"
        );
        assert_eq!(
            wrong(|s| (s.numjobs, s.verify, s.offset_increment) = (2, Verify::Crc32c, 512)),
            "offset_increment"
        );
        assert_eq!(wrong(|s| (s.bs_bytes, s.iodepth, s.numjobs) = (1 << 20, 65_536, 2)), "iodepth");
        let read_only = Plan::new(
            &JobSpec { rw: Rw::RandRw, ..JobSpec::default() },
            GEOMETRY,
            Features::default(),
            1,
            1,
        );
        assert!(matches!(read_only, Err(Error::Option { option: "rw", .. })));
    }
}
