//! `weft serve`: serves sources on listening ports.
//!
//! * `args`: its options.
//! * `of_file`: those that a configuration file has instead.
//! * `security`: those about who is let in, and the warning of addresses that are open to all.
//! * `desired`: the configuration that they ask for.
//! * `environment`: the rest that the server gets.
//! * `requests`: the requests to it while it runs.
//! * `printed`: its output.

mod args;
mod desired;
mod environment;
mod of_file;
mod printed;
mod requests;
mod security;

pub use args::{DiskIo, ServeArgs};

use crate::exit::{Failure, at_once, printed as whole};
use crate::exit_on_loss::ended;
use crate::mdns::MdnsAnnouncement;
use requests::{Requests, ServeRequest};
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_io::listening::Listening;
use weft_server::attach::memory::protect;
use weft_server::served::orders;
use weft_server::service::takeover::Takeover;
use weft_server::service::{activation, notify};
use weft_server::{Server, ServerNotice};

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
