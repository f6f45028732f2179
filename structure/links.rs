//! Links between the documents lead somewhere.

use std::path::Path;

use crate::{demand, files, markdown::Document};

#[test]
fn links_lead_somewhere() {
    let mut faults = Vec::new();
    for (path, text) in files::markdown() {
        let broken = |link: &&&str| !is_elsewhere(link) && !resolves(&path, &text, link);
        faults.extend(
            Document::parse(&text)
                .links
                .iter()
                .filter(broken)
                .map(|link| format!("{path}: {link}")),
        );
    }
    demand("the link leads nowhere", faults);
}

/// Returns whether the link leaves the repository.
fn is_elsewhere(link: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

/// Returns whether file and heading of a link exist, seen from a document.
fn resolves(path: &str, text: &str, link: &str) -> bool {
    let (file, anchor) =
        link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = files::root().join(path).parent().unwrap_or(Path::new("")).join(file);
    if !target.exists() {
        return false;
    }
    let Some(anchor) = anchor else { return true };
    let other = if file.is_empty() {
        text.to_owned()
    } else {
        std::fs::read_to_string(target).unwrap_or_default()
    };
    Document::parse(&other).anchors().any(|found| found == anchor)
}
