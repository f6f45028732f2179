//! Proof that the simulator finds bugs: each planted one, and how many seeds that took.

use crate::Cli;
use std::process::ExitCode;
#[cfg(feature = "planted-bugs")]
use weft_sim::{scene::Scene, wanted::Wanted};

/// A bug of the engines of the protocols, of mirrors, or of groups of gateways.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy)]
enum Bug {
    Stack(weft_proto::planted::Bug),
    Mirror(weft_block::planted::Bug),
    Group(weft_group::planted::Bug),
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    fn all() -> Vec<(Self, &'static str)> {
        let stack = weft_proto::planted::Bug::ALL.map(|(bug, name)| (Self::Stack(bug), name));
        let mirror = weft_block::planted::Bug::ALL.map(|(bug, name)| (Self::Mirror(bug), name));
        let group = weft_group::planted::Bug::ALL.map(|(bug, name)| (Self::Group(bug), name));
        stack.into_iter().chain(mirror).chain(group).collect()
    }

    fn plant(bug: Option<Self>) {
        weft_proto::planted::plant(if let Some(Self::Stack(bug)) = bug { Some(bug) } else { None });
        weft_block::planted::plant(if let Some(Self::Mirror(bug)) = bug {
            Some(bug)
        } else {
            None
        });
        weft_group::planted::plant(if let Some(Self::Group(bug)) = bug { Some(bug) } else { None });
    }

    /// The only scene in which it can be found.
    fn scene(self) -> Option<Scene> {
        match self {
            // Hosts wait everywhere else until nothing can be executed late.
            Self::Stack(weft_proto::planted::Bug::LateExecution)
            | Self::Group(weft_group::planted::Bug::FenceUnconfirmed) => Some(Scene::Stops),
            Self::Stack(
                weft_proto::planted::Bug::ReservationAnsweredEarly
                | weft_proto::planted::Bug::ReservationRefusedEarly,
            )
            | Self::Group(_) => Some(Scene::Group),
            // Overlapping writes of one host are nowhere else.
            Self::Stack(weft_proto::planted::Bug::OverlappingWritesAtOnce) => Some(Scene::Writers),
            Self::Stack(_) => None,
            Self::Mirror(_) => Some(Scene::Mirror),
        }
    }

    /// What is run to find it.
    fn wanted(self, wanted: Wanted) -> Wanted {
        Wanted { scene: self.scene().or(wanted.scene), ..wanted }
    }
}

/// Tries every planted bug with seeds from the first one on, and then with those that are kept,
/// until one seed fails.
#[cfg(feature = "planted-bugs")]
pub fn all(cli: &Cli) -> ExitCode {
    use crate::campaign::{guarded, keep_panics, kept};
    use weft_proto::planted::MARK;
    keep_panics();
    let from = cli.from.unwrap_or(0);
    let mut missed = 0;
    println!("| bug | seeds | first seed | what was said |\n|---|---:|---:|---|");
    let has_own = |scene: &Scene| {
        matches!(scene, Scene::Mirror | Scene::Group | Scene::Stops | Scene::Writers)
    };
    let is_asked =
        |bug: &Bug| cli.scene.filter(has_own).is_none_or(|scene| bug.scene() == Some(scene));
    let all =
        Bug::all().into_iter().map(|(bug, name)| (bug, name.strip_prefix(MARK).unwrap_or(name)));
    let is_named = |name: &str| cli.bug.as_deref().is_none_or(|wanted| wanted == name);
    let asked: Vec<_> = all.filter(|(bug, name)| is_asked(bug) && is_named(name)).collect();
    // Nothing found of nothing is no proof.
    missed += u64::from(asked.is_empty());
    for (bug, name) in asked {
        Bug::plant(Some(bug));
        let wanted = bug.wanted(cli.wanted());
        let finds = |seed| {
            guarded((seed, wanted), false)
                .violation
                .map(|text| (seed, text))
                .filter(|_| passes_without(bug, (seed, wanted)))
        };
        let kept = cli.seeds.as_deref().map(kept).unwrap_or_default();
        // What a kept seed has found once, no other one may find for long.
        let found = (from..from + cli.count)
            .find_map(finds)
            .or_else(|| kept.into_iter().find_map(|(seed, _)| finds(seed)));
        match found {
            Some((seed, text)) => {
                let tried = if (from..from + cli.count).contains(&seed) {
                    (seed - from + 1).to_string()
                } else {
                    "kept".into()
                };
                println!("| `{name}` | {tried} | {seed} | {} |", short(&text));
            }
            None => {
                missed += 1;
                println!("| `{name}` | not found in {} | | |", cli.count);
            }
        }
        Bug::plant(None);
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a seed finds nothing else.
#[cfg(feature = "planted-bugs")]
fn passes_without(bug: Bug, which: crate::campaign::Which) -> bool {
    Bug::plant(None);
    let passes = crate::campaign::guarded(which, false).violation.is_none();
    Bug::plant(Some(bug));
    passes
}

/// What stands in the table of a finding.
#[cfg(feature = "planted-bugs")]
fn short(text: &str) -> String {
    let text: String = text.chars().filter(|c| *c != '|').take(110).collect();
    text.split(" (left").next().unwrap_or_default().to_owned()
}

/// Nothing is planted in this build.
#[cfg(not(feature = "planted-bugs"))]
pub fn all(_: &Cli) -> ExitCode {
    eprintln!("error: this build has no planted bugs: use `cargo xtask sim --planted`");
    ExitCode::FAILURE
}
