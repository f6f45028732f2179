//! Each direct dependency stands in a table, with who uses it and what for.

use std::collections::{BTreeMap, BTreeSet};

use crate::layers::{directory, packages};
use crate::{demand, files};

const PAGE: &str = "docs/contributing/dependencies.md";

/// The users of each dependency that is not a crate of ours, as the manifests say.
fn used() -> BTreeMap<String, BTreeSet<String>> {
    let mut used = BTreeMap::<_, BTreeSet<_>>::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let user = directory(name).unwrap_or(name).to_owned();
        for dependency in package["dependencies"].as_array().unwrap() {
            if !dependency["source"].is_null() {
                used.entry(dependency["name"].as_str().unwrap().to_owned())
                    .or_default()
                    .insert(user.clone());
            }
        }
    }
    used
}

/// The same, as the table says.
fn listed() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(files::root().join(PAGE)).expect(PAGE);
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, rest)| {
        let users = rest.split(" | ").next().unwrap_or_default();
        (name.to_owned(), users.split(", ").map(str::to_owned).collect())
    })
    .collect()
}

#[test]
fn every_dependency_is_listed_with_its_users() {
    let (used, listed) = (used(), listed());
    let names: BTreeSet<_> = used.keys().chain(listed.keys()).collect();
    let faults =
        names.into_iter().filter(|name| used.get(*name) != listed.get(*name)).map(|name| {
            let say = |of: Option<&BTreeSet<String>>| {
                of.map_or("nobody".into(), |users| {
                    users.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
                })
            };
            format!(
                "{name}: {} by the manifests, {} by {PAGE}",
                say(used.get(name)),
                say(listed.get(name))
            )
        });
    demand("direct dependencies and their users", faults.collect());
}
