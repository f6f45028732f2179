//! `weft study publish`: a site of many studies in a directory.

use super::reading::results;
use crate::limits::{SITE_LIST_BYTES_MAX, SITE_STUDIES_MAX};
use crate::process::exit::Failure;
use clap::Args;
use std::collections::BTreeSet;
use std::io::{ErrorKind as IoKind, Read, Write};
use std::path::{Path, PathBuf};
use weft_bench::report::{INDEX, SiteFile, site};
use weft_block::ErrorKind;
use weft_io::durable::{Readers, replace_soon};

/// Options of `weft study publish`.
#[derive(Args, Debug)]
pub struct PublishArgs {
    /// Directory of the site; files in it that weft did not make are left alone
    directory: PathBuf,
    /// The results.json of each study
    #[arg(required = true)]
    results: Vec<PathBuf>,
}

/// The file that lists what a site is made of.
const LIST: &str = "weft-site.txt";

/// Its first line.
const HEAD: &str = "Files that weft study publish has made, and replaces or removes:";

/// The name of a file until it has all its bytes.
const FRESH: &str = "weft-site.new";

impl PublishArgs {
    /// Writes the site, or leaves the one that is there.
    pub fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        if self.results.len() > SITE_STUDIES_MAX {
            let problem = format!("a site has at most {SITE_STUDIES_MAX} studies");
            return Err(Failure::of(ErrorKind::Usage, problem));
        }
        let studies = self.results.iter().map(|path| results(path)).collect::<Result<_, _>>()?;
        let pages = site(studies)?;
        let directory = Directory(&self.directory);
        let known = directory.known()?;
        directory.check(&pages, &known)?;
        directory.write(&pages, &known)?;
        let index = self.directory.join(INDEX);
        writeln!(out, "Site: {}, {} studies", index.display(), pages.len() / 2)?;
        Ok(())
    }
}

/// The directory of a site.
struct Directory<'a>(&'a Path);

impl Directory<'_> {
    /// The files that an earlier run has made.
    fn known(&self) -> Result<BTreeSet<String>, Failure> {
        let path = self.0.join(LIST);
        let mut text = String::new();
        match std::fs::File::open(&path) {
            Err(e) if e.kind() == IoKind::NotFound => return Ok(BTreeSet::new()),
            other => other
                .and_then(|file| file.take(SITE_LIST_BYTES_MAX).read_to_string(&mut text))
                .map_err(|e| failed("cannot read", &path, e))?,
        };
        let mut lines = text.lines();
        let is_list = lines.next() == Some(HEAD) && lines.clone().all(is_ours);
        if !is_list {
            let problem = format!(
                "{} is not a list of weft study publish; choose another directory",
                path.display()
            );
            return Err(Failure::of(ErrorKind::Usage, problem));
        }
        Ok(lines.map(str::to_owned).collect())
    }

    /// Refuses to replace what an earlier run did not make.
    fn check(&self, pages: &[SiteFile], known: &BTreeSet<String>) -> Result<(), Failure> {
        for page in pages {
            let path = self.0.join(&page.path);
            let directory = path.parent().filter(|_| page.path != INDEX);
            let is_led = directory.is_some_and(|of| is_there(of) && !is_directory(of));
            if is_led || is_there(&path) && !known.contains(&page.path) {
                let problem = format!(
                    "{} is there, and weft study publish did not make it: move it, or choose another directory",
                    path.display()
                );
                return Err(Failure::of(ErrorKind::InUse, problem));
            }
        }
        Ok(())
    }

    /// Writes the reports, then the index, and removes what the new site no longer has. Until the
    /// index is replaced, the old one and all that it leads to are there.
    fn write(&self, pages: &[SiteFile], known: &BTreeSet<String>) -> Result<(), Failure> {
        let new: BTreeSet<String> = pages.iter().map(|page| page.path.clone()).collect();
        std::fs::create_dir_all(self.0).map_err(|e| failed("cannot make", self.0, e))?;
        self.list(&known.union(&new).cloned().collect())?;
        for page in pages {
            self.put(&page.path, &page.content)?;
        }
        for stale in known.difference(&new) {
            let path = self.0.join(stale);
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != IoKind::NotFound => {
                    return Err(failed("cannot remove", &path, e));
                }
                // A directory with files of others stays.
                _ => _ = path.parent().map(std::fs::remove_dir),
            }
        }
        self.list(&new)
    }

    fn list(&self, files: &BTreeSet<String>) -> Result<(), Failure> {
        let lines = files.iter().map(|file| format!("{file}\n"));
        self.put(LIST, &format!("{HEAD}\n{}", lines.collect::<String>()))
    }

    fn put(&self, name: &str, content: &str) -> Result<(), Failure> {
        let path = self.0.join(name);
        let directory = path.parent().unwrap_or(self.0);
        std::fs::create_dir_all(directory).map_err(|e| failed("cannot make", directory, e))?;
        let fresh = directory.join(FRESH);
        replace_soon(&path, &fresh, content.as_bytes(), Readers::Mask)
            .map_err(|e| failed("cannot write", &path, e))
    }
}

/// Returns whether a line of the list names a file that a site can have: nothing outside of it.
fn is_ours(line: &str) -> bool {
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    match line.split_once('/') {
        None => line == INDEX,
        Some((id, name)) => {
            !id.is_empty()
                && id.chars().all(plain)
                && ["report.html", "results.json"].contains(&name)
        }
    }
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

fn is_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir())
}

fn failed(what: &str, path: &Path, error: std::io::Error) -> Failure {
    weft_block::Error::io(format!("{what} {}: {error}", path.display()), error).into()
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn a_list_names_nothing_outside_of_the_site() {
        assert!(is_ours("index.html") && is_ours("2026-11-24-null-0123abcd/report.html"));
        for line in [
            "",
            "..",
            "../index.html",
            "/etc/passwd",
            "a/../b",
            "a/b/report.html",
            "a/x",
            "A/report.html",
            "/report.html",
        ] {
            assert!(!is_ours(line), "{line}");
        }
    }
}
