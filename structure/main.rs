//! Structure tests: the rules in `CONTRIBUTING.md` that tests can check.
//!
//! Each module holds one rule. A rule that fails names every place that breaks it and the way out.

mod api;
mod claims;
mod commands;
mod cycles;
mod dependencies;
mod examples;
mod fields;
mod imports;
mod layers;
mod length;
mod links;
mod local_users;
mod modules;
mod names;
mod options;
mod planted;
mod prose;
mod testing;
mod tokens;
mod tools;
mod units;
mod unsafety;
mod words;

use xtask::{files, markdown};

/// Fails with all faults, one a line, under the rule that they break.
fn demand(rule: &str, faults: Vec<String>) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}
