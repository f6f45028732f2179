//! The first screen: a headline, how the lanes relate, what limits, what a fast link takes, and how
//! sure that is.

use super::findings::{ByteCost, Finding, LINKS};
use super::markup::{Markup, html};
use super::shown::{self, ShownRelation};
use super::units::{NBSP, date, duration, percent, rounds, seconds, share};
use super::{against, chart, comparison, limits, matrix};
use crate::results::{Drawing, Lane, Results};

/// All of it.
pub(super) fn screen(results: &Results, findings: &[Finding<'_>]) -> Markup {
    let shown = shown::pick(results);
    html! {
        header {
            div.top {
                span {
                    "weft study" @if results.quick { " (quick)" } " · " (results.machine.name) " · " (date(results.started_s)) " · "
                    (duration(results.took_s))
                }
                (theme_switch())
            }
            h1 { (headline(results, findings)) }
        }
        @if !shown.is_empty() { (relations(&shown, results, findings)) }
        div.answers {
            @if let Some(lane) = shown::main_lane(results) {
                (answer("What limits", &limits::sentences(results, lane)))
                (fast_links(results, lane))
            }
            (answer("How sure that is", &sure(results, &shown)))
        }
    }
}

/// The headline of a study.
pub(super) fn headline(results: &Results, findings: &[Finding<'_>]) -> String {
    let compared = results.draws(Drawing::SideBySide) || comparison::compared(results).is_some();
    match findings {
        _ if results.draws(Drawing::Matrix) => matrix::headline(results),
        _ if compared => comparison::headline(results),
        [] => format!("The device of {}, without a network", results.machine.name),
        [first, ..] => {
            let subject = against::subject(results).map(|lane| &lane.name);
            let about = |finding: &&Finding<'_>| Some(&finding.lane.name) == subject;
            findings.iter().find(about).unwrap_or(first).headline()
        }
    }
}

fn relations(shown: &[ShownRelation<'_>], results: &Results, findings: &[Finding<'_>]) -> Markup {
    let has_intervals = shown.iter().any(|it| it.estimate.is_some());
    html! {
        section.relations {
            h2 { "How it compares" }
            p.hint {
                "The upright stroke is where both are equal. The point is the estimate"
                @if has_intervals { ", and the line through it its 95" (NBSP) "% interval" }
                "."
            }
            div.charts { (chart::relations(shown, results)) }
            @for waking in findings.iter().filter_map(Finding::waking) { p.hint { (waking) } }
        }
    }
}

fn answer(name: &str, sentences: &[String]) -> Markup {
    html! { @if !sentences.is_empty() { section { h2 { (name) } @for sentence in sentences { p { (sentence) } } } } }
}

/// Cores of both ends, for small and for large blocks.
fn fast_links(results: &Results, lane: &Lane) -> Markup {
    let links = ByteCost::all(results, lane);
    let both = links.iter().any(|link| link.target_ns.is_some());
    html! {
        @if !links.is_empty() {
            section {
                h2 { "Cores for a full link" }
                p { (if both { "Processor time in cores, initiator + target:" } else { "Processor time in cores, initiator:" }) }
                table {
                    thead { tr { th.word scope="col" { "full of" } @for gigabits in LINKS { th scope="col" { (gigabits) (NBSP) "GbE" } } } }
                    tbody {
                        @for link in &links {
                            tr.first { th.word scope="row" { (link.workload.title) } @for gigabits in LINKS { td { (link.words(gigabits)) } } }
                        }
                    }
                }
                p.hint { "By the CPU per byte of " (lane.short_title()) " on this machine, growing in proportion. Whether device and network reach such rates is another question." }
            }
        }
    }
}

/// The basis of the statements, and their disturbances.
fn sure(results: &Results, shown: &[ShownRelation<'_>]) -> Vec<String> {
    let failed: u64 = results.rows.iter().map(|row| row.failed).sum();
    let failures = (failed > 0).then(|| {
        format!("{failed} operations failed: do not trust these numbers before you know why.")
    });
    let quick = results.quick.then(|| "A quick study, for a first look.".to_owned());
    [failures, Some(basis(results, shown)), noise(results), quick].into_iter().flatten().collect()
}

fn basis(results: &Results, shown: &[ShownRelation<'_>]) -> String {
    let Some(first) = shown.iter().find_map(|it| it.estimate) else {
        return format!(
            "No interval is known: the lanes were not compared side by side. Figures are medians of {} rounds of {} s.",
            rounds(results),
            seconds(results)
        );
    };
    let (blocks, pairs) = (first.blocks, first.pairs);
    let width =
        format!("The first relation above is known within ±{} %", percent(first.relative()));
    match blocks {
        0 | 1 => format!(
            "{width}, with 95 % confidence, from {pairs} pairs of measurements side by side. That holds for these processes and connections; \
             another study may differ by some per cent."
        ),
        _ => format!(
            "{width}, with 95 % confidence, from {pairs} pairs of measurements side by side in {blocks} blocks, each with processes and connections of its own."
        ),
    }
    .replace(" %", &format!("{NBSP}%"))
}

/// Other load on the machine.
fn noise(results: &Results) -> Option<String> {
    let at = &results.conditions;
    let others = at
        .others
        .map(|part| format!("other programs took {} of the processors’ time", share(part)));
    let steal = at.steal.map(|part| format!("the host took {} (steal)", share(part)));
    let parts: Vec<String> = others.into_iter().chain(steal).collect();
    (!parts.is_empty()).then(|| format!("Meanwhile {}.", parts.join(", and ")))
}

/// The switch of the colours.
pub(super) fn theme_switch() -> Markup {
    html! {
        fieldset.theme {
            legend { "Colours" }
            @for (id, name, chosen) in [("theme-auto", "Auto", true), ("theme-light", "Light", false), ("theme-dark", "Dark", false)] {
                input type="radio" name="theme" id=(id) checked[chosen];
                label for=(id) { (name) }
            }
        }
    }
}
