//! The examples of the pages for contributors: whole files, and lines for files that exist.
//!
//! A fence of Rust is the file of an example that the paragraph before it names, or the file's end if
//! an earlier fence began it. A fence without such a name is skipped. A fence of `diff` has the lines
//! of a file behind `--- PATH`: those that stay, those that go (`-`) and those that come (`+`).

use anyhow::{Result, bail};
use xtask::markdown::Document;

use crate::{Edit, Texts, splice};

/// Does what a page says to these sources.
///
/// # Errors
/// The lines that a diff expects are not there, or more than once.
pub fn apply(page: &str, sources: &mut Texts) -> Result<()> {
    for fence in Document::parse(page).fences {
        match fence.info {
            "rust,ignore" => {
                if let Some(path) = file_of(&fence.before.join(" ")) {
                    let text = sources.entry(path).or_default();
                    let gap = if text.is_empty() { "" } else { "\n" };
                    *text += &format!("{gap}{}\n", fence.lines.join("\n"));
                }
            }
            "diff" => {
                for edit in edits(&fence.lines)? {
                    let (path, place) = edit.place(sources)?;
                    let text = splice(&sources[&path], vec![place])?;
                    sources.insert(path, text);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The first file of an example that a paragraph names.
fn file_of(paragraph: &str) -> Option<String> {
    let mut named = paragraph.split('`').skip(1).step_by(2);
    let is_file = |name: &&str| name.starts_with("crates/") && name.ends_with(".rs");
    named.find(|name| is_file(name) && name.contains("example")).map(str::to_owned)
}

/// The edits of a diff.
fn edits(lines: &[&str]) -> Result<Vec<Edit>> {
    let mut edits = Vec::<Edit>::new();
    for line in lines {
        if let Some(path) = line.strip_prefix("--- ") {
            edits.push(Edit { path: path.into(), ..Edit::default() });
            continue;
        }
        let (Some(edit), Some((mark, rest))) = (edits.last_mut(), line.split_at_checked(1)) else {
            bail!("{line}: a diff begins with `--- PATH`, and has no empty line");
        };
        let (stays, text) = (mark == " ", format!("{rest}\n"));
        match mark {
            " " | "-" | "+" => {}
            _ => bail!("{line}: a line of a diff begins with a space, + or -"),
        }
        if stays || mark == "-" {
            edit.find += &text;
        }
        if stays || mark == "+" {
            edit.put += &text;
        }
    }
    Ok(edits)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xtask::sh;

    use super::*;
    use crate::{Target, cargo, copy, sources};

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
        assert_eq!(new.len(), 9, "{new:?}");
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
        let copy = copy("tutorials", &with_examples(), Target::Shared).unwrap();
        let run = |subcommand, args: &[&str]| {
            let mut command = cargo(subcommand, &copy, Target::Shared).unwrap();
            sh::run(command.args(["--offline"]).args(args)).unwrap();
        };
        run("test", &["-p", "weft-target", "--lib", "--", "export::example"]);
        run("test", &["-p", "weft-endpoint", "--lib", "--", "example"]);
        run("check", &["-p", "weft-server", "--all-targets"]);
    }
}
