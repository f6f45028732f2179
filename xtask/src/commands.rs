//! Commands in the documents: the lines of fenced blocks that a reader types into a shell.

use crate::{files, markdown::Document};

/// The words behind a fence that announce commands.
const SHELL: [&str; 3] = ["console", "sh", "bash"];

/// All programs with their arguments that the documents start, each with its page and line.
pub fn all() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (path, text) in files::markdown() {
        for line in in_document(&text) {
            let place = format!("{path}: {line}");
            found.extend(simple(&line).into_iter().map(|command| (place.clone(), command)));
        }
    }
    found
}

/// The commands `cargo xtask TOOL …` in the documents that `parse` does not accept, each with the
/// reason. `parse` gets a name for the program, then the words behind the tool's name.
pub fn faults(tool: &str, parse: impl Fn(&[String]) -> Result<(), String>) -> Vec<String> {
    let is_of_tool = |command: &[String]| matches!(command, [cargo, xtask, name, ..] if cargo == "cargo" && xtask == "xtask" && name == tool);
    let found = all().into_iter().filter(|(_, command)| is_of_tool(command));
    found
        .filter_map(|(place, command)| {
            parse(&command[2..]).err().map(|error| format!("{place}: {error}"))
        })
        .collect()
}

/// The commands in a document's fenced blocks: without prompt, continued lines joined, output left
/// out.
fn in_document(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for fence in Document::parse(text).fences {
        let kind = fence.info.split([',', ' ']).next().unwrap_or_default();
        if !SHELL.contains(&kind) {
            continue;
        }
        let mut command = String::new();
        for line in fence.lines {
            let prompted = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
            match prompted {
                Some(line) => command.push_str(line),
                None if kind == "console" && command.is_empty() => continue,
                None => command.push_str(line.trim()),
            }
            if let Some(continued) = command.strip_suffix('\\') {
                command.truncate(continued.len());
            } else {
                found.push(std::mem::take(&mut command));
            }
        }
    }
    found
}

/// The programs with their arguments that a shell line starts, as far as the line is plain. What
/// stands in quotes is left empty.
fn simple(line: &str) -> Vec<Vec<String>> {
    let line: String = line.split('"').step_by(2).collect();
    let line = line.split(" #").next().unwrap_or_default();
    let parts = line.split(['|', '&', ';', '>', '<']);
    parts
        .map(|part| {
            part.split_whitespace().skip_while(|word| *word == "sudo").map(str::to_owned).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_their_blocks() {
        let text = "```console\n$ weft bench URL \\\n    --rw=read\nIOPS 12\n```\n```json\nweft none\n```\n";
        assert_eq!(in_document(text), ["weft bench URL --rw=read"]);
        assert_eq!(
            simple("sudo weft serve ram:1GiB & weft id-ctrl URL | jq .sn")[1],
            ["weft", "id-ctrl", "URL"]
        );
        assert_eq!(
            simple("weft bench URL --diskspd \"-b4K | -w30\" -n 1")[0],
            ["weft", "bench", "URL", "--diskspd", "-n", "1"]
        );
    }

    #[test]
    fn a_tool_is_asked_about_its_own_commands() {
        let refuse = |words: &[String]| Err(words.join(" "));
        let found = faults("lab", refuse);
        assert!(found.iter().any(|fault| fault.ends_with(": lab setup")), "{found:?}");
        assert!(found.iter().all(|fault| fault.contains("cargo xtask lab")), "{found:?}");
        assert!(faults("lab", |_| Ok(())).is_empty());
    }
}
