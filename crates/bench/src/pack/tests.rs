use super::fields::FIELDS;
use super::*;
use crate::results::{JSON_SCHEMA, Results, SCHEMA};
use serde_json::Value;
use std::collections::BTreeSet;

/// All places of the schema in which a text may stand.
fn places(schema: &Value, root: &Value, place: &str, found: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").unwrap();
        return places(&root["$defs"][name], root, place, found);
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    if kinds.iter().any(|kind| kind == "string") || schema["const"].is_string() {
        found.insert(place.to_owned());
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        schema[several]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|one| places(one, root, place, found));
    }
    let entry = format!("{place}[]");
    for entries in ["items", "prefixItems"] {
        match &schema[entries] {
            Value::Array(all) => all.iter().for_each(|one| places(one, root, &entry, found)),
            Value::Object(_) => places(&schema[entries], root, &entry, found),
            _ => {}
        }
    }
    assert!(
        !schema["additionalProperties"].is_object(),
        "{place}: names of members are texts, too"
    );
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let dot = if place.is_empty() { "" } else { "." };
        places(member, root, &format!("{place}{dot}{name}"), found);
    }
}

/// A text that nobody has classified fails here.
#[test]
fn each_text_of_the_schema_has_a_rule() {
    let schema: Value = serde_json::from_str(JSON_SCHEMA).unwrap();
    let mut found = BTreeSet::new();
    places(&schema, &schema, "", &mut found);
    let known: BTreeSet<String> = FIELDS.iter().map(|(place, _)| (*place).to_owned()).collect();
    assert_eq!(known.len(), FIELDS.len());
    let missing: Vec<_> = found.difference(&known).collect();
    let old: Vec<_> = known.difference(&found).collect();
    assert!(
        missing.is_empty() && old.is_empty(),
        "without a rule: {missing:?}; not in the schema: {old:?}"
    );
    assert!(found.len() > 50);
}

/// Texts that must not be in packed results.
const SECRETS: [&str; 15] = [
    "rack7",
    "acme",
    "alice",
    "hunter2",
    "10.20.30.40",
    "2001:db8:77",
    "S4EVNF0M",
    "00:1b:21",
    "srv-db",
    "Zanzibar",
    "a1b2c3",
    "/srv",
    "enp3s0",
    "corp.example",
    "0123456789abcdef",
];

fn telling() -> Results {
    let latency =
        serde_json::json!({ "mean_ns": 1.5, "p50_ns": 0.1, "p99_ns": 0.0, "p999_ns": null });
    let row = |lane: &str, command: &str| {
        serde_json::json!({ "lane": lane, "workload": "acme-load", "iops": 1234.5, "bytes_per_second": 0.0, "latency": latency,
            "initiator": { "user_ns": 5.0, "system_ns": 5.0 }, "target": null, "share_of_local": null, "share_of_ceiling": null,
            "spread": [0.0, 0.0], "rounds": 6, "system_calls_per_io": 0.0, "generator_limited": false, "failed": 0, "command": command,
            "remarks": ["The host rack7 was busy; rack7’s 2 cores, too.", "See /srv/alice/log and srv-db."],
            "machines": [{ "agent": "rack7:7420", "iops": 1.0, "mean_ns": 1.0, "p99_ns": 1.0, "cpu": { "user_ns": 1.0, "system_ns": 1.0 } }] })
    };
    let machine = serde_json::json!({ "name": "rack7", "cpu": "AMD EPYC", "cores": 2, "memory_bytes": 7, "system": "Debian GNU/Linux 12 (bookworm), Linux 6.18.44-acme",
        "governors": ["performance"], "mitigations": ["spectre_v2: Retpolines"], "hypervisor": "Acme Clouds",
        "nics": [{ "name": "enp3s0f00:1b:21", "driver": "mlx5_core", "mtu": 1500, "mbits": 25000 }, { "name": "lo", "driver": null, "mtu": null, "mbits": null }] });
    let value = serde_json::json!({ "schema": SCHEMA, "weft": "0.1.0", "commit": "a1b2c3-of-acme", "started_s": 1, "took_s": 2.5, "quick": false, "suite": "acme",
        "command": ["weft", "study", "--suite", "acme", "--agents", "rack7", "--key-file=/srv/key", "--lane", "ours=nbd://alice:hunter2@10.20.30.40:10809/Zanzibar?tls=hunter2"],
        "title": "NVMe/TCP at acme", "machine": machine,
        "lanes": [
            { "name": "nvme+tcp", "title": "NVMe/TCP over the loopback", "url": "nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.nvmexpress:uuid:0123456789abcdef/1" },
            { "name": "ours", "title": "NBD, a target of the user’s", "url": "nbd://alice:hunter2@10.20.30.40:10809/Zanzibar", "agents": ["rack7:7420"],
              "setup": ["tgtadm --lld iscsi --op new --targetname iqn.2001-04.corp.example:S4EVNF0M --password hunter2 --key=hunter2", "listenaddr = 10.20.30.40"] },
            { "name": "tgt-fio", "title": "x", "url": "mirror:nvme+tcp://[2001:db8:77::1]:4420/nqn.2001-04.corp.example:a,file:/srv/alice.img,size=4GiB" }],
        "workloads": [{ "name": "acme-load", "title": "acme load", "rw": "randread", "bs_bytes": 4096, "iodepth": 1, "read_percent": 100, "latency": false },
            { "name": "qd1-4k-randread", "title": "4 KiB random read", "rw": "randread", "bs_bytes": 4096, "iodepth": 1, "read_percent": 100, "latency": true }],
        "rows": [row("ours", "weft bench nbd://alice:hunter2@10.20.30.40:10809/Zanzibar --rw=randread --bs=4096 --size=1073741824")],
        "ceiling": [], "skipped": [{ "lane": "remote", "why": "it needs the namespace of a target: --lane remote=nvme+tcp://HOST/NQN." }],
        "published": [{ "source": "acme", "of": "acme", "metric": "iops", "figures": [] }],
        "agents": [{ "name": "rack7:7420", "fingerprint": "sha256:0123456789abcdef", "url": "/dev/disk/by-id/nvme-S4EVNF0M", "weft": "0.1.0", "machine": machine,
            "cpus": [0], "clock_offset_ns": 0.0, "clock_uncertainty_ns": 0.0, "late_ns": 0.0, "lost": "rack7:7420 did not answer at 10.20.30.40:7420." }],
        "notes": ["ours: in 1 of 1 workloads the load generator never waited for the device.", "Zanzibar on rack7 is at 10.20.30.40, 5 % of 00:1b:21:aa:bb:cc."] });
    serde_json::from_value(value).unwrap()
}

#[test]
fn nothing_that_tells_something_is_left() {
    let packed = pack(telling(), &[]).unwrap();
    let text = serde_json::to_string_pretty(&packed.results).unwrap();
    let lower = text.to_lowercase();
    for secret in SECRETS {
        assert!(!lower.contains(&secret.to_lowercase()), "{secret}: {text}");
    }
    let listed = format!("{:?}", packed.removed).to_lowercase();
    assert!(SECRETS.iter().all(|secret| !listed.contains(&secret.to_lowercase())), "{listed}");
    for (kind, place) in [
        ("host name", "machine.name"),
        ("address", "lanes[].url"),
        ("secret", "lanes[].url"),
        ("secret", "command[]"),
        ("path", "agents[].url"),
        ("NQN or IQN", "lanes[].setup[]"),
        ("fingerprint", "agents[].fingerprint"),
        ("interface", "machine.nics[].name"),
        ("text", "published[]"),
    ] {
        assert!(
            packed.removed.iter().any(|it| it.kind == kind && it.place == place),
            "{kind} {place}: {listed}"
        );
    }
}

#[test]
fn what_is_harmless_and_what_belongs_together_stays() {
    let packed = pack(telling(), &[]).unwrap().results;
    let [loopback, ours, composed] = &packed.lanes[..] else { panic!("{:?}", packed.lanes) };
    assert_eq!((loopback.name.as_str(), composed.name.as_str()), ("nvme+tcp", "tgt-fio"));
    assert_eq!(loopback.title, "NVMe/TCP over the loopback");
    assert!(loopback.url.starts_with("nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:name-"));
    assert!(loopback.url.ends_with("/1"));
    assert_eq!(ours.title, "NBD, a target of the user’s");
    assert!(ours.url.starts_with("nbd://192.0.2.1:10809/name-"), "{}", ours.url);
    assert!(
        composed.url.starts_with("mirror:nvme+tcp://[2001:db8::1]:4420/nqn."),
        "{}",
        composed.url
    );
    assert!(composed.url.ends_with(",file:/path-1,size=4GiB"), "{}", composed.url);
    // The same text has the same replacement.
    assert_eq!(
        (&packed.rows[0].lane, &packed.rows[0].workload),
        (&ours.name, &packed.workloads[0].name)
    );
    let command = format!("weft bench {} --rw=randread --bs=4096 --size=1073741824", ours.url);
    assert_eq!(packed.rows[0].command, command);
    assert_eq!(packed.machine.name, "host-1");
    assert_eq!(packed.agents[0].name, "host-1:7420");
    assert_eq!(packed.rows[0].remarks[0], "The host host-1 was busy; host-1’s 2 cores, too.");
    assert!(
        packed.notes[0].starts_with(&format!("{}: in 1 of 1 workloads", ours.name)),
        "{:?}",
        packed.notes
    );
    assert!(packed.notes[1].contains(" on host-1 is at 192.0.2.1, 5 % of "), "{:?}", packed.notes);
    assert_eq!(packed.skipped[0].why, telling().skipped[0].why);
    assert_eq!(packed.machine.system, "Debian GNU/Linux 12 (bookworm), Linux 6.18.44");
    assert_eq!(
        (packed.rows[0].iops, packed.workloads[1].name.as_str()),
        (1234.5, "qd1-4k-randread")
    );
    assert_eq!(packed.machine.nics[1].name, "lo");
    let kept = pack(telling(), &["ours".to_owned(), "acme".to_owned()]).unwrap().results;
    assert_eq!((kept.lanes[1].name.as_str(), kept.suite.as_str()), ("ours", "acme"));
}

/// Studies kept in the documentation reveal only the machine's name, and lose only names that were
/// made up: those of subsystems, targets and exports.
#[test]
fn usual_studies_stay_readable() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/study/reports");
    for study in std::fs::read_dir(kept).unwrap() {
        let place = study.unwrap().path();
        let name = place.display();
        let text = std::fs::read_to_string(place.join("results.json")).unwrap();
        let results = crate::compare::read("results.json", &text).unwrap();
        let packed = pack(results.clone(), &[]).unwrap().results;
        let of = |results: &Results| {
            let mut results = results.clone();
            results.machine = Default::default();
            results.command.clear();
            for lane in &mut results.lanes {
                lane.url = String::new();
                lane.setup.iter_mut().for_each(|line| *line = without_made_up_names(line));
            }
            results.rows.iter_mut().for_each(|row| row.command = String::new());
            let skipped = results.skipped.iter_mut();
            skipped.for_each(|it| it.why = without_made_up_names(&it.why));
            serde_json::to_string_pretty(&results).unwrap()
        };
        let (after, before) = (of(&packed), of(&results));
        let differs = after.lines().zip(before.lines()).find(|(after, before)| after != before);
        assert_eq!(differs, None, "{name}");
        assert!(packed.rows[0].command.contains(" --bs="), "{}", packed.rows[0].command);
    }
}

/// A line with "NAME" instead of each UUID, each name with one, and each name that `pack` gives.
fn without_made_up_names(line: &str) -> String {
    let is_uuid =
        |word: &str| word.len() >= 36 && word.bytes().filter(|it| *it == b'-').count() >= 4;
    let is_made_up = |word: &str| {
        is_uuid(word)
            || word.contains("org.example:name-")
            || word.strip_prefix("name-").is_some_and(|it| it.parse::<u32>().is_ok())
    };
    let words = line.split_inclusive([' ', '=', '"', '[', ']', '/']).map(|piece| {
        let word = piece.trim_end_matches([' ', '=', '"', '[', ']', '/']);
        let mark = &piece[word.len()..];
        format!("{}{mark}", if is_made_up(word) { "NAME" } else { word })
    });
    words.collect()
}

/// A file can be long, and of nothing but marks.
#[test]
fn odd_texts_end() {
    let mut results = telling();
    let odd = ["=", ",", ":", "mirror:", "-", "a=", "--", "://", "nbd://x@", "’s", "[", "/"];
    results.notes = odd.iter().map(|it| it.repeat(100_000)).collect();
    results.command = results.notes.clone();
    results.lanes[0].url = "mirror:".repeat(100_000);
    assert_eq!(pack(results, &[]).unwrap().results.notes.len(), odd.len());
}
