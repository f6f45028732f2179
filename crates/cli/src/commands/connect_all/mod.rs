//! `weft connect-all`: connects all namespaces of all subsystems that discovery controllers tell,
//! each by a `weft connect` of its own.

mod hosts_json;
mod kept_keys;
mod line;
mod parallel;
mod subsystem;

use super::connect::name_of;
use crate::attach_args::AttachArgs;
use crate::connection::{Address, ConnectArgs};
use crate::discovery_ports::first_answer;
use crate::exit::Failure;
use crate::given::Given;
use crate::mdns;
use clap::{ArgMatches, Args};
use line::{DiscoveryLine, used};
use std::path::{Path, PathBuf};
use std::time::Duration;
use subsystem::{FoundSubsystem, NamespaceHandling, connected, group};
use weft_block::{ErrorKind, units};
use weft_endpoint::Control;
use weft_endpoint::source::discovered::subsystems;
use weft_endpoint::url::NvmeUrl;

/// Where nvme-cli keeps discovery controllers, and subsystems.
const DISCOVERY_CONF: &str = "/etc/nvme/discovery.conf";

/// See above.
const CONFIG_JSON: &str = "/etc/nvme/config.json";

/// Reads a file of discovery controllers.
type Read = fn(&Path, &Given) -> Result<Vec<DiscoveryLine>, Failure>;

/// Options of `weft connect-all`.
#[derive(Args, Debug)]
#[command(mut_arg("url", |url| url.help("Discovery controller: nvme+tcp://HOST[:PORT], or the same with nvme+rdma")))]
#[command(after_help = "\
Examples:
  weft connect-all nvme+tcp://192.0.2.10
      every namespace that the host may use of every subsystem in the discovery log there
  weft connect-all -t tcp -a 192.0.2.10 -s 8009 --as ublk --persist
      as disks by ublk, again whenever weft daemon starts
  weft connect-all
      by the files of nvme-cli, /etc/nvme/discovery.conf and /etc/nvme/config.json
  weft connect-all --mdns --print
      print the commands for what is announced in the local network")]
pub struct ConnectAllArgs {
    #[command(flatten)]
    address: Address,
    /// Discovery controllers, the options of nvme discover for one in each line [default:
    /// /etc/nvme/discovery.conf, if neither an address nor a file nor --mdns is given]
    #[arg(long, value_name = "FILE")]
    discovery_conf: Option<PathBuf>,
    /// Discovery controllers and subsystems in nvme-cli's JSON format [default:
    /// /etc/nvme/config.json, under the same condition]
    #[arg(short = 'J', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also ask each discovery controller that is announced in the local network (mDNS) [needs: a
    /// build with --features full]
    #[arg(long)]
    mdns: bool,
    /// Time for which --mdns searches
    #[arg(long, default_value = "2s", value_parser = units::parse_duration)]
    search_time: Duration,
    /// Print the commands of the connections, but do not run them
    #[arg(long, conflicts_with = "persist")]
    print: bool,
    #[command(flatten)]
    attach: AttachArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Connects the subsystems that discovery reports. `matches` are those of the whole command line.
pub fn run(args: &ConnectAllArgs, matches: &ArgMatches, control: &Control) -> Result<(), Failure> {
    if !args.print {
        args.attach.check_system(args.attach.protocol(false)?)?;
    }
    // Checked before anybody is asked.
    args.connect.options(1, control)?;
    let (_, own) = matches.subcommand().expect("this is one");
    let (attach, connect) = (Given::of::<AttachArgs>(own), Given::of::<ConnectArgs>(own));
    let lines = args.lines(&connect)?;
    let (mut first, mut told) = (None, Vec::new());
    let asked = parallel::each(&lines, |line| ask(line, control));
    for (line, urls) in lines.iter().zip(asked) {
        match urls {
            Ok(urls) => told.extend(urls.into_iter().map(|url| (url, line))),
            Err(failure) => report(failure.about(&line.origin), &mut first),
        }
    }
    let found = group(told);
    if found.is_empty() && first.is_none() {
        let text =
            "discovery reports no subsystem that this host may use; `weft discover` lists its log";
        return Err(Failure::of(ErrorKind::NotFound, text));
    }
    let how = match args.print {
        true => NamespaceHandling::Printed(&attach),
        false => NamespaceHandling::Attached(&attach, connected(&args.attach)?),
    };
    let failed = parallel::each(&found, |of: &FoundSubsystem<'_>| of.connect(&how, control));
    for failure in failed.into_iter().flatten() {
        report(failure, &mut first);
    }
    first.map_or(Ok(()), |status| Err(Failure::new(status, "not all was connected; see above")))
}

/// Says what failed; the first such thing decides the exit status.
fn report(failure: Failure, first: &mut Option<u8>) {
    let status = failure.report();
    first.get_or_insert(status);
}

/// The subsystems that a line tells of, or means.
fn ask(line: &DiscoveryLine, control: &Control) -> Result<Vec<NvmeUrl>, Failure> {
    match line.subsystem()? {
        Some(url) => Ok(vec![url]),
        None => {
            let options = line.connect.options(1, control)?;
            let ask = |url: &NvmeUrl| subsystems((url.transport, url.address.clone()), &options);
            first_answer(&line.address.discovery_urls()?, ask)
        }
    }
}

impl ConnectAllArgs {
    /// All discovery controllers and subsystems that are meant, each with its options, for which
    /// those of the command stand where a file has none.
    fn lines(&self, connect: &Given) -> Result<Vec<DiscoveryLine>, Failure> {
        let mut lines = Vec::new();
        let asks_files = self.discovery_conf.is_some() || self.config.is_some();
        if !self.address.is_missing() {
            lines.push(DiscoveryLine::of(&self.address, connect)?);
        }
        if self.mdns {
            for found in mdns::search(self.search_time)? {
                let port = found.address.port().to_string();
                let words = ["--traddr", found.address.host(), "--trsvcid", &port];
                lines.extend(used(DiscoveryLine::parse(
                    &words.map(str::to_owned),
                    found.name,
                    connect,
                )));
            }
        } else if lines.is_empty() && !asks_files {
            let files: [(&str, Read); 2] =
                [(DISCOVERY_CONF, line::of_file), (CONFIG_JSON, hosts_json::lines)];
            for (path, read) in files {
                if std::fs::exists(path)? {
                    lines.extend(read(path.as_ref(), connect)?);
                }
            }
            if lines.is_empty() {
                let text = format!(
                    "the address of a discovery controller is missing, and neither {DISCOVERY_CONF} nor {CONFIG_JSON} has one that can be used; give nvme+tcp://HOST[:PORT], or --mdns"
                );
                return Err(Failure::of(ErrorKind::Usage, text));
            }
        }
        if let Some(path) = &self.discovery_conf {
            lines.extend(line::of_file(path, connect)?);
        }
        if let Some(path) = &self.config {
            lines.extend(hosts_json::lines(path, connect)?);
        }
        if lines.is_empty() && asks_files && !self.mdns {
            let text = "no discovery controller and no subsystem in the file can be used";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(lines)
    }
}
