//! Proof that the simulator finds bugs: each planted one, and how many seeds that took.

use crate::Cli;
use crate::campaign::{Which, guarded, keep_panics, kept};
use std::process::ExitCode;
use weft_sim::bugs::{self, Bug};
use weft_sim::scene::Scene;
use weft_sim::wanted::Wanted;

/// The only scene in which a bug can be found.
fn scene_of(bug: &Bug) -> Option<Scene> {
    bug.scene.map(|name| name.parse().unwrap_or_else(|error| panic!("{}: {error}", bug.name)))
}

/// Tries every planted bug with seeds from the first one on, and then with those that are kept,
/// until one seed fails.
pub fn all(cli: &Cli) -> ExitCode {
    if bugs::ALL.is_empty() {
        eprintln!("error: this build has no planted bugs: use `cargo xtask sim --planted`");
        return ExitCode::FAILURE;
    }
    keep_panics();
    let mut missed = 0;
    println!("| bug | seeds | first seed | message |\n|---|---:|---:|---|");
    let has_own = |scene: &Scene| {
        matches!(scene, Scene::Mirror | Scene::Group | Scene::Stops | Scene::Writers)
    };
    let is_asked =
        |bug: &Bug| cli.scene.filter(has_own).is_none_or(|scene| scene_of(bug) == Some(scene));
    let is_named = |bug: &Bug| cli.bug.as_deref().is_none_or(|wanted| wanted == bug.name);
    let all = bugs::ALL.iter().enumerate();
    let asked: Vec<_> = all.filter(|(_, bug)| is_asked(bug) && is_named(bug)).collect();
    // Nothing found of nothing is no proof.
    missed += u64::from(asked.is_empty());
    for (place, bug) in asked {
        bugs::plant(Some(place));
        let name = bug.name;
        match find(cli, place, scene_of(bug)) {
            Some((tried, seed, text)) => {
                println!("| `{name}` | {tried} | {seed} | {} |", short(&text));
            }
            None => {
                missed += 1;
                println!("| `{name}` | not found in {} | | |", cli.count);
            }
        }
        bugs::plant(None);
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many seeds it took to find the planted bug, which one, and what was said.
fn find(cli: &Cli, bug: usize, scene: Option<Scene>) -> Option<(String, u64, String)> {
    let from = cli.from.unwrap_or(0);
    let wanted = cli.wanted();
    let wanted = Wanted { scene: scene.or(wanted.scene), ..wanted };
    let finds = |seed| {
        guarded((seed, wanted), false)
            .violation
            .map(|text| (seed, text))
            .filter(|_| passes_without(bug, (seed, wanted)))
    };
    let kept = cli.seeds.as_deref().map(kept).unwrap_or_default();
    // What a kept seed has found once, no other one may find for long.
    let (seed, text) = (from..from + cli.count)
        .find_map(finds)
        .or_else(|| kept.into_iter().find_map(|(seed, _)| finds(seed)))?;
    let tried = match (from..from + cli.count).contains(&seed) {
        true => (seed - from + 1).to_string(),
        false => "kept".into(),
    };
    Some((tried, seed, text))
}

/// Returns whether a seed finds nothing else.
fn passes_without(bug: usize, which: Which) -> bool {
    bugs::plant(None);
    let passes = guarded(which, false).violation.is_none();
    bugs::plant(Some(bug));
    passes
}

/// What stands in the table of a finding.
fn short(text: &str) -> String {
    let text: String = text.chars().filter(|c| *c != '|').take(110).collect();
    text.split(" (left").next().unwrap_or_default().to_owned()
}
