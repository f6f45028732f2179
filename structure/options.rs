//! Each option of each command, and each kind of URL, stands in a table of its page.

use std::process::{Command, Stdio};

use crate::{
    commands::{Helps, mentions},
    demand, files,
    markdown::Document,
};

/// The page that has the options of connections in its table.
const CONNECTIONS: &str = "docs/serve.md";

/// Of nvme-cli's verbs.
const VERBS: [&str; 3] = ["docs/nvme-cli.md", "docs/inspect.md", CONNECTIONS];

/// The pages whose tables have the options of a command; all subcommands of it have the same ones.
const PAGES: [(&str, &[&str]); 58] = [
    ("serve", &["docs/serve.md"]),
    ("service", &["docs/windows.md"]),
    ("apply", &["docs/control.md"]),
    ("namespace", &["docs/control.md"]),
    ("host", &["docs/control.md"]),
    ("ana", &["docs/control.md"]),
    ("gateway", &["docs/control.md"]),
    ("capture", &["docs/capture.md", "docs/control.md"]),
    ("control", &["docs/control.md"]),
    ("status", &["docs/control.md"]),
    ("top", &["docs/control.md"]),
    ("config", &["docs/configuration.md"]),
    ("connect", &["docs/attach/linux.md", CONNECTIONS]),
    ("connect-all", &["docs/attach/persistent.md", "docs/attach/linux.md", CONNECTIONS]),
    ("disconnect", &["docs/attach/linux.md"]),
    ("list", &["docs/attach/linux.md"]),
    ("list-subsys", &["docs/attach/linux.md"]),
    ("daemon", &["docs/attach/persistent.md"]),
    ("discover", &["docs/inspect.md", CONNECTIONS]),
    ("id-ctrl", &["docs/inspect.md", CONNECTIONS]),
    ("id-ns", &["docs/inspect.md", CONNECTIONS]),
    ("list-ns", &["docs/inspect.md", CONNECTIONS]),
    ("get-log", &VERBS),
    ("smart-log", &VERBS),
    ("error-log", &VERBS),
    ("ana-log", &VERBS),
    ("effects-log", &VERBS),
    ("changed-ns-list-log", &VERBS),
    ("supported-log-pages", &VERBS),
    ("telemetry-log", &VERBS),
    ("get-feature", &VERBS),
    ("set-feature", &VERBS),
    ("show-regs", &VERBS),
    ("resv-report", &VERBS),
    ("resv-register", &VERBS),
    ("resv-acquire", &VERBS),
    ("resv-release", &VERBS),
    ("read", &VERBS),
    ("write", &VERBS),
    ("compare", &VERBS),
    ("verify", &VERBS),
    ("flush", &VERBS),
    ("write-zeroes", &VERBS),
    ("dsm", &VERBS),
    ("admin-passthru", &VERBS),
    ("io-passthru", &VERBS),
    ("limits", &["docs/inspect.md"]),
    ("completions", &[]),
    ("man", &[]),
    ("gen-dhchap-key", &["docs/security.md"]),
    ("check-dhchap-key", &["docs/security.md"]),
    ("gen-tls-key", &["docs/tls.md"]),
    ("check-tls-key", &["docs/tls.md"]),
    ("mirror", &["docs/mirror.md", CONNECTIONS]),
    ("copy", &["docs/copy.md", CONNECTIONS]),
    ("bench", &["docs/bench.md", CONNECTIONS]),
    ("study", &["docs/study.md", "docs/study/gate.md", "docs/study/publish.md", CONNECTIONS]),
    ("agent", &["docs/study/agents.md", CONNECTIONS]),
];

/// What every command takes. `docs/serve.md` has the options of the log.
const OF_ALL: [&str; 5] = ["--help", "--version", "--verbose", "--log-level", "--log-format"];

/// Pages that say to which sources they apply, and so name all schemes of the network.
const OF_THE_NETWORK: [&str; 3] = ["docs/serve.md", "docs/reconnect.md", "docs/multipath.md"];

#[test]
fn options_stand_in_the_tables_of_their_pages() {
    let mut helps = Helps::default();
    let mut faults = Vec::new();
    for command in subcommands(&helps.help("weft", &[]).expect("weft has a help")) {
        let Some((_, pages)) = PAGES.iter().find(|(name, _)| *name == command) else {
            faults.push(format!("weft {command}: name its page in this test"));
            continue;
        };
        let cells = pages.iter().flat_map(|page| first_cells(page)).collect::<Vec<_>>().join("\n");
        let help = helps.help("weft", &[&command]).expect("a command has a help");
        let mut texts = vec![(command.clone(), help.clone())];
        for below in subcommands(&help) {
            let help = helps.help("weft", &[&command, &below]).expect("a subcommand has a help");
            texts.push((format!("{command} {below}"), help));
        }
        for (command, help) in texts {
            let missing = options(&help)
                .into_iter()
                .filter(|option| !OF_ALL.contains(&option.as_str()) && !mentions(&cells, option));
            faults.extend(missing.map(|option| {
                format!("weft {command}: {option} is in no table of {}", pages.join(", "))
            }));
        }
    }
    let serve = first_cells(CONNECTIONS).join("\n");
    faults.extend(
        OF_ALL[2..]
            .iter()
            .filter(|option| !mentions(&serve, option))
            .map(|option| format!("{CONNECTIONS}: {option}")),
    );
    demand("users look for it there", faults);
}

#[test]
fn urls_stand_in_the_tables_of_their_pages() {
    let network = network_schemes();
    let cells = first_cells("docs/sources.md").join("\n");
    let mut faults = Vec::new();
    for scheme in local_schemes().iter().chain(&network) {
        if !holds(&cells, scheme) {
            faults.push(format!("docs/sources.md: {scheme} is in no table"));
        }
    }
    for page in OF_THE_NETWORK {
        let text = text(page);
        faults.extend(
            network
                .iter()
                .filter(|scheme| !holds(&text, scheme))
                .map(|scheme| format!("{page}: {scheme}")),
        );
    }
    demand("the page does not name the URL", faults);
}

fn text(page: &str) -> String {
    std::fs::read_to_string(files::root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// The first cells of all tables of a page.
fn first_cells(page: &str) -> Vec<String> {
    Document::parse(&text(page)).rows.iter().map(|row| row[0].to_owned()).collect()
}

/// The subcommands that a help text lists.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help.lines().take_while(|line| *line != "Options:");
    let names =
        listed.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names
        .filter_map(|line| line.split_once("  "))
        .map(|(name, _)| name)
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The long options that a help text explains.
fn options(help: &str) -> Vec<String> {
    // What explains them stands further right, and may mention others.
    let explained = help
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("        "))
        .filter_map(|line| {
            let line = line.trim_start();
            if line.starts_with("--") {
                Some(line)
            } else {
                line.strip_prefix('-')?.get(1..)?.strip_prefix(", ")
            }
        });
    let names = explained
        .filter_map(|line| line.split([' ', '=', '[']).next())
        .map(|name| name.trim_end_matches("..."));
    names.filter(|name| name.starts_with("--") && name.len() > 2).map(str::to_owned).collect()
}

/// What the URLs of the network begin with: the program lists them where one is wrong.
fn network_schemes() -> Vec<String> {
    let output = Command::new(xtask::built::debug_build("weft"))
        .args(["serve", "null:1MiB", "--listen", "none://"])
        .stdin(Stdio::null())
        .output();
    let output = output.expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, listed) = said
        .split_once("must start with")
        .unwrap_or_else(|| panic!("no list of schemes in {said:?}"));
    listed.split_whitespace().filter(|word| word.ends_with("://")).map(str::to_owned).collect()
}

/// What the other URLs begin with: those that the registry of devices compares with, lists, and
/// images of Ceph.
fn local_schemes() -> Vec<String> {
    let registry = text("crates/block/src/url/registry.rs");
    let (opened, _) = registry.split_once("#[cfg(test)]").expect("it has tests");
    let mut words: Vec<&str> =
        opened.split("Some(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let grammar = text("crates/block/src/url/grammar.rs");
    let lists = grammar
        .lines()
        .find(|line| line.starts_with("pub const LISTS"))
        .expect("it names the lists");
    words.extend(lists.split('"').skip(1).step_by(2));
    let ceph = files::below("crates/ceph/src", "rs");
    let image = ceph
        .iter()
        .flat_map(|(_, text)| text.lines())
        .find(|line| line.starts_with("pub const RBD:"));
    words.extend(
        image.and_then(|line| line.split('"').nth(1)).expect("it has a scheme").strip_suffix(':'),
    );
    words.sort_unstable();
    words.dedup();
    words.iter().map(|word| format!("{word}:")).collect()
}

/// Returns whether a text holds the scheme, and not only one that ends like it.
fn holds(text: &str, scheme: &str) -> bool {
    text.match_indices(scheme).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "+-".contains(letter))
    })
}

#[test]
fn helps_are_read() {
    let help = "Commands:\n  serve   Serve\n          and more\n  help    Print\n\nOptions:\n  -q, --hostnqn <NQN>\n          --no, not this\n\n      --eta[=<eta>]\n  -v, --verbose...\n";
    assert_eq!(subcommands(help), ["serve"]);
    assert_eq!(options(help), ["--hostnqn", "--eta", "--verbose"]);
    assert!(holds("`nbd://h`", "nbd://") && !holds("xnbd://h", "nbd://"));
}
