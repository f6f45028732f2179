//! `weft connect-all`: subsystems from discovery controllers, and from the files of nvme-cli.
#![cfg(unix)]

use crate::support::{Ran, Scratch, Server, run, weft};

const ONE: &str = "nqn.2026-01.example.weft:one";
const TWO: &str = "nqn.2026-01.example.weft:two";

/// A directory whose connections end with it.
struct Dir(Scratch);

impl Dir {
    fn run(&self, args: &[&str]) -> Ran {
        run(weft(self.0.path(), args))
    }

    fn lines(&self, args: &[&str]) -> Vec<String> {
        let ran = self.run(&[&["connect-all", "--as", "nbd", "--serve-only"], args].concat());
        assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
        let mut lines: Vec<String> = ran.out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = weft(self.0.path(), &["disconnect", "--all", "--force"]).output();
    }
}

#[test]
fn all_namespaces_that_are_told_are_connected_once() {
    let dir = Dir(Scratch::new("connect-all"));
    let two = Server::start(dir.0.path(), &["ram:1MiB", "--nqn", TWO]);
    let referral = format!("nvme+tcp://{}", two.address());
    let one = ["ram:1MiB", "ram:2MiB", "--nqn", ONE, "--referral", &referral];
    let one = Server::start(dir.0.path(), &one);
    let url = format!("nvme+tcp://{}", one.address());
    let printed = dir.lines(&[&url, "--print", "-g", "--queue-size", "32"]);
    let expected = |at: &Server, nqn, nsid| {
        let url = format!("nvme+tcp://{}/{nqn}/{nsid}", at.address());
        format!("weft connect {url} --as=nbd --serve-only --hdr-digest --queue-size=32")
    };
    let all = [expected(&one, ONE, 1), expected(&one, ONE, 2), expected(&two, TWO, 1)];
    let mut all = all.to_vec();
    all.sort();
    assert_eq!(printed, all);
    let connected = dir.lines(&[&url]);
    assert_eq!(connected.len(), 3, "{connected:?}");
    assert!(connected.iter().all(|line| line.contains(" is at ")), "{connected:?}");
    let (host, port) =
        one.address().rsplit_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let again = dir.lines(&["-t", "tcp", "-a", &host, "-s", &port]);
    assert!(again.iter().all(|line| line.contains("is connected already")), "{again:?}");
    let listed: serde_json::Value =
        serde_json::from_str(&dir.run(&["list", "-o", "json"]).out).unwrap();
    assert_eq!(listed["Devices"].as_array().unwrap().len(), 3);
}

#[test]
fn files_of_nvme_cli_are_read_as_they_are() {
    let dir = Dir(Scratch::new("connect-all-files"));
    let server = Server::start(dir.0.path(), &["ram:1MiB", "--nqn", ONE]);
    let other = Server::start(dir.0.path(), &["ram:1MiB", "--nqn", ONE]);
    let [(host, port), (_, other_port)] = [&server, &other].map(|server| {
        let address = server.address();
        let (host, port) = address.rsplit_once(':').unwrap();
        (host.to_owned(), port.to_owned())
    });
    let write = |name: &str, text: String| {
        let path = dir.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let text = format!(
        "# the first one\n\n--transport=tcp --traddr={host} --trsvcid={port} --persistent --nr-write-queues=2\n\
         -t tcp -a {host} -s {other_port} -w 127.0.0.1 -l 60\n"
    );
    let conf = write("discovery.conf", text);
    // The same subsystem at two addresses is one device with two paths.
    let printed = dir.lines(&["--discovery-conf", &conf, "--print"]);
    let url = |port: &str| format!("nvme+tcp://{host}:{port}/{ONE}/1");
    let (first, second) = (url(&port), url(&other_port));
    let expected = format!("weft connect {first} --path={second} --as=nbd --serve-only");
    assert_eq!(printed, [expected.as_str()]);
    let key = dir.run(&["gen-dhchap-key"]).out.trim().to_owned();
    let port_of = |port: &str, more: &str| {
        format!(r#"{{"transport":"tcp","traddr":"{host}","trsvcid":"{port}"{more}}}"#)
    };
    let json = format!(
        r#"{{"hosts":[{{"hostnqn":"nqn.2026-01.example:host","subsystems":[
            {{"nqn":"nqn.2014-08.org.nvmexpress.discovery","ports":[{}]}},
            {{"nqn":"{ONE}","application":"x","ports":[{},{{"transport":"fc","traddr":"nn-0x1"}}]}}]}}]}}"#,
        port_of(&port, r#","ctrl_loss_tmo":60,"hdr_digest":true,"data_digest":false"#),
        port_of(&other_port, &format!(r#","dhchap_key":"{key}""#)),
    );
    let json = write("config.json", json);
    let printed = dir.lines(&["--config", &json, "--print", "-i", "3"]);
    let options =
        "--hostnqn=nqn.2026-01.example:host --hdr-digest --ctrl-loss-tmo=60 --nr-io-queues=3";
    assert_eq!(printed, [format!("{expected} {options}")]);
    // A key is in no word of a command, but in a file of its own.
    let text = std::fs::read_to_string(&json).unwrap().replacen(&port, &other_port, 1);
    let json = write(
        "other.json",
        text.replacen("discovery\"", "discovery\",\"dhchap_key\":\"KEY\"", 1).replace("KEY", &key),
    );
    let printed = dir.lines(&["--config", &json, "--print"]).concat();
    assert!(!printed.contains(&key) && printed.contains("--dhchap-secret-file="), "{printed}");
    let file = printed.split("--dhchap-secret-file=").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap().trim(), key);
}

#[test]
fn a_key_in_a_file_is_not_on_a_command_line() {
    let dir = Dir(Scratch::new("connect-all-keys"));
    let server = Server::start(dir.0.path(), &["ram:1MiB", "--nqn", ONE]);
    let (host, port) = server.address().rsplit_once(':').unwrap();
    let key = dir.run(&["gen-dhchap-key"]).out.trim().to_owned();
    let path = dir.0.path().join("discovery.conf");
    let file = path.display().to_string();
    for option in [format!("--dhchap-secret={key}"), format!("-S {key}"), format!("-S{key}")] {
        std::fs::write(&path, format!("-t tcp -a {host} -s {port} {option}\n")).unwrap();
        let printed = dir.lines(&["--discovery-conf", &file, "--print"]).concat();
        assert!(!printed.contains(&key), "{printed}");
        let kept = printed.split("--dhchap-secret-file=").nth(1).unwrap();
        let kept = kept.split(' ').next().unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap().trim(), key, "{printed}");
    }
}

/// Lines and parts that are another program's, or mistakes: each is skipped with a warning.
#[test]
fn an_odd_line_keeps_no_other_out() {
    let dir = Dir(Scratch::new("connect-all-odd"));
    let server = Server::start(dir.0.path(), &["ram:1MiB", "--nqn", ONE]);
    let address = server.address();
    let (host, port) = address.rsplit_once(':').unwrap();
    let expected = format!("weft connect nvme+tcp://{address}/{ONE}/1 --as=nbd --serve-only");
    let file = dir.0.path().join("file");
    let path = file.display().to_string();
    let good = format!("-t tcp -a {host} -s {port}\n");
    let odd: [&[u8]; 10] = [
        b"--transport=fc --traddr=nn-0x1:pn-0x2",
        b"-t loop",
        b"-t tcp -a 127.0.0.1 --no-such-option=3",
        b"-t tcp -a 127.0.0.1 stray words",
        b"-t tcp -a 127.0.0.1 -s discovery",
        b"-t tcp -a 127.0.0.1,127.0.0.2",
        b"-t tcp -a [::1]",
        b"-t tcp -q nqn.2026-01.example:\xff -a 127.0.0.1",
        b"-t tcp -n nqn.2026-01.example:x",
        b"# \xff is no comment in UTF-8",
    ];
    let comments = 1;
    for text in [[odd.join(&b'\n'), good.clone().into()], [good.clone().into(), odd.join(&b'\n')]] {
        std::fs::write(&file, text.join(&b'\n')).unwrap();
        let ran = dir.run(&[
            "connect-all",
            "--as",
            "nbd",
            "--serve-only",
            "--print",
            "--discovery-conf",
            &path,
        ]);
        assert_eq!((ran.code(), ran.out.trim()), (Some(0), expected.as_str()), "{ran:?}");
        assert_eq!(ran.err.matches("this is skipped").count(), odd.len() - comments, "{ran:?}");
    }
    let good = format!(r#"{{"transport":"tcp","traddr":"{host}","trsvcid":"{port}"}}"#);
    let json = format!(
        r#"{{"hosts":[7,{{"subsystems":[{{"nqn":5}},{{"nqn":"{ONE}","ports":[
            {{}},{{"transport":"tcp"}},{{"transport":"tcp","traddr":7}},"x",
            {{"transport":"tcp","traddr":"see console"}},{{"transport":"tcp","traddr":"{host}","trsvcid":[]}},
            {good}]}}]}}]}}"#
    );
    std::fs::write(&file, json).unwrap();
    let ran = dir.run(&["connect-all", "--as", "nbd", "--serve-only", "--print", "-J", &path]);
    assert_eq!((ran.code(), ran.out.trim()), (Some(0), expected.as_str()), "{ran:?}");
    assert_eq!(ran.err.matches("is skipped").count(), 8, "{ran:?}");
}

#[test]
fn one_that_fails_keeps_no_other_out_and_mistakes_are_said() {
    let dir = Dir(Scratch::new("connect-all-fails"));
    let server = Server::start(dir.0.path(), &["ram:1MiB", "--nqn", ONE]);
    let (host, port) =
        server.address().rsplit_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let file = dir.0.path().join("discovery.conf");
    let path = file.display().to_string();
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(&format!("-t tcp -a 127.0.0.1 -s 1\n-t tcp -a {host} -s {port}\n"));
    let args = ["connect-all", "--as", "nbd", "--serve-only", "--discovery-conf", &path];
    let ran = dir.run(&args);
    assert_eq!(ran.code(), Some(7), "{ran:?}");
    assert!(ran.out.contains(" is at ") && ran.err.contains("discovery.conf:1: "), "{ran:?}");
    for (text, word) in [
        ("--traddr", "discovery.conf:1: "),
        ("\n--no-such-option=3", "discovery.conf:2: unexpected argument"),
        ("--nqn=nqn.2026-01.example:x", "the address is missing"),
    ] {
        write(text);
        let ran = dir.run(&args);
        assert_eq!(ran.code(), Some(2), "{text}: {ran:?}");
        assert!(ran.err.contains(word), "{text}: {ran:?}");
    }
    for (text, word) in [("{", "EOF"), ("{}", "no list \"hosts\"")] {
        write(text);
        let ran = dir.run(&["connect-all", "--print", "-J", &path]);
        assert!(ran.code() == Some(2) && ran.err.contains(word), "{text}: {ran:?}");
    }
    let ran = dir.run(&["connect-all", "--print", "--discovery-conf", "/no/such/file"]);
    assert!(ran.code() == Some(3) && ran.err.contains("cannot read"), "{ran:?}");
}
