//! Converts a [`JobSpec`] and a device into the work of each job, and checks all options.

use super::direction::{Direction, Rw};
use super::job_spec::{JobSpec, SEED_DEFAULT, Verify};
use super::pace::Pace;
use super::payload::is_made_ahead;
use crate::error::Error;
use crate::limits::{BLOCK_BYTES_MAX, IODEPTH_MAX, JOBS_MAX, PAYLOAD_BYTES_MAX, THREADS_MAX};
use weft_block::{Device, Features, Geometry, split};
use weft_io::Time;

/// What all jobs have in common.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub spec: JobSpec,
    pub geometry: Geometry,
    /// Bytes of which all addresses and all operations are multiples.
    pub unit_bytes: u64,
    pub seed: u64,
    /// Tells this run's blocks from those of all others.
    pub run: u64,
    pub threads: u32,
    /// Queues that the device grants, for all loops.
    pub queues: usize,
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
        check_together(spec)?;
        check_blocks(spec, geometry.block_bytes)?;
        if spec.writes() && !features.write {
            return Err(Error::option("rw", format!("{} needs a writable device", spec.rw)));
        }
        let plan = Self {
            spec: spec.clone(),
            geometry,
            unit_bytes: spec.unit_bytes().into(),
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

    /// Jobs of loop `thread`.
    pub fn jobs_of(&self, thread: u32) -> impl Iterator<Item = u32> + use<> {
        (thread..self.spec.numjobs).step_by(self.threads as usize)
    }

    /// Queues of loop `thread`: the loops share what is granted evenly.
    pub fn queues_of(&self, thread: u32) -> usize {
        let (threads, thread) = (self.threads as usize, thread as usize);
        self.queues / threads + usize::from(thread < self.queues % threads)
    }

    /// The seed of job `index`.
    pub fn seed_of(&self, index: u32) -> u64 {
        self.seed.wrapping_add(index.into())
    }

    /// Bytes of memory of an operation.
    pub fn op_bytes(&self) -> u64 {
        transfer_bytes(&self.spec, self.geometry.block_bytes).into()
    }

    /// Bytes of payload memory for `jobs` jobs.
    pub fn payload_bytes(&self, jobs: u32) -> u64 {
        let each = self.op_bytes().next_power_of_two().max(4096);
        let depth = u64::from(self.spec.iodepth) + u64::from(self.makes_ahead());
        u64::from(jobs) * depth * each
    }

    /// Returns whether jobs make payloads ahead, and so need memory for one more operation each.
    pub fn makes_ahead(&self) -> bool {
        !self.is_odd() && is_made_ahead(&self.spec)
    }

    /// Makes the plan of a run on a device. Returns the device too: it takes operations that are
    /// longer than its own in parts, and their latency is that of the whole.
    pub fn on(device: Device, spec: &JobSpec, run: u64) -> Result<(Device, Self), Error> {
        let bytes = transfer_bytes(spec, device.geometry().block_bytes);
        let device = split::up_to(device, bytes);
        let plan = Self::new(spec, device.geometry(), device.features(), device.max_queues(), run)?;
        Ok((device, plan))
    }

    /// Returns whether operations have addresses or sizes that are not multiples of a block. They
    /// cover all blocks that they touch.
    pub fn is_odd(&self) -> bool {
        !self.unit_bytes.is_multiple_of(self.geometry.block_bytes.into())
    }

    /// Units of an operation, if all have one size.
    pub fn op_units(&self) -> Option<u64> {
        let (least, most) = self.spec.all_sizes();
        (least == most).then_some(u64::from(most) / self.unit_bytes)
    }

    /// Units of the smallest operation.
    pub fn shortest(&self) -> u64 {
        u64::from(self.spec.all_sizes().0) / self.unit_bytes
    }

    /// Returns whether blocks are written in such a way that they can be checked, or were.
    pub fn writes_pattern(&self) -> bool {
        self.spec.verify == Verify::Crc32c && self.spec.rw.has(Direction::Write)
    }
}

/// Bytes of the largest operation. One whose address or size is not a multiple of a block covers
/// all blocks that it touches.
fn transfer_bytes(spec: &JobSpec, block: u32) -> u32 {
    let most = spec.all_sizes().1;
    match spec.unit_bytes().is_multiple_of(block) {
        true => most,
        false => most.div_ceil(block).saturating_add(1).saturating_mul(block),
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
    between("loops", spec.extent.loops, u32::MAX)?;
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
    if spec.size.is_some() && spec.size_percent.is_some() {
        return Err(Error::option("size", "use bytes or a percentage, not both"));
    }
    spec.buffers.check()?;
    let bytes = u64::from(spec.all_sizes().1);
    if u64::from(spec.numjobs) * u64::from(spec.iodepth) * bytes > PAYLOAD_BYTES_MAX {
        let problem = format!(
            "numjobs × iodepth × bs exceeds {} GiB of memory: lower one of them",
            PAYLOAD_BYTES_MAX >> 30
        );
        return Err(Error::option("iodepth", problem));
    }
    Ok(())
}

/// Options that exclude each other.
fn check_together(spec: &JobSpec) -> Result<(), Error> {
    let rates = [
        spec.rate.iter().any(Option::is_some),
        spec.rate_iops.iter().any(Option::is_some),
        spec.rate_total.is_some(),
    ];
    if rates.iter().filter(|is_set| **is_set).count() > 1 {
        return Err(Error::option("rate", "rate and rate_iops exclude each other: use only one"));
    }
    if spec.bssplit.is_some() && spec.bsrange.is_some() {
        return Err(Error::option("bsrange", "bssplit and bsrange exclude each other"));
    }
    if spec.verify_only && (spec.verify == Verify::None || spec.time_based) {
        return Err(Error::option("verify_only", "it needs verify, and a job that ends by itself"));
    }
    let has_free = || Pace::new(spec, Time::ZERO, 0).is_some_and(|pace| pace.free().is_some());
    if spec.verify_only && has_free() {
        let problem = "with a rate for reads or for writes alone the mix is not known: give both";
        return Err(Error::option("verify_only", problem));
    }
    if spec.verify == Verify::None {
        return Ok(());
    }
    let problem = "verifying needs blocks of one size at multiples of it";
    let option = match spec.op_is_unit() {
        _ if spec.bssplit.is_some() => "bssplit",
        _ if spec.bsrange.is_some() => "bsrange",
        false if spec.steps.skip != 0 => "rw",
        false if spec.blockalign.is_some() => "blockalign",
        false => "zonerange",
        true => return Ok(()),
    };
    Err(Error::option(option, format!("{problem}: use bs, and omit {option}")))
}

/// Options of sizes and addresses, against the blocks of the device.
fn check_blocks(spec: &JobSpec, block: u32) -> Result<(), Error> {
    let multiple = |bytes: u64| bytes.is_multiple_of(block.into());
    let wrong = |option, bytes: u64| {
        let text = format!("{bytes} is not a multiple of the device's block size, {block}");
        Error::option(option, text)
    };
    let may_round = spec.whole_blocks && spec.verify == Verify::None && loses_nothing(spec);
    for bs in spec.sizes() {
        if bs == 0 || !(may_round || multiple(bs.into())) {
            return Err(wrong("bs", bs.into()));
        }
        if bs > BLOCK_BYTES_MAX {
            return Err(Error::option(
                "bs",
                format!("{bs} exceeds the maximum block size, {} MiB", BLOCK_BYTES_MAX >> 20),
            ));
        }
    }
    let zones = spec.extent.zones.map_or([0; 2], |zones| [zones.range, zones.skip]);
    let align = spec.blockalign.unwrap_or([block; 3]).map(u64::from);
    let mut distances = vec![("rw", spec.steps.skip.unsigned_abs())];
    distances.extend(align.map(|bytes| ("blockalign", bytes)));
    distances.extend(zones.map(|bytes| ("zonerange", bytes)));
    if let Some((option, bytes)) = distances.into_iter().find(|(_, b)| !may_round && !multiple(*b))
    {
        return Err(wrong(option, bytes));
    }
    for (option, value) in [("offset", spec.offset), ("offset_increment", spec.offset_increment)] {
        if !multiple(value) {
            return Err(wrong(option, value));
        }
    }
    Ok(())
}

/// Returns whether operations may cover more than their bytes: reads, and writes that follow one
/// another without gaps, as they write the bytes beside them, too. Others would replace what is to
/// stay.
fn loses_nothing(spec: &JobSpec) -> bool {
    let has_gaps = spec.steps.skip != 0 || spec.extent.zones.is_some();
    matches!(spec.rw, Rw::Read | Rw::RandRead) || spec.rw == Rw::Write && !has_gaps
}

#[cfg(test)]
mod tests {
    use super::super::region::Share;
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
            Share {
                index: 0,
                begin: 0,
                units: 256,
                limit: Some(256),
                unit_limit: None,
                bytes: Some(1 << 20)
            }
        );
    }

    #[test]
    fn jobs_use_the_same_region_unless_they_verify() {
        let shares = |verify| {
            let plan = plan(|s| (s.numjobs, s.offset, s.verify) = (3, 4096, verify)).unwrap();
            [0, 1, 2].map(|job| (plan.share(job).begin / 512, plan.share(job).units))
        };
        assert_eq!(shares(Verify::None), [(8, 255); 3]);
        assert_eq!(shares(Verify::Crc32c), [(8, 85), (8 + 85 * 8, 85), (8 + 170 * 8, 85)]);
        // Jobs that begin at different places each reach to the end of the device, as in fio.
        let apart = plan(|s| (s.numjobs, s.offset_increment) = (2, 4096)).unwrap();
        assert_eq!([0, 1].map(|job| apart.share(job).units), [256, 255]);
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
        assert_eq!(wrong(|s| (s.rate, s.rate_iops) = ([Some(1); 3], [Some(1); 3])), "rate");
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
        let half_paced = |s: &mut JobSpec| {
            (s.rw, s.verify, s.verify_only) = (Rw::RandRw, Verify::Crc32c, true);
            s.rate_iops = [Some(1), None, None];
        };
        assert_eq!(wrong(half_paced), "verify_only");
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
