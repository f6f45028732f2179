//! The method of the measurement, and the mistakes that make such numbers worthless: printed in
//! each report, as reports travel without their makers.

use super::markup::{Markup, html};
use super::units::{duration, seconds};
use crate::results::{Lane, Results};

/// The section's content.
pub(super) fn method(results: &Results) -> Markup {
    html! {
        div.columns {
            div { (how(results)) }
            div { (spoilers()) }
        }
    }
}

fn how(results: &Results) -> Markup {
    let rounds = results.rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    html! {
        h3 { "How it was measured" }
        ul {
            li {
                "One load generator ran every lane with the same code: it keeps the queue full and counts the time of each operation from \
                 submission to completion. The target is a process of its own."
            }
            li {
                "Each pattern ran in up to " (rounds) " rounds of " (seconds(results)) " s after a warm-up, the lanes in turn, so that a slow minute of the \
                 machine hits all of them. Rates and latencies of a row are medians of all its rounds, processor time is their mean; none is left \
                 out. The study took " (duration(results.took_s)) "."
            }
            li {
                em { "How it compares" } " comes from measurements that lie side by side in time: the ratio of two rates, or the difference of two median latencies or \
                 of the CPU time of both ends. What disturbs the machine for seconds disturbs both, so a relation is surer than the rates that it is from. It differs \
                 from the ratio or the difference of two rows, which are medians of all rounds."
            }
            li {
                em { "Lowest to highest" } " are the rounds themselves, and lie further apart the more of them there are. The " em { "95 % interval of a rate" } " is \
                 where the median lies with a probability of 95 % or more, whatever the distribution of the rounds: it lies between two of the sorted rounds \
                 (sign test)."
            }
            li {
                em { "Bare TCP" } ", the ceiling, sends the same bytes back and forth over one TCP connection: same sizes, same depth, no protocol, \
                 no device, from a region of memory as large as the device. What a lane loses against it is the price of the protocol and of \
                 this implementation; the rest is the price of TCP."
            }
            li {
                em { "Share of the device" } " compares with the same device without a network. A RAM disk is the hardest case: a real disk is slower, so \
                 that the network takes a smaller part of its time."
                @if results.lanes.iter().any(|lane| lane.name.contains(Lane::FLASH)) {
                    " The device of the lane flash is a model of such a disk: it serves 32 operations at a time, a read in 80 µs and a write in \
                     20 µs, moves 7 GB/s at most, and holds no data."
                }
            }
            li {
                em { "Processor time" } " is user and system time of the whole process divided by its operations; polling counts. Times your IOPS, \
                 it says how many cores they will take."
            }
            li { "Percentiles come from a histogram of all operations. Half took no longer than p50, 999 of 1,000 no longer than p99.9, which is shown where the rounds had 10,000 operations together. Calls/IO are the initiator's system calls for an operation." }
        }
    }
}

fn spoilers() -> Markup {
    html! {
        h3 { "What spoils a number" }
        ul {
            li { "Other work on the same cores, or on cores that share their caches; a virtual machine whose host is busy." }
            li { "A processor that changes its clock as it warms up or as other cores fall asleep." }
            li { "A generator that is the limit. Rows with " (super::tables::LIMITED) " say what the generator could do, not what the device could." }
            li { "Initiator and target on one core, or on too few: they then take turns, and the latency is that of the scheduler." }
            li { "A device that fits into a cache that its real counterpart does not have." }
            li { "A loopback is not a network: it has no wire, no switch, no loss, and its packets are up to 64 KiB long." }
            li { "A run too short. Quick studies are for a first look." }
        }
        p { "Compare ratios within one report rather than absolute figures from different days or machines." }
    }
}
