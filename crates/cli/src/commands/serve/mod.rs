//! `weft serve`: serves sources on listening ports.
//!
//! * `args`: its options.
//! * `security`: those about who is let in, and the warning of addresses that are open to all.
//! * `desired`: the configuration that they ask for.
//! * `printed`: its output.

mod args;
mod desired;
mod printed;
mod security;

use crate::args::source_options::CommandLineOptions;
use crate::commands::internal::child::for_each_line_of_input;
use crate::mdns::MdnsAnnouncement;
use crate::process::exit::{Failure, at_once, printed as whole};
use crate::process::exit_on_loss::ended;
use crate::process::signals::watch;
pub use args::{DiskIo, ServeArgs};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use weft_block::ErrorKind;
use weft_block::limit::Limit;
use weft_endpoint::health::HealthStore;
use weft_endpoint::reservations::ReservationTable;
use weft_endpoint::{ConnectOptions, Control};
use weft_io::listening::Listening;
use weft_server::attach::memory::protect;
use weft_server::config::desired::DesiredLimit;
use weft_server::config::{Desired, SourceOptions};
use weft_server::management::place::ControlSocket;
use weft_server::served::orders;
use weft_server::service::takeover::Takeover;
use weft_server::service::{activation, notify};
use weft_server::{Environment, Server, ServerNotice, psk};

/// Serves until a signal arrives.
pub fn run(args: ServeArgs, control: &Control) -> Result<(), Failure> {
    if args.sharing.protect_memory {
        // Before there are threads: they inherit it.
        protect();
    }
    let listening = Listening::default();
    let mut desired = args.desired(activation::take(&listening)?, &listening)?;
    args.pcap.begin(control)?;
    let requests = Requests::default();
    let mut environment = args.environment(&desired, control, requests.events())?;
    let mut is_first = true;
    loop {
        let mut server = Server::start(desired, environment)?;
        let announced = match announce(&args, &requests, &server, is_first) {
            Ok(announced) => announced,
            Err(why) => {
                // A server from which this one was to take over goes on then. Why this one ends
                // matters more than how.
                let _ = server.stop();
                return Err(why);
            }
        };
        // Before the other process ends: the service manager must not take that for the end.
        notify::ready(is_first && args.takeover.from().is_some());
        server.took_over();
        let watchdog = notify::watch(server.loops());
        let end = serve(&requests, &server)?;
        if !matches!(end, End::Release) {
            notify::stopping();
        }
        drop(announced);
        let lost = match end {
            End::Asked => None,
            End::Lost(url) => Some(url),
            End::Release => {
                // Not its event loops, which end, but the process, which may be needed again.
                drop(watchdog);
                let _watchdog = notify::watch_that(|_| true);
                let Some(again) = server.hand_over(|| requests.is_ending())? else {
                    return Ok(());
                };
                desired = again;
                environment = args.environment(&desired, control, requests.events())?;
                environment.takeover = Takeover { has_failed: true, ..Takeover::default() };
                is_first = false;
                continue;
            }
        };
        return ended(lost, server.stop().map_err(Failure::from));
    }
}

/// Tells those who start a server, and the network, that it serves.
fn announce(
    args: &ServeArgs,
    requests: &Requests,
    server: &Server,
    is_first: bool,
) -> Result<Option<MdnsAnnouncement>, Failure> {
    if is_first {
        requests.catch_signals(args.until_eof, args.config.is_some())?;
    }
    let announced = args.announce.start(&server.urls(), &server.desired().listen)?;
    if is_first {
        args.security.warn(server.desired());
        whole(printed::start(server))?;
    }
    Ok(announced)
}

/// Why a server ends.
enum End {
    Asked,
    /// The source with this URL is lost.
    Lost(String),
    /// Another process takes over. If it fails, this one goes on.
    Release,
}

/// Does what is asked, until it is time to end; why.
fn serve(requests: &Requests, server: &Server) -> Result<End, Failure> {
    loop {
        match requests.next() {
            ServeRequest::Counters => printed::counters(server)?,
            ServeRequest::Change(order) => {
                printed::line(&orders::carry_out(&order, server.served()))?
            }
            ServeRequest::Reload => server.served().reload(),
            ServeRequest::Event(ServerNotice::SourceLost(url)) => return Ok(End::Lost(url)),
            ServeRequest::Event(ServerNotice::ReleaseRequested) => return Ok(End::Release),
            // Nothing that is under way is of any effect any more: hosts are served best by
            // connections that close at once.
            ServeRequest::Event(ServerNotice::GroupLost(ending)) => {
                at_once(&Failure::of(ErrorKind::Refused, ending.to_string()))
            }
            ServeRequest::End | ServeRequest::Event(ServerNotice::EndRequested) => {
                return Ok(End::Asked);
            }
        }
    }
}

// Requests to a running server: by signals, by the server itself and, if it was started by another
// program, by standard input.

/// A request to a running server.
enum ServeRequest {
    /// To end.
    End,
    /// To apply its configuration file again.
    Reload,
    /// To do what follows from an event.
    Event(ServerNotice),
    /// To print counters.
    Counters,
    /// A command of [`weft_server::served::orders`].
    Change(String),
}

/// All requests, in their order.
struct Requests {
    give: Sender<ServeRequest>,
    take: Receiver<ServeRequest>,
}

impl Default for Requests {
    fn default() -> Self {
        let (give, take) = mpsc::channel();
        Self { give, take }
    }
}

impl Requests {
    /// The next one.
    pub fn next(&self) -> ServeRequest {
        // A sender is kept here.
        self.take.recv().unwrap_or(ServeRequest::End)
    }

    /// Returns whether it is asked to end. Other requests are dropped: there is no server for them.
    pub fn is_ending(&self) -> bool {
        let ends = |request| {
            matches!(request, ServeRequest::End | ServeRequest::Event(ServerNotice::EndRequested))
        };
        self.take.try_iter().any(ends)
    }

    /// Takes the events of a server.
    pub fn events(&self) -> Arc<dyn Fn(ServerNotice) + Send + Sync> {
        let give = self.give.clone();
        // The receiver may be gone already, here and below.
        Arc::new(move |event| _ = give.send(ServeRequest::Event(event)))
    }

    /// Takes SIGTERM and SIGINT, SIGHUP and, if requested, what is on standard input, and its end.
    /// SIGHUP ends a server that has no configuration file.
    pub fn catch_signals(&self, until_eof: bool, has_file: bool) -> Result<(), Failure> {
        if until_eof {
            let give = self.give.clone();
            std::thread::spawn(move || {
                for_each_line_of_input(|line| {
                    if line == "counters" {
                        let _ = give.send(ServeRequest::Counters);
                    } else if let Some(order) = line.strip_prefix("inventory ") {
                        let _ = give.send(ServeRequest::Change(order.to_owned()));
                    }
                });
                let _ = give.send(ServeRequest::End);
            });
        }
        let (end, reload) = (self.give.clone(), self.give.clone());
        watch(
            move || _ = end.send(ServeRequest::End),
            has_file.then_some(move || _ = reload.send(ServeRequest::Reload)),
        )
    }
}

// The environment of the server, in addition to its configuration.

impl ServeArgs {
    /// The environment of the server.
    fn environment(
        &self,
        desired: &Desired,
        control: &Control,
        on_event: Arc<dyn Fn(ServerNotice) + Send + Sync>,
    ) -> Result<Environment, Failure> {
        Ok(Environment {
            connect: self.connect_options(desired, control)?,
            file: self.config.clone(),
            source_options: Arc::new(CommandLineOptions),
            host_limits: self.host_limits()?,
            referrals: self.announce.referrals().to_vec(),
            discovery_nqn: self.announce.discovery_nqn().cloned(),
            control_socket: Some(self.control_socket(desired)),
            metrics: self.metrics.config(),
            takeover: self.takeover.takeover(self.security.insecure()),
            goes_on: true,
            group: self.group.joining()?,
            reservations: ReservationTable::of_this_user(),
            health: HealthStore::of_this_user(),
            on_event,
            front: None,
        })
    }

    /// The control socket that is asked for, or one that is named by the process.
    fn control_socket(&self, desired: &Desired) -> ControlSocket {
        let given = self.control.as_deref().or(desired.name.as_deref()).or(self.takeover.from());
        let own = || format!("serve-{}", std::process::id());
        ControlSocket { is_required: given.is_some(), place: given.map_or_else(own, str::to_owned) }
    }

    /// How sources are opened. By default a remote one has as many connections as there are loops.
    fn connect_options(
        &self,
        desired: &Desired,
        control: &Control,
    ) -> Result<ConnectOptions, Failure> {
        let queues = u16::try_from(desired.loops.count()).unwrap_or(u16::MAX);
        match &self.config {
            Some(_) => Ok(CommandLineOptions.options(&desired.connect, queues, control)?),
            None => self.source_options(queues, control),
        }
    }

    /// Options of connections to sources: `--tls` is about those that this server accepts.
    fn source_options(&self, queues: u16, control: &Control) -> Result<ConnectOptions, Failure> {
        let secrets = self.security.source_secrets()?;
        let mut options = self.connect.options_with(queues, control, secrets)?;
        let keys = self.source_tls_key_file.as_deref();
        options.tls.psk = keys
            .map(|file| psk::required(Some(file), None).map(|keys| self.connect.placed(keys)))
            .transpose()?;
        options.tls.concat = self.security.source_concat();
        if options.tls.concat && options.secrets.host.is_none() {
            let text =
                "--source-concat needs the secret of this server: give --source-dhchap-secret-file";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(options)
    }

    /// `--host-limit`.
    fn host_limits(&self) -> Result<Vec<DesiredLimit>, Failure> {
        let parse = |given: &String| -> Result<DesiredLimit, Failure> {
            let wrong =
                |why: String| Failure::of(ErrorKind::Usage, format!("--host-limit {given}: {why}"));
            let (host, limit) = given
                .split_once('=')
                .ok_or_else(|| wrong("use HOST=iops=10k, HOST=bw=100MB or both".into()))?;
            Ok(DesiredLimit { host: host.to_owned(), limit: Limit::parse(limit).map_err(wrong)? })
        };
        self.host_limit.iter().map(parse).collect()
    }
}
