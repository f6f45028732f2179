//! `weft service`: a server, or the daemon of connections, as a service of Windows. Its `install`
//! is in a file of its own, and what a service does in `crate::hosted`.

mod install;

use crate::process::exit::{Failure, printed};
use crate::process::log::LogArgs;
use clap::{Args, Subcommand};
use install::{InstallArgs, NAME};
use std::ffi::OsString;
use std::io::Write;
use weft_server::service::windows;
use weft_server::service::windows::settings::{ServiceFacts, ServiceStart, check_name};

/// Options of `weft service`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft service install --config C:\\ProgramData\\weft\\weft.toml
      a server that starts with Windows and serves what the file asks for
  weft service start
      start it now
  weft service install --daemon
      the daemon that holds persistent connections")]
pub struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Subcommand, Debug)]
enum ServiceCommand {
    /// Install a service
    Install(Box<InstallArgs>),
    /// Remove a service; one that runs is stopped first
    #[command(after_help = "\
Example:
  weft service remove --name weft-disks")]
    Remove(NameArgs),
    /// Start a service and wait until it serves
    #[command(after_help = "\
Example:
  weft service start")]
    Start(NameArgs),
    /// Stop a service and wait until it has ended: commands finish, and devices are flushed
    #[command(after_help = "\
Example:
  weft service stop")]
    Stop(NameArgs),
    /// Show a service: whether it runs, as whom, and what it runs
    #[command(after_help = "\
Example:
  weft service status --json")]
    Status(StatusArgs),
    /// The command that the service manager starts
    #[command(hide = true)]
    Run {
        /// The service
        #[arg(long)]
        name: String,
        /// A command line of weft
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

#[derive(Args, Debug)]
struct NameArgs {
    /// Name of the service
    #[arg(long, default_value = NAME)]
    name: String,
}

#[derive(Args, Debug)]
struct StatusArgs {
    #[command(flatten)]
    of: NameArgs,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

impl ServiceArgs {
    /// The name of the service as which this process was started, and the command line that it
    /// runs, if it was started as one.
    pub fn hosted(&self) -> Option<(String, Vec<OsString>)> {
        match &self.command {
            ServiceCommand::Run { name, words } => Some((name.clone(), words.clone())),
            _ => None,
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &ServiceArgs, log: &LogArgs) -> Result<(), Failure> {
    windows::supported()?;
    let said = match &args.command {
        ServiceCommand::Install(args) => return args.run(log),
        // `main` has run it.
        ServiceCommand::Run { .. } => return Ok(()),
        ServiceCommand::Status(args) => return status(args),
        ServiceCommand::Remove(args) => {
            windows::remove(args.name()?)?;
            format!("removed the service {}", args.name)
        }
        ServiceCommand::Start(args) => match windows::start(args.name()?)? {
            true => format!("started the service {}", args.name),
            false => format!("the service {} runs already", args.name),
        },
        ServiceCommand::Stop(args) => match windows::stop(args.name()?)? {
            true => format!("stopped the service {}", args.name),
            false => format!("the service {} did not run", args.name),
        },
    };
    printed(writeln!(std::io::stdout().lock(), "{said}"))
}

impl NameArgs {
    fn name(&self) -> Result<&str, Failure> {
        check_name(&self.name)?;
        Ok(&self.name)
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let shown = windows::show(args.of.name()?)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let json = serde_json::to_string_pretty(&shown).map_err(std::io::Error::from)?;
        return printed(writeln!(out, "{json}"));
    }
    printed(out.write_all(table(&shown).as_bytes()))
}

/// A service in words, a line for each thing.
fn table(shown: &ServiceFacts) -> String {
    let state = match (shown.pid, shown.exit_status) {
        (Some(pid), _) => format!("{}, process {pid}", shown.state),
        (None, Some(0)) => format!("{}, as it was asked to", shown.state),
        (None, Some(status)) => format!("{}, after an end with status {status}", shown.state),
        (None, None) => shown.state.to_owned(),
    };
    let start = match shown.start {
        Some(ServiceStart::Auto) => "with Windows",
        Some(ServiceStart::DelayedAuto) => "with Windows, delayed",
        Some(ServiceStart::Demand) => "on demand",
        Some(ServiceStart::Disabled) => "never (disabled)",
        None => "unknown",
    };
    let restarts = match shown.restarts_ms.as_deref() {
        None => "unknown: the service manager does not tell".to_owned(),
        Some([]) => "none".to_owned(),
        Some(delays) => {
            let seconds: Vec<_> =
                delays.iter().map(|ms| format!("{} s", *ms as f64 / 1e3)).collect();
            format!("after {}", seconds.join(", "))
        }
    };
    let account = shown.account.as_deref().unwrap_or("unknown");
    let lines = [
        ("service", shown.name.as_str()),
        ("display name", &shown.display_name),
        ("state", &state),
        ("starts", start),
        ("account", account),
        ("restarts", &restarts),
        ("command", &shown.command),
    ];
    lines.map(|(what, text)| format!("{what:<14} {text}\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> ServiceFacts {
        ServiceFacts {
            name: "weft".into(),
            display_name: "weft server".into(),
            state: "running",
            pid: Some(7),
            exit_status: None,
            start: Some(ServiceStart::Auto),
            account: Some(r"NT SERVICE\weft".into()),
            command: "weft.exe service run --name weft serve".into(),
            restarts_ms: Some(vec![1_000, 500]),
        }
    }

    #[test]
    fn a_service_is_shown_in_words() {
        let text = table(&shown());
        for line in [
            "service        weft",
            "state          running, process 7",
            "starts         with Windows",
            r"account        NT SERVICE\weft",
            "restarts       after 1 s, 0.5 s",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        let failed = ServiceFacts { pid: None, state: "stopped", exit_status: Some(5), ..shown() };
        assert!(table(&failed).contains("stopped, after an end with status 5"));
        let new = ServiceFacts { pid: None, state: "stopped", restarts_ms: None, ..shown() };
        assert!(table(&new).contains("state          stopped\n"));
        assert!(table(&new).contains("does not tell"));
    }
}
