//! The commands for pre-shared keys, with nvme-cli's results, and a server and a host with TLS.
#![cfg(unix)]

use crate::support::{Scratch, Server, run, weft};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use weft_testing::skip;

/// The specification's example of a key, and identities that libnvme publishes of it.
const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const HEX: &str = "5512dbb6737d0106f65975b773dfb011ffc344bcf442e2dd6d8bc4870b5d5b03";
const NAMES: [&str; 4] = ["-n", "nqn.psk-test-host", "-c", "nqn.psk-test-subsys"];
const IDENTITY: &str =
    "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=";
const COMPAT: &str =
    "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=";

/// A file that only its owner can read.
fn private(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
}

fn done(dir: &Path, args: &[&str]) -> String {
    let ran = run(weft(dir, args));
    assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
    ran.out
}

#[test]
fn keys_are_made_and_checked_as_nvme_cli_does() {
    let dir = Scratch::new("tls-keys");
    private(dir.path(), "hex", HEX);
    assert_eq!(done(dir.path(), &["gen-tls-key", "--secret", "@hex"]).trim(), KEY);
    private(dir.path(), "key", KEY);
    let check =
        |more: &[&str]| done(dir.path(), &[&["check-tls-key", "-d", "@key"], more].concat());
    assert_eq!(check(&[]), "Key is valid (HMAC 1, length 32)\n");
    assert_eq!(check(&[&NAMES[..], &["-I", "1"]].concat()).lines().nth(1), Some(IDENTITY));
    assert_eq!(check(&[&NAMES[..], &["-I", "1", "-C"]].concat()).lines().nth(1), Some(COMPAT));
    assert_eq!(
        check(&NAMES).lines().nth(1),
        Some("NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys")
    );
    let random: Vec<String> =
        (0..2).map(|_| done(dir.path(), &["gen-tls-key", "-m", "2"])).collect();
    assert!(random.iter().all(|key| key.starts_with("NVMeTLSkey-1:02:")) && random[0] != random[1]);
    let mut input = weft(dir.path(), &["check-tls-key"]);
    private(dir.path(), "random", &random[0]);
    input.stdin(Stdio::from(std::fs::File::open(dir.path().join("random")).unwrap()));
    assert_eq!(run(input).out, "Key is valid (HMAC 2, length 48)\n");
    let append = [&["gen-tls-key", "-s", "@hex", "-I", "1", "-f", "derived"], &NAMES[..]].concat();
    done(dir.path(), &append);
    let derived = dir.path().join("derived");
    assert!(
        std::fs::read_to_string(&derived)
            .unwrap()
            .starts_with(&format!("{IDENTITY} NVMeTLSkey-1:01:"))
    );
    assert_eq!(std::fs::metadata(&derived).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn secrets_are_kept_off_the_command_line_and_from_others() {
    let dir = Scratch::new("tls-secrets");
    private(dir.path(), "key", KEY);
    let refused = |args: &[&str], status: i32, why: &str| {
        let ran = run(weft(dir.path(), args));
        assert_eq!(ran.code(), Some(status), "{args:?}: {ran:?}");
        assert!(ran.message().contains(why) && !ran.message().contains("VRLb"), "{ran:?}");
    };
    refused(&["gen-tls-key", "--secret", HEX], 2, "--secret @FILE");
    refused(&["check-tls-key", "-d", KEY], 2, "--keydata @FILE");
    refused(&["check-tls-key", "-d", "@absent"], 3, "absent");
    refused(&["bench", "nvme+tcp://127.0.0.1:1/nqn.x", "--tls-key-file", "key"], 2, "--tls");
    private(dir.path(), "broken", &KEY.replace("VRLb", "VRLc"));
    refused(&["check-tls-key", "-d", "@broken"], 2, "CRC");
    refused(&["serve", "ram:1MiB", "--tls", "--tls-key-file", "broken"], 2, "line 1");
    std::fs::set_permissions(dir.path().join("key"), PermissionsExt::from_mode(0o644)).unwrap();
    refused(&["serve", "ram:1MiB", "--tls", "--tls-key-file", "key"], 4, "chmod 600");
}

#[test]
fn a_key_file_is_read_anew_with_the_configuration() {
    let dir = Scratch::new("tls-apply");
    if let Err(why) = weft_tls::available() {
        return skip(why);
    }
    for name in ["old", "new"] {
        private(dir.path(), name, &done(dir.path(), &["gen-tls-key"]));
    }
    let key = |name| std::fs::read_to_string(dir.path().join(name)).unwrap();
    private(dir.path(), "keys", &key("old"));
    let config = "name = \"m\"\nlisten = [\"nvme+tcp://127.0.0.1:0\"]\n[tls]\npsk_file = \"keys\"\n\
                  [[subsystem]]\nnqn = \"nqn.2026-01.example.weft:tls\"\n[[subsystem.namespace]]\nnsid = 1\nsource = \"ram:1MiB\"\n";
    std::fs::write(dir.path().join("weft.toml"), config).unwrap();
    let server = Server::spawn(weft(dir.path(), &["serve", "--config", "weft.toml"]));
    let looks = |file| {
        run(weft(dir.path(), &["id-ctrl", server.url(), "--tls", "--tls-key-file", file])).code()
    };
    let applied = || done(dir.path(), &["apply", "weft.toml"]);
    assert_eq!(
        (looks("old"), looks("new"), applied().as_str()),
        (Some(0), Some(4), "nothing differs\n")
    );
    // As many keys as before, and another one.
    private(dir.path(), "keys", &key("new"));
    let said = applied();
    assert!(
        said.contains("~ change the pre-shared keys of NVMe/TCP hosts (1 now)")
            && !said.contains("NVMeTLSkey"),
        "{said}"
    );
    assert_eq!((looks("old"), looks("new")), (Some(4), Some(0)));
    // A file that is broken changes nothing, and neither does one that is gone from the
    // configuration: TLS stays.
    private(dir.path(), "keys", "NVMeTLSkey-1:01:x:");
    assert_eq!(run(weft(dir.path(), &["apply", "weft.toml"])).code(), Some(2));
    std::fs::write(dir.path().join("weft.toml"), config.replace("psk_file = \"keys\"", ""))
        .unwrap();
    let ran = run(weft(dir.path(), &["apply", "weft.toml"]));
    assert!(ran.code() == Some(0) && ran.err.contains("tls differs"), "{ran:?}");
    assert_eq!(looks("new"), Some(0));
    private(dir.path(), "keys", &[key("new"), key("old")].concat());
    std::fs::write(dir.path().join("weft.toml"), config).unwrap();
    assert!(applied().contains("(2 now)"));
    assert_eq!((looks("old"), looks("new")), (Some(0), Some(0)));
}

/// A gateway has the key of its source in a file, which is replaced; the target restarts with the
/// new key only.
#[test]
fn a_key_that_was_replaced_is_offered_by_the_next_connection() {
    let dir = Scratch::new("tls-replaced");
    if let Err(why) = weft_tls::available() {
        return skip(why);
    }
    let dir = dir.path();
    ["old", "new"].into_iter().for_each(|name| private(dir, name, &done(dir, &["gen-tls-key"])));
    std::fs::copy(dir.join("old"), dir.join("own")).unwrap();
    let serve = |listen: &str, keys: &str| {
        Server::start(
            dir,
            &["file:./disk.img,size=8m", "--listen", listen, "--tls", "--tls-key-file", keys],
        )
    };
    let target = serve("nvme+tcp://127.0.0.1:0", "old");
    let listen = format!("nvme+tcp://{}", target.address());
    let options = ["--source-tls-key-file", "own", "--reconnect-delay", "1", "--failover", "fast"];
    let front = Server::start(
        dir,
        &[&[target.url(), "--nqn", "nqn.2026-01.example.weft:front"][..], &options].concat(),
    );
    let works = || {
        let ran = run(weft(
            dir,
            &["bench", front.url(), "--rw=randwrite", "--bs=4k", "--size=1m", "--verify=crc32c"],
        ));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
    };
    works();
    std::fs::copy(dir.join("new"), dir.join("next")).unwrap();
    std::fs::rename(dir.join("next"), dir.join("own")).unwrap();
    assert!(target.terminate().success());
    let target = serve(&listen, "new");
    works();
    assert!(front.terminate().success() && target.terminate().success());
}

#[test]
fn a_server_and_a_host_with_a_key() {
    let dir = Scratch::new("tls-pair");
    if let Err(why) = weft_tls::available() {
        return skip(why);
    }
    private(dir.path(), "keys", &done(dir.path(), &["gen-tls-key"]));
    private(dir.path(), "others", &done(dir.path(), &["gen-tls-key"]));
    let tls = |file: &'static str| ["--tls", "--tls-key-file", file];
    let listen = ["ram:8MiB", "--listen", "nvme+tcp://127.0.0.1:0"];
    let server = Server::start(dir.path(), &[&listen[..], &tls("keys")].concat());
    let bench = ["--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=4m", "--verify=crc32c"];
    done(dir.path(), &[&["bench", server.url()], &bench[..], &tls("keys")].concat());
    let at = server.url().rsplit_once('/').unwrap().0;
    let log = done(dir.path(), &[&["discover", at, "-o", "json"], &tls("keys")[..]].concat());
    assert!(log.contains("tls13") && log.contains("\"treq\": \"required"), "{log}");
    let refused = run(weft(dir.path(), &[&["id-ctrl", server.url()], &tls("others")[..]].concat()));
    assert!(
        refused.code() == Some(4) && refused.message().contains("no key for this PSK identity"),
        "{refused:?}"
    );
    let plain = run(weft(dir.path(), &["id-ctrl", server.url()]));
    assert!(plain.code() != Some(0) && plain.message().contains("--tls"), "{plain:?}");
    // A gateway: TLS to its source, and none for its hosts.
    let source = ["--source-tls-key-file", "keys", "--listen", "nvme+tcp://127.0.0.1:0"];
    let gateway = Server::start(dir.path(), &[&[server.url()], &source[..]].concat());
    done(dir.path(), &[&["bench", gateway.url()], &bench[..]].concat());
}

#[test]
fn the_ceiling_has_tls_where_it_is_asked_for() {
    let dir = Scratch::new("tls-ceiling");
    private(dir.path(), "key", KEY);
    let measure = |more: &[&str]| {
        let all = [
            &[
                "bench",
                "--ceiling",
                "--size=4m",
                "--rw=randrw",
                "--iodepth=4",
                "--runtime=200ms",
                "--ceiling-tuning=1MiB+copy",
            ],
            more,
        ];
        run(weft(dir.path(), &all.concat()))
    };
    for size in ["--bs=4k", "--bs=64k"] {
        let ran = measure(&["--tls", "--tls-key-file", "key", size]);
        if ran.err.contains("TLS needs OpenSSL 3") {
            return skip(ran.err);
        }
        assert!(
            ran.code() == Some(0) && ran.out.starts_with("ceiling (bare TLS): IOPS="),
            "{ran:?}"
        );
    }
    assert!(measure(&["--bs=4k"]).out.starts_with("ceiling (bare TCP): IOPS="));
    // A host of another name has no such key.
    private(dir.path(), "key", &format!("nqn.2026-01.example:other {KEY}"));
    let ran = measure(&["--tls", "--tls-key-file", "key", "--bs=4k"]);
    assert!(
        ran.code() != Some(0) && ran.err.contains("--tls-key-file has no key of host"),
        "{ran:?}"
    );
}

#[test]
fn secure_channels_come_of_secrets() {
    if let Err(why) = weft_tls::available() {
        return skip(why);
    }
    let dir = Scratch::new("tls-concat");
    for name in ["host", "ctrl"] {
        done(dir.path(), &["gen-dhchap-key", "--keyfile", name]);
    }
    let secrets = ["--dhchap-secret-file", "host", "--dhchap-ctrl-secret-file", "ctrl"];
    let server = Server::start(dir.path(), &[&["ram:16MiB", "--concat"][..], &secrets].concat());
    let host = ["id-ctrl", server.url(), "--hostnqn", NAMES[1]];
    let refused = |args: &[&str], status: i32, why: &str| {
        let ran = run(weft(dir.path(), args));
        assert!(ran.code() == Some(status) && ran.message().contains(why), "{args:?}: {ran:?}");
    };
    done(dir.path(), &[&host[..], &["--concat"], &secrets].concat());
    let bench = [
        "bench",
        server.url(),
        "--hostnqn",
        NAMES[1],
        "--rw=randwrite",
        "--bs=4k",
        "--size=1m",
        "--verify=crc32c",
        "--concat",
    ];
    done(dir.path(), &[&bench[..], &secrets].concat());
    refused(&[&host[..], &secrets].concat(), 10, "--concat");
    refused(&[&host[..], &["--concat"]].concat(), 2, "--dhchap-secret-file FILE");
    refused(&[&host[..], &["--concat", "-S", "@ctrl"]].concat(), 4, "--dhchap-secret-file");
    refused(&["serve", "ram:1MiB", "--concat"], 2, "--dhchap-secret-file");
    assert!(server.terminate().success());
    // A gateway, whose own hosts are not encrypted.
    let server = Server::start(dir.path(), &[&["ram:16MiB", "--concat"][..], &secrets].concat());
    let source = [
        "--source-concat",
        "--source-dhchap-secret-file",
        "host",
        "--source-dhchap-ctrl-secret-file",
        "ctrl",
    ];
    let front = ["--hostnqn", NAMES[1], server.url(), "--nqn", "nqn.2026-01.example.weft:front"];
    let front = Server::start(dir.path(), &[&front[..], &source].concat());
    done(dir.path(), &["id-ctrl", front.url()]);
    refused(&["serve", server.url(), "--source-concat"], 2, "--source-dhchap-secret-file");
    assert!(front.terminate().success() && server.terminate().success());
}

#[test]
fn keys_are_chosen_as_in_nvme_cli() {
    if let Err(why) = weft_tls::available() {
        return skip(why);
    }
    let dir = Scratch::new("tls-choice");
    private(dir.path(), "key", KEY);
    private(dir.path(), "hex", HEX);
    let server =
        Server::start(dir.path(), &["ram:16MiB", "--nqn", NAMES[3], "--tls", "--tls-key", "@key"]);
    let host = ["id-ctrl", server.url(), "--hostnqn", NAMES[1], "--tls"];
    done(dir.path(), &[&host[..], &["--tls-key", "@key"]].concat());
    let derived = done(
        dir.path(),
        &[&["gen-tls-key", "-s", "@hex", "-I", "1", "-f", "derived"], &NAMES[..]].concat(),
    );
    assert!(derived.contains(KEY));
    let line = std::fs::read_to_string(dir.path().join("derived")).unwrap();
    let (identity, psk) = line.trim().rsplit_once(' ').unwrap();
    private(dir.path(), "psk", psk);
    done(dir.path(), &[&host[..], &["--tls_key", "@psk", "--tls-key-identity", identity]].concat());
    let refused = |more: &[&str], why: &str| {
        let ran = run(weft(dir.path(), &[&host[..], more].concat()));
        assert!(
            ran.code() == Some(2) && ran.message().contains(why) && !ran.err.contains("VRLb"),
            "{more:?}: {ran:?}"
        );
    };
    refused(&["--tls-key", KEY], "--tls-key-file FILE");
    refused(&["--tls-key", "@psk", "--tls-key-identity", "NVMe1R01"], "is not an identity");
    refused(&["--tls-key", "7", "--tls-key-identity", identity], "leave --tls-key-identity out");
    assert!(server.terminate().success());
}
