//! Settings for installing a service, and the facts that are shown of one.

use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use weft_block::{Error, ErrorKind};

/// Most characters of the name of a service, and of its display name.
const NAME_CHARS_MAX: usize = 256;

/// Accounts of the system that have no password, and what they are called otherwise.
const OF_SYSTEM: [(&str, &str); 5] = [
    ("LocalSystem", "LocalSystem"),
    ("LocalService", r"NT AUTHORITY\LocalService"),
    ("NetworkService", r"NT AUTHORITY\NetworkService"),
    (r"NT AUTHORITY\LocalService", r"NT AUTHORITY\LocalService"),
    (r"NT AUTHORITY\NetworkService", r"NT AUTHORITY\NetworkService"),
];

/// When a service starts, in the words of `sc.exe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceStart {
    /// With the system.
    Auto,
    /// Some two minutes after the system.
    DelayedAuto,
    /// When an administrator starts it.
    Demand,
    /// Never.
    Disabled,
}

/// Settings for installing a service.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    /// Its name for commands.
    pub name: String,
    /// Its name in lists.
    pub display_name: String,
    /// Its description.
    pub description: String,
    /// When it starts.
    pub start: ServiceStart,
    /// As whom it runs, as the service manager writes it.
    pub account: String,
    /// The program.
    pub program: PathBuf,
    /// The words after it.
    pub words: Vec<OsString>,
}

/// The service manager's facts about a service.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceFacts {
    /// Its name for commands.
    pub name: String,
    /// Its name in lists.
    pub display_name: String,
    /// `running`, `stopped`, `starting`, `ending` or `paused`.
    pub state: &'static str,
    /// Its process, while there is one.
    pub pid: Option<u32>,
    /// With which status the last process ended, if it has.
    pub exit_status: Option<u32>,
    /// When it starts.
    pub start: Option<ServiceStart>,
    /// As whom it runs.
    pub account: Option<String>,
    /// Its command line.
    pub command: String,
    /// Milliseconds after which it is started again, for the first failure and those that follow;
    /// nothing where the service manager does not tell.
    pub restarts_ms: Option<Vec<u64>>,
}

/// Checks that a service may have this name. It is also part of a key of the registry and of the
/// name of an account.
///
/// # Errors
/// [`ErrorKind::Usage`].
pub fn check_name(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_alphanumeric() || " -_.".contains(c);
    let is_trimmed = name.trim() == name && !name.is_empty();
    if is_trimmed && name.chars().count() <= NAME_CHARS_MAX && name.chars().all(fits) {
        return Ok(());
    }
    let text = format!(
        "{name:?} cannot be the name of a service: take up to {NAME_CHARS_MAX} letters, digits and any of \"-_.\", as in weft-disks"
    );
    Err(Error::new(ErrorKind::Usage, text))
}

/// Checks that a service may be shown under this name.
///
/// # Errors
/// [`ErrorKind::Usage`].
pub fn check_display_name(name: &str) -> Result<(), Error> {
    let length = name.chars().count();
    if (1..=NAME_CHARS_MAX).contains(&length) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!(
        "{name:?} cannot be a display name: take 1 to {NAME_CHARS_MAX} characters, none of which is a control character"
    );
    Err(Error::new(ErrorKind::Usage, text))
}

/// The virtual account of a service: Windows makes it with the service, it has no password, and
/// nobody can log in with it.
pub fn virtual_account(name: &str) -> String {
    format!(r"NT SERVICE\{name}")
}

/// The account that is meant, as the service manager writes it. weft takes accounts without a
/// password only, so that it keeps none.
///
/// # Errors
/// [`ErrorKind::Usage`].
pub fn account(given: &str, name: &str) -> Result<String, Error> {
    let own = virtual_account(name);
    let known = OF_SYSTEM.iter().find(|(word, _)| word.eq_ignore_ascii_case(given));
    if let Some((_, account)) = known {
        return Ok((*account).to_owned());
    }
    if own.eq_ignore_ascii_case(given) {
        return Ok(own);
    }
    // Windows itself looks after the passwords of these.
    if given.contains('\\') && given.ends_with('$') {
        return Ok(given.to_owned());
    }
    let text = format!(
        "{given:?} is not an account without a password: give LocalSystem, LocalService, NetworkService, a group managed service account (DOMAIN\\NAME$), or nothing for {own}"
    );
    Err(Error::new(ErrorKind::Usage, text))
}

/// Under which name a service writes into the event log: one that belongs to weft for certain.
pub fn event_source(name: &str) -> String {
    let begin = name.get(..4).unwrap_or_default();
    if begin.eq_ignore_ascii_case("weft") { name.to_owned() } else { format!("weft-{name}") }
}

/// The words of a command line that begin what a service of weft runs.
pub const RUN: [&str; 3] = ["service", "run", "--name"];

/// Returns whether a command line of a service is one of weft's.
pub fn is_ours(command: &str) -> bool {
    command.contains(&format!(" {} ", RUN.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_services_fit_the_registry_and_accounts() {
        for right in ["weft", "weft-disks", "Disks of hall 2", "weft_1.b"] {
            check_name(right).unwrap();
        }
        for wrong in ["", " weft", r"a\b", "a/b", "a\"b", "a\nb", &"x".repeat(257)] {
            assert_eq!(check_name(wrong).unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
        }
        check_display_name("weft: \"disks\" (hall 2)").unwrap();
        for wrong in ["", "a\u{1b}b", &"x".repeat(257)] {
            assert!(check_display_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn accounts_have_no_password() {
        let of = |given| account(given, "weft");
        assert_eq!(of("localsystem").unwrap(), "LocalSystem");
        assert_eq!(of("LocalService").unwrap(), r"NT AUTHORITY\LocalService");
        assert_eq!(of(r"nt service\WEFT").unwrap(), r"NT SERVICE\weft");
        assert_eq!(of(r"HALL\weft$").unwrap(), r"HALL\weft$");
        for wrong in ["ann", r"HALL\ann", r"NT SERVICE\other", "", "$"] {
            assert_eq!(of(wrong).unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
        }
    }

    #[test]
    fn sources_of_events_begin_with_weft() {
        let names = ["weft", "Weft-disks", "MsiInstaller", "a", "é weft"];
        assert_eq!(
            names.map(event_source),
            ["weft", "Weft-disks", "weft-MsiInstaller", "weft-a", "weft-é weft"]
        );
    }

    #[test]
    fn services_of_others_are_told_apart() {
        assert!(is_ours(r#""C:\Program Files\weft\weft.exe" service run --name weft serve"#));
        assert!(!is_ours(r"C:\Windows\system32\spoolsv.exe"));
    }
}
