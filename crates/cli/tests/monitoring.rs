//! The dashboard and the alerts in `packaging` fit the metrics that weft has.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, Server, run, weft};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weft_testing::programs;

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn read(name: &str) -> String {
    let path = place(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The queries of a dashboard, wherever they stand in it.
fn queries(of: &Value, into: &mut Vec<String>) {
    match of {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
            Some(text) if ["expr", "definition"].contains(&name.as_str()) => {
                into.push(text.to_owned());
            }
            _ => queries(value, into),
        }),
        Value::Array(all) => all.iter().for_each(|each| queries(each, into)),
        _ => {}
    }
}

fn dashboard() -> Vec<String> {
    let mut all = Vec::new();
    let dashboard: Value = serde_json::from_str(&read("grafana/weft.json")).unwrap();
    queries(&dashboard, &mut all);
    assert!(all.len() > 30, "{all:?}");
    all
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("weft_")).collect()
}

/// The metrics of a server, in the format that this `Accept` asks for.
fn scrape(server: &Server, accept: &str) -> String {
    let url = server.metrics.as_ref().unwrap().strip_prefix("http://").unwrap();
    let mut client = TcpStream::connect(url.split('/').next().unwrap()).unwrap();
    write!(client, "GET /metrics HTTP/1.1\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

/// All names that a server has, also those of which it has no values now.
fn exported(text: &str) -> BTreeSet<String> {
    let described = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let of = |(name, kind): (&str, &str)| match kind {
        "counter" => vec![format!("{name}_total")],
        "histogram" => ["bucket", "sum", "count"].map(|end| format!("{name}_{end}")).into(),
        _ => vec![name.to_owned()],
    };
    described.flat_map(of).collect()
}

fn server(dir: &Scratch) -> Server {
    Server::start(dir.path(), &["stats:ram:16MiB", "--metrics", "127.0.0.1:0"])
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_that_there_are() {
    let dir = Scratch::new("monitoring-names");
    let known = exported(&scrape(&server(&dir), "*/*"));
    let (dashboard, rules) = (dashboard().join("\n"), read("prometheus/weft.rules.yml"));
    for (file, text) in [("weft.json", &dashboard), ("weft.rules.yml", &rules)] {
        let used = names(text);
        assert!(used.len() > 5, "{file}: {used:?}");
        let unknown: Vec<_> = used.iter().filter(|name| !known.contains(**name)).collect();
        assert!(unknown.is_empty(), "{file} uses {unknown:?}; there are {known:?}");
    }
    // What nobody can see is of no use.
    let page = std::fs::read_to_string(place("../docs/status.md")).unwrap();
    let missing: Vec<_> = known
        .iter()
        .map(|name| {
            ["_bucket", "_sum", "_count"].iter().fold(&**name, |n, end| n.trim_end_matches(end))
        })
        .filter(|name| !names(&page).contains(name))
        .collect();
    assert!(missing.is_empty(), "docs/status.md does not tell of {missing:?}");
}

/// Prometheus' own tool: among the other programs, or where `cargo xtask setup` unpacks it.
fn promtool() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let unpacked = target.join("xtask/programs/promtool/usr/bin/promtool");
    let found = programs::find("promtool").or_else(|| unpacked.is_file().then_some(unpacked));
    if found.is_none() {
        let _ = programs::have(&["promtool"]);
    }
    found
}

fn passes(mut command: Command) {
    let ran = command.stdin(Stdio::null()).output().unwrap();
    let said = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(ran.status.success(), "{command:?}: {said:?}");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_alerts_and_the_queries() {
    let Some(promtool) = promtool() else { return };
    let dir = Scratch::new("monitoring-rules");
    let with = |args: [&str; 2], file: &Path| {
        let mut command = Command::new(&promtool);
        command.args(args).arg(file);
        passes(command);
    };
    with(["check", "rules"], &place("prometheus/weft.rules.yml"));
    with(["test", "rules"], &place("prometheus/weft.rules.test.yml"));
    // The dashboard's queries, as rules that record something. JSON is YAML.
    let is_query = |text: &&String| !text.starts_with("label_values(");
    let rule = |(n, query): (usize, &String)| {
        let query = query.replace("$__rate_interval", "5m").replace("$__range", "1h");
        serde_json::json!({ "record": format!("dashboard:query{n}"), "expr": query })
    };
    let rules: Vec<Value> = dashboard().iter().filter(is_query).enumerate().map(rule).collect();
    let file = dir.path().join("dashboard.yml");
    let groups = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    std::fs::write(&file, groups.to_string()).unwrap();
    with(["check", "rules"], &file);
}

#[test]
fn promtool_finds_nothing_wrong_with_a_scrape_under_load() {
    let Some(promtool) = promtool() else { return };
    let dir = Scratch::new("monitoring-scrape");
    let server = server(&dir);
    let load = ["bench", server.url(), "--rw=randrw", "--bs=4k", "--iodepth=16"];
    let load = weft(dir.path(), &[&load[..], &["--number_ios=30000", "--time_based=0"]].concat());
    let bench = std::thread::spawn(move || run(load));
    let mut text = String::new();
    while !text.contains("weft_host_operations_total{") {
        text = scrape(&server, "text/plain");
        assert!(!bench.is_finished() || text.contains("weft_host_operations_total{"));
    }
    let ran = bench.join().unwrap();
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success() && said.iter().all(String::is_empty), "{said:?}");
}
