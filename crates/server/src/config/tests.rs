//! The mistakes of configurations, and the messages about them.

use super::faults::ConfigFaults;
use super::source_options::SourceOption;
use super::{Desired, NoSourceOptions, SourceOptions};
use std::path::Path;
use weft_endpoint::{ConnectOptions, Control};

/// The options of connections that the example has.
pub(crate) struct TwoOptions;

impl SourceOptions for TwoOptions {
    fn known(&self) -> Vec<SourceOption> {
        let option = |name: &str| SourceOption {
            name: name.to_owned(),
            help: "what it does".to_owned(),
            is_path: false,
            is_flag: false,
        };
        ["keep-alive-tmo", "io-timeout"].map(option).to_vec()
    }

    fn check_value(&self, _: &[String]) -> Result<(), crate::Error> {
        Ok(())
    }

    fn check(&self, _: &[String]) -> Result<(), crate::Error> {
        Ok(())
    }

    fn options(
        &self,
        arguments: &[String],
        queues: u16,
        control: &Control,
    ) -> Result<ConnectOptions, crate::Error> {
        NoSourceOptions.options(arguments, queues, control)
    }
}

/// Reads a configuration that may have [`TwoOptions`].
pub(crate) fn read(text: &str, file: &str, directory: &Path) -> Result<Desired, ConfigFaults> {
    super::read(text, file, (directory, &TwoOptions))
}

const BASE: &str =
    "listen = [\"nvme+tcp://127.0.0.1:0\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n";

fn mistakes(text: &str) -> Vec<String> {
    read(text, "weft.toml", Path::new(""))
        .map_or_else(|faults| faults.lines().to_vec(), |_| Vec::new())
}

/// The mistakes of [`BASE`] with more at its end.
fn with(text: &str) -> Vec<String> {
    mistakes(&format!("{BASE}{text}"))
}

#[test]
fn the_least_is_right() {
    assert_eq!(with(""), [""; 0]);
    assert_eq!(with("[[subsystem.namespace]]\nnsid = 1\nsource = \"ram:1MiB\"\n"), [""; 0]);
}

#[test]
fn unknown_keys_are_told_with_the_nearest() {
    let said = "weft.toml:4:1: there is no key \"host\": did you mean \"hosts\"?";
    assert_eq!(with("host = []\n"), [said]);
    let said = "weft.toml:6:1: there is no key \"readonly\": did you mean \"read_only\"?";
    assert_eq!(
        with("[[subsystem.namespace]]\nnsid = 1\nreadonly = true\nsource = \"ram:1MiB\"\n"),
        [said]
    );
    let said = with("[conect]\n");
    assert_eq!(said, ["weft.toml:4:2: there is no key \"conect\": did you mean \"connect\"?"]);
    let said = with("[connect]\nkeepalive-tmo = 5\n");
    assert_eq!(
        said,
        ["weft.toml:5:1: there is no key \"keepalive-tmo\": did you mean \"keep-alive-tmo\"?"]
    );
    let said = with("colour = \"red\"\n");
    assert!(
        said[0].starts_with("weft.toml:4:1: there is no key \"colour\": known are nqn, hosts, "),
        "{said:?}"
    );
}

#[test]
fn values_are_checked_where_they_stand() {
    for (text, said) in [
        ("hosts = 5\n", "4:9: invalid type: integer \"5\", expected a sequence"),
        ("hosts = [\"\"]\n", "4:10: \"\" is not an NQN"),
        ("initiators = [\"\"]\n", "4:15: \"\" is not an iSCSI name"),
        (
            "[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n",
            "5:7: two subsystems have the NQN nqn.2026-01.example:a",
        ),
        (
            "[server]\ndisk_io = \"thread\"\n",
            "5:11: there is no value \"thread\": did you mean \"threads\"?",
        ),
        ("[server]\npool = \"many\"\n", "5:8: \"many\" is not a size"),
        (
            "[server]\npool = \"256\"\n",
            "5:8: 256B is too little to serve anybody: give at least 1MiB",
        ),
        ("[server]\nthreads = 0\n", "5:11: threads is 0"),
        ("[server]\ncntlid_range = \"0-5\"\n", "5:16: use MIN-MAX within 1-65519"),
        ("[server]\nshared = true\n", "5:10: shared needs cntlid_range"),
        ("[[host_limit]]\nhost = \"h\"\n", "5:8: a limit needs iops, bw or both"),
        (
            "[[host_limit]]\nhost = \"h\"\niops = \"many\"\n",
            "6:8: use a number of operations per second",
        ),
        (
            "[[host_limit]]\nhost = \"h\"\nbw = \"0\"\n",
            "6:6: use a number of bytes per second above 0",
        ),
        (
            "[server]\nthreads = -1\n",
            "5:11: invalid value: integer \"-1\", expected a number from 0 to 65535",
        ),
        (
            "[iscsi]\nuser = [{ name = \"a\", secret_file = \"/no/such/file\" }]\n",
            "5:37: cannot read the secret in /no/such/file",
        ),
        ("[tls]\nca_file = \"/no/such/file\"\n", "5:11: cannot read /no/such/file"),
        (
            "[[ana]]\ngroup = 1\nstate = \"optimized\"\nlistener = \"127.0.0.1:x\"\n",
            "7:12: \"127.0.0.1:x\" is not an ADDR:PORT",
        ),
        ("listen = []\n", "4:1: there is no key \"listen\""),
        ("nqn = \"b\"\n", "4:1: duplicate key"),
        ("hosts = [\n", "4:10: "),
    ] {
        let found = with(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with(&format!("weft.toml:{said}")), "{text}: {found:?}");
    }
}

#[test]
fn files_are_looked_for_beside_the_configuration() {
    let text = format!("{BASE}[tls]\nca_file = \"nope\"\n");
    let faults = read(&text, "weft.toml", Path::new("/etc/weft-none")).unwrap_err();
    let said = "weft.toml:5:11: cannot read /etc/weft-none/nope";
    assert!(faults.lines().len() == 1 && faults.lines()[0].starts_with(said), "{faults}");
}

#[test]
fn a_state_is_for_a_listener_that_exists() {
    let with = |listen: &str| {
        let ana = "[[ana]]\ngroup = 1\nstate = \"optimized\"\nlistener = \"127.0.0.1:4420\"\n";
        mistakes(&format!(
            "listen = [\"{listen}\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n{ana}"
        ))
    };
    for fine in
        ["127.0.0.1:4420", "nvme+tcp://0.0.0.0:4420", "127.0.0.2:0", "nvme+tcp://localhost:4420"]
    {
        assert_eq!(with(fine), [""; 0]);
    }
    assert_eq!(
        with("127.0.0.2:4420"),
        ["weft.toml:7:12: there is no listener 127.0.0.1:4420: use an address of listen"]
    );
}

#[test]
fn tls_needs_a_certificate() {
    let said = mistakes(
        "listen = [\"nbds://127.0.0.1:0\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n",
    );
    assert!(
        said.len() == 1 && said[0].starts_with("weft.toml:1:11: TLS needs a certificate"),
        "{said:?}"
    );
}

#[test]
fn one_namespace_writes_to_a_file() {
    let two = |first: &str, second: &str| {
        let namespace =
            |nsid: u32, rest: &str| format!("[[subsystem.namespace]]\nnsid = {nsid}\n{rest}\n");
        with(&format!("{}{}", namespace(1, first), namespace(2, second)))
    };
    let said = two("source = \"file:/srv/a,size=1MiB\"", "source = \"/srv/a\"");
    let expected = "weft.toml:9:10: two namespaces that are not read_only have the file /srv/a: change one of them";
    assert_eq!(said, [expected]);
    for (first, second) in [
        ("source = \"readonly:/srv/a\"", "source = \"/srv/a\"\nread_only = true"),
        ("source = \"/srv/a\"", "source = \"readonly:/srv/a,lock=off\""),
        ("source = \"/srv/a\"", "source = \"/srv/b\""),
    ] {
        assert_eq!(two(first, second), [""; 0]);
    }
    let said = two("source = \"/srv/a\"", "source = \"readonly:/srv/a\"");
    assert!(said.len() == 1 && said[0].contains("/srv/a, which another one reads"), "{said:?}");
}

/// However the paths are written, and in whatever subsystem.
#[test]
fn one_file_is_the_same_under_every_path() {
    let dir = std::env::temp_dir().join(format!("weft-config-files-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("sub")).unwrap();
    std::fs::write(dir.join("a.img"), [0; 512]).unwrap();
    std::fs::hard_link(dir.join("a.img"), dir.join("sub/hard.img")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("a.img", dir.join("link.img")).unwrap();
    #[cfg(not(unix))]
    std::fs::copy(dir.join("a.img"), dir.join("link.img")).unwrap();
    let both = |first: &str, second: &str| {
        let of = |n: u8, name: &str| {
            let source = format!("source = '{}'", dir.join(name).display());
            format!(
                "[[subsystem]]\nnqn = \"nqn.2026-01.example:{n}\"\n[[subsystem.namespace]]\nnsid = 1\n{source}\n"
            )
        };
        mistakes(&format!(
            "listen = [\"nvme+tcp://127.0.0.1:0\"]\n{}{}",
            of(1, first),
            of(2, second)
        ))
    };
    let names: &[&str] = if cfg!(unix) {
        &["a.img", "./a.img", "sub/../a.img", "link.img", "sub/hard.img"]
    } else {
        &["a.img", "./a.img", "sub/../a.img"]
    };
    for first in names {
        for second in names {
            let said = both(first, second);
            assert!(said.len() == 1 && said[0].contains("have the file"), "{said:?}");
        }
    }
    // Of one that is not there yet, too.
    let said = both("new.img,size=1MiB", "sub/../new.img,size=1MiB");
    assert!(said.len() == 1 && said[0].contains("have the file"), "{said:?}");
    assert_eq!(both("a.img", "new.img,size=1MiB"), [""; 0]);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn namespaces_are_checked_too() {
    for (text, said) in [
        ("nsid = 0\nsource = \"ram:1MiB\"", "5:8: 0 is not a namespace identifier"),
        ("nsid = 1", "4:1: missing field \"source\""),
        ("nsid = 1\nsource = \"tape:0\"", "6:10: tape:0: "),
        ("nsid = 1\nsource = \"nvme+tcp://\"", "6:10: "),
        ("nsid = 1\nsource = \"stripe:3,ram:1MiB,ram:1MiB\"", "6:10: stripe:3"),
        ("nsid = 1\nsource = \"limit:iops=much,ram:1MiB\"", "6:10: limit:iops=much"),
        ("nsid = 1\nsource = \"readonly:null:1MiB\"\nuuid = \"1\"", "7:8: \"1\" is not a UUID"),
        (
            "nsid = 1\nsource = \"null:1MiB\"\nnguid = \"12\"",
            "7:9: nguid \"12\" is not 32 hexadecimal digits",
        ),
        (
            "nsid = 1\nsource = \"null:1MiB\"\neui64 = \"zz\"",
            "7:9: eui64 \"zz\" is not 16 hexadecimal digits",
        ),
        (
            "nsid = 1\nsource = \"ram:1MiB\"\neui64 = \"0123456789abcdef\"",
            "7:9: a RAM disk is empty after a restart",
        ),
        ("nsid = 1\nsource = \"ram:1MiB\"\nsize = \"1 stone\"", "7:8: "),
    ] {
        let found = with(&format!("[[subsystem.namespace]]\n{text}\n"));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with(&format!("weft.toml:{said}")), "{text}: {found:?}");
    }
}

#[test]
fn all_mistakes_of_form_are_told() {
    let namespace = |text: &str| format!("[[subsystem.namespace]]\n{text}\n");
    let text = [
        "hots = []\n".to_owned(),
        "hosts = [5, \"\"]\n".to_owned(),
        namespace("nsid = -1\nsource = \"ram:1MiB\"\nread_only = 1"),
        namespace("nsid = 2\nsource = \"ram:1MiB\"\ncolour = 1"),
        namespace("nsid = 3"),
        "[server]\nthreads = 70000\npoll = \"yes\"\n".to_owned(),
    ];
    let said = with(&text.concat());
    let expected = [
        "4:1: there is no key \"hots\": did you mean \"hosts\"?",
        "5:10: invalid type: integer \"5\", expected a string",
        "7:8: invalid value: integer \"-1\", expected a number from 0 to 4294967295",
        "9:13: invalid type: integer \"1\", expected a boolean",
        "13:1: there is no key \"colour\": known are ",
        "14:1: missing field \"source\"",
        "17:11: invalid value: integer \"70000\", expected a number from 0 to 65535",
        "18:8: invalid type: string \"yes\", expected a boolean",
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(&format!("weft.toml:{expected}")), "{said}");
    }
}

#[test]
fn all_mistakes_are_told_in_their_order() {
    let text = "name = \"a b\"\nlisten = [\"x\", \"tcp://127.0.0.1\"]\n[[subsystem]]\nnqn = \"\"\n";
    let found = mistakes(text);
    assert_eq!(found.len(), 3, "{found:?}");
    let lines = found
        .iter()
        .map(|line| line.split(':').nth(1).unwrap().parse().unwrap())
        .collect::<Vec<u32>>();
    assert_eq!(lines, [1, 2, 4]);
    let both = read(text, "weft.toml", Path::new("")).unwrap_err().to_string();
    assert!(both.ends_with("(`weft config check` reports 2 more)"), "{both}");
    assert_eq!(mistakes("").len(), 2, "nowhere to listen, and nothing to serve");
}

#[test]
fn who_shares_has_a_range_of_its_own() {
    let text = format!("{BASE}[[subsystem.namespace]]\nnsid = 1\nsource = \"ram:1MiB\"\n");
    let mut desired = read(&text, "weft.toml", Path::new("")).unwrap();
    assert!(desired.check_cntlids().is_ok());
    desired.shared = true;
    assert!(desired.check_cntlids().is_err());
    desired.cntlids = Some((1, 5));
    assert!(desired.check_cntlids().is_ok());
    assert_eq!(desired.controllers().cntlids, (1, 5));
}
