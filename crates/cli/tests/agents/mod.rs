//! Studies of several machines. Each agent has a network of its own where the system allows that;
//! otherwise they share the loopback.
#![cfg(target_os = "linux")]

mod networks;
mod payload;

use crate::support::{Ran, Scratch, Server, run, weft};
use networks::{Networks, inside};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weft_testing::wait::{PATIENCE, until};

/// A running agent, ended by its process id.
struct Agent {
    child: Child,
    address: SocketAddr,
    fingerprint: String,
}

impl Agent {
    /// Starts one whose lasting names are in a directory of its own.
    fn start(dir: &Path, name: &str, network: Option<&str>, listen: &str, devices: &str) -> Self {
        let own = dir.join(name);
        std::fs::create_dir_all(&own).unwrap();
        let config =
            format!("listen = \"{listen}\"\nkey_file = \"{}\"\n{devices}", key(dir).display());
        std::fs::write(own.join("agent.toml"), config).unwrap();
        let mut command = inside(network, weft(&own, &["agent", "--config", "agent.toml"]));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut line = |prefix: &str| {
            let line = lines.next().unwrap_or_else(|| panic!("{name} does not listen"));
            line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line}")).to_owned()
        };
        Self {
            address: line("agent at ").parse().unwrap(),
            fingerprint: line("fingerprint "),
            child,
        }
    }

    /// On the loopback.
    fn local(dir: &Path, name: &str, devices: &str) -> Self {
        Self::start(dir, name, None, "127.0.0.1:0", devices)
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it as a service manager does.
    fn terminate(mut self) {
        weft_testing::process::signal(self.child.id(), "TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The key of a test, made the first time.
fn key(dir: &Path) -> PathBuf {
    let path = dir.join("key");
    if !path.exists() {
        let made = run(weft(dir, &["agent", "--make-key", "key"]));
        assert_eq!(made.code(), Some(0), "{made:?}");
    }
    path
}

fn device(url: &str, write: bool) -> String {
    format!("[[device]]\nurl = \"{url}\"\nwrite = {write}\n")
}

fn list(agents: &[Agent]) -> String {
    agents.iter().map(|agent| agent.address.to_string()).collect::<Vec<_>>().join(",")
}

/// A suite that takes little time: one workload.
fn suite(dir: &Path, lanes: &str) -> PathBuf {
    let text = format!(
        "name = \"short\"\ntitle = \"A short one\"\nsource = \"ram:16MiB\"\ndraw = [\"iops\", \"cpu\"]\n{lanes}\n\
         lanes = [{{ name = \"local\", through = \"local\" }}]\n\
         workloads = [{{ block = \"4k\", rw = \"randrw\", jobs = 2, depth = 4 }}]\n\
         [quick]\nbudget = \"2s\"\nrounds = 2\n[usual]\nbudget = \"12s\"\nrounds = 6\n[full]\nbudget = \"1min\"\nrounds = 6\n"
    );
    let path = dir.join("short.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn study(dir: &Path, agents: &str, args: &[&str]) -> Command {
    let mut command = weft(dir, &["study", "--suite", "./short.toml", "--agents", agents]);
    command.args(args);
    command
}

/// A study with the key of the test.
fn with_key(dir: &Path, agents: &str, args: &[&str]) -> Command {
    let key = key(dir);
    let mut command = study(dir, agents, args);
    command.arg("--key-file").arg(key);
    command
}

fn results(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("results.json")).unwrap()).unwrap()
}

fn ios(row: &Value) -> f64 {
    row["iops"].as_f64().unwrap()
}

fn has_note(results: &Value, text: &str) -> bool {
    results["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(text))
}

/// A target and four agents on it.
struct Four {
    hub: Option<String>,
    url: String,
    agents: Vec<Agent>,
    _target: Server,
    _networks: Option<Networks>,
}

impl Four {
    fn start(dir: &Path) -> Self {
        let networks = Networks::make(4);
        let hub = networks.as_ref().map(Networks::hub);
        let listen = if networks.is_some() { "nbd://10.99.0.1:10809" } else { "nbd://127.0.0.1:0" };
        let target = weft(dir, &["serve", "ram:16MiB", "--threads", "1", "--listen", listen]);
        let target = Server::spawn(inside(hub.as_deref(), target));
        let url = target.url().to_owned();
        let start = |at: usize| {
            let network = networks.as_ref().map(|networks| networks.name(at));
            let address = if networks.is_some() {
                format!("10.99.0.{}:4430", at + 2)
            } else {
                "127.0.0.1:0".into()
            };
            Agent::start(
                dir,
                &format!("agent{at}"),
                network.as_deref(),
                &address,
                &device(&url, true),
            )
        };
        let agents = (0..4).map(start).collect();
        Self { hub, url, agents, _target: target, _networks: networks }
    }

    fn study(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = with_key(dir, &list(&self.agents), args);
        command.arg(&self.url);
        inside(self.hub.as_deref(), command)
    }
}

#[test]
fn four_machines_run_alike_and_become_one_report() {
    let dir = Scratch::new("agents-four");
    let dir = dir.path();
    suite(dir, "agents = \"one-to-all\"");
    let four = Four::start(dir);
    let ran = run(four.study(dir, &["--quick"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let data = results(dir);
    let lanes: Vec<&str> = data["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| lane["name"].as_str().unwrap())
        .collect();
    assert_eq!(lanes, ["agents-1", "agents-2", "agents-3", "agents-4"]);
    for (at, row) in data["rows"].as_array().unwrap().iter().enumerate() {
        assert_eq!(
            (row["machines"].as_array().unwrap().len(), row["failed"].as_u64()),
            (at + 1, Some(0)),
            "{row}"
        );
        assert!(
            ios(row) > 0.0
                && row["machines"].as_array().unwrap().iter().all(|share| ios(share) > 0.0),
            "{row}"
        );
    }
    assert_eq!(
        (data["agents"].as_array().unwrap().len(), data["ceiling"].as_array().unwrap().len()),
        (4, 0)
    );
    for (agent, facts) in four.agents.iter().zip(data["agents"].as_array().unwrap()) {
        assert_eq!(facts["fingerprint"].as_str(), Some(agent.fingerprint.as_str()));
        let (offset, uncertainty) = (
            facts["clock_offset_ns"].as_f64().unwrap(),
            facts["clock_uncertainty_ns"].as_f64().unwrap(),
        );
        assert!(facts["lost"].is_null() && uncertainty > 0.0 && offset.is_finite(), "{facts}");
    }
    assert!(has_note(&data, "from 4 machines"), "{}", data["notes"]);
}

#[test]
fn a_machine_that_dies_in_a_run_is_missed_in_words() {
    let dir = Scratch::new("agents-killed");
    let dir = dir.path();
    suite(dir, "agents = \"one-to-all\"");
    let mut four = Four::start(dir);
    let before = processor_time(&four.agents[2]);
    let child = four.study(dir, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // On a busy machine it gets little of a processor before the last run ends.
    until("the run of the third agent", || processor_time(&four.agents[2]) > before + 6);
    four.agents[2].kill();
    let output = child.wait_with_output().unwrap();
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let ran = Ran { status: output.status, out, err };
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let data = results(dir);
    let sentence = format!("The agent {} was lost", four.agents[2].address);
    assert!(has_note(&data, &sentence) && ran.err.contains(&sentence), "{ran:?}");
    assert!(ran.out.contains("# A machine that was to put load on was lost"), "{}", ran.out);
    assert!(std::fs::read_to_string(dir.join("report.html")).unwrap().contains(&sentence));
    assert!(data["agents"][2]["lost"].is_string() && data["agents"][3]["lost"].is_null());
    let rows = data["rows"].as_array().unwrap();
    let row = |lane: &str| {
        rows.iter().find(|row| row["lane"] == lane).unwrap_or_else(|| panic!("no row of {lane}"))
    };
    assert!(rows.len() == 4 && rows.iter().all(|row| ios(row) > 0.0));
    // The lanes without it are whole, and those with it say so.
    for lane in ["agents-1", "agents-2"] {
        assert_eq!(
            (row(lane)["left_out"].as_u64(), row(lane)["machines"].as_array().unwrap().len() < 3),
            (Some(0), true)
        );
    }
    assert!(ran.out.contains("# A machine that was to put load on was lost"), "{}", ran.out);
    let remarks = row("agents-4")["remarks"].to_string();
    assert!(remarks.contains("was lost"), "{remarks}");
}

/// Ticks of the processor that an agent has used; of the process itself, as `ip netns exec` becomes
/// it.
fn processor_time(agent: &Agent) -> u64 {
    let text =
        std::fs::read_to_string(format!("/proc/{}/stat", agent.child.id())).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    ticks(11) + ticks(12)
}

#[test]
fn without_the_key_nothing_is_opened() {
    let dir = Scratch::new("agents-key");
    let dir = dir.path();
    suite(dir, "");
    let agent = Agent::local(dir, "agent", &device("ram:16MiB", true));
    let address = agent.address.to_string();
    let none = run(study(dir, &address, &["--quick", "ram:16MiB"]));
    assert_eq!(none.code(), Some(2), "{none:?}");
    assert!(none.message().contains("WEFT_AGENT_KEY"), "{none:?}");
    let mut wrong = study(dir, &address, &["--quick", "ram:16MiB"]);
    wrong.env("WEFT_AGENT_KEY", "another key that is long enough for one");
    let wrong = run(wrong);
    assert_eq!(wrong.code(), Some(4), "{wrong:?}");
    assert!(wrong.message().contains("does not have its key"), "{wrong:?}");
    // An agent that cannot prove that it has the key is not remembered.
    assert!(!dir.join("state/known-agents").exists());
    let mut short = study(dir, &address, &["--quick", "ram:16MiB"]);
    short.env("WEFT_AGENT_KEY", "short");
    assert_eq!(run(short).code(), Some(2));
    // The key may come from the environment, and is in none of the results.
    let secret = std::fs::read_to_string(key(dir)).unwrap();
    let mut right = study(dir, &address, &["--quick", "ram:16MiB"]);
    right.env("WEFT_AGENT_KEY", secret.trim());
    let right = run(right);
    assert_eq!(right.code(), Some(0), "{right:?}");
    for file in ["results.json", "report.html"] {
        assert!(
            !std::fs::read_to_string(dir.join(file)).unwrap().contains(secret.trim()),
            "{file}"
        );
    }
    // A file that others can read is no place for a key.
    assert!(
        Command::new("chmod").args(["644", key(dir).to_str().unwrap()]).status().unwrap().success()
    );
    let public = run(with_key(dir, &address, &["--quick", "ram:16MiB"]));
    assert_eq!(public.code(), Some(4), "{public:?}");
    agent.terminate();
}

#[test]
fn a_fingerprint_that_changed_is_refused_in_a_sentence() {
    let dir = Scratch::new("agents-fingerprint");
    let dir = dir.path();
    suite(dir, "");
    let agent = Agent::local(dir, "agent", &device("ram:16MiB", true));
    let (address, first) = (agent.address.to_string(), agent.fingerprint.clone());
    let args = ["--quick", "ram:16MiB"];
    assert_eq!(run(with_key(dir, &address, &args)).code(), Some(0));
    let known = std::fs::read_to_string(dir.join("state/known-agents")).unwrap();
    assert_eq!(known, format!("{address} {first}\n"));
    agent.terminate();
    std::fs::remove_dir_all(dir.join("agent/state")).unwrap();
    let again = Agent::start(dir, "agent", None, &address, &device("ram:16MiB", true));
    assert_ne!(again.fingerprint, first);
    let changed = run(with_key(dir, &address, &args));
    assert_eq!(changed.code(), Some(4), "{changed:?}");
    assert!(
        changed.message().contains("its certificate has changed")
            && changed.message().contains("known-agents"),
        "{changed:?}"
    );
    // What the user gives counts, and nothing else.
    let with = |print: &str| run(with_key(dir, &format!("{address}@{print}"), &args));
    assert_eq!(with(&again.fingerprint).code(), Some(0));
    assert_eq!(with(&first).code(), Some(4));
}

#[test]
fn an_agent_touches_only_what_its_configuration_lists() {
    let dir = Scratch::new("agents-devices");
    let dir = dir.path();
    suite(dir, "");
    for name in ["listed.img", "other.img", "data.img"] {
        std::fs::write(dir.join(name), vec![0; 4 << 20]).unwrap();
    }
    let mut image = vec![0; 4 << 20];
    image[..4].copy_from_slice(b"XFSB");
    std::fs::write(dir.join("data.img"), &image).unwrap();
    let file = |name: &str| format!("file:{}", dir.join(name).display());
    let devices = device(&file("listed.img"), false) + &device(&file("data.img"), true);
    let agent = Agent::local(dir, "agent", &devices);
    let address = agent.address.to_string();
    let other = run(with_key(dir, &address, &["--quick", &file("other.img")]));
    assert_eq!(other.code(), Some(4), "{other:?}");
    assert!(other.message().contains("not listed"), "{other:?}");
    let data = run(with_key(dir, &address, &["--quick", &file("data.img")]));
    assert_eq!(data.code(), Some(5), "{data:?}");
    assert!(data.message().contains("--destroy-data"), "{data:?}");
    assert_eq!(std::fs::read(dir.join("data.img")).unwrap(), image);
    // One that may only be read has no row here, as the workload writes.
    let read_only = run(with_key(dir, &address, &["--quick", &file("listed.img")]));
    assert!(read_only.code() != Some(101), "{read_only:?}");
    for name in ["listed.img", "other.img"] {
        assert!(
            std::fs::read(dir.join(name)).unwrap().iter().all(|byte| *byte == 0),
            "{name} was written to"
        );
    }
    let consent = run(with_key(dir, &address, &["--quick", "--destroy-data", &file("data.img")]));
    assert_eq!(consent.code(), Some(0), "{consent:?}");
    // Which blocks were written in so short a time depends on the load of the machine.
    assert!(std::fs::read(dir.join("data.img")).unwrap() != image);
}

/// Strangers: they get no place, and do not keep the agent from its work.
#[test]
fn strangers_that_are_slow_or_send_too_much_do_not_harm() {
    let dir = Scratch::new("agents-strangers");
    let dir = dir.path();
    suite(dir, "");
    let agent = Agent::local(dir, "agent", &device("ram:16MiB", true));
    // Silent ones, fewer than the agent has places for.
    let silent: Vec<TcpStream> =
        (0..8).map(|_| TcpStream::connect(agent.address).unwrap()).collect();
    // What is no TLS, with a length of 4 GiB and of 16 KiB; and a record that never ends.
    let garbage: [&[u8]; 4] =
        [&[0xff; 4096], b"\x16\x03\x01\x40\x00", b"\x00\x00\x00\x10{}", b"GET / HTTP/1.1\r\n\r\n"];
    for bytes in garbage {
        let mut stranger = TcpStream::connect(agent.address).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stranger.write_all(bytes);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        // It ends the connection, or says why; it never waits for more.
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.len() < 4096);
    }
    let ran = run(with_key(dir, &agent.address.to_string(), &["--quick", "ram:16MiB"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    // Those that stay silent lose their connection.
    for mut stranger in silent {
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        // At most a word of farewell comes before the end.
        let mut last = Vec::new();
        let ended = stranger.read_to_end(&mut last);
        let is_end = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(last.len() < 64 && ended.as_ref().err().is_none_or(is_end), "{ended:?} {last:?}");
    }
    agent.terminate();
}

#[test]
fn one_study_at_a_time_and_a_run_ends_with_its_study() {
    let dir = Scratch::new("agents-one");
    let dir = dir.path();
    suite(dir, "");
    let agent = Agent::local(dir, "agent", &device("ram:16MiB", true));
    let address = agent.address.to_string();
    let before = processor_time(&agent);
    let mut first =
        with_key(dir, &address, &["--full", "ram:16MiB"]).stdout(Stdio::null()).spawn().unwrap();
    until("the first study", || processor_time(&agent) > before + 20);
    let second = run(with_key(dir, &address, &["--quick", "ram:16MiB"]));
    assert_eq!(second.code(), Some(5), "{second:?}");
    assert!(second.message().contains("one at a time"), "{second:?}");
    first.kill().unwrap();
    first.wait().unwrap();
    // Then there is room for another.
    until("the end of the run", || {
        run(with_key(dir, &address, &["--quick", "ram:16MiB"])).code() == Some(0)
    });
    agent.terminate();
}
