//! A subsystem with all its addresses, and its namespaces, of which each becomes a connection.

use super::line::DiscoveryLine;
use super::name_of;
use crate::attach_args::AttachArgs;
use crate::commands::identify::active_namespaces;
use crate::daemon_args::DaemonArgs;
use crate::exit::{Failure, kind_of, printed};
use crate::given::Given;
use std::io::Write;
use std::process::{Output, Stdio};
use weft_endpoint::Control;
use weft_endpoint::source::nvme;
use weft_endpoint::url::{NvmeUrl, means};
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_server::attach::entries::Runtime;
use weft_server::attach::plan::CommandLine as Shown;
use weft_server::connections::supervision::SupervisionState;
use weft_server::programs::{sentence, this_program};

/// See the module.
pub struct FoundSubsystem<'a> {
    nqn: Nqn,
    /// Where it is, the first that was told first.
    urls: Vec<NvmeUrl>,
    /// With whose options it is connected to.
    line: &'a DiscoveryLine,
}

/// The handling of namespaces.
pub enum NamespaceHandling<'a> {
    /// With these options, unless they are among the connections, by name and URL, that were there
    /// before.
    Attached(&'a Given, Vec<(String, String)>),
    /// The commands that would do so are printed.
    Printed(&'a Given),
}

/// Subsystems, each with all addresses that discovery reported for it.
pub fn group(told: Vec<(NvmeUrl, &DiscoveryLine)>) -> Vec<FoundSubsystem<'_>> {
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
pub fn connected(args: &AttachArgs) -> Result<Vec<(String, String)>, Failure> {
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
