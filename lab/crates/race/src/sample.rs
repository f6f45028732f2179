//! Result of one measurement, and how it is read from the output of the programs.

use std::{error::Error, fmt, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::setting::Setting;

/// A measurement that found nothing done is not made longer than this.
const LONGEST: Duration = Duration::from_secs(10);

/// No operation ended in the time that was measured.
#[derive(Debug)]
pub struct NothingDone;

impl fmt::Display for NothingDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing was done")
    }
}

impl Error for NothingDone {}

/// Measures; again and twice as long while nothing was done, as a short run may not get its turn on
/// a busy machine.
pub fn until_done<T>(
    setting: &Setting,
    mut measure: impl FnMut(&Setting) -> Result<T>,
) -> Result<T> {
    let mut setting = setting.clone();
    loop {
        match measure(&setting) {
            Err(error) if error.is::<NothingDone>() && setting.runtime < LONGEST => {
                setting.runtime *= 2
            }
            other => return other,
        }
    }
}

/// Cost of an operation at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Processor time in user mode, microseconds.
    pub user_us: f64,
    /// Processor time in the system, microseconds.
    pub system_us: f64,
    /// Productive system calls; none where nobody counts them.
    pub calls: Option<f64>,
    /// Bytes of payload copied in user space; none where nobody counts them.
    pub copied: Option<f64>,
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Operations per second.
    pub iops: f64,
    /// Latency, microseconds: 50th, 99th and 99.9th percentile; none where the program does not
    /// tell.
    pub latency_us: Option<[f64; 3]>,
    /// Of the initiator.
    pub initiator: Option<Cost>,
    /// Of the target.
    pub target: Option<Cost>,
    /// Tuning of the ceiling's connections.
    pub tuning: Option<String>,
}

impl Cost {
    /// Of both modes.
    pub fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }

    fn json(&self) -> Value {
        json!({ "user_us": self.user_us, "system_us": self.system_us, "system_calls": self.calls, "copied_bytes": self.copied })
    }

    /// From an object `{user, system}` of microseconds.
    pub fn from_cpu(value: &Value) -> Option<Self> {
        Some(Self {
            user_us: value["user"].as_f64()?,
            system_us: value["system"].as_f64()?,
            ..Self::default()
        })
    }
}

impl Sample {
    /// For the results file.
    pub fn json(&self) -> Value {
        json!({
            "iops": self.iops,
            "latency_us": self.latency_us,
            "initiator": self.initiator.map(|cost| cost.json()),
            "target": self.target.map(|cost| cost.json()),
            "tuning": self.tuning,
        })
    }

    /// From fio's JSON, or that of `weft bench`: reads and writes together, latencies weighted by
    /// their number.
    pub fn of_fio(report: &Value) -> Result<Self> {
        let jobs = report["jobs"].as_array().context("fio's JSON has no jobs")?;
        let (mut iops, mut weighted, mut known) = (0.0, [0.0; 3], true);
        for job in jobs {
            ensure!(job["error"].as_u64() == Some(0), "a job failed: {}", job["error"]);
            for measured in [&job["read"], &job["write"]] {
                let rate = measured["iops"].as_f64().unwrap_or(0.0);
                if rate == 0.0 {
                    continue;
                }
                iops += rate;
                match percentiles(measured) {
                    Some(each) => {
                        weighted = core::array::from_fn(|at| weighted[at] + each[at] * rate)
                    }
                    None => known = false,
                }
            }
        }
        ensure!(iops > 0.0, NothingDone);
        let cpu = |field: &str| {
            jobs.iter().filter_map(|job| job[field].as_f64()).sum::<f64>() / 100.0 * 1e6 / iops
        };
        let initiator =
            Cost { user_us: cpu("usr_cpu"), system_us: cpu("sys_cpu"), ..Cost::default() };
        let latency_us = known.then(|| weighted.map(|sum| sum / iops / 1e3));
        Ok(Self { iops, latency_us, initiator: Some(initiator), target: None, tuning: None })
    }

    /// From the JSON of `weft bench --ceiling`.
    pub fn of_ceiling(report: &Value) -> Result<Self> {
        let end = |end: &Value| {
            Cost::from_cpu(&end["cpu_us_per_io"])
                .map(|cost| Cost { calls: end["system_calls_per_io"].as_f64(), ..cost })
        };
        let latency = |name: &str| report["lat_ns"][name].as_f64().map(|ns| ns / 1e3);
        let latency_us = [latency("p50"), latency("p99"), latency("p999")];
        Ok(Self {
            iops: report["iops"].as_f64().filter(|iops| *iops > 0.0).ok_or(NothingDone)?,
            latency_us: latency_us
                .iter()
                .all(Option::is_some)
                .then(|| latency_us.map(Option::unwrap_or_default)),
            initiator: end(&report["client"]),
            target: end(&report["server"]),
            tuning: report["tuning"].as_str().map(str::to_owned),
        })
    }
}

/// The percentiles of a direction, nanoseconds: from when an operation was begun, where that is
/// told.
fn percentiles(direction: &Value) -> Option<[f64; 3]> {
    let of = |kind: &str| {
        let all = &direction[kind]["percentile"];
        Some([all["50.000000"].as_f64()?, all["99.000000"].as_f64()?, all["99.900000"].as_f64()?])
    };
    of("lat_ns").or_else(|| of("clat_ns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_added_and_latencies_weighted() {
        let job = |iops: f64, p50: f64| {
            let percentile = json!({ "50.000000": p50, "99.000000": 2000.0, "99.900000": 3000.0 });
            json!({ "error": 0, "usr_cpu": 10.0, "sys_cpu": 40.0, "read": { "iops": iops, "clat_ns": { "percentile": percentile } } })
        };
        let sample =
            Sample::of_fio(&json!({ "jobs": [job(1000.0, 1000.0), job(3000.0, 2000.0)] })).unwrap();
        assert_eq!((sample.iops, sample.latency_us), (4000.0, Some([1.75, 2.0, 3.0])));
        assert_eq!(sample.initiator.unwrap().cpu_us(), 250.0);
        assert!(
            Sample::of_fio(&json!({ "jobs": [{ "error": 5, "read": { "iops": 1.0 } }] })).is_err()
        );
    }

    #[test]
    fn a_run_that_did_nothing_is_made_longer() {
        let report = |iops: f64| json!({ "jobs": [{ "error": 0, "read": { "iops": iops } }] });
        let error = Sample::of_fio(&report(0.0)).unwrap_err().context("weft");
        assert!(error.is::<NothingDone>());
    }

    #[test]
    fn both_ends_of_the_ceiling_are_read() {
        let end = json!({ "cpu_us_per_io": { "user": 0.25, "system": 0.5 }, "system_calls_per_io": 0.125 });
        let latencies = json!({ "p50": 1000, "p99": 2000, "p999": 3000 });
        let report = json!({ "iops": 10.0, "lat_ns": latencies, "client": end, "server": end, "tuning": "1MiB+copy" });
        let sample = Sample::of_ceiling(&report).unwrap();
        assert_eq!(sample.target.unwrap().calls, Some(0.125));
        assert_eq!(sample.latency_us, Some([1.0, 2.0, 3.0]));
    }
}
