//! fio's names and values of the options of a [`JobSpec`].

use super::job_spec::{ExitAll, JobSpec, TotalRate, Verify};
use super::values::Size;
use core::time::Duration;

/// Options, in the order in which they are shown.
struct List(Vec<(&'static str, String)>);

impl List {
    fn add(&mut self, name: &'static str, is_set: bool, value: impl ToString) {
        if is_set {
            self.0.push((name, value.to_string()));
        }
    }

    fn some(&mut self, name: &'static str, value: Option<impl ToString>) {
        self.0.extend(value.map(|value| (name, value.to_string())));
    }

    /// Values by direction, of which some may be missing.
    fn directions<T: ToString>(&mut self, name: &'static str, values: &[Option<T>; 3]) {
        let texts = values
            .each_ref()
            .map(|value| value.as_ref().map_or_else(String::new, ToString::to_string));
        let is_same = texts.iter().all(|text| *text == texts[0]);
        let text = if is_same { texts[0].clone() } else { texts.join(",") };
        self.add(name, values.iter().any(Option::is_some), text);
    }
}

impl JobSpec {
    /// fio's names and values of the options that differ from their defaults, and of those that
    /// always interest.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let mut list = List(vec![
            ("name", self.name.clone()),
            ("rw", self.steps.named(self.rw)),
            self.sizes_option(),
            ("iodepth", self.iodepth.to_string()),
            ("numjobs", self.numjobs.to_string()),
        ]);
        self.order(&mut list);
        self.extent(&mut list);
        self.data(&mut list);
        self.rates(&mut list);
        self.course(&mut list);
        list.0
    }

    /// The sizes of operations.
    pub(super) fn sizes_option(&self) -> (&'static str, String) {
        match (&self.bssplit, &self.bsrange) {
            (Some(split), _) => ("bssplit", split.to_string()),
            (None, Some(range)) => ("bsrange", range.to_string()),
            (None, None) => ("bs", self.bs_bytes.to_string()),
        }
    }

    /// The order of addresses.
    fn order(&self, list: &mut List) {
        let default = Self::default();
        list.directions("blockalign", &self.blockalign.map_or([None; 3], |align| align.map(Some)));
        list.add("rw_sequencer", self.steps.identical, "identical");
        let random = self.steps.random_percent;
        let random = random.map(|percent| (random != [100; 3]).then_some(percent));
        list.directions("percentage_random", &random);
        list.add("rwmixread", self.rw.is_mixed(), self.rwmixread);
        list.some("randseed", self.randseed);
        list.add("norandommap", self.norandommap, 1);
        list.add("random_distribution", !self.distribution.is_even(), &self.distribution);
        list.add("serialize_overlap", self.serialize_overlap, 1);
        list.add("threads", self.threads != default.threads, self.threads);
        list.some("iodepth_low", self.iodepth_low);
        let batch = self.complete_min != default.complete_min;
        list.add("iodepth_batch_complete_min", batch, self.complete_min);
    }

    /// The part of the device, and how much is transferred.
    fn extent(&self, list: &mut List) {
        let extent = &self.extent;
        list.add("offset", self.offset != 0, self.offset);
        list.some("offset", extent.offset_percent.map(percent));
        list.add("offset_increment", self.offset_increment != 0, self.offset_increment);
        list.some("offset_increment", extent.increment_percent.map(percent));
        list.some("offset_align", extent.offset_align);
        list.some("offset_end", extent.end_percent.map(percent));
        list.some("size", self.size);
        list.some("size", self.size_percent.map(percent));
        list.some(
            "filesize",
            extent.filesize.map(|(least, most)| match least == most {
                true => least.to_string(),
                false => format!("{least}-{most}"),
            }),
        );
        list.some(
            "io_size",
            extent.io_size.map(|size| match size {
                Size::Bytes(bytes) => bytes.to_string(),
                Size::Percent(part) => percent(part),
            }),
        );
        list.add("loops", extent.loops > 1, extent.loops);
        list.some("number_ios", self.number_ios);
        list.add("create_only", self.create_only, 1);
        if let Some(zones) = extent.zones {
            list.add("zonemode", true, "strided");
            list.add("zonesize", true, zones.bytes);
            list.add("zonerange", true, zones.range);
            list.add("zoneskip", true, zones.skip);
        }
    }

    /// The payload, flushes and verification.
    fn data(&self, list: &mut List) {
        list.0.extend(self.buffers.options());
        let syncs = &self.syncs;
        list.add("fsync", syncs.fsync > 0, syncs.fsync);
        list.add("fdatasync", syncs.fdatasync > 0, syncs.fdatasync);
        list.add("sync", syncs.each_write, "dsync");
        list.add("end_fsync", syncs.at_end, 1);
        list.add("verify", self.verify == Verify::Crc32c, "crc32c");
        list.add("do_verify", !self.do_verify, 0);
        list.add("verify_fatal", self.verify_fatal, 1);
        list.add("verify_only", self.verify_only, 1);
    }

    /// Rates and pauses.
    fn rates(&self, list: &mut List) {
        let (think, floor) = (&self.think, &self.rate_floor);
        list.directions("rate_iops", &self.rate_iops);
        list.directions("rate", &self.rate);
        match self.rate_total {
            Some(TotalRate::Iops(rate)) => list.add("rate_total_iops", true, rate),
            Some(TotalRate::Bytes(rate)) => list.add("rate_total", true, rate),
            None => {}
        }
        list.add("rate_process", self.poisson, "poisson");
        list.directions("rate_min", &floor.bytes);
        list.directions("rate_iops_min", &floor.iops);
        list.add("rate_cycle", floor.cycle != Duration::from_secs(1), floor.cycle.as_millis());
        list.add("thinktime", !think.time.is_zero(), micros(think.time));
        list.add("thinktime_spin", !think.spin.is_zero(), micros(think.spin));
        list.some("thinktime_blocks", think.blocks);
        list.add("thinktime_blocks_type", think.on_issue, "issue");
        list.add("thinktime_iotime", !think.io_time.is_zero(), micros(think.io_time));
        list.add("rate_ignore_thinktime", think.outside_rate, 1);
        list.directions("max_latency", &self.max_latency.map(|time| time.map(micros)));
        if let Some(target) = &self.latency_target {
            list.add("latency_target", true, micros(target.most));
            list.add("latency_window", true, micros(target.window));
            list.add("latency_percentile", target.percent != 100.0, target.percent);
            list.add("latency_run", target.runs_on, 1);
        }
    }

    /// When jobs start and end, and what is reported.
    fn course(&self, list: &mut List) {
        let [least, most] = self.start_delay;
        let delay = match least == most {
            true => seconds(least),
            false => format!("{}-{}", seconds(least), seconds(most)),
        };
        list.add("startdelay", !most.is_zero(), delay);
        list.some("runtime", self.runtime.map(seconds));
        list.add("ramp_time", !self.ramp_time.is_zero(), seconds(self.ramp_time));
        list.add("time_based", self.time_based, 1);
        if let Some(steady) = &self.steady {
            list.add("steadystate", true, steady.criterion);
            list.add("steadystate_duration", true, seconds(steady.window));
            list.add("steadystate_ramp_time", !steady.ramp.is_zero(), seconds(steady.ramp));
        }
        list.add("cpus_allowed", !self.cpus_allowed.is_empty(), cores(&self.cpus_allowed));
        let on_error = &self.continue_on_error;
        list.add("continue_on_error", on_error.reads || on_error.writes, on_error);
        let only = on_error.only.each_ref().map(|list| {
            let numbers = list.iter().map(u32::to_string);
            numbers.collect::<Vec<_>>().join(":")
        });
        list.add("ignore_error", only.iter().any(|list| !list.is_empty()), only.join(","));
        list.add("exitall", self.exitall != ExitAll::No, 1);
        list.add("exitall_on_error", self.exitall_on_error != ExitAll::No, 1);
        let is_all = [self.exitall, self.exitall_on_error].contains(&ExitAll::All);
        list.add("exit_what", is_all, "all");
        list.add("group_reporting", self.group_reporting == Some(true), 1);
    }
}

fn percent(part: u8) -> String {
    format!("{part}%")
}

fn micros(time: Duration) -> String {
    format!("{}us", time.as_micros())
}

fn seconds(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 { duration.as_secs().to_string() } else { micros(duration) }
}

fn cores(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::direction::Rw;
    use super::super::steps::Steps;
    use super::*;

    #[test]
    fn options_name_what_was_set() {
        let spec = JobSpec {
            runtime: Some(Duration::from_millis(1500)),
            rate_iops: [Some(7); 3],
            rate: [None, Some(4096), None],
            steps: Steps { skip: -8192, ..Steps::default() },
            distribution: "zipf:1.2".parse().unwrap(),
            ..JobSpec::default()
        };
        let options = spec.options();
        for expected in [
            ("runtime", "1500000us"),
            ("rate_iops", "7"),
            ("rate", ",4096,"),
            ("rw", "read:-8192"),
            ("random_distribution", "zipf:1.2"),
        ] {
            let (name, value) = expected;
            assert!(options.contains(&(name, value.into())), "{expected:?}: {options:?}");
        }
        assert!(!options.iter().any(|(name, _)| *name == "verify"));
        let usual = JobSpec { rw: Rw::RandRead, ..JobSpec::default() }.options();
        let names: Vec<_> = usual.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["name", "rw", "bs", "iodepth", "numjobs"]);
    }
}
