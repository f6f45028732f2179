//! Counts without noise, against their limits: futex calls, memory, instructions, the program's
//! size.
//!
//! System calls and copies for each operation depend on what happens to arrive together, and so on
//! the machine's load: they are counted in virtual time, by tests of `endpoint` (`sim/counts`).

mod check;
mod futex;
mod instructions;
mod program;

use anyhow::Result;
use xtask::sh::Missing;

use super::setting::Setting;
use check::Check;

/// A gate: its name, and how it is tried.
type Gate = (&'static str, fn(&Setting) -> Result<Vec<Check>>);

/// All gates.
const GATES: [Gate; 4] = [
    ("futex calls", futex::check),
    ("memory", memory),
    ("instructions", |_| instructions::check()),
    ("program", program::check),
];

/// Writes the baselines of the gates again.
pub fn renew(setting: &Setting) -> Result<()> {
    instructions::renew()?;
    program::renew(setting)
}

/// Memory of the target with fewer connections than `--memory` makes.
fn memory(setting: &Setting) -> Result<Vec<Check>> {
    let small = Setting { small: true, ..setting.clone() };
    let found = super::section::memory::measure(&small)?;
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    Ok(vec![
        Check::at_most(
            format!("each of {} idle connections", found.idle_connections),
            kib(found.idle_each),
            32.0,
            "KiB",
        ),
        Check::at_most(
            format!("{} connections at depth 128", found.connections),
            kib(found.peak),
            kib(found.allowed),
            "KiB",
        ),
    ])
}

/// Runs all gates and prints them; whether all are good.
pub fn run(setting: &Setting) -> Result<bool> {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, gate) in GATES {
        let checks = match gate(setting) {
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
