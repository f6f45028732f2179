//! `report.html`: a study for people, in one file that needs nothing else.
//!
//! The first screen answers (`first`); then come words (`findings`), the charts with a table
//! beneath each, all numbers, and how they were come by.

pub(crate) mod against;
mod chart;
pub(crate) mod closing;
pub(crate) mod comparison;
pub(crate) mod findings;
mod first;
mod limits;
mod machines;
mod markdown;
mod markup;
pub(crate) mod matrix;
mod method;
mod open_loop;
pub(crate) mod own_benchmark;
mod page;
pub(crate) mod published;
mod saturation;
mod sentences;
mod shown;
mod site;
pub(crate) mod tables;
mod theme;
pub(crate) mod units;
mod who;

use crate::Error;
use crate::results::{Drawing, Results};
pub use chart::Letters;
use findings::Finding;
pub(crate) use markdown::text as escaped;
pub use markdown::{csv, markdown};
use markup::{DOCTYPE, Markup, Raw, html};
pub use site::{INDEX, SiteFile, site};
use units::date;

/// The report as an HTML document (UTF-8). It loads nothing, has no script, and follows the
/// reader's light or dark setting.
pub fn html(results: &Results) -> String {
    let findings = findings_of(results);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "weft study: " (results.machine.name) ", " (date(results.started_s)) }
                style { (Raw(theme::style_sheet())) }
            }
            body {
                div.wrap {
                    main {
                        (first::screen(results, &findings))
                        @if !results.draws(Drawing::Matrix) && against::subject(results).is_none() { (in_words(results, &findings)) }
                        (who::section(results))
                        (page::sections(results, &findings))
                    }
                    footer { "Made by weft " (results.weft) ". This file is complete: it needs no network. The numbers for programs are in results.json." }
                }
            }
        }
    };
    page.into_string()
}

/// The charts as SVG files: name, and content in light colours. They are those of the wide page.
pub fn charts(results: &Results) -> Vec<(String, String)> {
    on_the_page(results)
        .iter()
        .map(|chart| (chart.words().id.clone(), chart::file(&**chart, results)))
        .collect()
}

/// The charts as PNG files: name, and content. They are those of the wide page, in light colours
/// and at twice the size.
pub fn pictures(results: &Results, letters: &Letters) -> Result<Vec<(String, Vec<u8>)>, Error> {
    on_the_page(results)
        .iter()
        .map(|chart| Ok((chart.words().id.clone(), chart::png(&**chart, results, letters)?)))
        .collect()
}

fn on_the_page(results: &Results) -> Vec<Box<dyn chart::Chart + '_>> {
    let parts = page::drawn(results, &findings_of(results));
    let first = chart::of_relations(&shown::pick(results), results);
    first.into_iter().chain(parts.into_iter().flat_map(|part| chart::of(part, results))).collect()
}

/// The findings over the patterns; lanes side by side and a matrix have words of their own.
fn findings_of(results: &Results) -> Vec<Finding<'_>> {
    let has_own_words = [Drawing::SideBySide, Drawing::Matrix].iter().any(|it| results.draws(*it));
    if has_own_words { Vec::new() } else { findings::find(results) }
}

/// What is said of all lanes together.
pub(crate) fn of_all_lanes(results: &Results) -> Vec<String> {
    [saturation::sentences(results), open_loop::sentences(results)].concat()
}

fn in_words(results: &Results, findings: &[Finding<'_>]) -> Markup {
    html! {
        section {
            h2 { "In words" }
            @if results.draws(Drawing::SideBySide) {
                @for sentence in comparison::sentences(results) { p { (sentence) } }
            }
            @for sentence in of_all_lanes(results) { p { (sentence) } }
            @for finding in findings {
                @if findings.len() > 1 { h3 { (finding.lane.title) } }
                @for sentence in finding.sentences() { p { (sentence) } }
            }
        }
    }
}
