//! What noise cannot touch, against its limits: system calls, copies, futex calls, instructions.
//!
//! Each gate tries several times and takes the best, since a busy machine makes counts worse but never better than the code allows.

mod copies;
mod futex;
mod instructions;
mod system_calls;

use anyhow::Result;

use super::{contestant::Ceiling, setting::Setting};
use crate::sh::Missing;

pub use futex::futexes;
pub use instructions::renew as renew_instructions;

/// One comparison.
pub struct Check {
    /// What was counted.
    pub what: String,
    /// What was found, and what may be.
    pub found: String,
    /// Whether that is good enough.
    pub good: bool,
}

impl Check {
    /// That `found` is at most `limit`.
    pub fn at_most(what: String, found: f64, limit: f64, unit: &str) -> Self {
        Self { what, found: format!("{found:.3} {unit}, at most {limit:.3}"), good: found <= limit }
    }
}

/// A gate: its name, and how it is tried.
type Gate = (&'static str, fn(&Setting, &mut Ceiling) -> Result<Vec<Check>>);

/// All gates.
const GATES: [Gate; 5] = [
    ("system calls", system_calls::check),
    ("copies", |setting, _| copies::check(setting)),
    ("futex calls", |setting, _| futex::check(setting)),
    ("memory", |setting, _| memory(setting)),
    ("instructions", |_, _| instructions::check()),
];

/// Memory of the target with fewer connections than `--memory` makes.
fn memory(setting: &Setting) -> Result<Vec<Check>> {
    let small = Setting { small: true, ..setting.clone() };
    let found = super::section::memory::measure(&small)?;
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    Ok(vec![
        Check::at_most(format!("each of {} idle connections", found.idle_connections), kib(found.idle_each), 32.0, "KiB"),
        Check::at_most(format!("{} connections at depth 128", found.connections), kib(found.peak), kib(found.allowed), "KiB"),
    ])
}

/// Runs all gates and prints them; whether all are good.
pub fn run(setting: &Setting) -> Result<bool> {
    let mut ceiling = Ceiling::start(setting)?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, gate) in GATES {
        let checks = match gate(setting, &mut ceiling) {
            Ok(checks) => checks,
            Err(error) => match error.downcast_ref::<Missing>() {
                Some(missing) => {
                    println!("skipped: {name}: {missing}");
                    skipped += 1;
                    continue;
                }
                None => return Err(error.context(name)),
            },
        };
        for Check { what, found, good } in checks {
            println!("{:<6} {name}: {what}: {found}", if good { "ok" } else { "FAILED" });
            *(if good { &mut passed } else { &mut failed }) += 1;
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0)
}
