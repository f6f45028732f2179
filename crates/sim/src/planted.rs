//! Proof that the simulator finds bugs: each planted one, and how many seeds that took.

use crate::Cli;
use std::process::ExitCode;

/// Tries every planted bug with seeds from the first one on, until one seed fails.
#[cfg(feature = "planted-bugs")]
pub fn all(cli: &Cli) -> ExitCode {
    use crate::campaign::{guarded, keep_panics};
    use weft_proto::planted::{Bug, MARK, plant};
    keep_panics();
    let from = cli.from.unwrap_or(0);
    let mut missed = 0;
    println!("| bug | seeds | first seed | what was said |\n|---|---:|---:|---|");
    for (bug, name) in Bug::ALL {
        plant(Some(bug));
        let name = name.strip_prefix(MARK).unwrap_or(name);
        let finds = |seed| {
            guarded((seed, cli.wanted()), false)
                .violation
                .map(|text| (seed, text))
                .filter(|_| passes_without(bug, (seed, cli.wanted())))
        };
        let found = (from..from + cli.count).find_map(finds);
        match found {
            Some((seed, text)) => println!("| `{name}` | {} | {seed} | {} |", seed - from + 1, short(&text)),
            None => {
                missed += 1;
                println!("| `{name}` | not found in {} | | |", cli.count);
            }
        }
        plant(None);
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a seed finds nothing else.
#[cfg(feature = "planted-bugs")]
fn passes_without(bug: weft_proto::planted::Bug, which: crate::campaign::Which) -> bool {
    weft_proto::planted::plant(None);
    let passes = crate::campaign::guarded(which, false).violation.is_none();
    weft_proto::planted::plant(Some(bug));
    passes
}

/// What stands in the table of a finding.
#[cfg(feature = "planted-bugs")]
fn short(text: &str) -> String {
    let text: String = text.chars().filter(|c| *c != '|').take(110).collect();
    text.split(" (left").next().unwrap_or_default().to_owned()
}

/// Nothing is planted in this build.
#[cfg(not(feature = "planted-bugs"))]
pub fn all(_: &Cli) -> ExitCode {
    eprintln!("error: this build has no planted bugs: use `cargo xtask sim --planted`");
    ExitCode::FAILURE
}
