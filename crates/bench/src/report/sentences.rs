//! Findings in words: one line for a headline, and the sentences under the table.

use super::findings::{DepthOne, Finding, LINKS, ShareSpan, title};
use super::units::{NBSP, Unit, between, share, time};
use crate::relation::{Estimate, adds};
use crate::results::{Lane, STEADY_WITHIN};
use core::cmp::Ordering;

impl Finding<'_> {
    /// The finding in one line, for a headline, without a full stop. How sure it is stands in it.
    pub(crate) fn headline(&self) -> String {
        let lane = &self.lane.title;
        let is_more = |added: &&Estimate| added.direction() == Some(Ordering::Greater);
        let adds_more =
            self.depth_one.as_ref().is_some_and(|at| at.added.as_ref().filter(is_more).is_some());
        let cost = self.cpu.as_ref().map(|cpu| {
            if let Some(added) = cpu.cycles.as_ref().filter(is_more).filter(|_| adds_more) {
                return format!(
                    "{} at both ends ({})",
                    Unit::Cycles.show(added.value),
                    Unit::Cycles.between(added.interval())
                );
            }
            if let Some(added) = cpu.added.as_ref().filter(is_more).filter(|_| adds_more) {
                return format!(
                    "{} of processor time at both ends ({})",
                    time(added.value),
                    between(added.interval())
                );
            }
            let target = cpu.target_ns.map_or_else(String::new, |ns| format!(" + {}", time(ns)));
            format!(
                "costs {}{}{target} of CPU per I/O",
                about(cpu.unstable && cpu.added.is_none()),
                time(cpu.initiator_ns)
            )
        });
        let added = self.depth_one.as_ref().map(|at| {
            let (to, about) = (format!("a {}", title(at.workload)), about(at.unstable));
            match (&at.added, at.added_ns()) {
                (Some(added), _) => adds(&to, added),
                (None, Some(added)) if added >= 0.0 => {
                    format!("adds {about}{} to {to}", time(added))
                }
                _ => format!("takes {about}{} for {to}", time(at.here_ns)),
            }
        });
        let parts: Vec<String> = added.into_iter().chain(cost).collect();
        if parts.is_empty() { lane.clone() } else { format!("{lane} {}", parts.join(" and ")) }
    }

    /// The finding in whole sentences, the most telling first.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let numbers = [
            self.latency(),
            self.processor(),
            self.rate(),
            self.wire(),
            self.links(),
            self.shares(),
            self.limits(),
        ];
        numbers.into_iter().chain([self.instability(), self.failures()]).flatten().collect()
    }

    /// Returns whether the lane goes to a modelled flash device. The model is the limit then, and
    /// bare TCP does not measure it.
    fn is_to_flash(&self) -> bool {
        self.lane.base() == Lane::FLASH
    }

    fn latency(&self) -> Option<String> {
        let DepthOne { workload, here_ns, base_ns, ceiling_ns, added, .. } =
            self.depth_one.as_ref()?;
        // Compares medians with the median; measurements side by side are about means, and say so.
        let against = |other: &Option<f64>, what: &str| Some(format!("{} {what}", time((*other)?)));
        let others =
            [against(base_ns, "without a network"), against(ceiling_ns, "in a bare TCP exchange")];
        let others: Vec<String> = others.into_iter().flatten().collect();
        let mut compared = match others.is_empty() {
            true => String::new(),
            false => format!(", and {}", others.join(" and ")),
        };
        if let Some(added) = added {
            let word = if added.value < 0.0 { "less" } else { "more" };
            compared += &format!(
                "; their mean is {} {word} than without a network (95{NBSP}% interval {})",
                time(added.value.abs()),
                between(added.interval())
            );
        }
        let lane = &self.lane.title;
        let waking = self.waking().map_or_else(String::new, |waking| format!(" {waking}"));
        Some(format!(
            "{lane}: half of all {} operations take at most {} at queue depth 1{compared}.{waking}",
            title(workload),
            time(*here_ns)
        ))
    }

    /// Why the same network adds more to a device that takes its time.
    pub(crate) fn waking(&self) -> Option<String> {
        let at_once = self.depth_one.as_ref()?.at_once?;
        Some(format!(
            "To a device that answers at once the same network adds {}; the rest of what it adds to the modelled flash device is waking ends \
             that sleep while the device works.",
            time(at_once.value)
        ))
    }

    fn processor(&self) -> Option<String> {
        let cpu = self.cpu.as_ref()?;
        let target =
            cpu.target_ns.map_or_else(String::new, |ns| format!(" and {} at the target", time(ns)));
        let base = cpu
            .base_ns
            .map_or_else(String::new, |ns| format!("; without a network it costs {}", time(ns)));
        let added = cpu.added.map(|added| {
            format!(", and the network adds {} ({})", time(added.value), between(added.interval()))
        });
        let clock = cpu
            .added
            .zip(cpu.cycles)
            .map(|(time, cycles)| cycles.value / time.value)
            .filter(|clock| *clock > 0.0);
        let clock = clock.map(|clock| format!(" at a clock of {clock:.2}{NBSP}GHz"));
        let base = base + &added.unwrap_or_default() + &clock.unwrap_or_default();
        let initiator = time(cpu.initiator_ns);
        let title = title(cpu.workload);
        Some(format!(
            "A {title} costs {initiator} of processor time at the initiator{target}{base}."
        ))
    }

    fn rate(&self) -> Option<String> {
        if self.is_to_flash() {
            return None;
        }
        let cpu = self.cpu.as_ref()?;
        Some(format!("{}: {}.", title(cpu.workload), cpu.of_ceiling.as_ref()?))
    }

    fn wire(&self) -> Option<String> {
        if self.is_to_flash() {
            return None;
        }
        let span = self.of_ceiling.as_ref()?;
        let range = span
            .range("of it")
            .map_or_else(String::new, |range| format!("; the patterns lie {range}"));
        Some(format!(
            "It carries {} of what a bare TCP connection carries, in the median of the patterns{range}.",
            share(span.median)
        ))
    }

    fn links(&self) -> Option<String> {
        let link = self.link.as_ref()?;
        let [small, large] = LINKS.map(|gigabits| link.words(gigabits));
        let ends = if link.target_ns.is_some() { "initiator + target" } else { "initiator" };
        Some(format!(
            "By the processor time of a {}, a full 25 GbE link takes {small} cores and a full 100 GbE link {large} ({ends}).",
            title(link.workload)
        ))
    }

    fn shares(&self) -> Option<String> {
        let (span, base) = (self.of_base.as_ref()?, self.base?);
        let range = span
            .range("of them")
            .map_or_else(String::new, |range| format!("; the patterns lie {range}"));
        Some(format!(
            "It keeps {} of the IOPS of {}, in the median of the patterns{range}.",
            share(span.median),
            base.name
        ))
    }

    fn limits(&self) -> Option<String> {
        let names: Vec<String> = self.limited.iter().map(|pattern| title(pattern)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "In {} of {} patterns the load generator was the limit, so the device could do more than the row says: {}.",
                names.len(),
                self.patterns,
                names.join(", ")
            )
        })
    }

    fn instability(&self) -> Option<String> {
        let (unstable, rows) = (self.unstable, self.rows);
        (unstable > 0).then(|| {
            let lane = &self.lane.title;
            format!(
                "{lane}: absolute rates depend on what else the machine does; the 95{NBSP}% interval of {unstable} of {rows} reaches further than \
                 ±{:.0}{NBSP}%.",
                STEADY_WITHIN * 100.0
            )
        })
    }

    fn failures(&self) -> Option<String> {
        let (verb, count) =
            (if self.failed == 1 { "operation" } else { "operations" }, self.failed);
        (count > 0).then(|| {
            format!(
                "{count} {verb} failed over {}: do not trust these numbers before you know why.",
                self.lane.title
            )
        })
    }
}

impl ShareSpan<'_> {
    fn range(&self, of: &str) -> Option<String> {
        let ((low, least), (high, most)) = (self.low, self.high);
        (least.name != most.name).then(|| {
            format!(
                "between {} ({}) and {} {of} ({})",
                share(low),
                title(least),
                share(high),
                title(most)
            )
        })
    }
}

/// Before a number whose rounds lie far apart, where there is no interval of it.
fn about(unstable: bool) -> &'static str {
    if unstable { "about " } else { "" }
}
