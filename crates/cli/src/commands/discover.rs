//! `weft discover`: lists the subsystems or targets at an address.

use super::list::Listing;
use crate::args::pcap::PcapArgs;
use crate::connection::{Address, ConnectArgs};
use crate::discovery_ports::first_answer;
use crate::mdns::{self, FoundController};
use crate::output::nvme_json;
use crate::process::exit::Failure;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::time::Duration;
use weft_block::{ErrorKind, units};
use weft_endpoint::Control;
use weft_endpoint::source::iscsi;
use weft_endpoint::source::nvme::discover;
use weft_endpoint::url::{IscsiUrl, NVME_TCP, NvmeTransport};
use weft_proto::nvme::host::DiscoveryResult;
use weft_proto::nvme::log_page::DiscoveryEntry;
use weft_proto::nvme::types::Nqn;
use weft_proto::printable::Printable;

/// Options of `weft discover`.
#[derive(Args, Debug)]
#[command(mut_arg("url", |url| url.help("HOST[:PORT], nvme+tcp://HOST[:PORT], nvme+rdma://HOST[:PORT], or iscsi://[USER@]HOST[:PORT]")))]
#[command(after_help = "\
Examples:
  weft discover
      every discovery controller that is announced in the local network by mDNS
  weft discover 192.0.2.10
      the subsystems there, asked at port 8009, and at 4420 if nothing answers there
  weft discover nvme+tcp://127.0.0.1:4420
  weft discover -t tcp -a 192.0.2.10 -s 8009 -o json
  weft discover nvme+rdma://192.0.2.10
  weft discover iscsi://192.0.2.10
  weft discover iscsi://me@192.0.2.10 --chap-secret-file ./secret")]
pub struct DiscoverArgs {
    #[command(flatten)]
    address: Address,
    /// Without an address: time for which discovery controllers are searched for in the local
    /// network (mDNS) [needs: a build with --features full]
    #[arg(long, default_value = "2s", value_parser = units::parse_duration)]
    search_time: Duration,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output_format: Listing,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    pcap: PcapArgs,
}

/// Prints the subsystems or targets at the address.
pub fn run(args: &DiscoverArgs, control: &Control) -> Result<(), Failure> {
    args.pcap.begin(control)?;
    if let Some(url) = args.address.iscsi_url()? {
        return targets(args, &url, control);
    }
    if args.address.is_missing() {
        return everywhere(args, control);
    }
    let urls = args.address.discovery_urls()?;
    if let Some(nqn) = urls.0.subsystem.as_ref().filter(|nqn| nqn.as_str() != Nqn::DISCOVERY) {
        let text = format!("discovery needs only an address: remove \"{nqn}\"");
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    let options = args.connect.options(1, control)?;
    let log = first_answer(&urls, |url| discover(url.transport, &url.address, &options))?;
    if args.output_format == Listing::Json {
        return Ok(nvme_json::print_json(&nvme_json::discovery(&log))?);
    }
    Ok(print_log(&mut std::io::stdout().lock(), &log)?)
}

/// Prints what each discovery controller tells that is found by mDNS. One that does not answer is
/// reported, and no error.
fn everywhere(args: &DiscoverArgs, control: &Control) -> Result<(), Failure> {
    let found = mdns::search(args.search_time)?;
    if found.is_empty() {
        let text = "no discovery controller is announced in the local network; give an address, or more --search-time";
        return Err(Failure::of(ErrorKind::NotFound, text));
    }
    let options = args.connect.options(1, control)?;
    let (mut out, mut all) = (std::io::stdout().lock(), Vec::new());
    for FoundController { name, address, nqn } in found {
        let url = format!("{NVME_TCP}{address}");
        let log = discover(NvmeTransport::Tcp, &address, &options);
        if args.output_format == Listing::Json {
            let log = log
                .as_ref()
                .map_or_else(|e| json!({ "error": e.to_string() }), nvme_json::discovery);
            all.push(json!({ "name": name, "url": url, "nqn": nqn, "log": log }));
            continue;
        }
        writeln!(out, "{url} ({name})")?;
        match log {
            Ok(log) => print_log(&mut out, &log)?,
            Err(e) => tracing::warn!("{url}: {e}"),
        }
    }
    if args.output_format == Listing::Json {
        nvme_json::print_json(&json!({ "controllers": all }))?;
    }
    Ok(())
}

fn print_log(out: &mut impl Write, log: &DiscoveryResult) -> std::io::Result<()> {
    writeln!(
        out,
        "Discovery Log Number of Records {}, Generation counter {}",
        log.entries.len(),
        log.generation
    )?;
    for (n, entry) in log.entries.iter().enumerate() {
        writeln!(out, "=====Discovery Log Entry {n}======")?;
        print(out, entry)?;
    }
    Ok(())
}

/// Prints the targets at an iSCSI address in iscsiadm's format: portal, portal group, name.
fn targets(args: &DiscoverArgs, url: &IscsiUrl, control: &Control) -> Result<(), Failure> {
    if let Some(target) = &url.target {
        let text = format!("discovery needs only an address: remove \"{target}\"");
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    let targets = iscsi::discover(url, &args.connect.options(1, control)?)?;
    if args.output_format == Listing::Json {
        let targets: Vec<_> = targets
            .iter()
            .map(|it| json!({"targetname": it.name, "addresses": it.addresses}))
            .collect();
        return Ok(nvme_json::print_json(&json!({ "targets": targets }))?);
    }
    let mut out = std::io::stdout().lock();
    for target in &targets {
        if target.addresses.is_empty() {
            writeln!(out, "{} {}", url.address, Printable(&target.name))?;
        }
        for address in &target.addresses {
            writeln!(out, "{} {}", Printable(address), Printable(&target.name))?;
        }
    }
    Ok(())
}

fn print(out: &mut impl Write, entry: &DiscoveryEntry) -> std::io::Result<()> {
    let name = entry.subnqn.nqn().map(|nqn| nqn.to_string()).unwrap_or_default();
    writeln!(out, "trtype:  {}", entry.trtype)?;
    writeln!(out, "adrfam:  {}", entry.adrfam)?;
    writeln!(out, "subtype: {}", entry.subtype)?;
    writeln!(out, "treq:    {}", nvme_json::requirements(entry))?;
    writeln!(out, "portid:  {}", entry.portid)?;
    writeln!(out, "trsvcid: {}", entry.trsvcid.text())?;
    writeln!(out, "subnqn:  {name}")?;
    writeln!(out, "traddr:  {}", entry.traddr.text())
}
