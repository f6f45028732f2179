//! Published figures as relations, next to the same relations of this study.

use super::units::NONE;
use crate::results::{Lane, Metric, Published, Results};

/// The mark of figures that were not measured here.
pub(crate) const PUBLISHED: &str = "†";

/// A published ratio, and the one of this study.
pub(crate) struct PublishedRow<'a> {
    /// The measurement, in the words of the source.
    pub of: &'a str,
    /// Of what.
    pub metric: Metric,
    /// `NVMe/TCP : iSCSI`.
    pub names: String,
    /// The published ratio, lowest and highest.
    pub published: (f64, f64),
    /// That of this study.
    pub here: Option<f64>,
    /// The number of the lane.
    pub lane: Option<usize>,
}

impl PublishedRow<'_> {
    /// The published ratio.
    pub(crate) fn published_text(&self) -> String {
        let (low, high) = self.published;
        if low == high { times(low) } else { format!("{}–{}", times(low), times(high)) }
    }

    /// The ratio of this study.
    pub(crate) fn here_text(&self) -> String {
        self.here.map_or_else(|| NONE.to_owned(), times)
    }
}

/// Two decimals.
pub(crate) fn times(ratio: f64) -> String {
    if ratio.is_finite() { format!("{ratio:.2}") } else { NONE.to_owned() }
}

/// All relations, by source.
pub(crate) fn sources(results: &Results) -> Vec<(&Published, Vec<PublishedRow<'_>>)> {
    let mut sources: Vec<(&Published, Vec<PublishedRow<'_>>)> = Vec::new();
    for published in &results.published {
        let lines = lines(published, results);
        match sources.last_mut().filter(|(first, _)| first.source == published.source) {
            Some((_, all)) => all.extend(lines),
            None => sources.push((published, lines)),
        }
    }
    sources
}

fn lines<'a>(published: &'a Published, results: &Results) -> Vec<PublishedRow<'a>> {
    let Some((reference, others)) = published.figures.split_first() else { return Vec::new() };
    let lane = |name: &Option<String>| {
        results.lanes.iter().position(|lane| Some(&lane.name) == name.as_ref())
    };
    let line = |figure: &crate::results::Figure| PublishedRow {
        of: &published.of,
        metric: published.metric,
        names: format!("{} : {}", figure.name, reference.name),
        published: figure.ratio,
        here: published.here(figure, results),
        lane: lane(&figure.lane),
    };
    others.iter().map(line).collect()
}

/// What the mark means, and whose the figures are.
pub(crate) fn legend(published: &Published) -> String {
    let place = published.url.as_ref().map_or_else(String::new, |url| format!(" <{url}>"));
    format!(
        "{PUBLISHED} Not measured here: {}{place}. Other machines, other programs: only the relation can be compared.",
        published.source
    )
}

/// What the published figures themselves give away.
pub(crate) fn remarks(results: &Results) -> Vec<String> {
    let of = |published: &Published| {
        let (reference, others) = published.figures.split_first()?;
        let is_local =
            reference.lane.as_deref() == Some(Lane::LOCAL) && published.metric == Metric::Iops;
        let faster: Vec<String> = others
            .iter()
            .filter(|figure| is_local && figure.ratio.0 > 1.0)
            .map(|figure| format!("{} ({} times)", figure.name, times(figure.ratio.0)))
            .collect();
        (!faster.is_empty()).then(|| {
            format!(
                "{PUBLISHED} In the published figures ({}) {} {} more than the {}. A path to a device cannot do more than the device: the {} \
                 had not been driven to saturation there, so shares of it say nothing.",
                published.of,
                faster.join(" and "),
                if faster.len() == 1 { "does" } else { "do" },
                reference.name,
                reference.name
            )
        })
    };
    results.published.iter().filter_map(of).collect()
}
