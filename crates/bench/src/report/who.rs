//! Both ends of each lane, and the protocol between them: a picture of the programs.

use super::markup::{Markup, html};
use super::tables;
use super::units;
use crate::results::{Cell, Drawing, Lane, Results};

/// A line for each lane; nothing for studies that are not about programs.
pub(super) fn section(results: &Results) -> Markup {
    let is_told = [Drawing::Against, Drawing::Matrix].iter().any(|it| results.draws(*it));
    html! {
        @if is_told {
            section.who {
                h2 { "Which program talks to which" }
                p.hint { "Load generator and initiator on the left, target on the right, each with its cores." }
                ul {
                    @for (at, lane) in results.lanes.iter().enumerate() {
                        li.(tables::lane_class(at)) {
                            span.end { (initiator(lane)) (cores(&lane.initiator_cpus)) }
                            @if lane.is_local() { span.way { "the device in the same process" } }
                            @else {
                                span.way { (protocol(lane)) " →" }
                                span.end { (target(lane)) (cores(&lane.target_cpus)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn initiator(lane: &Lane) -> String {
    let own = |name: &str| if name == Cell::OWN { "weft study" } else { name }.to_owned();
    let name = lane.cell.as_ref().and_then(|cell| cell.initiator.as_deref());
    own(name.unwrap_or(Cell::OWN))
}

fn target(lane: &Lane) -> String {
    let own = |name: &str| if name == Cell::OWN { "weft serve" } else { name }.to_owned();
    let name = lane.cell.as_ref().and_then(|cell| cell.target.as_deref());
    name.map_or_else(|| lane.short_title().to_owned(), own)
}

fn protocol(lane: &Lane) -> &str {
    let scheme = lane.url.split("://").next().unwrap_or_default();
    lane.cell.as_ref().map_or(scheme, |cell| &cell.protocol)
}

fn cores(cpus: &[usize]) -> String {
    match cpus {
        [] => String::new(),
        [one] => format!(", core {one}"),
        _ => format!(", cores {}", units::numbers(cpus)),
    }
}
