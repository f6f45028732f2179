//! The data that agents write.

use super::*;
use crate::payload::blocks;

#[test]
fn no_block_of_a_disk_is_like_another_after_agents_wrote_to_it() {
    let dir = Scratch::new("agents-payload");
    let dir = dir.path();
    suite(dir, "");
    let disk = dir.join("disk.img");
    std::fs::write(&disk, vec![0; 4 << 20]).unwrap();
    let url = format!("file:{}", disk.display());
    let agent = Agent::local(dir, "agent", &device(&url, true));
    let ran = run(with_key(dir, &agent.address.to_string(), &["--quick", &url]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let (written, differ) = blocks(&disk);
    assert!(written > 64 && differ == written, "{differ} of {written} differ: {ran:?}");
}
