//! Figures that others have published.

use crate::results::{Figure, Metric, Published};
use serde::Deserialize;

/// As it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedEntry {
    source: String,
    url: Option<String>,
    relations: Vec<RelationEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationEntry {
    of: String,
    workload: Option<String>,
    metric: Metric,
    figures: Vec<FigureEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureEntry {
    name: String,
    lane: Option<String>,
    /// Per second, or microseconds.
    value: Option<f64>,
    /// To the first figure.
    ratio: Option<Ratio>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum Ratio {
    One(f64),
    Range([f64; 2]),
}

impl PublishedEntry {
    pub(super) fn read(self) -> Result<Vec<Published>, String> {
        let relations = self.relations.into_iter();
        relations.map(|relation| relation.read(&self.source, self.url.as_deref())).collect()
    }
}

impl RelationEntry {
    fn read(self, source: &str, url: Option<&str>) -> Result<Published, String> {
        let [first, _, ..] = self.figures.as_slice() else {
            return Err("figures: a relation takes two".into());
        };
        let (reference, is_time) = (first.value, self.metric.is_time());
        let figures = self
            .figures
            .iter()
            .enumerate()
            .map(|(at, figure)| figure.read(at == 0, reference, is_time));
        Ok(Published {
            figures: figures.collect::<Result<_, _>>()?,
            source: source.to_owned(),
            url: url.map(str::to_owned),
            of: self.of,
            workload: self.workload,
            metric: self.metric,
        })
    }
}

impl FigureEntry {
    fn read(&self, first: bool, reference: Option<f64>, is_time: bool) -> Result<Figure, String> {
        let ratio = match (first, self.ratio, self.value.zip(reference)) {
            (true, None, _) => (1.0, 1.0),
            (true, Some(_), _) => {
                return Err(format!(
                    "{}: the first figure is the reference and has no `ratio`",
                    self.name
                ));
            }
            (false, Some(Ratio::One(ratio)), None) => (ratio, ratio),
            (false, Some(Ratio::Range([low, high])), None) if low <= high => (low, high),
            (false, None, Some((value, reference))) => (value / reference, value / reference),
            _ => {
                return Err(format!(
                    "{}: give `ratio` (or `ratio = [LOWEST, HIGHEST]`), or `value` here and for the first",
                    self.name
                ));
            }
        };
        if !(ratio.0 > 0.0 && ratio.1.is_finite()) {
            return Err(format!("{}: figures are greater than zero", self.name));
        }
        // Times are written in microseconds.
        let value = self.value.map(|value| if is_time { value * 1e3 } else { value });
        Ok(Figure { name: self.name.clone(), lane: self.lane.clone(), value, ratio })
    }
}
