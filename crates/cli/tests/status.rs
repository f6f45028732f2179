//! Reports of a server on itself: `weft status`, `weft top`, metrics.

use crate::support::{Scratch, Server, run, weft};
use std::io::{Read, Write};
use std::net::TcpStream;
use weft_testing::wait::until;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:0c1c6a3a-5a53-4a1f-9d0f-5a6e2a5d7c11";
const NQN: &str = "nqn.2026-01.example.weft:status";

/// A response with its header.
fn answer(url: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// One scrape.
fn scrape(url: &str) -> String {
    let answer = answer(url);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// What is there beside the metrics: the page for people, and the health.
#[test]
fn the_port_of_the_metrics_tells_what_it_is() {
    let dir = Scratch::new("home");
    let args = ["ram:16MiB", "--nqn", NQN, "--metrics", "127.0.0.1:0"];
    let server = Server::start(dir.path(), &args);
    let metrics = server.metrics.as_ref().unwrap();
    let at = |path: &str| scrape(&metrics.replace("/metrics", path));
    let page = at("/");
    let version = format!("<h1>weft {}</h1>", env!("CARGO_PKG_VERSION"));
    for part in [&version, "href=\"/metrics\"", "href=\"/healthz\"", NQN, server.url()] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    assert!(scrape(metrics).contains("\nweft_healthy "));
    // A loop of a machine that does much else may not answer at once.
    until("all loops answer", || {
        answer(&metrics.replace("/metrics", "/healthz")).ends_with("ok\n")
    });
}

/// The value of a metric with these labels, in this order.
fn value(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}")).parse().unwrap()
}

fn of_host(metrics: &str, what: &str, operation: &str) -> u64 {
    value(metrics, &format!("weft_host_{what}{{host=\"{HOST}\",operation=\"{operation}\"}}"))
}

/// What a load of two jobs with so many operations each has counted, of reads and of writes:
/// operations, and bytes. `meanwhile` is called until it ends.
fn load(dir: &Scratch, url: &str, ios: u32, mut meanwhile: impl FnMut()) -> [[u64; 2]; 2] {
    let ios = format!("--number_ios={ios}");
    let load = [
        "bench",
        url,
        "--hostnqn",
        HOST,
        "--rw=randrw",
        "--bs=4k",
        "--iodepth=16",
        "--numjobs=2",
        &ios,
    ];
    let bench =
        weft(dir.path(), &[&load[..], &["--time_based=0", "--output-format=json"]].concat());
    let bench = std::thread::spawn(move || run(bench));
    while !bench.is_finished() {
        meanwhile();
    }
    let ran = bench.join().unwrap();
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let jobs = report["jobs"].as_array().unwrap();
    let sum = |direction: &str, field: &str| {
        jobs.iter().map(|job| job[direction][field].as_u64().unwrap()).sum::<u64>()
    };
    ["read", "write"].map(|direction| ["total_ios", "io_bytes"].map(|field| sum(direction, field)))
}

/// The same as the server tells it, once nobody is connected any more.
fn counted(metrics: &str) -> [[u64; 2]; 2] {
    until("the connections have gone", || scrape(metrics).contains("weft_connections 0\n"));
    let text = scrape(metrics);
    ["read", "write"].map(|direction| {
        let host = ["operations_total", "transferred_bytes_total"]
            .map(|what| of_host(&text, what, direction));
        let namespace = ["operations_total", "transferred_bytes_total"].map(|what| {
            let name = format!(
                "weft_namespace_{what}{{subsystem=\"{NQN}\",nsid=\"1\",operation=\"{direction}\"}}"
            );
            value(&text, &name)
        });
        assert_eq!(host, namespace, "{direction}");
        assert_eq!(of_host(&text, "latency_seconds_count", direction), host[0]);
        assert_eq!(of_host(&text, "errors_total", direction), 0);
        host
    })
}

#[test]
fn a_scrape_under_load_agrees_with_the_load() {
    let dir = Scratch::new("scrape");
    let server = Server::start(
        dir.path(),
        &["ram:64MiB,block=4096", "--nqn", NQN, "--metrics", "127.0.0.1:0"],
    );
    let metrics = server.metrics.clone().unwrap();
    assert!(!scrape(&metrics).contains("weft_host_operations_total{"), "no host has been there");
    // Opening a device reads, too, as does looking at what it holds: so many operations more than
    // the load are counted each time.
    let minus = |one: [[u64; 2]; 2], other: [[u64; 2]; 2]| {
        [0, 1].map(|of| [0, 1].map(|what| one[of][what] - other[of][what]))
    };
    let small = load(&dir, server.url(), 1, || {});
    let before = counted(&metrics);
    let opening = minus(before, small);
    assert!(opening[0][0] <= 8 && opening[1] == [0, 0], "{opening:?}");
    // Counters only grow while the load is on.
    let mut last = 0;
    let done = load(&dir, server.url(), 20_000, || {
        let text = scrape(&metrics);
        let now = of_host(&text, "operations_total", "read")
            + of_host(&text, "operations_total", "write");
        assert!(now >= last);
        last = now;
    });
    assert!(done[0][0] + done[1][0] > 30_000);
    assert_eq!(minus(minus(counted(&metrics), before), opening), done);
    assert_eq!(value(&scrape(&metrics), &format!("weft_host_in_flight{{host=\"{HOST}\"}}")), 0);
}

#[test]
fn status_and_top_tell_the_same() {
    let dir = Scratch::new("status");
    let server = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let load = run(weft(
        dir.path(),
        &[
            "bench",
            server.url(),
            "--hostnqn",
            HOST,
            "--rw=read",
            "--bs=4k",
            "--number_ios=1000",
            "--time_based=0",
        ],
    ));
    assert_eq!(load.code(), Some(0), "{load:?}");
    let json = run(weft(dir.path(), &["status", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["hosts"][0]["name"], HOST);
    // Opening the device has read, too.
    let reads = report["hosts"][0]["counts"]["read"]["operations"].as_u64().unwrap();
    assert!((1000..1010).contains(&reads), "{reads}");
    assert_eq!(report["subsystems"][0]["namespaces"][0]["counts"]["read"]["operations"], reads);
    assert_eq!(report["listeners"][0], server.url());
    let text = run(weft(dir.path(), &["status"]));
    for part in [HOST, NQN, "1,00", "4.1 MB"] {
        assert!(text.out.contains(part), "{part} is not in\n{}", text.out);
    }
    let top = run(weft(dir.path(), &["top", "--interval", "10ms", "--count", "2"]));
    assert_eq!((top.code(), top.out.matches(HOST).count()), (Some(0), 2), "{top:?}");
    // Into a file or a pipe the graph goes as ASCII.
    let graphs: Vec<_> = top.out.lines().filter(|line| line.starts_with("IOPS, last")).collect();
    assert!(graphs.len() == 2 && graphs.iter().all(|line| line.is_ascii()), "{graphs:?}");
    let narrow = ["top", "--interval", "10ms", "--count", "1", "--sort", "latency"];
    let mut narrow = weft(dir.path(), &narrow);
    narrow.env("COLUMNS", "70");
    let narrow = run(narrow);
    let row = narrow.out.lines().find(|line| line.starts_with("host ")).unwrap();
    assert!(row.contains("5d7c11") && row.chars().count() <= 70, "{narrow:?}");
    let wrong = run(weft(dir.path(), &["top", "--sort", "size"]));
    assert!(wrong.code() == Some(2) && wrong.err.contains("bandwidth"), "{wrong:?}");
}

#[test]
fn metrics_for_the_network_need_a_token_that_nobody_else_can_read() {
    let dir = Scratch::new("token");
    let refused = |args: &[&str]| {
        let ran = run(weft(
            dir.path(),
            &[&["serve", "null:1MiB", "--listen", "127.0.0.1:0"], args].concat(),
        ));
        (ran.code(), ran.message().to_owned())
    };
    let (code, message) = refused(&["--metrics", "0.0.0.0:0"]);
    assert!(code == Some(2) && message.contains("--metrics-token-file"), "{message}");
    assert_eq!(refused(&["--metrics", "nowhere"]).0, Some(2));
    let token = dir.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let file = token.to_str().unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
        let (code, message) = refused(&["--metrics", "127.0.0.1:0", "--metrics-token-file", file]);
        assert!(code == Some(4) && message.contains("chmod 600"), "{message}");
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let server = Server::start(
        dir.path(),
        &["null:1MiB", "--metrics", "127.0.0.1:0", "--metrics-token-file", file],
    );
    let address = server
        .metrics
        .as_ref()
        .unwrap()
        .strip_prefix("http://")
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    for (token, status) in [("", "401"), ("Authorization: Bearer s3cret\r\n", "200")] {
        let mut client = TcpStream::connect(address).unwrap();
        write!(client, "GET /metrics HTTP/1.1\r\n{token}\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[test]
fn a_gateway_tells_of_its_paths() {
    let dir = Scratch::new("paths");
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN, "--control", "target"]);
    let metrics = ["--metrics", "127.0.0.1:0", "--control", "gateway"];
    let gateway = Server::start(
        dir.path(),
        &[&[target.url(), "--nqn", "nqn.2026-01.example.weft:gateway"], &metrics[..]].concat(),
    );
    let load =
        ["bench", gateway.url(), "--rw=read", "--bs=4k", "--number_ios=100", "--time_based=0"];
    let ran = run(weft(dir.path(), &load));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let json = run(weft(dir.path(), &["status", "--json", "--control", "gateway"]));
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let path = &report["subsystems"][0]["namespaces"][0]["paths"][0];
    assert_eq!((&path["state"], &path["access"]), (&"live".into(), &"optimized".into()), "{path}");
    assert!(path["operations"].as_u64().unwrap() >= 100, "{path}");
    let text = scrape(gateway.metrics.as_ref().unwrap());
    assert!(
        text.lines().any(|line| line.starts_with("weft_path_up{") && line.ends_with(" 1")),
        "{text}"
    );
    for command in [&["status"][..], &["top", "--interval", "10ms", "--count", "1"]] {
        let ran = run(weft(dir.path(), &[command, &["--control", "gateway"]].concat()));
        assert!(ran.out.contains("live optimized"), "{ran:?}");
    }
}

/// Its legs are told as paths, with what the loops and the home of the mirror have done there.
#[test]
fn a_mirror_tells_what_its_legs_do() {
    let dir = Scratch::new("legs");
    let legs = ["file:./a.img,size=8MiB", "file:./b.img,size=8MiB"];
    let created = run(weft(dir.path(), &["mirror", "create", "--assume-clean", legs[0], legs[1]]));
    assert_eq!(created.code(), Some(0), "{}", created.err);
    let mirror = "mirror:file:./a.img,file:./b.img";
    let server = Server::start(dir.path(), &[mirror, "--nqn", NQN, "--metrics", "127.0.0.1:0"]);
    let load = ["bench", server.url(), "--rw=write", "--bs=4k", "--number_ios=100"];
    let ran = run(weft(dir.path(), &[&load[..], &["--time_based=0"]].concat()));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let json = run(weft(dir.path(), &["status", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let paths = report["subsystems"][0]["namespaces"][0]["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2, "{paths:?}");
    let text = scrape(server.metrics.as_ref().unwrap());
    for path in paths {
        let told = |of: &str| path[of].as_u64().unwrap();
        let [operations, bytes] = ["operations", "bytes"].map(told);
        assert!(operations >= 100 && bytes >= 100 * 4096 && told("latency_ns") > 0, "{path}");
        assert_eq!(["errors", "retries", "reconnects"].map(told), [0; 3], "{path}");
        let url = path["url"].as_str().unwrap();
        let of = |what: &str| {
            let labels = format!("{{subsystem=\"{NQN}\",nsid=\"1\",path=\"{url}\"}}");
            value(&text, &format!("weft_path_{what}_total{labels}"))
        };
        assert!(of("operations") >= operations && of("transferred_bytes") >= bytes, "{text}");
        assert_eq!([of("errors"), of("reconnects")], [0, 0]);
    }
}

#[test]
fn filters_tell_what_passed_them() {
    let dir = Scratch::new("filters");
    let stripe = "stripe:64KiB,stats:ram:8MiB,stats:ram:8MiB";
    let server = Server::start(dir.path(), &[stripe, "--nqn", NQN, "--metrics", "127.0.0.1:0"]);
    // All of it once: half of the blocks are on each member.
    let ran =
        run(weft(dir.path(), &["bench", server.url(), "--rw=write", "--bs=64k", "--time_based=0"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let json = run(weft(dir.path(), &["status", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let filters = report["subsystems"][0]["namespaces"][0]["filters"].as_array().unwrap();
    assert_eq!(filters.len(), 2, "{filters:?}");
    let text = scrape(server.metrics.as_ref().unwrap());
    for (at, filter) in filters.iter().enumerate() {
        assert_eq!(
            (&filter["url"], &filter["kinds"]["write"]["bytes"]),
            (&"stats:ram:8MiB".into(), &(8 << 20).into()),
            "{filter}"
        );
        assert_eq!(
            (&filter["kinds"]["write"]["operations"], &filter["kinds"]["write"]["errors"]),
            (&128.into(), &0.into())
        );
        let labels = format!(
            "{{subsystem=\"{NQN}\",nsid=\"1\",filter=\"{at}\",url=\"stats:ram:8MiB\",operation=\"write\"}}"
        );
        assert_eq!(value(&text, &format!("weft_filter_operations_total{labels}")), 128);
        assert_eq!(value(&text, &format!("weft_filter_transferred_bytes_total{labels}")), 8 << 20);
    }
    let shown = run(weft(dir.path(), &["status"]));
    assert!(shown.out.contains("stats:ram:8MiB") && shown.out.contains("Longest"), "{}", shown.out);
}

/// Whoever connects chooses a name. If refused ones were kept, strangers could fill the monitor's
/// memory.
#[test]
fn hosts_that_were_refused_leave_no_label() {
    let dir = Scratch::new("refused-labels");
    let friend = "iqn.2026-01.example.host:friend";
    dir.private("right", "twelve bytes and more\n");
    dir.private("wrong", "another one of them\n");
    let mut args =
        vec!["ram:16MiB", "--nqn", NQN, "--allow-host", HOST, "--metrics", "127.0.0.1:0"];
    args.extend(["--listen", "nvme+tcp://127.0.0.1:0", "--listen", "iscsi://127.0.0.1:0"]);
    args.extend([
        "--allow-initiator",
        friend,
        "--login-user",
        "user",
        "--login-secret-file",
        "right",
    ]);
    let server = Server::start(dir.path(), &args);
    let metrics = server.metrics.clone().unwrap();
    let url =
        |scheme: &str| server.urls.iter().find(|url| url.starts_with(scheme)).unwrap().as_str();
    let (nvme, iscsi) = (url("nvme"), url("iscsi"));
    let bench = |url: &str, more: &[&str]| {
        let args = [&["bench", url, "--number_ios=10", "--ctrl-loss-tmo=0"], more].concat();
        run(weft(dir.path(), &args)).code()
    };
    let secret = |file: &'static str| ["--chap-user", "user", "--chap-secret-file", file];
    let elsewhere = nvme.replace(NQN, "nqn.2026-01.example.weft:nobody");
    let strangers = ["stranger-1", "stranger-2", "stranger-3", "stranger-4"];
    let nqn = |name: &str| format!("nqn.2026-01.example.host:{name}");
    let iqn = |name: &str| format!("iqn.2026-01.example.host:{name}");
    let codes = [
        bench(nvme, &["--hostnqn", &nqn(strangers[0])]),
        bench(&elsewhere, &["--hostnqn", &nqn(strangers[1])]),
        bench(iscsi, &[&["--initiator-name", &iqn(strangers[2])][..], &secret("right")].concat()),
        bench(iscsi, &[&["--initiator-name", &iqn(strangers[3])][..], &secret("wrong")].concat()),
        bench(iscsi, &[&["--initiator-name", friend][..], &secret("wrong")].concat()),
    ];
    assert!(codes.iter().all(|code| *code != Some(0)), "{codes:?}");
    let text = scrape(&metrics);
    assert!(
        !text.contains("host=\"") && !text.contains("stranger") && !text.contains(friend),
        "{text}"
    );
    // Those that are let in have one.
    assert_eq!(bench(nvme, &["--hostnqn", HOST]), Some(0));
    assert_eq!(
        bench(iscsi, &[&["--initiator-name", friend][..], &secret("right")].concat()),
        Some(0)
    );
    let text = scrape(&metrics);
    for host in [HOST, friend] {
        assert!(
            text.contains(&format!("weft_host_operations_total{{host=\"{host}\"")),
            "{host}: {text}"
        );
    }
    assert!(!text.contains("stranger"), "{text}");
}
