//! Random sources of the lengths and the addresses of a job's operations.

use super::order::{Rule, ZoneUnits};
use super::plan::Plan;
use super::region::Share;
use super::spans::Spans;

impl Plan {
    /// The lengths of operations.
    pub fn spans(&self) -> Spans {
        let (spec, unit) = (&self.spec, self.spec.unit_bytes());
        match (&spec.bssplit, &spec.bsrange) {
            (Some(split), _) => Spans::of_split(split, unit),
            (None, Some(range)) => Spans::of_range(range, unit),
            (None, None) => Spans::One(self.shortest()),
        }
    }

    /// The order of a job's addresses.
    pub fn rule(&self, share: &Share) -> Rule<'_> {
        let (spec, unit) = (&self.spec, self.unit_bytes);
        Rule {
            rw: spec.rw,
            units: share.units,
            unit_bytes: unit,
            shortest: self.shortest(),
            pitch: self.op_units().unwrap_or(1),
            align: spec.blockalign.map(|align| align.map(|bytes| u64::from(bytes) / unit)),
            norandommap: spec.norandommap,
            steps: &spec.steps,
            skip: spec.steps.skip / i64::from(spec.unit_bytes()),
            distribution: &spec.distribution,
            zones: spec.extent.zones.map(|zones| ZoneUnits {
                transfer: zones.bytes.div_ceil(unit),
                range: zones.range / unit,
                stride: (zones.range + zones.skip) / unit,
            }),
        }
    }
}
