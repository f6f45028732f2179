//! Verbs of nvme-cli that weft has not, and its command that comes nearest.

use clap::error::{ContextKind, ContextValue};
use weft_block::ErrorKind;

use crate::process::exit::Failure;

/// By what weft has instead. What a device of this system needs, such as a reset, has no command.
const NEAREST: [(&str, &[&str]); 10] = [
    (
        "id-ctrl",
        &[
            "nvm-id-ctrl",
            "primary-ctrl-caps",
            "list-secondary",
            "id-domain",
            "id-endurance",
            "id-iocs",
            "id-nvmset",
            "id-uuid",
        ],
    ),
    (
        "id-ns",
        &[
            "cmdset-ind-id-ns",
            "nvm-id-ns",
            "nvm-id-ns-lba-format",
            "id-ns-granularity",
            "id-ns-lba-format",
            "ns-descs",
            "get-ns-id",
        ],
    ),
    ("list-ns", &["list-ctrl", "list-endgrp", "ns-rescan"]),
    ("namespace", &["create-ns", "delete-ns", "attach-ns", "detach-ns"]),
    ("disconnect --all", &["disconnect-all"]),
    (
        "get-log --log-id=N",
        &[
            "fw-log",
            "endurance-log",
            "persistent-event-log",
            "self-test-log",
            "sanitize-log",
            "predictable-lat-log",
            "fid-support-effects-log",
            "boot-part-log",
        ],
    ),
    (
        "admin-passthru",
        &["format", "sanitize", "fw-commit", "fw-download", "security-send", "security-recv"],
    ),
    ("bench", &["io-mgmt-recv", "io-mgmt-send", "perf", "device-self-test"]),
    ("discover", &["dim", "show-topology"]),
    ("connect --hostnqn", &["gen-hostnqn", "show-hostnqn"]),
];

/// The error of a command line whose command exists in nvme-cli only.
pub fn explain(error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let nearest = nearest(verb)?;
    let text =
        format!("weft has no command \"{verb}\" of nvme-cli; the nearest is `weft {nearest}`");
    Some(Failure::of(ErrorKind::Usage, text))
}

fn nearest(verb: &str) -> Option<&'static str> {
    NEAREST.iter().find(|(_, verbs)| verbs.contains(&verb)).map(|(nearest, _)| *nearest)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn what_is_named_exists_and_what_is_missing_does_not() {
        let weft = Cli::command();
        for (command, verbs) in NEAREST {
            let name = command.split(' ').next().unwrap();
            assert!(weft.find_subcommand(name).is_some(), "{name}");
            let known: Vec<_> =
                verbs.iter().filter(|verb| weft.find_subcommand(verb).is_some()).collect();
            assert!(known.is_empty(), "{known:?}");
        }
        let error =
            Cli::command().try_get_matches_from(["weft", "ns-descs", "/dev/nvme0"]).unwrap_err();
        assert!(explain(&error).unwrap().to_string().ends_with("the nearest is `weft id-ns`"));
        let error = Cli::command().try_get_matches_from(["weft", "srve"]).unwrap_err();
        assert!(explain(&error).is_none());
    }
}
