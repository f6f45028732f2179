//! The charts: SVG that takes its colours from the page's style sheet, so that one drawing serves light and dark.
//!
//! Each chart is drawn twice, for a wide page and for a telephone; the style sheet shows one of them. A picture that was only
//! scaled would be too small to read on one of them.

pub(super) mod bars;
mod canvas;
pub(super) mod cpu;
pub(super) mod curves;
pub(super) mod iops;
pub(super) mod latency;
mod plane;
pub(super) mod relations;
pub(super) mod series;
pub(super) mod share;

use super::units::bytes;
use crate::results::{Results, Workload};
use canvas::DrawError;
pub(super) use canvas::LANE_COLOURS;
use maud::{Markup, PreEscaped, html};

/// Width of a drawing for a wide page, pixels of the style sheet: half of the page.
const WIDE: u32 = 520;

/// Width of a drawing for a telephone.
const NARROW: u32 = 340;

/// Blocks larger than this go into a chart of their own: their rates are too small to be seen beside those of small ones.
const SMALL_BLOCK_MAX: u32 = 16 << 10;

/// What a drawing is, for people who do not see it.
pub(super) struct Words {
    /// An identifier that no other chart of the page has.
    pub id: String,
    /// Its name, shown above it as well.
    pub title: String,
    /// What it shows, in a sentence or two.
    pub desc: String,
}

/// Patterns that share a chart.
pub(super) struct Group<'a> {
    /// Their block sizes: `4 KiB and 8 KiB`.
    pub title: String,
    /// `small` or `large`.
    pub id: &'static str,
    /// The patterns, in order.
    pub patterns: Vec<&'a Workload>,
}

/// The thirteen patterns, apart by block size.
pub(super) fn groups(results: &Results) -> Vec<Group<'_>> {
    let (small, large): (Vec<_>, Vec<_>) = results.patterns().partition(|pattern| pattern.bs_bytes <= SMALL_BLOCK_MAX);
    [("small", small), ("large", large)]
        .into_iter()
        .filter(|(_, patterns)| !patterns.is_empty())
        .map(|(id, patterns)| Group { title: sizes(&patterns), id, patterns })
        .collect()
}

fn sizes(patterns: &[&Workload]) -> String {
    let mut sizes: Vec<u32> = patterns.iter().map(|pattern| pattern.bs_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let names: Vec<String> = sizes.into_iter().map(|size| bytes(u64::from(size))).collect();
    names.join(" and ")
}

/// A figure with both drawings.
pub(super) fn figure(words: &Words, draw: impl Fn(u32) -> Result<Drawing, DrawError>) -> Markup {
    html! {
        figure {
            figcaption { (words.title) }
            (svg(words, "wide", draw(WIDE)))
            (svg(words, "narrow", draw(NARROW)))
        }
    }
}

/// A finished drawing.
pub(super) struct Drawing {
    width: u32,
    height: u32,
    shapes: String,
}

fn svg(words: &Words, class: &str, drawing: Result<Drawing, DrawError>) -> Markup {
    let (title, desc) = (format!("{}-{class}-title", words.id), format!("{}-{class}-desc", words.id));
    match drawing {
        Ok(Drawing { width, height, shapes }) => html! {
            svg class=(class) viewBox=(format!("0 0 {width} {height}")) role="img" aria-labelledby=(format!("{title} {desc}")) {
                title id=(title) { (words.title) }
                desc id=(desc) { (words.desc) }
                (PreEscaped(shapes))
            }
        },
        Err(error) => html! { p { "This chart could not be drawn: " (error) } },
    }
}
