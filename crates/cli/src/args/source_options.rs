//! The options of connections to remote sources in a configuration: those of the command line, so
//! that there is one list of them.

use crate::connection::ConnectArgs;
use crate::process::exit::Failure;
use clap::{ArgAction, Args, Command, FromArgMatches, ValueHint};
use weft_endpoint::{ConnectOptions, Control};
use weft_server::config::SourceOptions;
use weft_server::config::source_options::SourceOption;
use weft_server::{Error, ErrorKind};

/// The option that is a key of namespaces instead.
const OF_NAMESPACES: &str = "path";

/// The options of [`ConnectArgs`].
#[derive(Clone, Copy, Debug)]
pub struct CommandLineOptions;

fn command() -> Command {
    ConnectArgs::augment_args(Command::new("weft").no_binary_name(true).disable_help_flag(true))
}

fn parse(arguments: &[String]) -> Result<ConnectArgs, Error> {
    let wrong = |e: clap::Error| Error::new(ErrorKind::Usage, sentence(&e));
    let matches = command().try_get_matches_from(arguments).map_err(wrong)?;
    ConnectArgs::from_arg_matches(&matches).map_err(wrong)
}

impl SourceOptions for CommandLineOptions {
    fn known(&self) -> Vec<SourceOption> {
        let option = |arg: &clap::Arg| {
            let name = arg.get_long().filter(|name| *name != OF_NAMESPACES)?.to_owned();
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let is_flag = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse);
            let is_path = arg.get_value_hint() == ValueHint::AnyPath;
            Some(SourceOption { name, help, is_path, is_flag })
        };
        command().get_arguments().filter_map(option).collect()
    }

    fn check_value(&self, arguments: &[String]) -> Result<(), Error> {
        match command().try_get_matches_from(arguments) {
            Err(e) if is_of_value(&e) => Err(Error::new(ErrorKind::Usage, sentence(&e))),
            _ => Ok(()),
        }
    }

    fn check(&self, arguments: &[String]) -> Result<(), Error> {
        parse(arguments).map(drop)
    }

    fn options(
        &self,
        arguments: &[String],
        queues: u16,
        control: &Control,
    ) -> Result<ConnectOptions, Error> {
        parse(arguments)?.options(queues, control).map_err(Failure::into_error)
    }
}

fn is_of_value(error: &clap::Error) -> bool {
    use clap::error::ErrorKind::{
        InvalidValue, TooFewValues, TooManyValues, ValueValidation, WrongNumberOfValues,
    };
    matches!(
        error.kind(),
        InvalidValue | ValueValidation | TooFewValues | TooManyValues | WrongNumberOfValues
    )
}

/// The first line of clap's message.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").replace("'", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use weft_server::config::example::schema;
    use weft_server::config::read;

    const BASE: &str =
        "listen = [\"nvme+tcp://127.0.0.1:0\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n";

    fn mistakes(more: &str) -> Vec<String> {
        let place = (Path::new("/etc/weft-none"), &CommandLineOptions as &dyn SourceOptions);
        read(&format!("{BASE}{more}"), "weft.toml", place)
            .map_or_else(|faults| faults.lines().to_vec(), |_| Vec::new())
    }

    #[test]
    fn options_of_connections_are_checked_where_they_stand() {
        let missing = |at: &str| {
            format!("{at}: cannot read {}", Path::new("/etc/weft-none").join("nope").display())
        };
        let [chap, tls] = ["5:20", "5:15"].map(missing);
        for (more, said) in [
            (
                "[connect]\nkeepalive-tmo = 5\n",
                "5:1: there is no key \"keepalive-tmo\": did you mean \"keep-alive-tmo\"?",
            ),
            (
                "[connect]\nio-timeout = \"soon\"\n",
                "5:14: invalid value \"soon\" for \"--io-timeout",
            ),
            ("[connect]\nchap-secret-file = \"nope\"\n", &chap),
            ("[connect]\ntls-ca-file = \"nope\"\n", &tls),
        ] {
            let found = mistakes(more);
            assert_eq!(found.len(), 1, "{more}: {found:?}");
            assert!(found[0].starts_with(&format!("weft.toml:{said}")), "{more}: {found:?}");
        }
        assert!(mistakes("[connect]\nkeep-alive-tmo = 5\n").is_empty());
    }

    #[test]
    fn the_schema_describes_them() {
        let schema = schema(&CommandLineOptions);
        let option = &schema["$defs"]["ConnectTable"]["properties"]["io-timeout"];
        assert!(option["description"].as_str().is_some_and(|text| !text.is_empty()), "{schema}");
    }

    #[test]
    fn options_that_an_import_writes_are_known() {
        let spdk = r#"{"subsystems": [{"subsystem": "bdev", "config": [{"method": "bdev_nvme_attach_controller", "params": {
            "name": "A", "trtype": "TCP", "traddr": "192.0.2.1", "trsvcid": "4420", "subnqn": "nqn.2026-01.example:b", "psk": "p",
            "dhchap_key": "k", "dhchap_ctrlr_key": "c", "hostnqn": "nqn.2026-01.example:h"}}]}, {"subsystem": "nvmf", "config": [
            {"method": "nvmf_create_subsystem", "params": {"nqn": "nqn.2026-01.example:a"}}]}]}"#;
        let (toml, _) = weft_server::config::import::import(spdk, "spdk.json", false).unwrap();
        let place = (Path::new("/etc/weft-none"), &CommandLineOptions as &dyn SourceOptions);
        let faults = read(&toml, "weft.toml", place).unwrap_err();
        let is_of_file = |line: &&String| {
            line.contains("cannot read /etc/weft-none") && line.contains("A.source.")
        };
        let files = faults.lines().iter().filter(is_of_file);
        assert_eq!(files.count(), 3, "{faults:?}");
        assert!(!faults.lines().iter().any(|line| line.contains("there is no key")), "{faults:?}");
    }
}
