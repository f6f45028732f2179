//! `weft list-subsys`: lists the NVMe subsystems of the connections of `weft connect`, in the
//! format of `nvme list-subsys`, with the state of each path.

use super::list::{ListArgs, Listing};
use crate::process::exit::Failure;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::url::NvmeUrl;
use weft_server::attach::entries::{Entry, Runtime};
use weft_server::attach::path_states::EntryPath;

/// A path to a subsystem: its connection, its state and its address.
type Path<'a> = (&'a Entry, EntryPath, NvmeUrl);

/// Prints the subsystems of the current user's connections, each with its paths.
pub fn run(args: &ListArgs) -> Result<(), Failure> {
    let (entries, _) = args.entries(&Runtime::open()?)?;
    let mut subsystems: BTreeMap<String, Vec<Path<'_>>> = BTreeMap::new();
    let paths =
        entries.iter().flat_map(|entry| entry.paths().into_iter().map(move |it| (entry, it)));
    for (entry, path) in paths {
        // Sources other than NVMe have no subsystem.
        if let Ok(url) = NvmeUrl::parse(&path.url) {
            let nqn = url.subsystem.as_ref().map(ToString::to_string).unwrap_or_default();
            subsystems.entry(nqn).or_default().push((entry, path, url));
        }
    }
    let mut out = std::io::stdout().lock();
    if args.output() == Listing::Json {
        let host = HostIdentity::of_this_host()?;
        let listed: Vec<_> = subsystems
            .iter()
            .enumerate()
            .map(|(n, (nqn, paths))| subsystem(n, nqn, paths))
            .collect();
        let hosts = json!([{ "HostNQN": host.nqn.as_str(), "HostID": uuid::Uuid::from_bytes(host.id.0).to_string(), "Subsystems": listed }]);
        return Ok(writeln!(out, "{hosts:#}")?);
    }
    for (n, (nqn, paths)) in subsystems.iter().enumerate() {
        writeln!(out, "nvme-subsys{n} - NQN={nqn}\n\\")?;
        for (entry, path, url) in paths {
            let (name, state) = (&entry.name, state(path));
            writeln!(out, " +- {name} {} {} {state}", url.transport.name(), address(url))?;
        }
    }
    Ok(())
}

/// The state, with that of the access where it is another than the best.
fn state(EntryPath { state, access, .. }: &EntryPath) -> String {
    if access == "optimized" { state.clone() } else { format!("{state} {access}") }
}

fn address(url: &NvmeUrl) -> String {
    format!("traddr={},trsvcid={}", url.address.host(), url.address.port())
}

fn subsystem(n: usize, nqn: &str, paths: &[Path<'_>]) -> serde_json::Value {
    let path = |(entry, path, url): &Path<'_>| {
        json!({
            "Name": entry.name,
            "Transport": url.transport.name(),
            "Address": address(url),
            "State": path.state,
            "ANAState": path.access,
        })
    };
    json!({ "Name": format!("nvme-subsys{n}"), "NQN": nqn, "Paths": paths.iter().map(path).collect::<Vec<_>>() })
}
