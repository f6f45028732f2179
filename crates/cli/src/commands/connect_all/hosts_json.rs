//! nvme-cli's JSON format of hosts, their subsystems and the ports of these
//! (`nvme connect-all --config`), read as lines with options.

use std::path::Path;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use weft_block::ErrorKind;
use weft_proto::nvme::types::Nqn;

use super::line::{DiscoveryLine, bytes_of, used, without_keys};
use crate::{args::given_options::GivenOptions, process::exit::Failure};

/// The file: an object, or as older versions write it the list alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Object { hosts: Vec<Value> },
    List(Vec<Value>),
}

#[derive(Deserialize)]
struct Host {
    hostnqn: Option<String>,
    hostid: Option<String>,
    dhchap_key: Option<String>,
    #[serde(default)]
    subsystems: Vec<Value>,
}

#[derive(Deserialize)]
struct Subsystem {
    nqn: Option<String>,
    dhchap_key: Option<String>,
    #[serde(default)]
    ports: Vec<Value>,
}

#[derive(Deserialize)]
struct Port {
    transport: String,
    traddr: Option<String>,
    trsvcid: Option<Value>,
    dhchap_key: Option<String>,
    dhchap_ctrl_key: Option<String>,
    #[serde(default)]
    discovery: bool,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Parameters with a value, and their options.
const VALUES: [(&str, &str); 9] = [
    ("tls_key", "tls-key"),
    ("nr_io_queues", "nr-io-queues"),
    ("queue_size", "queue-size"),
    ("keep_alive_tmo", "keep-alive-tmo"),
    ("reconnect_delay", "reconnect-delay"),
    ("ctrl_loss_tmo", "ctrl-loss-tmo"),
    ("fast_io_fail_tmo", "fast_io_fail_tmo"),
    ("keyring", "keyring"),
    ("tls_key_identity", "tls-key-identity"),
];

/// Those that are switches.
const SWITCHES: [(&str, &str); 4] = [
    ("hdr_digest", "hdr-digest"),
    ("data_digest", "data-digest"),
    ("tls", "tls"),
    ("concat", "concat"),
];

/// Those that say nothing about a connection of weft's.
const SILENT: [&str; 6] = [
    "persistent",
    "duplicate_connect",
    "disable_sqflow",
    "nr_write_queues",
    "nr_poll_queues",
    "application",
];

/// The lines of a file that can be used.
pub fn lines(path: &Path, others: &GivenOptions) -> Result<Vec<DiscoveryLine>, Failure> {
    let text = bytes_of(path)?;
    let file: File = serde_json::from_slice(&text).map_err(|_| {
        let why = match serde_json::from_slice::<Value>(&text) {
            Err(e) => e.to_string(),
            Ok(_) => "it has no list \"hosts\" of hosts with \"subsystems\" with \"ports\"".into(),
        };
        let text = format!("{} is not in nvme-cli's JSON format: {why}", path.display());
        Failure::of(ErrorKind::Usage, text)
    })?;
    let (File::Object { hosts } | File::List(hosts)) = file;
    let mut all = Vec::new();
    for host in &hosts {
        let Some(host) = part::<Host>(host, "a host", path) else { continue };
        for subsystem in &host.subsystems {
            let Some(of) = part::<Subsystem>(subsystem, "a subsystem", path) else { continue };
            let ports = of.ports.iter().filter_map(|port| part::<Port>(port, "a port", path));
            all.extend(ports.filter_map(|port| line(&host, &of, &port, (path, others))));
        }
    }
    Ok(all)
}

/// A part of the file, unless it cannot be used: then the log says why, and the other parts count.
fn part<T: DeserializeOwned>(value: &Value, what: &str, path: &Path) -> Option<T> {
    let skip = |e: &serde_json::Error| {
        let why = without_keys(&e.to_string());
        tracing::warn!("{}: {what} is skipped: {why}", path.display());
    };
    serde_json::from_value(value.clone()).inspect_err(skip).ok()
}

/// The line of a port.
fn line(
    host: &Host,
    subsystem: &Subsystem,
    port: &Port,
    (path, others): (&Path, &GivenOptions),
) -> Option<DiscoveryLine> {
    if !matches!(port.transport.as_str(), "tcp" | "rdma") {
        let (path, transport) = (path.display(), &port.transport);
        tracing::warn!("{path}: a port by {transport} is skipped; weft has TCP and RDMA");
        return None;
    }
    let at = port.traddr.as_deref().unwrap_or_default();
    let origin = format!("{}: {at}", path.display());
    used(DiscoveryLine::in_file(&words(host, subsystem, port, &origin), origin, others))
}

/// The words of a port.
fn words(host: &Host, subsystem: &Subsystem, port: &Port, origin: &str) -> Vec<String> {
    let mut words = vec![format!("--transport={}", port.transport)];
    let mut give = |option: &str, value: Option<&str>| {
        words.extend(value.map(|value| format!("--{option}={value}")));
    };
    let number = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let nqn = subsystem.nqn.as_deref().filter(|nqn| !port.discovery && *nqn != Nqn::DISCOVERY);
    give("traddr", port.traddr.as_deref());
    give("trsvcid", port.trsvcid.as_ref().map(number).as_deref());
    give("nqn", nqn);
    give("hostnqn", host.hostnqn.as_deref());
    give("hostid", host.hostid.as_deref());
    let own =
        port.dhchap_key.as_ref().or(subsystem.dhchap_key.as_ref()).or(host.dhchap_key.as_ref());
    give("dhchap-secret", own.map(String::as_str));
    give("dhchap-ctrl-secret", port.dhchap_ctrl_key.as_deref());
    let mut switches = Vec::new();
    for (name, value) in &port.others {
        if let Some((_, option)) = VALUES.iter().find(|(known, _)| known == name) {
            give(option, Some(&number(value)));
        } else if let Some((_, option)) = SWITCHES.iter().find(|(known, _)| known == name) {
            switches.extend((value == &Value::Bool(true)).then(|| format!("--{option}")));
        } else if !SILENT.contains(&name.as_str()) {
            tracing::warn!("{origin}: weft has no {name}");
        }
    }
    words.extend(switches);
    words
}
