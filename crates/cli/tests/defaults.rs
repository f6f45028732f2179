//! Defaults of the options of reconnect: the help of each command, the table of the documentation,
//! and what follows from them.

use crate::support::{Scratch, Server, run, weft};
use std::collections::BTreeMap;
use std::path::Path;

const NQN: &str = "nqn.2026-01.example.weft:defaults";

/// Commands that keep connections to sources.
const COMMANDS: [&str; 3] = ["bench", "connect", "serve"];

/// The defaults that nvme-cli's users rely on, where weft does not differ on purpose: nvme-cli
/// gives a controller up after 600 s.
const PROMISED: [(&str, &str); 4] = [
    ("--ctrl-loss-tmo", "-1"),
    ("--reconnect-delay", "10"),
    ("--fast_io_fail_tmo", "-1"),
    ("--keep-alive-tmo", "5"),
];

/// Options and defaults of the table in `docs/reconnect.md`.
fn documented() -> BTreeMap<String, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reconnect.md");
    let text = std::fs::read_to_string(page).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `--"));
    rows.filter_map(|row| {
        let mut cells = row.split('|');
        let option = cells.next()?.split(['`', ' ']).next()?;
        Some((format!("--{option}"), cells.next()?.trim().to_owned()))
    })
    .collect()
}

/// What the help of a command says of an option's default.
fn helped(help: &str, option: &str) -> Option<String> {
    let names = |line: &&str| {
        line.trim_start().starts_with('-') && line.split([' ', ',']).any(|word| word == option)
    };
    let begin = help.lines().position(|line| names(&line))?;
    let mut lines = help.lines().skip(begin);
    let own = lines
        .next()
        .into_iter()
        .chain(lines.take_while(|line| !line.trim_start().starts_with('-')));
    let text = own.collect::<Vec<_>>().join(" ");
    let (_, default) = text.rsplit_once("[default: ")?;
    Some(default.split(']').next()?.to_owned())
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    let dir = Scratch::new("defaults");
    let documented = documented();
    for (option, default) in PROMISED {
        assert_eq!(
            documented.get(option).map(String::as_str),
            Some(default),
            "{option} in docs/reconnect.md"
        );
    }
    assert!(documented.len() >= 9, "{documented:?}");
    for command in COMMANDS {
        let help = run(weft(dir.path(), &["help", command])).out;
        for (option, default) in &documented {
            let told = helped(&help, option);
            // Where the table names none, it depends on what uses the device.
            let agrees =
                if default.is_empty() { told.is_some() } else { told.as_ref() == Some(default) };
            assert!(agrees, "weft {command} {option}: {told:?} instead of \"{default}\"");
        }
    }
}

#[test]
fn nothing_bounds_a_lost_write_without_keep_alive_so_it_has_to_be_allowed() {
    let dir = Scratch::new("no-keep-alive");
    let server = Server::start(
        dir.path(),
        &["ram:1MiB", "--nqn", NQN, "--listen", "nvme+tcp://127.0.0.1:0"],
    );
    let bench = |more: &[&str]| {
        let args =
            [&["bench", server.url(), "--number-ios=10", "--keep-alive-tmo=0"], more].concat();
        run(weft(dir.path(), &args))
    };
    let refused = bench(&[]);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(
        refused.err.contains("--failover=fast") && refused.err.contains("--ctrl-loss-tmo 0"),
        "{refused:?}"
    );
    for allowed in ["--failover=fast", "--ctrl-loss-tmo=0"] {
        let ran = bench(&[allowed]);
        assert_eq!(ran.code(), Some(0), "{allowed}: {ran:?}");
    }
    for command in [&["serve", "--listen", "nbd://127.0.0.1:0"][..], &["connect", "--serve-only"]] {
        let ran = run(weft(dir.path(), &[command, &[server.url(), "--keep-alive-tmo=0"]].concat()));
        assert_eq!(ran.code(), Some(2), "{command:?}: {ran:?}");
        assert!(ran.err.contains("--failover=fast"), "{ran:?}");
    }
}
