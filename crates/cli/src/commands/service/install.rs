//! `weft service install`.

use crate::args::source_options::CommandLineOptions;
use crate::process::exit::{Failure, printed, tell};
use crate::process::log::LogArgs;
use clap::{ArgGroup, Args, ValueEnum};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use weft_block::ErrorKind;
use weft_server::config::load;
use weft_server::management::place::named;
use weft_server::service::windows;
use weft_server::service::windows::settings::{
    RUN, ServiceSettings, ServiceStart, account, check_display_name, check_name, virtual_account,
};

/// The name of a service that is given none.
pub(super) const NAME: &str = "weft";

/// The name of the daemon's service that is given none.
const DAEMON_NAME: &str = "weft-daemon";

/// Options of `weft service install`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true))]
#[command(after_help = "\
Examples:
  weft service install --config C:\\ProgramData\\weft\\weft.toml
      a server that starts with Windows, as NT SERVICE\\weft
  weft service install --config D:\\disks.toml --name weft-disks --start demand --control D:\\disks.control
      a second one that is started by hand, and managed with weft status --control D:\\disks.control
  weft service install --daemon
      the daemon that holds persistent connections (weft connect --persist)")]
pub(super) struct InstallArgs {
    /// Configuration file of a server, as for weft serve --config
    #[arg(long, value_name = "FILE", group = "what")]
    config: Option<PathBuf>,
    /// The daemon of connections, instead of a server
    #[arg(long, group = "what")]
    daemon: bool,
    /// Name of the service [default: weft, or weft-daemon]
    #[arg(long)]
    name: Option<String>,
    /// Name in lists of services [default: one made of the name]
    #[arg(long, value_name = "NAME")]
    display_name: Option<String>,
    /// When it starts, as in sc.exe
    #[arg(long, value_enum, default_value_t = StartType::Auto)]
    start: StartType,
    /// Account without a password that it runs as: LocalSystem, LocalService, NetworkService, or a
    /// group managed service account [default: NT SERVICE\NAME; LocalSystem for the daemon, since
    /// only administrators attach disks]
    #[arg(long)]
    account: Option<String>,
    /// Socket for commands that manage it, as a path or a name: --control of weft serve, --socket
    /// of weft daemon
    #[arg(long, value_name = "PATH|NAME")]
    control: Option<String>,
}

/// `--start`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StartType {
    /// With Windows
    Auto,
    /// With Windows, some two minutes later
    DelayedAuto,
    /// When an administrator starts it
    Demand,
    /// Never
    Disabled,
}

impl From<StartType> for ServiceStart {
    fn from(start: StartType) -> Self {
        match start {
            StartType::Auto => Self::Auto,
            StartType::DelayedAuto => Self::DelayedAuto,
            StartType::Demand => Self::Demand,
            StartType::Disabled => Self::Disabled,
        }
    }
}

impl InstallArgs {
    /// Installs the service.
    pub(super) fn run(&self, log: &LogArgs) -> Result<(), Failure> {
        if let Some(file) = &self.config {
            // A mistake is better seen here than in the event log.
            load(file, &CommandLineOptions)?;
        }
        let program = std::env::current_exe()?;
        let settings = self.settings(program, log)?;
        windows::install(&settings)?.iter().for_each(|sentence| tell(&format!("weft: {sentence}")));
        printed(std::io::stdout().lock().write_all(self.said(&settings)?.as_bytes()))
    }

    fn settings(&self, program: PathBuf, log: &LogArgs) -> Result<ServiceSettings, Failure> {
        let default = if self.daemon { DAEMON_NAME } else { NAME };
        let name = self.name.as_deref().unwrap_or(default);
        check_name(name)?;
        let shown = self.display_name.clone().unwrap_or_else(|| self.shown_as(name, default));
        check_display_name(&shown)?;
        let account = match &self.account {
            Some(given) => account(given, name)?,
            None if self.daemon => "LocalSystem".to_owned(),
            None => virtual_account(name),
        };
        let description = match self.daemon {
            true => {
                "Holds connections to remote block storage, and makes them again when they are lost."
            }
            false => "Serves block storage over the network (NVMe over Fabrics, iSCSI, NBD).",
        };
        Ok(ServiceSettings {
            name: name.to_owned(),
            display_name: shown,
            description: description.to_owned(),
            start: self.start.into(),
            account,
            program,
            words: self.words(name, log)?,
        })
    }

    fn shown_as(&self, name: &str, default: &str) -> String {
        let what = if self.daemon { "weft connections" } else { "weft server" };
        if name == default { what.to_owned() } else { format!("{what} ({name})") }
    }

    /// The words after the program: what the service runs.
    fn words(&self, name: &str, log: &LogArgs) -> Result<Vec<OsString>, Failure> {
        let mut words: Vec<OsString> = RUN.map(OsString::from).into();
        words.push(name.into());
        words.extend(log.words());
        match self.file()? {
            Some(file) => words.extend(["serve".into(), "--config".into(), file.into()]),
            None => words.push("daemon".into()),
        }
        if let Some(place) = &self.control {
            // A service starts in a directory of Windows.
            let place = match place.contains(std::path::is_separator) {
                true => absolute(Path::new(place))?.into(),
                false => {
                    named(place)?;
                    OsString::from(place)
                }
            };
            words.extend([if self.daemon { "--socket" } else { "--control" }.into(), place]);
        }
        Ok(words)
    }

    /// The configuration, wherever the service starts.
    fn file(&self) -> Result<Option<PathBuf>, Failure> {
        self.config.as_deref().map(absolute).transpose()
    }

    /// What to do next.
    fn said(&self, settings: &ServiceSettings) -> Result<String, Failure> {
        let ServiceSettings { name, account, .. } = settings;
        let mut said = format!("installed the service {name}, which runs as {account}\n");
        if let Some(file) = self.file()?
            && account != "LocalSystem"
        {
            said += &format!(
                "it must be able to read its configuration, and the files that this names:\n  icacls \"{}\" /grant \"{account}:R\"\n",
                file.display()
            );
        }
        let named = if name == NAME { String::new() } else { format!(" --name \"{name}\"") };
        said += &format!("start it with:\n  weft service start{named}\n");
        Ok(said)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| {
        Failure::of(ErrorKind::Usage, format!("cannot use the path {}: {e}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        install: InstallArgs,
    }

    /// What a command line asks for.
    fn settings(line: &str) -> Result<(ServiceSettings, String), String> {
        let Line { log, install } =
            Line::try_parse_from(line.split(' ')).map_err(|e| e.to_string())?;
        let settings = install.settings("weft.exe".into(), &log).map_err(|e| e.to_string())?;
        let said = install.said(&settings).map_err(|e| e.to_string())?;
        Ok((settings, said))
    }

    fn words(settings: &ServiceSettings) -> String {
        let words: Vec<_> = settings.words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn a_server_is_installed_with_its_configuration() {
        let (of, said) = settings("install --config weft.toml -v").unwrap();
        let file = std::path::absolute("weft.toml").unwrap();
        let run =
            format!("service run --name weft --log-level=INFO serve --config {}", file.display());
        assert_eq!(words(&of), run);
        assert_eq!((of.name.as_str(), of.display_name.as_str()), ("weft", "weft server"));
        assert_eq!((of.account.as_str(), of.start), (r"NT SERVICE\weft", ServiceStart::Auto));
        assert!(said.contains("icacls") && said.ends_with("weft service start\n"), "{said}");
    }

    #[test]
    fn options_are_those_of_windows() {
        let line = "install --config a.toml --name disks --display-name Disks --start delayed-auto --account localservice --control hall";
        let (of, said) = settings(line).unwrap();
        assert_eq!((of.display_name.as_str(), of.start), ("Disks", ServiceStart::DelayedAuto));
        assert_eq!(of.account, r"NT AUTHORITY\LocalService");
        assert!(words(&of).ends_with(" --control hall"));
        assert!(said.contains("weft service start --name \"disks\""), "{said}");
        for start in ["demand", "disabled", "auto"] {
            settings(&format!("install --config a --start {start}")).unwrap();
        }
    }

    #[test]
    fn the_daemon_attaches_disks_and_so_is_the_system() {
        let (of, said) = settings("install --daemon").unwrap();
        assert_eq!(words(&of), "service run --name weft-daemon daemon");
        assert_eq!((of.account.as_str(), of.name.as_str()), ("LocalSystem", "weft-daemon"));
        assert!(!said.contains("icacls"), "{said}");
        let (other, _) = settings("install --daemon --name b --control a").unwrap();
        assert!(words(&other).ends_with("daemon --socket a"));
        assert_eq!(other.display_name, "weft connections (b)");
    }

    #[test]
    fn what_cannot_be_installed_is_refused_in_words() {
        for (line, part) in [
            ("install", "--config"),
            ("install --config a --daemon", "cannot be used with"),
            (r"install --config a --name a\b", "the name of a service"),
            ("install --config a --account ann", "without a password"),
            ("install --config a --control ..", "neither a name nor a path"),
        ] {
            let said = settings(line).err().unwrap_or_default();
            assert!(said.contains(part), "{line}: {said}");
        }
    }
}
