//! The options that `-h` shows of commands with many options: those that most people need.

/// Long names of options, by command. Commands that are not here have few enough to show all.
pub const ESSENTIAL: [(&str, &[&str]); 5] = [
    (
        "serve",
        &[
            "config",
            "listen",
            "nqn",
            "allow-host",
            "read-only",
            "control",
            "metrics",
            "tls-key-file",
            "dhchap-secret-file",
            "login-secret-file",
        ],
    ),
    (
        "connect",
        &["as", "name", "persist", "print", "shared", "path", "tls-key-file", "dhchap-secret-file"],
    ),
    (
        "connect-all",
        &["traddr", "trsvcid", "as", "persist", "print", "tls-key-file", "dhchap-secret-file"],
    ),
    (
        "bench",
        &[
            "rw",
            "bs",
            "iodepth",
            "numjobs",
            "runtime",
            "size",
            "rwmixread",
            "verify",
            "destroy-data",
            "output-format",
        ],
    ),
    (
        "study",
        &[
            "quick",
            "full",
            "suite",
            "list-suites",
            "print",
            "lane",
            "source",
            "time-budget",
            "output-dir",
            "destroy-data",
        ],
    ),
];

/// The options that `-h` shows of a command; none where it shows all.
pub fn of(command: &str) -> Option<&'static [&'static str]> {
    ESSENTIAL.iter().find(|(name, _)| *name == command).map(|(_, options)| *options)
}
