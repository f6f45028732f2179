//! `weft study publish`.

use crate::support::{Ran, Scratch, run, weft};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The results that the documentation keeps.
fn kept(suite: &str) -> PathBuf {
    let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study/reports");
    reports.join(suite).join("results.json")
}

fn publish(dir: &Path, suites: &[&str]) -> Ran {
    let mut command = weft(dir, &["study", "publish", "site"]);
    command.args(suites.iter().map(|suite| kept(suite)));
    run(command)
}

/// All files below a directory, by their paths.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => _ = all.insert(path.clone(), std::fs::read(path).unwrap()),
        }
    }
    all
}

#[test]
fn the_same_studies_make_the_same_site() {
    let dir = Scratch::new("study-publish");
    let site = dir.path().join("site");
    let ran = publish(dir.path(), &["null", "mirror"]);
    assert!(ran.code() == Some(0) && ran.out.contains("index.html, 2 studies"), "{ran:?}");
    let once = files(&site);
    // An index, a list, and two files of each study.
    assert_eq!(once.len(), 6, "{:?}", once.keys());
    assert_eq!(publish(dir.path(), &["mirror", "null", "null"]).code(), Some(0));
    assert_eq!(files(&site), once);
    let index = std::fs::read_to_string(site.join("index.html")).unwrap();
    for part in ["weft bench ", "null-", "mirror-", "/report.html\""] {
        assert!(index.contains(part), "{part}");
    }
    assert!(!index.contains("<script") && !index.contains("src=") && !index.contains("http"));
    // What is no longer named goes.
    assert_eq!(publish(dir.path(), &["null"]).code(), Some(0));
    assert_eq!(files(&site).len(), 4);
    assert_eq!(std::fs::read_dir(&site).unwrap().count(), 3);
}

#[test]
fn files_of_others_stay() {
    let dir = Scratch::new("study-publish-others");
    let site = dir.path().join("site");
    std::fs::create_dir(&site).unwrap();
    std::fs::write(site.join("CNAME"), "example.org").unwrap();
    assert_eq!(publish(dir.path(), &["null"]).code(), Some(0));
    let before = files(&site);
    assert_eq!(before.get(&site.join("CNAME")).map(Vec::as_slice), Some(&b"example.org"[..]));
    // One that cannot be read leaves all as it was.
    let mut command = weft(dir.path(), &["study", "publish", "site", "none.json"]);
    command.arg(kept("mirror"));
    assert_eq!(run(command).code(), Some(3));
    assert_eq!(files(&site), before);
    std::fs::remove_file(site.join("weft-site.txt")).unwrap();
    let ran = publish(dir.path(), &["null"]);
    assert!(ran.code() == Some(5) && ran.err.contains("did not make it"), "{ran:?}");
    std::fs::write(site.join("weft-site.txt"), "../../etc\n").unwrap();
    let ran = publish(dir.path(), &["null"]);
    assert!(ran.code() == Some(2) && ran.err.contains("is not a list"), "{ran:?}");
}

/// Packed results can be published, and say nothing of where they were measured.
#[test]
fn packed_results_are_results() {
    let dir = Scratch::new("study-pack");
    let path = dir.path();
    let text = std::fs::read_to_string(kept("mirror")).unwrap();
    let mut data: serde_json::Value = serde_json::from_str(&text).unwrap();
    data["machine"]["name"] = "rack7.example".into();
    let named = data.to_string().replace("127.0.0.1:", "198.51.100.9:");
    std::fs::write(path.join("results.json"), &named).unwrap();
    let ran = run(weft(path, &["study", "pack", "results.json", "-o", "packed.json"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    for line in
        ["host name     machine.name", "address       lanes[].url", "NQN or IQN    rows[].command"]
    {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    let packed = std::fs::read_to_string(path.join("packed.json")).unwrap();
    for told in ["rack7", "198.51.100.9", "uuid:", "internal.weft"] {
        assert!(named.contains(told), "{told}");
        assert!(!packed.contains(told) && !ran.out.contains(told), "{told}");
    }
    let ran = run(weft(path, &["study", "publish", "site", "packed.json"]));
    assert!(ran.code() == Some(0) && ran.out.contains("1 studies"), "{ran:?}");
    let index = std::fs::read_to_string(path.join("site/index.html")).unwrap();
    assert!(index.contains("<h3>host-1</h3>") && index.contains("mirror-tcp"), "{index}");
    let ran = run(weft(path, &["study", "pack", "none.json", "-o", "packed.json"]));
    assert_eq!(ran.code(), Some(3), "{ran:?}");
}
