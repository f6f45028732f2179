//! A subsystem with all its addresses, and its namespaces, of which each becomes a connection.

use super::given::Given;
use super::line::Line;
use super::name_of;
use crate::attach_args::AttachArgs;
use crate::commands::identify::active_namespaces;
use crate::daemon_args::DaemonArgs;
use crate::exit::{Failure, kind_of, printed};
use std::io::Write;
use std::process::{Output, Stdio};
use weft_endpoint::Control;
use weft_endpoint::source::nvme;
use weft_endpoint::url::{NvmeUrl, means};
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_server::attach::entries::Runtime;
use weft_server::attach::plan::Line as Shown;
use weft_server::connections::supervision::State;
use weft_server::programs::this_program;

/// See the module.
pub struct Subsystem<'a> {
    nqn: Nqn,
    /// Where it is, the first that was told first.
    urls: Vec<NvmeUrl>,
    /// With whose options it is connected to.
    line: &'a Line,
}

/// How namespaces are attached.
pub struct How<'a> {
    pub args: &'a AttachArgs,
    /// Those of them that were given.
    pub given: &'a Given,
    /// The commands are only printed.
    pub print: bool,
}

/// Subsystems, each with all addresses that were told of it.
pub fn group(told: Vec<(NvmeUrl, &Line)>) -> Vec<Subsystem<'_>> {
    let mut all: Vec<Subsystem<'_>> = Vec::new();
    for (url, line) in told {
        let Some(nqn) = url.subsystem.clone() else { continue };
        match all.iter_mut().find(|known| known.nqn == nqn) {
            Some(known) if known.urls.contains(&url) => {}
            Some(known) => known.urls.push(url),
            None => all.push(Subsystem { nqn, urls: vec![url], line }),
        }
    }
    all
}

impl Subsystem<'_> {
    /// Connects each of its namespaces that is not connected; what failed.
    pub fn connect(&self, how: &How<'_>, control: &Control) -> Vec<Failure> {
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

    fn connect_one(&self, nsid: Nsid, how: &How<'_>) -> Result<(), Failure> {
        let urls: Vec<String> = self
            .urls
            .iter()
            .map(|url| NvmeUrl { nsid: Some(nsid), ..url.clone() }.to_string())
            .collect();
        let mut words = vec!["connect".to_owned(), urls[0].clone()];
        words.extend(urls[1..].iter().map(|url| format!("--path={url}")));
        words.extend(how.given.words().chain(self.line.given.words()).map(str::to_owned));
        if how.print {
            return say(&format!("weft {}\n", Shown(words)));
        }
        if let Some(name) = how.connected(&urls)? {
            return say(&format!("{} is connected already, as {name}\n", urls[0]));
        }
        let mut command = this_program()?;
        let ran = command.args(&words).stdin(Stdio::null()).output()?;
        tell(&ran, &urls[0])
    }
}

impl How<'_> {
    /// The name of the connection of one of the URLs, if there is one.
    fn connected(&self, urls: &[String]) -> Result<Option<String>, Failure> {
        let runtime = Runtime::open()?;
        let held = DaemonArgs::held(&mut self.args.lasting.client(&runtime)?)?;
        let held = held.into_iter().filter(|held| held.state != State::Ended);
        let of_daemon = held.map(|held| (held.name, held.url));
        let entries = runtime.list()?.into_iter().map(|entry| (entry.name, entry.url));
        let is_one = |of: &str| urls.iter().any(|url| means(of, url));
        let mut all = of_daemon.chain(entries);
        let own = name_of(&urls[0]);
        Ok(all.find(|(name, url)| *name == own || is_one(url)).map(|(name, _)| name))
    }
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
    let why = said.lines().rev().find_map(|line| line.strip_prefix("weft: "));
    let why = why.or(said.lines().last()).unwrap_or("it ended without a message");
    Err(Failure::of(kind_of(ran.status.code().unwrap_or(1)), why.to_owned()).about(url))
}
