//! The page of a release: the packages with their sums, what is in the programs, and where to report
//! vulnerabilities.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use lab_windows::toolchain::TARGET;
use xtask::{VERSION, built::FULL, sh};

use super::{archive::SUMS, bom, notices, staged, windows};

/// The page.
const PAGE: &str = "RELEASE.md";

/// What is in the programs, by system.
const LINUX: &str = "-linux.cdx.json";
const WINDOWS: &str = "-windows.cdx.json";

/// How names of packages end, and for whom they are.
const PACKAGES: [(&str, &str); 5] = [
    (".deb", "Debian, Ubuntu"),
    (".rpm", "Fedora, RHEL"),
    (".tar.gz", "another Linux with the GNU C library"),
    (".tar", "containers"),
    (".zip", "Windows"),
];

/// The same of lists of parts.
const LISTS: [(&str, &str); 2] = [
    (LINUX, "what is in the program for Linux (SBOM in the form of CycloneDX)"),
    (WINDOWS, "what is in the program for Windows (SBOM in the form of CycloneDX)"),
];

/// Options of `cargo xtask package release`.
#[derive(Args)]
pub struct ReleaseArgs {
    /// Address or URL for private reports of vulnerabilities
    #[arg(long, value_name = "ADDRESS")]
    report_to: String,
    /// Directory of the packages [default: target/package]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// A file that is downloaded.
struct Download {
    name: String,
    about: &'static str,
    bytes: u64,
    /// By SHA-256.
    sum: String,
}

/// Lists the parts of the programs that are packed, and writes the sums and the page.
pub fn run(args: &ReleaseArgs) -> Result<()> {
    let out = args.out.clone().unwrap_or_else(|| sh::target_dir().join("package"));
    let packages = named(&out, &PACKAGES)?;
    ensure!(
        !packages.is_empty(),
        "there are no packages of version {VERSION} in {}: make them first",
        out.display()
    );
    write_parts(&out, &packages)?;
    let mut files = packages;
    files.extend(named(&out, &LISTS)?);
    let names = files.iter().map(|(name, _)| name);
    let sums = sh::output(Command::new("sha256sum").current_dir(&out).arg("--").args(names))?;
    fs::write(out.join(SUMS), &sums)?;
    let downloads = files
        .into_iter()
        .zip(sums.lines())
        .map(|((name, about), line)| download(&out, name, about, line));
    let downloads = downloads.collect::<Result<Vec<_>>>()?;
    let commit = lab_host::machine::commit().unwrap_or_else(|_| "unknown".into());
    let text = page(&commit, &args.report_to, &downloads);
    fs::write(out.join(PAGE), &text)?;
    print!("{text}");
    Ok(())
}

/// Files of this version whose names end in one of these ways, and what they are for.
fn named(
    out: &Path,
    kinds: &[(&'static str, &'static str)],
) -> Result<Vec<(String, &'static str)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(out).with_context(|| format!("there is no {}", out.display()))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_of_version = ["weft-", "weft_"].iter().any(|start| {
            let rest = name.strip_prefix(start).and_then(|name| name.strip_prefix(VERSION));
            rest.is_some_and(|rest| rest.starts_with(['-', '_']))
        });
        let kind = kinds.iter().find(|(ending, _)| name.ends_with(ending));
        if let (true, true, Some((_, about))) = (entry.file_type()?.is_file(), is_of_version, kind)
        {
            found.push((name, *about));
        }
    }
    found.sort();
    Ok(found)
}

/// Lists the parts of the programs in these packages.
fn write_parts(out: &Path, packages: &[(String, &str)]) -> Result<()> {
    let is_windows = |(name, _): &(String, &str)| name.ends_with(".zip");
    let mut programs = Vec::new();
    if !packages.iter().all(is_windows) {
        programs.push((LINUX, notices::metadata(&staged::host()?, &[FULL])?));
    }
    if packages.iter().any(is_windows) {
        programs.push((WINDOWS, notices::metadata(TARGET, &windows::FEATURES)?));
    }
    for (ending, metadata) in programs {
        fs::write(out.join(format!("weft-{VERSION}{ending}")), bom::of_program(&metadata)?)?;
    }
    Ok(())
}

fn download(out: &Path, name: String, about: &'static str, line: &str) -> Result<Download> {
    let (sum, of) = line.split_once("  ").context("sha256sum prints a sum and a name")?;
    ensure!(of == name, "sha256sum tells a sum of {of} where {name} comes");
    let bytes = out.join(&name).metadata()?.len();
    Ok(Download { name, about, bytes, sum: sum.to_owned() })
}

/// The page of these files.
fn page(commit: &str, report_to: &str, downloads: &[Download]) -> String {
    let row = |it: &Download| {
        format!("| [{}]({}) | {} | {} | `{}` |\n", it.name, it.name, it.about, it.bytes, it.sum)
    };
    let rows: String = downloads.iter().map(row).collect();
    format!(
        "# weft {VERSION}

Commit `{commit}`. Each package has the changes (`CHANGELOG.md`), the licences of its parts and how to install it
(`docs/install.md`); the zip for Windows has the licences.

| file | for | bytes | SHA-256 |
|---|---|---:|---|
{rows}
`sha256sum --check {SUMS}` finds what changed on its way. Sums that come by the same way as the packages do not show
who made them.

Report vulnerabilities in private to {report_to}. `SECURITY.md` says what is promised.
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_version_are_listed() {
        let scratch = tempfile::tempdir().unwrap();
        let deb = format!("weft_{VERSION}_amd64.deb");
        let image = format!("weft-{VERSION}-image-x86_64.tar");
        for name in
            [deb.as_str(), &image, "weft_0.0.9_amd64.deb", "weft-0.0.9-linux.cdx.json", SUMS]
        {
            fs::write(scratch.path().join(name), "abc").unwrap();
        }
        fs::create_dir(scratch.path().join(format!("weft-{VERSION}-directory.tar"))).unwrap();
        let found = named(scratch.path(), &PACKAGES).unwrap();
        assert_eq!(found, [(image, "containers"), (deb.clone(), "Debian, Ubuntu")]);
        assert!(named(scratch.path(), &LISTS).unwrap().is_empty());

        let line = format!("0123  {deb}");
        let one = download(scratch.path(), deb.clone(), "Debian", &line).unwrap();
        let text = page("abc", "security@example.org", &[one]);
        let row = format!("| [{deb}]({deb}) | Debian | 3 | `0123` |\n");
        assert!(text.contains(&row) && text.contains("private to security@example.org."), "{text}");
        assert!(download(scratch.path(), "other".into(), "", &line).is_err());
    }
}
