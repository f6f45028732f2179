//! No program that is shipped holds the bugs that the simulator plants (`weft_proto::planted`).

use std::path::{Path, PathBuf};

/// What their names begin with.
const MARK: &[u8] = b"planted-bug:";

/// The program that this test was built with, and those of other profiles that are there.
fn programs() -> Vec<PathBuf> {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_weft"));
    let name = own.file_name().unwrap().to_owned();
    let profiles = own.parent().and_then(Path::parent).unwrap().to_path_buf();
    let shipped = ["release", "dist"].map(|profile| profiles.join(profile).join(&name));
    [own].into_iter().chain(shipped).filter(|path| path.exists()).collect()
}

#[test]
fn shipped_programs_hold_no_planted_bug() {
    let programs = programs();
    assert!(!programs.is_empty());
    for path in programs {
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(MARK.len()).any(|window| window == MARK);
        assert!(
            !found,
            "{} holds planted bugs: it was built with the feature `planted-bugs`",
            path.display()
        );
    }
}
