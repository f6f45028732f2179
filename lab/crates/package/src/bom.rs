//! Contents of a program, in the form of CycloneDX 1.5.

use anyhow::Result;
use serde_json::{Value, json};
use xtask::VERSION;

use super::notices;

/// The list of all packages that `weft` contains, by what cargo knows of it.
pub fn of_program(metadata: &Value) -> Result<String> {
    with_others(metadata, [])
}

/// The same, and parts that cargo does not know.
pub fn with_others(metadata: &Value, others: impl IntoIterator<Item = Value>) -> Result<String> {
    let mut packages = notices::packages(metadata)?;
    packages.sort_by_key(|package| (text(package, "name"), text(package, "version")));
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "weft",
                "version": VERSION,
                "licenses": [{ "expression": "Apache-2.0 OR MIT" }],
            },
        },
        "components": packages.into_iter().map(component).chain(others).collect::<Vec<_>>(),
    });
    Ok(format!("{bom:#}\n"))
}

fn component(package: &Value) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    json!({
        "type": "library",
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
        // Old packages write a slash for OR.
        "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
    })
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}
