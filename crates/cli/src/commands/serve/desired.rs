//! The configuration that the command line of `weft serve` asks for.

use super::ServeArgs;
use crate::args::source_options::CommandLineOptions;
use crate::process::exit::Failure;
use crate::visible_sources::VisibleSources;
use std::collections::HashSet;
use weft_block::ErrorKind;
use weft_endpoint::identity::subsystem_nqn;
use weft_endpoint::inventory::SubsystemNumbers;
use weft_endpoint::loops::LoopsConfig;
use weft_endpoint::url::{NVME_TCP, NVME_TCP_PORT, is_listen_url};
use weft_io::listening::Listening;
use weft_proto::nvme::types::Nsid;
use weft_server::config::desired::{
    Desired, DesiredNamespace, DesiredSubsystem, Fixed, concatenate,
};
use weft_server::config::load;
use weft_server::values::parse_nqn;

impl ServeArgs {
    /// What is to be served, by the configuration file or the command line.
    ///
    /// `given`: the URLs of the sockets that the service manager gave, which are among `listening`.
    pub(super) fn desired(
        &self,
        given: Vec<String>,
        listening: &Listening,
    ) -> Result<Desired, Failure> {
        let mut desired = match &self.config {
            Some(path) => load(path, &CommandLineOptions)?,
            None => self.by_options(given)?,
        };
        desired.loops.listening = listening.clone();
        self.sharing.fill(&mut desired);
        Ok(desired)
    }

    fn by_options(&self, given: Vec<String>) -> Result<Desired, Failure> {
        self.check_names()?;
        let loops = LoopsConfig {
            threads: self.threads,
            cpus: self.cpus_allowed.clone(),
            poll: self.poll,
            disk: self.disk_io.into(),
            pool_bytes: self.pool as usize,
            ..LoopsConfig::default()
        };
        let iscsi = self.login.settings()?;
        let tls = self.connect.tls()?;
        // What a group serves is known when this server has joined it.
        let subsystems = if self.group.is_given() { Vec::new() } else { vec![self.subsystem()?] };
        let (mut subsystems, mut discovery) =
            (subsystems, self.security.discovery_authentication(self.connect.dhchap())?);
        concatenate(&mut subsystems, &mut discovery, tls.concat);
        if tls.concat && subsystems.iter().any(|subsystem| subsystem.authentication.is_none()) {
            let text = "--concat needs the secrets of the hosts, of which the keys for TLS come: give --dhchap-secret-file";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(Desired {
            name: None,
            listen: self.listen(given),
            loops,
            exit_on_loss: self.loss.exit_on_loss,
            disk_timeout: self.disk_timeout,
            slow: self.slow,
            connections: self.max_connections,
            connect: Vec::new(),
            tls,
            subsystems,
            discovery,
            states: Vec::new(),
            limits: Vec::new(),
            identifiers: Default::default(),
            cntlids: None,
            shared: false,
            fixed: Fixed {
                tables: Vec::new(),
                users: iscsi.chap.clone(),
                target: iscsi.chap_target.clone(),
            },
            iscsi,
        })
    }

    /// One subsystem with the sources as namespaces 1, 2, …; as logical units they are numbered
    /// from 0.
    fn subsystem(&self) -> Result<DesiredSubsystem, Failure> {
        let nqn = self.nqn.as_deref().map_or_else(subsystem_nqn, parse_nqn)?;
        let hosts = VisibleSources::parse(
            "--allow-host",
            &self.allow_host,
            (1, self.source.len()),
            parse_nqn,
        )?;
        let initiators = self.login.initiators_allowed(self.source.len())?;
        let namespace = |((lun, source), name): ((u32, &String), String)| DesiredNamespace {
            name: Some(name),
            hosts: hosts.of(lun + 1),
            initiators: initiators.of(lun),
            reservations: !self.no_reservations,
            ..DesiredNamespace::new(Nsid(lun + 1), self.url(source))
        };
        let namespaces = (0..).zip(&self.source).zip(self.names()).map(namespace).collect();
        let authentication = self.security.authentication(self.connect.dhchap())?;
        let (hosts, initiators) = (hosts.names(), initiators.names());
        let (serial, model) = (self.serial.clone(), self.model.clone());
        let numbers = SubsystemNumbers { serial, model, queues: self.max_queues };
        Ok(DesiredSubsystem { nqn, hosts, initiators, numbers, authentication, namespaces })
    }

    /// The URLs to listen at: those that are told, or those of the sockets that the service manager
    /// gave.
    fn listen(&self, given: Vec<String>) -> Vec<String> {
        if self.listen.is_empty() && !given.is_empty() {
            return given;
        }
        if self.listen.is_empty() {
            return vec![format!("{NVME_TCP}127.0.0.1:{NVME_TCP_PORT}")];
        }
        // ADDR:PORT without a scheme means NVMe/TCP.
        let url = |place: &String| {
            if is_listen_url(place) { place.clone() } else { format!("{NVME_TCP}{place}") }
        };
        self.listen.iter().map(url).collect()
    }

    /// The URL with which a source is opened.
    fn url(&self, source: &str) -> String {
        if self.read_only { format!("readonly:{source}") } else { source.to_owned() }
    }

    /// The name of each source: the given names, then numbers.
    fn names(&self) -> impl Iterator<Item = String> {
        self.name
            .iter()
            .cloned()
            .chain((self.name.len() + 1..).map(|n| n.to_string()))
            .take(self.source.len())
    }

    fn check_names(&self) -> Result<(), Failure> {
        if self.name.len() > self.source.len() {
            let text = format!(
                "there are {} --name for {} sources; give at most one for each source",
                self.name.len(),
                self.source.len()
            );
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        let mut seen = HashSet::new();
        match self.names().find(|name| name.is_empty() || !seen.insert(name.clone())) {
            None => Ok(()),
            Some(name) if name.is_empty() => {
                Err(Failure::of(ErrorKind::Usage, "--name is empty; give each source a name"))
            }
            Some(name) => Err(Failure::of(
                ErrorKind::Usage,
                format!("two sources have the name \"{name}\"; give others with --name"),
            )),
        }
    }
}
