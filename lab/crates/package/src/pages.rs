//! The documentation in a package: all pages, in the places that they have to each other.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use xtask::sh;

/// What of it are pages, and pictures in them.
const KINDS: [&str; 2] = ["md", "png"];

/// Files beside them, which pages link to.
const OTHERS: [&str; 3] = ["README.md", "CONTRIBUTING.md", "SECURITY.md"];

/// Puts the pages below `to`: of `docs`, all files of the documentation, and others. `placed` are the files of `packaging/` and the directories of the
/// system that they go to, to which links lead then.
pub fn stage(to: &Path, docs: Vec<PathBuf>, placed: &[(&str, &str)]) -> Result<()> {
    let (root, mut pages) = (sh::root(), docs);
    pages.retain(|page| page.extension().is_some_and(|of| KINDS.iter().any(|kind| of == *kind)));
    pages.extend(OTHERS.map(|name| root.join(name)));
    for page in pages {
        let place = to.join(page.strip_prefix(&root)?);
        fs::create_dir_all(place.parent().context("a page is in a directory")?)?;
        match fs::read_to_string(&page) {
            Ok(text) => fs::write(place, linked(&text, placed))?,
            Err(_) => drop(fs::copy(&page, place)?),
        }
    }
    Ok(())
}

/// A page whose links to files of `packaging/` lead to where the package puts them.
fn linked(page: &str, placed: &[(&str, &str)]) -> String {
    let links = placed.iter().flat_map(|(name, place)| {
        let file = name.rsplit('/').next().unwrap_or(name);
        let to = format!("](/{place}/{file})");
        ["", "../", "../../"].map(|up| (format!("]({up}packaging/{name})"), to.clone()))
    });
    links.fold(page.to_owned(), |page, (from, to)| page.replace(&from, &to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_where_files_are_put() {
        let placed = [("grafana/weft.json", "usr/share/weft")];
        let page = "[a](../packaging/grafana/weft.json) [b](serve.md)";
        assert_eq!(linked(page, &placed), "[a](/usr/share/weft/weft.json) [b](serve.md)");
    }
}
