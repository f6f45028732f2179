//! Planted bugs are edits next to the simulator, applied to a copy of the sources: shipped code
//! does not know of them.

use crate::{demand, files};

#[test]
fn no_shipped_source_knows_of_planted_bugs() {
    let sources = [files::below("crates", "rs"), files::below("crates", "toml")].concat();
    let is_shipped = |path: &str| !path.starts_with("crates/sim/");
    let faults = sources.iter().filter(|(path, text)| is_shipped(path) && text.contains("planted"));
    demand(
        "a planted bug is a file of crates/sim/planted, and nothing else names it",
        faults.map(|(path, _)| path.clone()).collect(),
    );
}
