//! The files in `packaging`: what they say fits weft, systemd and Debian.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, run, weft};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weft_testing::programs;

const UNIT: &str = "weft-gateway@.service";

const CONNECTIONS: &str = "weft-connections.service";

const SERVER: &str = "weft.service";

const OPENRC: &str = "weft-connections.openrc";

const LAUNCHD: &str = "org.weft.server.plist";

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn read(name: &str) -> String {
    let path = place(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The lines of a file: without comments, continued ones joined.
fn lines(text: &str) -> Vec<String> {
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    without.join("\n").replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// The options of `weft serve` in a text.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c.is_whitespace() || "\"[],=".contains(c));
    words.filter(|word| word.len() > 2 && word.starts_with("--")).map(str::to_owned).collect()
}

#[test]
fn weft_knows_the_options() {
    let dir = Scratch::new("packaging-options");
    let known = options(&run(weft(dir.path(), &["help", "serve"])).out);
    assert!(lines(&read(CONNECTIONS)).contains(&"ExecStart=/usr/bin/weft daemon $OPTIONS".into()));
    let (unit, server, image) =
        (lines(&read(UNIT)), lines(&read(SERVER)), lines(&read("Containerfile")));
    let starts = unit
        .iter()
        .chain(&server)
        .filter(|line| line.starts_with("ExecStart=") || line.contains("LISTEN="));
    let enters = image.iter().filter(|line| line.starts_with("ENTRYPOINT"));
    let used: BTreeSet<String> = starts.chain(enters).flat_map(|line| options(line)).collect();
    assert!(used.contains("--group") && used.contains("--control"), "{used:?}");
    assert_eq!(
        used.difference(&known).collect::<Vec<_>>(),
        [""; 0],
        "weft serve has no such option"
    );
}

#[test]
fn systemd_takes_the_units() {
    if !programs::have(&["systemd-analyze"]) {
        return;
    }
    // Systemd's own measure of what a service that was taken over could do, of 100. Who attaches
    // disks is root.
    systemd_takes(UNIT, "weft-gateway@hall.service", 20);
    systemd_takes(CONNECTIONS, CONNECTIONS, 50);
    systemd_takes(SERVER, SERVER, 25);
}

#[test]
fn other_service_managers_have_files_without_mistakes() {
    let lint = |program: &str, args: &[&str], name: &str| {
        if programs::find(program).is_some() {
            let ran = programs::command(program).args(args).arg(place(name)).output().unwrap();
            assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stdout));
        }
    };
    // OpenRC reads its variables, and knows its functions.
    lint("shellcheck", &["--shell=sh", "--exclude=SC2034"], OPENRC);
    lint("xmllint", &["--noout", "--nonet"], LAUNCHD);
    let _ = programs::have(&["shellcheck", "xmllint"]);
    assert!(read(OPENRC).contains("command_args=\"daemon ${OPTIONS:-}\""));
    let launchd = read(LAUNCHD);
    assert!(["serve", "--config"].iter().all(|word| launchd.contains(word)));
}

fn systemd_takes(unit: &str, instance: &str, exposed: u32) {
    let dir = Scratch::new("packaging-unit");
    let path: PathBuf = dir.path().join(instance);
    std::fs::write(&path, read(unit).replace("/usr/bin/weft", env!("CARGO_BIN_EXE_weft"))).unwrap();
    let analyze = |args: &[&str]| {
        let ran = programs::command("systemd-analyze").args(args).arg(&path).output().unwrap();
        let text = [ran.stdout, ran.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat();
        assert!(ran.status.success(), "{args:?}: {text}");
        text
    };
    let said = analyze(&["verify", "--man=no", "--recursive-errors=no"]);
    assert!(!said.contains(instance), "{said}");
    let threshold = format!("--threshold={exposed}");
    analyze(&["security", "--offline=true", &threshold, "--no-pager"]);
}

#[test]
fn the_image_has_what_weft_needs() {
    let image = lines(&read("Containerfile"));
    let all = |word: &str| {
        image.iter().filter(|line| line.starts_with(word)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(all("FROM").len(), 2, "one to build, one to run");
    assert_eq!(all("USER"), ["USER 4420"], "not root");
    assert_eq!(all("HEALTHCHECK").len(), 1);
    for of in all("COPY").iter().filter(|line| !line.contains("--from=build")) {
        for file in of.split_whitespace().skip(1).filter(|word| !word.starts_with("./")) {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
            assert!(path.exists(), "{file} is not there: {of}");
        }
    }
    let install = all("RUN").into_iter().find(|line| line.contains("apt-get install")).unwrap();
    let packages = install.split("&&").find(|part| part.contains("apt-get install")).unwrap();
    let packages: Vec<&str> =
        packages.split_whitespace().filter(|word| !word.starts_with('-')).skip(2).collect();
    assert_eq!(packages, ["librbd1"]);
    if programs::have(&["apt-cache"]) {
        let known = programs::command("apt-cache").arg("show").args(&packages).output().unwrap();
        assert!(known.status.success(), "Debian has no {packages:?}");
    }
}
