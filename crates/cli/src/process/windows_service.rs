//! This process as a service of Windows: what `weft service install` has the service manager start.

use crate::args::Cli;
use crate::process::exit::Failure;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use weft_block::ErrorKind;
use weft_server::service::windows;

/// A service as which this process was started.
pub struct StartedService {
    /// Its name.
    pub name: String,
    /// Its command line, as words of a command line of weft.
    pub words: Vec<OsString>,
}

impl StartedService {
    /// Is the service until it has ended; the exit status. `execute` is the rest of the program.
    pub fn run(self, execute: fn(Cli, &ArgMatches) -> u8) -> u8 {
        let Self { name, words } = self;
        let work = move || match parsed(words) {
            Ok((cli, matches)) => execute(cli, &matches),
            Err(failure) => failure.report(),
        };
        windows::run(&name, work).unwrap_or_else(|e| Failure::from(e).report())
    }
}

/// The command line that the service was installed with.
fn parsed(words: Vec<OsString>) -> Result<(Cli, ArgMatches), Failure> {
    let line = std::iter::once("weft".into()).chain(words);
    let read = Cli::command().try_get_matches_from(line).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    read.map_err(|e| {
        let said = e.to_string();
        let line = said.lines().next().unwrap_or_default();
        let text = format!(
            "this weft.exe does not take the command line of the service ({line}): remove the service, and install it again"
        );
        Failure::of(ErrorKind::Usage, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::CliVerb;

    #[test]
    fn a_service_runs_a_command_line() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let (cli, _) = parsed(words("serve --config weft.toml --control disks")).unwrap();
        assert!(matches!(cli.command, CliVerb::Serve(args) if args.config.is_some()));
        let failure = parsed(words("serve --no-such-option")).err().unwrap();
        assert!(failure.to_string().contains("--no-such-option"), "{failure}");
        assert_eq!(failure.kind(), Some(ErrorKind::Usage));
    }

    #[cfg(not(windows))]
    #[test]
    fn elsewhere_nothing_is_a_service() {
        let hosted = StartedService { name: "weft".into(), words: Vec::new() };
        assert_eq!(hosted.run(|_, _| 0), 10);
    }
}
