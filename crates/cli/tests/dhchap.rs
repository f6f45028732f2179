//! DH-HMAC-CHAP by files: `weft serve`, `weft bench` and the rest, `weft gen-dhchap-key` and
//! `weft check-dhchap-key`.
#![cfg(unix)]

use crate::support::{Ran, Scratch, Server, run, weft};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const HOST: &str = "nqn.2026-01.example.host:one";
const OTHER: &str = "nqn.2026-01.example.host:other";

/// Secrets in files of their own.
fn secrets(dir: &Path, names: &[&str]) {
    for name in names {
        let ran = run(weft(dir, &["gen-dhchap-key", "--keyfile", name]));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        assert_eq!(std::fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// Looks at the subsystem as a host.
fn looks(dir: &Path, url: &str, host: &str, more: &[&str]) -> Ran {
    run(weft(dir, &[&["id-ctrl", url, "--hostnqn", host][..], more].concat()))
}

/// It is refused with a sentence that contains this.
fn refuses(ran: &Ran, code: i32, what: &str) {
    assert!(ran.code() == Some(code) && ran.message().contains(what), "{what}: {ran:?}");
    assert!(!ran.err.contains("DHHC-1:0"), "{ran:?}");
}

#[test]
fn hosts_need_their_secrets() {
    let dir = Scratch::new("dhchap");
    let dir = dir.path();
    secrets(dir, &["one", "new", "others", "ctrl"]);
    let one = format!("{HOST}=one");
    let new = format!("{HOST}=new");
    let files = [
        "--dhchap-secret-file",
        &one,
        "--dhchap-secret-file",
        &new,
        "--dhchap-secret-file",
        "others",
    ];
    let more = ["--dhchap-ctrl-secret-file", "ctrl", "--dhchap-dhgroup", "null,ffdhe2048"];
    let server = Server::start(dir, &[&["ram:16MiB"][..], &files, &more].concat());
    let looks = |host, more: &[&str]| looks(dir, server.url(), host, more);
    for file in ["one", "new"] {
        assert_eq!(looks(HOST, &["--dhchap-secret-file", file]).code(), Some(0), "{file}");
    }
    let both = ["-S", "@one", "-C", "@ctrl", "--dhchap-dhgroup", "ffdhe2048"];
    assert_eq!(looks(HOST, &both).code(), Some(0), "{:?}", looks(HOST, &both));
    assert_eq!(looks(OTHER, &["-S@others"]).code(), Some(0));
    refuses(&looks(HOST, &["-S@others"]), 4, "refused this host");
    refuses(&looks(OTHER, &["-S@one"]), 4, "--dhchap-secret-file");
    refuses(&looks(HOST, &[]), 4, "--dhchap-secret-file");
    refuses(&looks(HOST, &["-S@one", "-C@others"]), 4, "--dhchap-ctrl-secret-file");
    let device = [
        "bench",
        server.url(),
        "--hostnqn",
        HOST,
        "-S@one",
        "--rw=randwrite",
        "--bs=4k",
        "--size=1m",
        "--verify=crc32c",
    ];
    let ran = run(weft(dir, &device));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let secret = std::fs::read_to_string(dir.join("one")).unwrap();
    let mut by_environment = weft(dir, &["id-ctrl", server.url(), "--hostnqn", HOST]);
    by_environment.env("WEFT_DHCHAP_SECRET", secret.trim());
    assert_eq!(run(by_environment).code(), Some(0));
    // A gateway: its source asks for the secret of the gateway, its own hosts need none.
    let gateway = [
        "--hostnqn",
        HOST,
        "--source-dhchap-secret-file",
        "one",
        "--source-dhchap-ctrl-secret-file",
        "ctrl",
    ];
    let front = Server::start(
        dir,
        &[&[server.url(), "--nqn", "nqn.2026-01.example.weft:front"][..], &gateway].concat(),
    );
    assert_eq!(run(weft(dir, &["id-ctrl", front.url()])).code(), Some(0));
    assert!(front.terminate().success() && server.terminate().success());
}

#[test]
fn groups_that_cost_much_are_accepted_where_an_option_says_so() {
    let dir = Scratch::new("dhchap-groups");
    let dir = dir.path();
    secrets(dir, &["one"]);
    let file = ["ram:1MiB", "--dhchap-secret-file", "one"];
    let server = Server::start(dir, &file);
    let with = |server: &Server, group: &str| {
        looks(dir, server.url(), HOST, &["-S@one", "--dhchap-dhgroup", group])
    };
    assert_eq!(with(&server, "ffdhe2048").code(), Some(0));
    // As Linux' hosts do, which offer all.
    assert_eq!(with(&server, "ffdhe8192,ffdhe4096,null").code(), Some(0));
    refuses(&with(&server, "ffdhe8192"), 4, "--dhchap-dhgroup");
    assert!(server.terminate().success());
    let server = Server::start(dir, &[&file[..], &["--dhchap-dhgroup", "ffdhe8192"]].concat());
    assert_eq!(with(&server, "ffdhe8192").code(), Some(0));
    assert!(server.terminate().success());
}

#[test]
fn secrets_are_neither_arguments_nor_public() {
    let dir = Scratch::new("dhchap-refused");
    let dir = dir.path();
    secrets(dir, &["one"]);
    let secret = std::fs::read_to_string(dir.join("one")).unwrap();
    let url = "nvme+tcp://127.0.0.1:1/nqn.2026-01.example.weft:none";
    refuses(&looks(dir, url, HOST, &["-S", secret.trim()]), 2, "--dhchap-secret-file FILE");
    refuses(
        &run(weft(dir, &["serve", "ram:1MiB", "-C", secret.trim()])),
        2,
        "--dhchap-ctrl-secret-file FILE",
    );
    refuses(&run(weft(dir, &["check-dhchap-key", "-k", secret.trim()])), 2, "--key @FILE");
    std::fs::set_permissions(dir.join("one"), PermissionsExt::from_mode(0o640)).unwrap();
    refuses(&looks(dir, url, HOST, &["-S", "@one"]), 4, "other users can read");
    refuses(
        &run(weft(dir, &["serve", "ram:1MiB", "--dhchap-secret-file", "one"])),
        4,
        "other users can read",
    );
    std::fs::set_permissions(dir.join("one"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(dir.join("one"), "DHHC-1:00:short:").unwrap();
    refuses(&looks(dir, url, HOST, &["-S", "@one"]), 2, "weft gen-dhchap-key makes one");
}

/// A gateway has its secret in a file, once named by an option and once by the table `[connect]`.
/// Its target gets to know another secret besides, the file is replaced, and the target restarts
/// with the new one only: the gateways reconnect with that.
#[test]
fn a_secret_that_was_replaced_is_used_for_the_next_connection() {
    let dir = Scratch::new("dhchap-replaced");
    let dir = dir.path();
    secrets(dir, &["old", "new", "own"]);
    std::fs::copy(dir.join("old"), dir.join("own")).unwrap();
    let files = ["old", "new"].map(|name| format!("--dhchap-secret-file={HOST}={name}"));
    let serve = |listen: &str, files: &[String]| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        Server::start(dir, &[&["file:./disk.img,size=8m", "--listen", listen][..], &files].concat())
    };
    let target = serve("nvme+tcp://127.0.0.1:0", &files);
    let (url, listen) = (target.url().to_owned(), format!("nvme+tcp://{}", target.address()));
    let options = [
        "--hostnqn",
        HOST,
        "--source-dhchap-secret-file",
        "own",
        "--reconnect-delay",
        "1",
        "--failover",
        "fast",
    ];
    let by_option = Server::start(
        dir,
        &[&[&url, "--nqn", "nqn.2026-01.example.weft:option"][..], &options].concat(),
    );
    let config = format!(
        "name = \"m\"\nlisten = [\"nvme+tcp://127.0.0.1:0\"]\n[connect]\nhostnqn = \"{HOST}\"\ndhchap-secret-file = \"own\"\n\
         reconnect-delay = 1\nfailover = \"fast\"\n[[subsystem]]\nnqn = \"nqn.2026-01.example.weft:table\"\n\
         [[subsystem.namespace]]\nnsid = 1\nsource = \"{url}\"\n"
    );
    std::fs::write(dir.join("weft.toml"), config).unwrap();
    let by_table = Server::spawn(weft(dir, &["serve", "--config", "weft.toml"]));
    let works = |server: &Server| {
        let ran = run(weft(
            dir,
            &["bench", server.url(), "--rw=randwrite", "--bs=4k", "--size=1m", "--verify=crc32c"],
        ));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
    };
    [&by_option, &by_table].into_iter().for_each(works);
    std::fs::copy(dir.join("new"), dir.join("next")).unwrap();
    std::fs::rename(dir.join("next"), dir.join("own")).unwrap();
    assert!(target.terminate().success());
    let target = serve(&listen, &files[1..]);
    [&by_option, &by_table].into_iter().for_each(works);
    refuses(&looks(dir, &url, HOST, &["-S@old"]), 4, "refused this host");
    // A file that is not there for a while, or broken, takes nothing away.
    std::fs::write(dir.join("own"), "DHHC-1:00:short:").unwrap();
    assert!(target.terminate().success());
    let target = serve(&listen, &files[1..]);
    [&by_option, &by_table].into_iter().for_each(works);
    assert!(
        by_option.terminate().success()
            && by_table.terminate().success()
            && target.terminate().success()
    );
}

/// The memory of a process that holds a secret is not for other processes of the same user.
#[cfg(target_os = "linux")]
#[test]
fn a_server_with_secrets_leaves_no_core_dump() {
    let dir = Scratch::new("dhchap-dumpable");
    let dir = dir.path();
    secrets(dir, &["one"]);
    let server = Server::start(dir, &["ram:1MiB", "--dhchap-secret-file", "one"]);
    // What is not dumpable belongs to root.
    let of = |pid: u32| {
        std::os::unix::fs::MetadataExt::uid(
            &std::fs::metadata(format!("/proc/{pid}/environ")).unwrap(),
        )
    };
    assert_eq!(of(server.pid()), 0);
    assert!(server.terminate().success());
}

#[test]
fn keys_are_made_and_checked_as_nvme_cli_does() {
    let dir = Scratch::new("dhchap-keys");
    let dir = dir.path();
    for (hmac, length) in [("0", 32), ("1", 32), ("2", 48), ("3", 64)] {
        let ran = run(weft(dir, &["gen-dhchap-key", "-m", hmac, "-n", HOST]));
        assert!(
            ran.out.starts_with(&format!("DHHC-1:0{hmac}:")) && ran.out.ends_with(":\n"),
            "{ran:?}"
        );
        let file = dir.join(format!("key{hmac}"));
        std::fs::write(&file, &ran.out).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let checked = run(weft(dir, &["check-dhchap-key", "--keyfile", file.to_str().unwrap()]));
        assert!(
            checked.out.starts_with(&format!("Key is valid (HMAC {hmac}, length {length}, CRC ")),
            "{checked:?}"
        );
        std::fs::write(
            &file,
            ran.out.replacen(
                &ran.out[12..16],
                if ran.out[12..16] == *"AAAA" { "BBBB" } else { "AAAA" },
                1,
            ),
        )
        .unwrap();
        refuses(
            &run(weft(dir, &["check-dhchap-key", "-k", &format!("@{}", file.display())])),
            2,
            "CRC",
        );
    }
    refuses(&run(weft(dir, &["gen-dhchap-key", "-m", "2", "-l", "32"])), 2, "48");
}
