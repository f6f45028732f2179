//! Packages of one program are equal, and have what a system needs; the image runs.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use xtask::{built, markdown::Document};

/// Packs weft into this directory; the names and sums.
fn packed(out: &Path) -> String {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_lab-package"));
    tool.args(["linux", "deb", "tar", "image", "--fast", "--program"])
        .arg(built::debug_build("weft"));
    let said = tool.arg("--out").arg(out).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn packages_of_one_program_are_equal_and_whole() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        println!("skipped: dpkg-deb is missing, as this is no Debian system");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("first"), directory.path().join("second"));
    let sums = packed(&first);
    assert_eq!(sums, packed(&second));
    let named = |ending: &str| {
        let mut names = sums.lines().filter_map(|line| line.split("  ").nth(1));
        first.join(names.find(|name| name.ends_with(ending)).unwrap())
    };
    let listed = Command::new("dpkg-deb").arg("--contents").arg(named(".deb")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for part in [
        "-rwxr-xr-x root/root",
        "./usr/bin/weft",
        "./usr/lib/systemd/system/weft.service",
        "./usr/share/man/man1/weft-serve.1.gz",
        "./usr/share/doc/weft/LICENCES.txt",
        "./usr/share/doc/weft/docs/attach/persistent.md",
        "./usr/share/doc/weft/weft.cdx.json",
        "./usr/share/weft/monitoring/weft.json",
        "./usr/share/weft/monitoring/weft.rules.yml",
        "./etc/weft/weft.toml",
    ] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
    let mut unpack = Command::new("tar");
    unpack
        .arg("--strip-components=1")
        .arg("-xzf")
        .arg(named(".tar.gz"))
        .arg("-C")
        .arg(directory.path());
    assert!(unpack.status().unwrap().success());
    links_lead_somewhere(directory.path());
    a_release_has_sums_and_parts(&first, &sums);
}

/// A static library of one function, in the place of weft's, which takes long to build.
fn small_library(directory: &Path) -> PathBuf {
    let (source, object) = (directory.join("weft.c"), directory.join("weft.o"));
    let archive = directory.join("libweft.a");
    // It needs a C library, whose version the package names.
    let text = "#include <stdio.h>\nint weft_version(void) { return puts(\"\"); }\n";
    std::fs::write(&source, text).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-c", "-fPIC", "-o"]).args([&object, &source]);
    said(compile);
    let mut pack = Command::new("ar");
    pack.arg("rcs").args([&archive, &object]);
    said(pack);
    archive
}

#[test]
fn the_library_for_programs_comes_with_all_pages() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        println!("skipped: dpkg-deb is missing, as this is no Debian system");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_lab-package"));
    tool.args(["library", "--fast", "--archive"]).arg(small_library(directory.path()));
    tool.arg("--out").arg(directory.path());
    let made = said(tool);
    let package = made.lines().find(|line| line.contains("libweft-dev_")).unwrap();
    let unpacked = directory.path().join("unpacked");
    let mut unpack = Command::new("dpkg-deb");
    unpack.args(["--extract", package]).arg(&unpacked);
    said(unpack);
    let pages = unpacked.join("usr/share/doc/libweft-dev/docs");
    for page in ["libweft.md", "sources.md", "failing-disks.md", "attach/linux.md"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
    let header = std::fs::read_to_string(unpacked.join("usr/include/weft.h")).unwrap();
    assert!(header.contains("docs/sources.md"), "the header names the page");
}

/// The page of a release lists packages and the parts of the program, and the sums hold.
fn a_release_has_sums_and_parts(packages: &Path, sums: &str) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_lab-package"));
    tool.args(["release", "--report-to", "security@example.org", "--out"]).arg(packages);
    let page = said(tool);
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        assert!(page.contains(sum) && page.contains(name), "{name} is not in {page}");
    }
    let mut check = Command::new("sha256sum");
    check.current_dir(packages).args(["--check", "SHA256SUMS"]);
    assert!(said(check).contains("-linux.cdx.json: OK"), "{page}");
}

/// The pages of a package have what they link to, and units name pages that are there.
fn links_lead_somewhere(root: &Path) {
    let doc = root.join("usr/share/doc/weft");
    let mut all = files_below(root);
    all.retain(|path| path.starts_with(&doc) || path.starts_with(root.join("usr/lib/systemd")));
    let mut faults = Vec::new();
    for path in all {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let links: Vec<String> = match path.extension().and_then(|of| of.to_str()) {
            Some("md") => {
                Document::parse(&text).links.iter().map(|link| (*link).to_owned()).collect()
            }
            Some("service" | "socket") => {
                let words = text.lines().filter_map(|line| line.strip_prefix("Documentation="));
                let words = words.flat_map(str::split_whitespace);
                words.filter_map(|word| word.strip_prefix("file:")).map(str::to_owned).collect()
            }
            _ => continue,
        };
        let is_missing = |link: &String| {
            let file = link.split('#').next().unwrap_or_default();
            let target = match file.strip_prefix('/') {
                Some(file) => root.join(file),
                None => path.parent().unwrap().join(file),
            };
            // Measured numbers stay with the sources.
            let is_measured = file.ends_with(".json") || file == "method/";
            !link.contains("://") && !is_measured && !target.exists()
        };
        let missing = links.into_iter().filter(is_missing);
        faults.extend(missing.map(|link| format!("{}: {link}", path.display())));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// buildah with containers and images of its own.
fn buildah(scratch: &Path, words: &[&str]) -> Command {
    let mut buildah = Command::new("buildah");
    buildah.args(["--storage-driver", "vfs", "--root"]).arg(scratch.join("storage"));
    buildah.arg("--runroot").arg(scratch.join("run")).args(words);
    buildah
}

/// What it says, if it succeeds.
fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The process with this word in its command line that is weft itself, and not what started it.
fn process_with(word: &str) -> Option<String> {
    let is_it = |pid: &String| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).into_owned();
        read("comm") == b"weft\n" && line.split('\0').any(|of| of == word)
    };
    let pids = std::fs::read_dir("/proc").unwrap().map_while(Result::ok);
    pids.map(|entry| entry.file_name().to_string_lossy().into_owned()).find(is_it)
}

/// Ends a container's process, and what started it.
struct Running<'a>(Child, &'a str);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        match process_with(self.1) {
            Some(pid) => drop(Command::new("kill").arg(pid).status()),
            None => drop(self.0.kill()),
        }
        let _ = self.0.wait();
    }
}

#[test]
fn the_image_serves_without_root_and_tells_that_it_is_healthy() {
    if Command::new("buildah").arg("--version").output().is_err() {
        println!("skipped: buildah is missing");
        return;
    }
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root can run an image in a chroot");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_lab-package"));
    tool.args(["linux", "image", "--program"])
        .arg(built::debug_build("weft"))
        .arg("--out")
        .arg(scratch);
    let sums = said(tool);
    let archive = sums.split_whitespace().find(|word| word.ends_with(".tar")).unwrap();
    let image = format!("docker-archive:{}", scratch.join(archive).display());
    let container = said(buildah(scratch, &["from", &image]));
    let container = container.trim();
    let shown = said(buildah(scratch, &["inspect", container]));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let config = &shown["Docker"]["config"];
    let words = |value: &serde_json::Value| -> Vec<String> {
        let words = value.as_array().into_iter().flatten();
        words.map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let (start, check) = (words(&config["Entrypoint"]), words(&config["Healthcheck"]["Test"]));
    let inside = |command: &[String]| {
        let run = buildah(scratch, &["run", "--isolation", "chroot", container, "--"]);
        let mut run = run;
        run.args(command);
        run
    };
    let healthy = || inside(&check[1..]).output().unwrap().status.success();
    assert!(!healthy(), "nothing runs yet");
    // No other server has this name.
    let nqn = format!("nqn.2026-01.example.weft:image-{}", std::process::id());
    let more = ["ram:1MiB", "--listen", "nvme+tcp://127.0.0.1:0", "--nqn", &nqn];
    let mut serving = inside(&[&start[..], &more.map(str::to_owned)].concat());
    let mut serving = serving.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(serving.stdout.take().unwrap()).lines();
    let running = Running(serving, &nqn);
    let listens = said.by_ref().map_while(Result::ok).any(|it| it.starts_with("listening on"));
    assert!(listens, "it did not start");
    let pid = process_with(&nqn).expect("the image's process is there");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let user = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert!(user.split_whitespace().skip(1).all(|id| id == "65532"), "{user}");
    assert!(healthy());
    drop(running);
    assert!(!healthy(), "it has ended");
}
