//! Commands in the documents: the README's two, and that the options of all others exist.

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
};

use xtask::{built, commands, tools};

use crate::{demand, files, markdown::Document};

#[test]
fn readme_starts_with_two_commands() {
    let text =
        std::fs::read_to_string(files::root().join("README.md")).expect("there is a README.md");
    let document = Document::parse(&text);
    let fences =
        document.fences_under("Quick start").expect("README.md has the heading `## Quick start`");
    assert_eq!(fences.len(), 1, "one fenced block under `## Quick start`");
    let [study, test] = fences[0].lines[..] else {
        panic!("two commands in it: {:?}", fences[0].lines)
    };
    assert!(study.starts_with("cargo "), "the first runs the study: {study}");
    assert_eq!(test, "cargo xtask test", "the second runs the tests");
}

#[test]
fn options_in_the_documents_exist() {
    let mut helps = Helps::default();
    let faults = commands::all().into_iter().filter_map(|(place, command)| {
        helps.fault(&command).map(|fault| format!("{place}: {fault}"))
    });
    demand("the program does not know it", faults.collect());
}

/// Help texts of the programs, requested once for each subcommand.
#[derive(Default)]
pub struct Helps {
    texts: BTreeMap<Vec<String>, Option<String>>,
}

impl Helps {
    /// What is wrong with a command of ours, if it is one.
    fn fault(&mut self, command: &[String]) -> Option<String> {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let (program, arguments, depth) = match words[..] {
            ["weft", ref rest @ ..] => ("weft", rest, 2),
            ["cargo", "run", ..] => {
                ("weft", &words[words.iter().position(|word| *word == "--")? + 1..], 1)
            }
            // Tools are asked by tests of their own: see `tools.rs`.
            ["cargo", "xtask", tool, ..] if tools::named(tool.as_ref()).is_some() => return None,
            ["cargo", "xtask", ref rest @ ..] => ("xtask", rest, 2),
            _ => return None,
        };
        let named = arguments.iter().take(depth).take_while(|word| is_subcommand(word)).count();
        let help = (0..=named)
            .rev()
            .find_map(|named| self.help(program, &arguments[..named]).map(|help| (named, help)));
        let (known, help) = help?;
        if known == 0 && named > 0 {
            return Some(format!("no subcommand {}", arguments[0]));
        }
        if help.contains("[ARGS]...") {
            return None; // They are another program's.
        }
        let options =
            arguments.iter().take_while(|word| **word != "--").filter_map(|word| option(word));
        options
            .filter(|option| !mentions(&help, option))
            .map(|option| format!("no option {option}"))
            .next()
    }

    /// The help of a program's subcommand, if there is such a subcommand.
    pub fn help(&mut self, program: &str, subcommand: &[&str]) -> Option<String> {
        let key: Vec<String> =
            std::iter::once(program).chain(subcommand.iter().copied()).map(str::to_owned).collect();
        if let Some(known) = self.texts.get(&key) {
            return known.clone();
        }
        // `weft COMMAND --help` leaves to topics what several commands have.
        let mut command = if program == "weft" {
            let mut command = Command::new(built::debug_build("weft"));
            command.arg("help").args(subcommand);
            command
        } else {
            let mut command = Command::new(built::debug_build("xtask"));
            command.args(subcommand).arg("--help");
            command
        };
        let output = command.stdin(Stdio::null()).output().expect("the program runs");
        let text =
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned());
        self.texts.insert(key, text.clone());
        text
    }
}

/// Returns whether a word can name a subcommand.
fn is_subcommand(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_lowercase())
        && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
}

/// The option that a word sets.
fn option(word: &str) -> Option<&str> {
    let option = word.split('=').next().unwrap_or_default();
    let is_option = option.strip_prefix('-').is_some_and(|rest| {
        rest.starts_with(|letter: char| letter == '-' || letter.is_ascii_alphabetic())
    });
    is_option.then_some(option)
}

/// Returns whether a text holds the option as a word of its own.
pub fn mentions(help: &str, option: &str) -> bool {
    help.split(|letter: char| !(letter.is_alphanumeric() || "-_".contains(letter)))
        .any(|word| word == option)
}

#[test]
fn options_are_told_from_values() {
    assert_eq!(option("--rw=read"), Some("--rw"));
    assert_eq!(option("-n"), Some("-n"));
    assert_eq!(option("-1"), None);
}
