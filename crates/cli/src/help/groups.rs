//! The commands by what they are for, as `weft --help` lists them.

use clap::Command;
use std::fmt::Write as _;

/// Columns of the names of commands, with the space around them.
const NAMES: usize = 23;

/// Columns of a list of names.
const COLUMNS: usize = 80;

/// All commands that are shown, each in one group.
pub const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Serve",
        &[
            "serve",
            "config",
            "apply",
            "status",
            "top",
            "namespace",
            "host",
            "ana",
            "gateway",
            "mirror",
            "capture",
            "control",
            "service",
        ],
    ),
    ("Attach", &["connect", "connect-all", "disconnect", "list", "list-subsys", "daemon"]),
    (
        "Inspect",
        &[
            "discover",
            "id-ctrl",
            "id-ns",
            "list-ns",
            "smart-log",
            "error-log",
            "ana-log",
            "effects-log",
            "changed-ns-list-log",
            "supported-log-pages",
            "telemetry-log",
            "get-log",
            "get-feature",
            "show-regs",
            "resv-report",
        ],
    ),
    (
        "Command",
        &[
            "read",
            "write",
            "compare",
            "verify",
            "flush",
            "write-zeroes",
            "dsm",
            "resv-register",
            "resv-acquire",
            "resv-release",
            "set-feature",
            "admin-passthru",
            "io-passthru",
        ],
    ),
    ("Copy", &["copy"]),
    ("Measure", &["bench", "study", "agent"]),
    ("Keys", &["gen-dhchap-key", "check-dhchap-key", "gen-tls-key", "check-tls-key"]),
    ("Setup", &["limits", "completions", "man", "help"]),
];

/// The groups with a line for each command.
pub fn described(weft: &Command) -> String {
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for name in names {
            let about = weft.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<width$}{about}", width = NAMES - 2);
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// The groups with the names alone.
pub fn named() -> String {
    let mut text = String::from("Commands:\n");
    for (group, names) in GROUPS {
        let mut line = format!("  {group:<width$}", width = 10);
        for name in names {
            if line.len() + 1 + name.len() > COLUMNS {
                let _ = writeln!(text, "{line}");
                line = " ".repeat(12);
            }
            let _ = write!(line, " {name}");
        }
        let _ = writeln!(text, "{line}");
    }
    text.trim_end().to_owned()
}
