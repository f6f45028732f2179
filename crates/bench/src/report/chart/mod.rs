//! The charts: SVG that takes its colours from the page's style sheet, so that one drawing serves
//! light and dark; and pictures.
//!
//! Each chart is drawn twice, for a wide page and for a telephone; the style sheet shows one of
//! them. A picture that was only scaled would be too small to read on one of them.

mod bars;
mod canvas;
mod cpu;
mod curves;
mod drawing;
mod groups;
mod iops;
mod key;
mod latency;
#[cfg(any(not(feature = "pictures"), test))]
mod no_pictures;
#[cfg(feature = "pictures")]
mod pictures;
mod plane;
pub(super) mod published;
mod relations;
mod series;
mod share;
mod vector;

use super::markup::{Markup, Raw, html};
use super::published::sources;
use super::shown::ShownRelation;
use super::theme;
use crate::results::{Drawing as Part, Results};
use canvas::VectorDrawing;
pub(super) use drawing::Chart;
use drawing::{NARROW, WIDE, Words};
#[cfg(not(feature = "pictures"))]
use no_pictures as pictures;
pub use pictures::Letters;
pub(super) use pictures::png;

/// The charts of a part of the page, in their order.
pub(super) fn of(part: Part, results: &Results) -> Vec<Box<dyn Chart + '_>> {
    fn boxed<'a>(charts: impl IntoIterator<Item = impl Chart + 'a>) -> Vec<Box<dyn Chart + 'a>> {
        charts.into_iter().map(|chart| Box::new(chart) as Box<dyn Chart + 'a>).collect()
    }
    match part {
        Part::SideBySide | Part::Matrix | Part::Against => Vec::new(),
        Part::Iops => boxed(iops::charts(results)),
        Part::Shares => boxed(share::charts(results)),
        Part::Latency => {
            boxed(latency::depth_one(results).into_iter().chain(latency::open_loop(results)))
        }
        Part::Cpu => boxed(cpu::charts(results)),
        Part::Curves => boxed(curves::charts(results)),
        Part::Series => boxed(series::charts(results)),
        Part::Published => boxed(
            sources(results)
                .iter()
                .enumerate()
                .map(|(at, (_, lines))| published::chart(at, lines))
                .collect::<Vec<_>>(),
        ),
    }
}

/// The charts of the first screen.
pub(super) fn of_relations(shown: &[ShownRelation<'_>], results: &Results) -> Vec<Box<dyn Chart>> {
    relations::charts(shown, results)
        .into_iter()
        .map(|chart| Box::new(chart) as Box<dyn Chart>)
        .collect()
}

/// The figures of the first screen.
pub(super) fn relations(shown: &[ShownRelation<'_>], results: &Results) -> Markup {
    html! { @for chart in of_relations(shown, results) { (figure(&*chart)) } }
}

/// The figure of latencies at queue depth 1.
pub(super) fn depth_one(results: &Results) -> Markup {
    html! { @if let Some(chart) = latency::depth_one(results) { (figure(&chart)) } }
}

/// The figure of latencies in the open loop.
pub(super) fn open_loop(results: &Results) -> Markup {
    html! { @if let Some(chart) = latency::open_loop(results) { (figure(&chart)) } }
}

/// The figures of a part of the page.
pub(super) fn figures(part: Part, results: &Results) -> Markup {
    html! { @for chart in of(part, results) { (figure(&*chart)) } }
}

/// A figure with both drawings.
pub(super) fn figure(chart: &dyn Chart) -> Markup {
    html! {
        figure {
            figcaption { (chart.words().title) }
            (svg(chart.words(), "wide", &chart.draw(WIDE)))
            (svg(chart.words(), "narrow", &chart.draw(NARROW)))
        }
    }
}

fn svg(words: &Words, class: &str, drawing: &VectorDrawing) -> Markup {
    let VectorDrawing { width, height, .. } = drawing;
    let (title, desc) =
        (format!("{}-{class}-title", words.id), format!("{}-{class}-desc", words.id));
    html! {
        svg class=(class) viewBox=(format!("0 0 {width} {height}")) role="img" "aria-labelledby"=(format!("{title} {desc}")) {
            title id=(title) { (words.title) }
            desc id=(desc) { (words.desc) }
            (Raw(vector::shapes(drawing)))
        }
    }
}

/// A chart as a file of its own, as wide as on a wide page, with its key.
pub(super) fn file(chart: &dyn Chart, results: &Results) -> String {
    let svg = svg(chart.words(), "wide", &key::with_key(chart, results)).into_string();
    let file = svg.replacen("<svg class=\"wide\"", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
    file.replacen('>', &theme::of_a_file(), 1) + "\n"
}
