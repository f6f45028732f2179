//! The licences of all that is in a program: the texts that come with each package, once each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail};
use lab_licences::spdx;
use serde_json::Value;
use xtask::sh;

/// What files with a licence are called, in upper case.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// Whose licence stands for packages that have it, too, and bring no text.
const OWN: &str = "Apache-2.0";

/// A package in the program.
struct Part {
    /// Name and version.
    name: String,
    expression: String,
    /// Texts that come with it.
    texts: Vec<String>,
}

/// The texts of all packages that `weft` contains, by what cargo knows of it.
///
/// `others`: parts that cargo does not know, and the files with their texts.
pub fn of_program(metadata: &Value, others: &[(&str, impl AsRef<Path>)]) -> Result<String> {
    let mut parts = Vec::new();
    for package in packages(metadata)? {
        parts.push(part(package)?);
    }
    for (name, file) in others {
        let file = file.as_ref();
        let text = fs::read_to_string(file)
            .with_context(|| format!("cannot read the licence of {name}, {}", file.display()))?;
        parts.push(Part { name: (*name).into(), expression: String::new(), texts: vec![text] });
    }
    page(&parts, &fs::read_to_string(sh::root().join("LICENSE-APACHE"))?)
}

/// Returns cargo's metadata of `weft` when it is built for a target with some features.
pub fn metadata(target: &str, features: &[&str]) -> Result<Value> {
    metadata_of("crates/cli", target, features)
}

/// The same of the package in a directory of the repository.
pub fn metadata_of(directory: &str, target: &str, features: &[&str]) -> Result<Value> {
    let mut cargo = sh::cargo("metadata");
    cargo.args(["--format-version=1", "--locked"]);
    cargo.arg(format!("--manifest-path={directory}/Cargo.toml"));
    cargo.arg(format!("--filter-platform={target}"));
    cargo.arg(format!("--features={}", features.join(",")));
    Ok(serde_json::from_str(&sh::output(&mut cargo)?)?)
}

/// The packages of others that end up in the program: what it depends on, and what these do, but
/// neither what builds them nor macros, which run in the compiler. What is linked in is there by a
/// build script; such sources are packages named `-src`.
pub fn packages(metadata: &Value) -> Result<Vec<&Value>> {
    let all: BTreeMap<&str, &Value> = list(&metadata["packages"])
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let root = metadata["resolve"]["root"].as_str().context("cargo names no root")?;
    let (mut seen, mut left) = (BTreeSet::new(), vec![root]);
    while let Some(id) = left.pop() {
        let package = all.get(id).with_context(|| format!("cargo does not describe {id}"))?;
        if is_macro(package) || !seen.insert(id) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("cargo does not resolve {id}"))?;
        for dependency in list(&node["deps"]) {
            let is_linked = list(&dependency["dep_kinds"]).any(|it| it["kind"].is_null());
            let name = dependency["name"].as_str().unwrap_or_default();
            if let Some(id) = dependency["pkg"].as_str()
                && (is_linked || name.ends_with("_src"))
            {
                left.push(id);
            }
        }
    }
    let foreign = seen.into_iter().map(|id| all[id]).filter(|package| !package["source"].is_null());
    Ok(foreign.collect())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_macro(package: &Value) -> bool {
    list(&package["targets"]).any(|target| list(&target["kind"]).any(|kind| kind == "proc-macro"))
}

/// A package with its texts.
fn part(package: &Value) -> Result<Part> {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let manifest = Path::new(text("manifest_path"));
    let directory = manifest.parent().context("a package has a directory")?;
    let mut files = Vec::new();
    // Sources of other languages stand one level below, in a directory with their name.
    let inner = text("name").strip_suffix("-src").map(|name| directory.join(name));
    for directory in [Some(directory.to_path_buf()), inner].into_iter().flatten() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_uppercase();
            if entry.file_type()?.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Part {
        name: format!("{} {}", text("name"), text("version")),
        expression: text("license").to_owned(),
        texts: files.iter().map(read).collect::<Result<_, _>>()?,
    })
}

/// All parts, and each text once with the parts that it is about. Parts without a text are about
/// `own` if their licence is that.
fn page(parts: &[Part], own: &str) -> Result<String> {
    let mut texts = BTreeMap::<String, BTreeSet<&str>>::new();
    for part in parts {
        if !part.texts.is_empty() {
            for text in &part.texts {
                texts.entry(plain(text)).or_default().insert(&part.name);
            }
        } else if spdx::satisfied(&part.expression, &mut |licence| licence == OWN)? {
            texts.entry(plain(own)).or_default().insert(&part.name);
        } else {
            bail!("{} is under {}, and brings no text of that", part.name, part.expression);
        }
    }
    let mut page = String::from(
        "weft contains the following, in addition to its own code (LICENSE-APACHE, LICENSE-MIT).\n\n",
    );
    for part in parts {
        let expression = match part.expression.as_str() {
            "" => "see its text",
            expression => expression,
        };
        page += &format!("  {} ({expression})\n", part.name);
    }
    let mut sections: Vec<(Vec<&str>, &String)> =
        texts.iter().map(|(text, names)| (names.iter().copied().collect(), text)).collect();
    sections.sort();
    for (names, text) in sections {
        page += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(78), names.join("\n"));
    }
    Ok(page)
}

/// A text without what makes copies of it differ: ends of lines, and space around it.
fn plain(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, expression: &str, texts: &[&str]) -> Part {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Part { name: name.into(), expression: expression.into(), texts }
    }

    #[test]
    fn a_text_stands_once_with_all_that_it_is_about() {
        let parts = [
            named("a 1", "MIT", &["Permission\r\nis granted\n"]),
            named("b 2", "MIT OR Apache-2.0", &[]),
            named("c 3", "MIT", &["\nPermission\nis granted  \n", "Notice"]),
        ];
        let page = page(&parts, "Our text").unwrap();
        assert_eq!(page.matches("Permission\nis granted").count(), 1, "{page}");
        assert!(page.contains("\na 1\nc 3\n\nPermission"), "{page}");
        assert!(page.contains("\nb 2\n\nOur text") && page.contains("\nc 3\n\nNotice"), "{page}");
        assert!(page.contains("  c 3 (MIT)\n"), "{page}");
    }

    #[test]
    fn a_part_without_a_text_of_its_licence_is_an_error() {
        let error = page(&[named("a 1", "MIT", &[])], "Our text").unwrap_err();
        assert_eq!(error.to_string(), "a 1 is under MIT, and brings no text of that");
    }

    #[test]
    fn what_is_linked_is_found_and_what_builds_it_is_not() {
        let metadata = serde_json::json!({
            "packages": [
                {"id": "weft", "source": null, "targets": []},
                {"id": "lib", "source": "r", "targets": [{"kind": ["lib"]}]},
                {"id": "deep", "source": "r", "targets": [{"kind": ["lib"]}]},
                {"id": "tool", "source": "r", "targets": [{"kind": ["lib"]}]},
                {"id": "ssl-src", "source": "r", "targets": [{"kind": ["lib"]}]},
                {"id": "macros", "source": "r", "targets": [{"kind": ["proc-macro"]}]},
            ],
            "resolve": {"root": "weft", "nodes": [
                {"id": "weft", "deps": [
                    {"name": "lib", "pkg": "lib", "dep_kinds": [{"kind": null}]},
                    {"name": "tool", "pkg": "tool", "dep_kinds": [{"kind": "dev"}, {"kind": "build"}]},
                    {"name": "ssl_src", "pkg": "ssl-src", "dep_kinds": [{"kind": "build"}]},
                    {"name": "macros", "pkg": "macros", "dep_kinds": [{"kind": null}]},
                ]},
                {"id": "lib", "deps": [
                    {"name": "deep", "pkg": "deep", "dep_kinds": [{"kind": "dev"}, {"kind": null}]},
                ]},
                {"id": "deep", "deps": []}, {"id": "tool", "deps": []}, {"id": "ssl-src", "deps": []},
                {"id": "macros", "deps": [
                    {"name": "tool", "pkg": "tool", "dep_kinds": [{"kind": null}]},
                ]},
            ]},
        });
        let found = packages(&metadata).unwrap();
        let ids: Vec<_> = found.iter().map(|package| package["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["deep", "lib", "ssl-src"]);
    }
}
