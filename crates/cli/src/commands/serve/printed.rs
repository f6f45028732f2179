//! The output of `weft serve`.

use super::security::proof;
use crate::process::exit::Failure;
use std::io::Write;
use weft_block::units;
use weft_server::Server;
use weft_server::attach::plan::CommandLine;

/// Prints a line, which another program waits for.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints the sum of the counters of all loops.
pub fn counters(server: &Server) -> Result<(), Failure> {
    let counters: serde_json::Map<_, _> =
        server.counters().entries().map(|(name, count)| (name.to_owned(), count.into())).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "counters {}", serde_json::Value::Object(counters))?;
    Ok(out.flush()?)
}

/// Prints what a server serves, where, and how hosts use it.
pub fn start(server: &Server) -> std::io::Result<()> {
    let desired = server.desired();
    let mut out = std::io::stdout().lock();
    for namespace in server.inventory().namespaces() {
        let (nsid, device) = (namespace.nsid, &namespace.device);
        let geometry = device.geometry();
        let size = units::format_size(geometry.bytes());
        writeln!(
            out,
            "namespace {nsid}: {}, {size} in blocks of {} bytes",
            device.url(),
            geometry.block_bytes
        )?;
    }
    let urls = server.urls();
    // Each subsystem has URLs of its own, and a group may have none yet.
    for url in if urls.is_empty() { &desired.listen } else { &urls } {
        writeln!(out, "listening on {url}")?;
    }
    if let Some(metrics) = server.metrics_url() {
        writeln!(out, "metrics at {metrics}")?;
    }
    for any in ["0.0.0.0", "[::]"]
        .into_iter()
        .filter(|any| desired.listen.iter().any(|url| url.contains(&format!("://{any}"))))
    {
        writeln!(
            out,
            "{any} means every address of this machine; these URLs and commands use one of them"
        )?;
    }
    for (system, command) in server.served().exports.attach_hints() {
        writeln!(out, "{:<12} {command}", format!("from {system}:"))?;
    }
    // What is no URL of a source is a disk of this system.
    if let Some(url) = urls.iter().find(|url| url.contains("://")) {
        let (proof, url) = (proof(desired, url), CommandLine(vec![url.clone()]));
        writeln!(
            out,
            "from weft:   weft bench {url}{proof} --rw=randread --bs=4k --iodepth=32 --runtime=5s"
        )?;
    }
    out.flush()
}
