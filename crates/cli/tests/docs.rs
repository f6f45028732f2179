//! The commands in the documentation, executed: every line `$ weft …` of a `console` block, page by
//! page and in order; also those of `tshark`, where there is one. Each page is a test of its own.
//!
//! `weft serve` runs in the background until the end of its page. Ports are moved to free ones, and
//! `--runtime` is shortened. A command that is to fail has `|| echo $?` behind it, and its status in
//! the next line.

use crate::support::{Scratch, Server, run, weft};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use weft_testing::programs;
use weft_testing::wait::until;

/// Where servers listen.
const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A test for each page, and the list of them.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];

        /// The commands of a page work.
        mod commands_of {
            $(
                #[test]
                fn $test() {
                    super::execute($page);
                }
            )*
        }
    };
}

pages! {
    readme: "README.md",
    bench: "docs/bench.md",
    capture: "docs/capture.md",
    configuration: "docs/configuration.md",
    control: "docs/control.md",
    copy: "docs/copy.md",
    inspect: "docs/inspect.md",
    iscsi: "docs/iscsi.md",
    mirror: "docs/mirror.md",
    nbd: "docs/nbd.md",
    serve: "docs/serve.md",
}

#[test]
fn commands_of_all_pages_are_executed() {
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().display()));
    let has_commands = |page: &String| page.ends_with(".md") && !commands(page).is_empty();
    let mut found: Vec<String> =
        docs.chain(["README.md".to_owned()]).filter(has_commands).collect();
    found.sort();
    assert_eq!(found, PAGES);
}

/// A command of a page.
struct Line {
    is_weft: bool,
    command: String,
    status: i32,
}

fn commands(page: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let (mut inside, mut found) = (false, Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            inside = line == "```console";
        }
        let Some((program, command)) = line
            .strip_prefix("$ ")
            .and_then(|line| line.split_once(' '))
            .filter(|(program, _)| inside && ["weft", "tshark"].contains(program))
        else {
            continue;
        };
        let (command, status) = match command.strip_suffix(" || echo $?") {
            Some(command) => (command, lines.peek().unwrap().parse().unwrap()),
            None => (command, 0),
        };
        found.push(Line { is_weft: program == "weft", command: command.to_owned(), status });
    }
    found
}

/// What tshark prints, once a server has written that.
fn dissect(dir: &Path, words: &[String]) {
    until(&format!("tshark {words:?} finds something"), || {
        let ran = programs::command("tshark").args(words).current_dir(dir).output().unwrap();
        ran.status.success() && !ran.stdout.is_empty()
    });
}

/// The ports of the pages.
const PORTS: [&str; 5] = ["4420", "4421", "4422", "4423", "10809"];

/// Moves the ports of a page to free ones.
#[derive(Default)]
struct Ports(HashMap<String, u16>);

impl Ports {
    /// Each number of the word is looked at once: a free port may contain one of those of the pages.
    fn moved(&mut self, word: &str) -> String {
        let is_digit = |c: char| c.is_ascii_digit();
        let mut moved = String::new();
        let mut rest = word;
        while let Some(at) = rest.find(is_digit) {
            let (before, from) = rest.split_at(at);
            let end = from.find(|c| !is_digit(c)).unwrap_or(from.len());
            let (number, after) = from.split_at(end);
            moved.push_str(before);
            match PORTS.contains(&number) {
                true => moved.push_str(&self.free(number).to_string()),
                false => moved.push_str(number),
            }
            rest = after;
        }
        moved.push_str(rest);
        if moved.starts_with("--runtime=") { "--runtime=0.3".into() } else { moved }
    }

    fn free(&mut self, port: &str) -> u16 {
        *self.0.entry(port.to_owned()).or_insert_with(|| weft_testing::port::free(LOCAL))
    }
}

#[test]
fn a_port_is_moved_once() {
    let mut ports = Ports(HashMap::from([("4420".into(), 44225), ("4422".into(), 39965)]));
    let moved = ports.moved("nvme+tcp://127.0.0.1:4420/x:4422,44201");
    assert_eq!(moved, "nvme+tcp://127.0.0.1:44225/x:39965,44201");
}

/// The words of a command, of which some stand in double quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in command.split('"').enumerate() {
        if n % 2 == 1 {
            words.push(part.to_owned())
        } else {
            words.extend(part.split_whitespace().map(str::to_owned))
        }
    }
    words
}

/// Executes the commands of a page.
fn execute(page: &str) {
    let name = Path::new(page).file_stem().unwrap().to_string_lossy().into_owned();
    let dir = Scratch::new(&format!("docs-{name}"));
    let mut ports = Ports::default();
    let mut servers = Vec::new();
    let commands = commands(page);
    let dissects = commands.iter().all(|line| line.is_weft) || programs::have(&["tshark"]);
    for Line { is_weft, command, status } in &commands {
        let mut words: Vec<String> =
            words(command).into_iter().map(|word| ports.moved(&word)).collect();
        if !is_weft {
            if dissects {
                dissect(dir.path(), &words);
            }
            continue;
        }
        if words[0] == "serve" {
            if !words.iter().any(|word| word == "--listen") {
                words.extend(["--listen".into(), ports.moved("nvme+tcp://127.0.0.1:4420")]);
                servers.clear();
            }
            let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            servers.push(Server::start(dir.path(), &args));
            continue;
        }
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = run(weft(dir.path(), &args));
        assert_eq!(ran.code(), Some(*status), "{page}: weft {command}: {ran:?}");
    }
}
