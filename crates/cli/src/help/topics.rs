//! Explanations that several commands share: `weft help connection`.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::headings::{AUTHENTICATION, CONNECTION, FIO, IGNORED, ISCSI, LOG, PATHS, REFUSED};
use crate::process::exit;

/// A topic of `weft help`.
pub struct Topic {
    /// The word by which users ask for it.
    pub name: &'static str,
    /// Its description in a list of topics.
    pub about: &'static str,
    of: Of,
}

/// Where its text is.
enum Of {
    /// These options of a command.
    Options {
        command: Option<&'static str>,
        headings: &'static [&'static str],
    },
    Text(&'static str),
}

/// All topics.
pub const TOPICS: [Topic; 4] = [
    Topic {
        name: "connection",
        about: "connections to targets: TLS, secrets, time limits, several paths",
        of: Of::Options {
            command: Some("bench"),
            headings: &[CONNECTION, AUTHENTICATION, ISCSI, PATHS],
        },
    },
    Topic {
        name: "log",
        about: "the log, whose options all commands have",
        of: Of::Options { command: None, headings: &[LOG] },
    },
    Topic {
        name: "fio",
        about: "more of fio's options, and those that weft bench ignores or refuses",
        of: Of::Options { command: Some("bench"), headings: &[FIO, IGNORED, REFUSED] },
    },
    Topic {
        name: "exit-status",
        about: "exit statuses and their meaning",
        of: Of::Text(exit::TABLE),
    },
];

/// What `weft serve` demands of its own hosts has the names of what other commands give to targets.
const OWN: [&str; 3] = ["tls", "dhchap-", "concat"];

/// Returns whether an option of this command is one of its demands on those who connect to it.
pub fn is_demand(command: &str, option: &Arg) -> bool {
    let is_own = |name: &str| OWN.iter().any(|of| name.starts_with(of));
    command == "serve" && option.get_long().is_some_and(is_own)
}

/// Returns whether `--help` of this command leaves an option to a topic.
pub fn explains(command: &str, option: &Arg) -> bool {
    !is_demand(command, option) && topic_of(option).is_some()
}

fn topic_of(option: &Arg) -> Option<&'static Topic> {
    let heading = option.get_help_heading()?;
    TOPICS.iter().find(
        |topic| matches!(&topic.of, Of::Options { headings, .. } if headings.contains(&heading)),
    )
}

/// The topics that a command's help points to.
pub fn of(command: &Command) -> Vec<&'static Topic> {
    let names = command
        .get_arguments()
        .filter(|option| explains(command.get_name(), option))
        .filter_map(topic_of)
        .map(|topic| topic.name);
    let names: Vec<&str> = names.collect();
    TOPICS.iter().filter(|topic| names.contains(&topic.name)).collect()
}

/// A line for each topic.
pub fn listed<'a>(topics: impl IntoIterator<Item = &'a Topic>) -> String {
    let mut text = String::new();
    for topic in topics {
        let _ = writeln!(text, "  weft help {:<12} {}", topic.name, topic.about);
    }
    text.trim_end().to_owned()
}

impl Topic {
    /// The topic with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TOPICS.iter().find(|topic| topic.name == name)
    }

    /// Its text, from the commands as they are defined.
    pub fn text(&self, weft: &Command) -> String {
        let (command, headings) = match &self.of {
            Of::Text(text) => return format!("{text}\n"),
            Of::Options { command, headings } => (command, headings),
        };
        let command = command.and_then(|name| weft.find_subcommand(name)).unwrap_or(weft);
        let of = |option: Arg| {
            let is_shown = option.get_help_heading().is_some_and(|of| headings.contains(&of));
            option.hide(!is_shown)
        };
        let mut only = command.clone().mut_args(of).mut_subcommands(|command| command.hide(true));
        only = only.disable_help_flag(true).disable_version_flag(true);
        only = only.about(capital(self.about)).after_help("");
        only.help_template("{about-with-newline}\n{all-args}\n").render_long_help().to_string()
    }
}

/// A sentence of what stands in a list.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(char::to_uppercase).into_iter().flatten().chain(letters).collect()
}
