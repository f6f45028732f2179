//! Families of metrics in the text format of OpenMetrics, from values with labels.

use std::fmt::{Display, Write as _};
use weft_endpoint::statistics::{Counts, Histogram, OperationKind};

/// Upper bounds of the buckets of latencies: these powers of two of nanoseconds, 4 µs to 17 s.
const BOUNDS: [u32; 16] = [12, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 34];

/// Labels of a value.
pub type Labels = Vec<(&'static str, String)>;

/// Units, which names end with.
pub const BYTES: &str = "bytes";
pub const SECONDS: &str = "seconds";

/// The text, which each family is added to.
#[derive(Default)]
pub struct Families(String);

/// A family that is being written: its name, with the unit.
struct Family<'a> {
    text: &'a mut String,
    name: String,
}

impl Families {
    /// The whole text.
    pub fn end(self) -> String {
        self.0 + "# EOF\n"
    }

    /// Values that rise and fall.
    pub fn gauges(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&str>,
        values: Vec<(Labels, u64)>,
    ) {
        let mut family = self.begin(name, help, unit, "gauge");
        for (labels, value) in values {
            family.sample("", None, &labels, value);
        }
    }

    /// One value without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.gauges(name, help, None, vec![(Labels::new(), value)]);
    }

    /// Nanoseconds that rise and fall, as seconds.
    pub fn times(&mut self, name: &str, help: &str, values: Vec<(Labels, u64)>) {
        let mut family = self.begin(name, help, Some(SECONDS), "gauge");
        for (labels, ns) in values {
            family.sample("", None, &labels, Seconds(ns));
        }
    }

    /// Values that only rise.
    pub fn counters(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&str>,
        values: Vec<(Labels, u64)>,
    ) {
        let mut family = self.begin(name, help, unit, "counter");
        for (labels, value) in values {
            family.sample("_total", None, &labels, value);
        }
    }

    /// Nanoseconds that only rise, as seconds.
    pub fn seconds(&mut self, name: &str, help: &str, values: Vec<(Labels, u64)>) {
        let mut family = self.begin(name, help, Some(SECONDS), "counter");
        for (labels, ns) in values {
            family.sample("_total", None, &labels, Seconds(ns));
        }
    }

    /// Times, by their size.
    fn histograms(&mut self, name: &str, help: &str, values: Vec<(Labels, &Histogram)>) {
        let mut family = self.begin(name, help, Some(SECONDS), "histogram");
        for (labels, times) in values {
            family.sample("_sum", None, &labels, Seconds(times.sum_ns));
            family.sample("_count", None, &labels, times.count());
            for bits in BOUNDS {
                let bound = Seconds(1 << bits).to_string();
                family.sample("_bucket", Some(&bound), &labels, times.below_power(bits));
            }
            family.sample("_bucket", Some("+Inf"), &labels, times.count());
        }
    }

    fn begin(&mut self, name: &str, help: &str, unit: Option<&str>, kind: &str) -> Family<'_> {
        let text = &mut self.0;
        let name = unit.map_or_else(|| name.to_owned(), |unit| format!("{name}_{unit}"));
        // Into a string nothing fails.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        if let Some(unit) = unit {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        Family { text, name }
    }
}

impl Family<'_> {
    /// A value; of a bucket with its upper bound.
    fn sample(&mut self, end: &str, bound: Option<&str>, labels: &Labels, value: impl Display) {
        self.text.extend([self.name.as_str(), end]);
        let bound = bound.map(|bound| ("le", bound));
        let labels = labels.iter().map(|(name, value)| (*name, value.as_str()));
        let mut between = '{';
        for (name, value) in bound.into_iter().chain(labels) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{between}{name}=\"{value}\"");
            between = ',';
        }
        let end = if between == ',' { "} " } else { " " };
        let _ = writeln!(self.text, "{end}{value}");
    }
}

/// Nanoseconds that are written as seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0 as f64 / 1e9)
    }
}

/// Things with labels, and their counts.
pub type Counted<'a> = Vec<(Labels, &'a Counts)>;

/// The metrics of counts, whose names begin with `weft_` and `what`.
pub fn counted(to: &mut Families, what: &str, all: &Counted) {
    fn each<'a, T>(
        all: &Counted<'a>,
        value: impl Fn(&'a Counts, OperationKind) -> T,
    ) -> Vec<(Labels, T)> {
        let of = |(labels, counts): &(Labels, &'a Counts)| {
            let with = |kind| [labels.clone(), vec![("operation", word(kind).to_owned())]].concat();
            OperationKind::ALL.map(|kind| (with(kind), value(counts, kind)))
        };
        all.iter().flat_map(of).collect()
    }
    let name = |end: &str| format!("weft_{what}_{end}");
    let operations = each(all, |counts, kind| counts.of(kind).operations);
    to.counters(&name("operations"), "Answered commands", None, operations);
    let bytes = each(all, |counts, kind| counts.of(kind).bytes);
    to.counters(&name("transferred"), "Data of successful commands", Some(BYTES), bytes);
    let errors = each(all, |counts, kind| counts.of(kind).errors);
    to.counters(&name("errors"), "Commands that failed", None, errors);
    let flying = all.iter().map(|(labels, counts)| (labels.clone(), counts.in_flight)).collect();
    to.gauges(&name("in_flight"), "Commands that are not answered yet", None, flying);
    let latencies = each(all, |counts, kind| &counts.of(kind).latency);
    to.histograms(&name("latency"), "Time from receiving a command to its answer", latencies);
}

fn word(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Read => "read",
        OperationKind::Write => "write",
        OperationKind::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_what_is_below_their_bounds() {
        let json = r#"{"sum_ns":1500,"mean_ns":0,"p50_ns":0,"p90_ns":0,"p99_ns":0,"p999_ns":0,"buckets":[[4096,3],[8192,2],[68719476736,1]]}"#;
        let latency: Histogram = serde_json::from_str(json).unwrap();
        let mut families = Families::default();
        families.histograms("a", "Help", vec![(vec![("b", "c".to_owned())], &latency)]);
        let text = families.end();
        let begin = "# HELP a_seconds Help\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
            a_seconds_sum{b=\"c\"} 1.5e-6\na_seconds_count{b=\"c\"} 6\n\
            a_seconds_bucket{le=\"4.096e-6\",b=\"c\"} 3\na_seconds_bucket{le=\"1.6384e-5\",b=\"c\"} 5\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(
            text.ends_with(
                "{le=\"17.179869184\",b=\"c\"} 5\na_seconds_bucket{le=\"+Inf\",b=\"c\"} 6\n# EOF\n"
            ),
            "{text}"
        );
    }
}
