//! `weft connect-all`: connects all namespaces of all subsystems that discovery controllers tell,
//! each by a `weft connect` of its own.

mod hosts_json;
mod line;
mod parallel;

use super::connect::name_of;
use crate::args::attach::AttachArgs;
use crate::args::daemon::DaemonArgs;
use crate::args::given_options::GivenOptions;
use crate::commands::identify::active_namespaces;
use crate::connection::{Address, ConnectArgs};
use crate::discovery_ports::first_answer;
use crate::mdns;
use crate::process::exit::{Failure, kind_of, printed};
use clap::{ArgMatches, Args};
use line::{DiscoveryLine, used};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use weft_block::{ErrorKind, units};
use weft_endpoint::Control;
use weft_endpoint::source::discovered::subsystems;
use weft_endpoint::source::nvme;
use weft_endpoint::url::{NvmeUrl, means};
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_server::attach::entries::Runtime;
use weft_server::attach::plan::CommandLine as Shown;
use weft_server::connections::supervision::SupervisionState;
use weft_server::programs::{sentence, this_program};

/// Where nvme-cli keeps discovery controllers, and subsystems.
const DISCOVERY_CONF: &str = "/etc/nvme/discovery.conf";

/// See above.
const CONFIG_JSON: &str = "/etc/nvme/config.json";

/// Reads a file of discovery controllers.
type Read = fn(&Path, &GivenOptions) -> Result<Vec<DiscoveryLine>, Failure>;

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
    let (attach, connect) =
        (GivenOptions::of::<AttachArgs>(own), GivenOptions::of::<ConnectArgs>(own));
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
    fn lines(&self, connect: &GivenOptions) -> Result<Vec<DiscoveryLine>, Failure> {
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

/// A subsystem with all its addresses, and its namespaces, of which each becomes a connection.
struct FoundSubsystem<'a> {
    nqn: Nqn,
    /// Its addresses, in the order in which they were reported.
    urls: Vec<NvmeUrl>,
    /// With whose options it is connected to.
    line: &'a DiscoveryLine,
}

/// The handling of namespaces.
enum NamespaceHandling<'a> {
    /// With these options, unless they are among the connections, by name and URL, that were there
    /// before.
    Attached(&'a GivenOptions, Vec<(String, String)>),
    /// The commands that would do so are printed.
    Printed(&'a GivenOptions),
}

/// Subsystems, each with all addresses that discovery reported for it.
fn group(told: Vec<(NvmeUrl, &DiscoveryLine)>) -> Vec<FoundSubsystem<'_>> {
    let mut all: Vec<FoundSubsystem<'_>> = Vec::new();
    for (url, line) in told {
        let Some(nqn) = url.subsystem.clone() else { continue };
        match all.iter_mut().find(|known| known.nqn == nqn) {
            Some(known) if known.urls.contains(&url) => {}
            Some(known) => known.urls.push(url),
            None => all.push(FoundSubsystem { nqn, urls: vec![url], line }),
        }
    }
    all
}

impl FoundSubsystem<'_> {
    /// Connects each of its namespaces that is not connected; what failed.
    pub fn connect(&self, how: &NamespaceHandling<'_>, control: &Control) -> Vec<Failure> {
        let namespaces = match self.namespaces(control) {
            Ok(namespaces) => namespaces,
            Err(failure) => return vec![failure],
        };
        if namespaces.is_empty() {
            tracing::warn!("{}: this host may use no namespace of it", self.urls[0]);
        }
        let connect = |nsid: &Nsid| self.connect_one(*nsid, how).err();
        namespaces.iter().filter_map(connect).collect()
    }

    /// Its namespaces, as the first address tells that answers.
    fn namespaces(&self, control: &Control) -> Result<Vec<Nsid>, Failure> {
        let options = self.line.connect.options(1, control)?;
        let ask = |url| active_namespaces(&*nvme::connect(url, &options)?);
        let mut first = None;
        for url in &self.urls {
            match ask(url) {
                Ok(namespaces) => return Ok(namespaces),
                Err(failure) => drop(first.get_or_insert(failure)),
            }
        }
        Err(first.expect("it has an address"))
    }

    fn connect_one(&self, nsid: Nsid, how: &NamespaceHandling<'_>) -> Result<(), Failure> {
        let urls: Vec<String> = self
            .urls
            .iter()
            .map(|url| NvmeUrl { nsid: Some(nsid), ..url.clone() }.to_string())
            .collect();
        let mut words = vec!["connect".to_owned(), urls[0].clone()];
        words.extend(urls[1..].iter().map(|url| format!("--path={url}")));
        let (NamespaceHandling::Attached(given, _) | NamespaceHandling::Printed(given)) = how;
        words.extend(given.words().chain(self.line.given.words()).map(str::to_owned));
        let NamespaceHandling::Attached(_, before) = how else {
            return say(&format!("weft {}\n", Shown(words)));
        };
        let own = name_of(&urls[0]);
        let is_one = |of: &str| urls.iter().any(|url| means(of, url));
        if let Some((name, _)) = before.iter().find(|(name, url)| *name == own || is_one(url)) {
            return say(&format!("{} is connected already, as {name}\n", urls[0]));
        }
        let mut command = this_program()?;
        let ran = command.args(&words).stdin(Stdio::null()).output()?;
        tell(&ran, &urls[0])
    }
}

/// The connections that there are, by name and URL.
fn connected(args: &AttachArgs) -> Result<Vec<(String, String)>, Failure> {
    let runtime = Runtime::open()?;
    let held = DaemonArgs::held(&mut args.lasting.client(&runtime)?)?;
    let held = held.into_iter().filter(|held| held.state != SupervisionState::Ended);
    let of_daemon = held.map(|held| (held.name, held.url));
    let entries = runtime.list()?.into_iter().map(|entry| (entry.name, entry.url));
    Ok(of_daemon.chain(entries).collect())
}

fn say(text: &str) -> Result<(), Failure> {
    printed(std::io::stdout().lock().write_all(text.as_bytes()))
}

/// Repeats what a command has said.
fn tell(ran: &Output, url: &str) -> Result<(), Failure> {
    say(&String::from_utf8_lossy(&ran.stdout))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if ran.status.success() {
        eprint!("{said}");
        return Ok(());
    }
    let why = sentence(&said).unwrap_or("it ended without a message");
    Err(Failure::of(kind_of(ran.status.code().unwrap_or(1)), why.to_owned()).about(url))
}
