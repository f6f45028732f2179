use super::*;
use crate::args::Cli;
use clap::CommandFactory;
use std::fmt::Write;

/// Lines of a terminal that is not small.
const SCREEN: usize = 50;

/// Lines of `--help` of the command with the most options.
const LONG: usize = 313;

/// Columns of recorded help, whatever the terminal has.
const COLUMNS: usize = 100;

fn weft() -> Command {
    let mut weft = arranged(Cli::command());
    weft.build();
    weft
}

fn shown(weft: &Command) -> Vec<&Command> {
    weft.get_subcommands().filter(|of| !of.is_hide_set()).collect()
}

#[test]
fn each_command_is_in_one_group() {
    let weft = Cli::command();
    let text = groups::described(&weft);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let mut names: Vec<&str> = shown(&weft).into_iter().map(Command::get_name).collect();
    let mut grouped: Vec<&str> =
        groups::GROUPS.iter().flat_map(|(_, of)| of.iter().copied()).collect();
    names.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(grouped, names);
    assert!(names.iter().all(|name| text.contains(&format!("  {name} "))), "{text}");
}

#[test]
fn short_help_is_one_screen_and_begins_with_an_example() {
    for command in shown(&weft()) {
        let text = command.clone().render_help().to_string();
        let (name, lines) = (command.get_name(), text.lines().count());
        assert!(lines <= SCREEN, "{name}: {lines} lines\n{text}");
        let long = command.clone().render_long_help().to_string();
        assert!(long.lines().count() <= LONG, "{name}: {}", long.lines().count());
        if !command.has_subcommands() {
            let at = |of: &str| text.find(of).unwrap_or_else(|| panic!("{name}: no {of}\n{text}"));
            assert!(at("Usage:") < at("Example") && at("Example") < at("Options:"), "{text}");
        }
    }
    let text = arranged(Cli::command()).render_help().to_string();
    assert!(text.lines().count() <= 30, "{text}");
}

#[test]
fn what_short_help_shows_exists() {
    let weft = Cli::command();
    for (name, options) in essential::ESSENTIAL {
        let command = weft.find_subcommand(name).unwrap();
        let known: Vec<&str> = command.get_arguments().filter_map(|of| of.get_long()).collect();
        let missing: Vec<_> = options.iter().filter(|of| !known.contains(of)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

#[test]
fn topics_and_commands_have_all_options_between_them() {
    let all = |words: &[&str]| {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        text(&HelpArgs { words }, Cli::command()).unwrap()
    };
    let connection = all(&["connection"]);
    for option in ["--tls-key-file", "--dhchap-secret-file", "--chap-user", "--ctrl-loss-tmo"] {
        assert!(connection.contains(option), "{option}: {connection}");
        assert!(all(&["serve"]).contains(option), "{option}");
        let short =
            weft().find_subcommand("id-ctrl").unwrap().clone().render_long_help().to_string();
        assert!(!short.contains(option) && short.contains("weft help connection"), "{short}");
    }
    assert!(
        !connection.contains("--rw ") && !connection.contains("--destroy-data"),
        "{connection}"
    );
    assert!(all(&["log"]).contains("--log-level") && all(&["fio"]).contains("--ioengine"));
    assert!(all(&["exit-status"]).contains("101"));
    assert!(all(&["config", "check"]).contains("weft config check"));
    assert!(text(&HelpArgs { words: vec!["serv".into()] }, Cli::command()).is_err());
}

#[test]
fn what_a_server_demands_stays_with_it() {
    let serve = weft().find_subcommand("serve").unwrap().clone().render_long_help().to_string();
    for option in ["--tls-key-file", "--concat", "--dhchap-secret-file"] {
        assert!(serve.contains(option), "{option}: {serve}");
    }
    assert!(!serve.contains("--ctrl-loss-tmo <"), "{serve}");
}

/// Appends the help of a command, and of those below it.
fn append(command: &Command, path: &str, text: &mut String) {
    let _ = writeln!(text, "$ {path} --help\n{}", command.clone().render_long_help());
    for below in shown(command).into_iter().filter(|below| below.get_name() != "help") {
        append(below, &format!("{path} {}", below.get_name()), text);
    }
}

/// Scripts rely on the options that are there. Those of Linux are recorded.
#[test]
fn help_is_as_recorded() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let (mut weft, mut text) = (arranged(Cli::command()).term_width(COLUMNS), String::new());
    weft.build();
    append(&weft, "weft", &mut text);
    let narrow = |command: Command| command.term_width(COLUMNS);
    let weft = narrow(Cli::command()).mut_subcommands(narrow);
    for topic in TOPICS {
        let _ = writeln!(text, "$ weft help {}\n{}", topic.name, topic.text(&weft));
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/help.txt");
    weft_testing::committed::check(file, &text);
}
