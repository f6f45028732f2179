//! Help that begins short: `-h` shows an example and the options that matter, `--help` those of the
//! command itself, `weft help TOPIC` what several commands have, and `weft help COMMAND` everything.

mod essential;
mod groups;
pub mod headings;
mod topics;

use std::io::Write;

use clap::{Args, Command};
use topics::{TOPICS, Topic};
use weft_block::ErrorKind;

use crate::process::exit::{Failure, printed};

/// How a command's help is set: the example before the options.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Likewise of the program: its commands are in groups.
const TEMPLATE_OF_ALL: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// Options of `weft help`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft help serve
      all options of weft serve
  weft help connection
      options of connections to targets, which several commands have")]
pub struct HelpArgs {
    /// A command, as in `config check`, or a topic
    words: Vec<String>,
}

/// Prints the help of a command, or of a topic.
pub fn run(args: &HelpArgs, weft: Command) -> Result<(), Failure> {
    let text = text(args, weft)?;
    printed(std::io::stdout().lock().write_all(text.as_bytes()))
}

fn text(args: &HelpArgs, mut weft: Command) -> Result<String, Failure> {
    if args.words.is_empty() {
        return Ok(arranged(weft).render_long_help().to_string());
    }
    if let [word] = &args.words[..]
        && let Some(topic) = Topic::named(word)
    {
        return Ok(topic.text(&weft));
    }
    weft.build();
    let mut command = &weft;
    for word in &args.words {
        command = command.find_subcommand(word).ok_or_else(|| {
            let text = format!("there is no command or topic {word:?}; `weft help` lists them");
            Failure::of(ErrorKind::Usage, text)
        })?;
    }
    Ok(command.clone().render_long_help().to_string())
}

/// The command line. Its help is put into this form where somebody reads it: that takes longer than
/// most commands do.
pub fn command(weft: fn() -> Command) -> Command {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let is_read = words.is_empty() || words.iter().any(|word| word == "-h" || word == "--help");
    if is_read { arranged(weft()) } else { weft() }
}

/// The command line with its help in this form.
fn arranged(weft: Command) -> Command {
    let (named, described) = (groups::named(), groups::described(&weft));
    let more = format!(
        "More:\n  weft COMMAND -h        an example, and the options that most need\n  weft COMMAND --help    all of its own options\n{}",
        topics::listed(&TOPICS)
    );
    let weft = weft
        .before_help(named)
        .before_long_help(described)
        .after_help("`weft --help` says what each is for.")
        .after_long_help(more)
        .help_template(TEMPLATE_OF_ALL);
    let weft = weft.mut_args(|option| match option.get_help_heading() {
        Some(headings::LOG) => option.hide_short_help(true).hide_long_help(true),
        _ => option,
    });
    weft.mut_subcommands(|command| one(command, ""))
}

/// The help of one command and those below it.
fn one(command: Command, above: &str) -> Command {
    let name = command.get_name().to_owned();
    let path = format!("{above}{name}");
    let below = format!("{path} ");
    let command = command.mut_subcommands(|command| one(command, &below));
    let Some(text) = command.get_after_help().map(ToString::to_string) else { return command };
    let (essential, topics) = (essential::of(&path), topics::of(&command));
    let (examples, other): (Vec<&str>, Vec<&str>) =
        text.split("\n\n").partition(|part| part.starts_with("Example"));
    let (examples, other) = (&examples.join("\n\n"), &other.join("\n\n"));
    let (shorter, longer) =
        (pointers(&path, essential.is_some(), &[]), pointers(&path, false, &topics));
    let longer = [other, longer.as_str()].map(str::trim_end);
    let longer = longer.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    command
        .before_help(first(examples))
        .before_long_help(examples.clone())
        .after_help(shorter)
        .after_long_help(longer.join("\n\n"))
        .help_template(TEMPLATE)
        .mut_args(|option| {
            let explained = topics::explains(&name, &option);
            let option = match topics::is_demand(&name, &option) {
                true => option.help_heading(headings::LET_IN),
                false => option,
            };
            let short = match (essential, option.get_long()) {
                (Some(shown), Some(name)) => shown.contains(&name),
                (_, None) => true,
                (None, _) => !explained,
            };
            option.hide_short_help(!short).hide_long_help(explained)
        })
}

/// The first of some examples.
fn first(examples: &str) -> String {
    let is_example = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let lines: Vec<&str> = examples.lines().skip(1).collect();
    let next = lines.iter().skip(1).position(is_example).map_or(lines.len(), |at| at + 1);
    if lines.is_empty() { String::new() } else { format!("Example:\n{}", lines[..next].join("\n")) }
}

/// Where there is more.
fn pointers(path: &str, has_more: bool, topics: &[&Topic]) -> String {
    if !topics.is_empty() {
        let all = format!("  weft help {path:<12} all of these options, too");
        return format!("More:\n{}\n{all}", topics::listed(topics.iter().copied()));
    }
    if has_more {
        format!(
            "`weft {path} --help` explains all options, `weft help connection` those of connections."
        )
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests;
