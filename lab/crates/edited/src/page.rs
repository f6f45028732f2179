//! The examples of the pages for contributors: whole files, and lines for files that exist.
//!
//! A fence of Rust is the file that the paragraph before it names, or its end if there was one
//! before. A fence of `diff` has the lines of a file behind `--- PATH`: those that stay, those that
//! go (`-`) and those that come (`+`).

use anyhow::{Context, Result, bail, ensure};

use crate::Texts;

/// The directory of files whose path begins with no crate.
const ENDPOINT: &str = "crates/endpoint/src/";

/// Does what a page says to these sources.
///
/// # Errors
/// A fence names no file; the lines that a diff expects are not there, or more than once.
pub fn apply(page: &str, sources: &mut Texts) -> Result<()> {
    let (mut paragraph, mut previous) = (String::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            if line.is_empty() && !paragraph.is_empty() {
                previous = std::mem::take(&mut paragraph);
            } else if !line.is_empty() {
                paragraph += &format!("{line} ");
            }
            continue;
        };
        let fence: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match kind {
            "rust,ignore" => {
                if let Some(path) = file_of(&previous) {
                    let text = sources.entry(path).or_default();
                    *text += &format!(
                        "{}{}\n",
                        if text.is_empty() { "" } else { "\n" },
                        fence.join("\n")
                    );
                }
            }
            "diff" => diff(&fence, sources)?,
            _ => {}
        }
    }
    Ok(())
}

/// The first file of an example that a paragraph names.
fn file_of(paragraph: &str) -> Option<String> {
    let named = paragraph.split('`').skip(1).step_by(2);
    let path = named.into_iter().find(|name| name.ends_with(".rs") && name.contains("example"))?;
    Some(if path.starts_with("crates/") { path.to_owned() } else { format!("{ENDPOINT}{path}") })
}

fn diff(lines: &[&str], sources: &mut Texts) -> Result<()> {
    let paths = lines.iter().filter_map(|line| line.strip_prefix("--- "));
    let parts = lines.split(|line| line.starts_with("--- ")).skip(1);
    for (path, changes) in paths.zip(parts) {
        let text = sources.get_mut(path).with_context(|| format!("no such file: {path}"))?;
        let (mut from, mut to) = (String::new(), String::new());
        for line in changes {
            let (mark, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
            match mark {
                " " => [&mut from, &mut to].into_iter().for_each(|it| *it += &format!("{rest}\n")),
                "-" => from += &format!("{rest}\n"),
                "+" => to += &format!("{rest}\n"),
                _ => bail!("{line}: a line of a diff begins with a space, + or -"),
            }
        }
        let times = text.matches(&from).count();
        ensure!(times == 1, "{path} has this {times} times:\n{from}");
        *text = text.replacen(&from, &to, 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xtask::sh;

    use super::*;
    use crate::{cargo, copy, sources};

    /// The sources with the examples of both pages.
    fn with_examples() -> Texts {
        let mut texts = sources().unwrap();
        for page in ["add-an-export", "add-a-source"] {
            let path = sh::root().join(format!("docs/contributing/{page}.md"));
            apply(&fs::read_to_string(path).unwrap(), &mut texts).unwrap();
        }
        texts
    }

    #[test]
    fn examples_name_their_files() {
        let (before, after) = (sources().unwrap(), with_examples());
        let new: Vec<&String> = after.keys().filter(|path| !before.contains_key(*path)).collect();
        assert_eq!(new.len(), 8, "{new:?}");
        assert!(new.iter().all(|path| path.contains("example")), "{new:?}");
    }

    #[test]
    fn a_diff_finds_its_place_or_fails() {
        let page = "```diff\n--- a.rs\n one\n-two\n+three\n```\n";
        let texts = |text: &str| Texts::from([("a.rs".to_owned(), text.to_owned())]);
        let mut right = texts("zero\none\ntwo\nfour\n");
        apply(page, &mut right).unwrap();
        assert_eq!(right["a.rs"], "zero\none\nthree\nfour\n");
        for wrong in ["one\nfour\n", "one\ntwo\none\ntwo\n"] {
            assert!(apply(page, &mut texts(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    #[ignore = "builds a copy: cargo xtask long tutorials"]
    fn examples_work() {
        let copy = copy("tutorials", &with_examples()).unwrap();
        let run = |subcommand, args: &[&str]| {
            let mut command = cargo(subcommand, &copy).unwrap();
            sh::run(command.args(["--offline"]).args(args)).unwrap();
        };
        run("test", &["-p", "weft-endpoint", "--lib", "--", "export::example", "source::example"]);
        run("check", &["-p", "weft-server", "--all-targets"]);
    }
}
