//! The machines that put the load on, and what each of them did.

use super::markup::{Markup, html};
use super::tables::scrolling;
use super::units::{NONE, count, micros, or_none, share as part_of_time};
use crate::results::{Agent, MachineShare, Results, Row};

/// The section; nothing if the load came from one machine.
pub(super) fn section(results: &Results) -> Markup {
    html! {
        @if !results.agents.is_empty() {
            section {
                h2 { "Machines" }
                (scrolling("The machines that put the load on", machines(results)))
                (scrolling("What each machine did", shares(results)))
            }
        }
    }
}

fn machines(results: &Results) -> Markup {
    html! {
        tr { th { "agent" } th { "processor" } th { "cores used" } th { "system" } th { "clock ahead, ms" } th { "until" } }
        @for agent in &results.agents {
            tr {
                td.word { (agent.name) }
                td.word { (agent.machine.cpu) }
                td { (agent.cpus.len()) " of " (agent.machine.cores) }
                td.word { (agent.machine.system) }
                td { (clock(agent)) }
                td.word { (agent.lost.as_deref().unwrap_or("the end")) }
            }
        }
    }
}

/// How far the clock of an agent is ahead, and how well that is known.
fn clock(agent: &Agent) -> String {
    format!("{:.3} ± {:.3}", agent.clock_offset_ns / 1e6, agent.clock_uncertainty_ns / 1e6)
}

fn shares(results: &Results) -> Markup {
    html! {
        tr { th { "workload" } th { "lane" } th { "agent" } th { "IOPS" } th { "share" } th { "mean µs" } th { "p99 µs" } th { "CPU µs" } th { "machine busy" } th { "in soft interrupts" } }
        @for row in &results.rows {
            @for share in &row.machines { (line(row, share)) }
        }
    }
}

fn line(row: &Row, share: &MachineShare) -> Markup {
    let all: f64 = row.machines.iter().map(|share| share.iops).sum();
    let part =
        if all > 0.0 { format!("{:.0} %", share.iops / all * 100.0) } else { NONE.to_owned() };
    html! {
        tr {
            td.word { (row.workload) }
            td.word { (row.lane) }
            td.word { (share.agent) }
            td { (count(share.iops)) }
            td { (part) }
            td { (micros(share.mean_ns)) }
            td { (micros(share.p99_ns)) }
            td { (micros(share.cpu.total_ns())) }
            td { (or_none(share.processors.map(|all| all.busy()), part_of_time)) }
            td { (or_none(share.processors.map(|all| all.soft_interrupts), part_of_time)) }
        }
    }
}
