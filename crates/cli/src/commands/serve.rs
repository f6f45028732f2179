//! `weft serve`: serves sources on listening ports.
//!
//! * `args`: its options.
//! * `of_file`: those that a configuration file has instead.
//! * `security`: those about who is let in, and the warning of addresses that are open to all.
//! * `desired`: what they ask for.
//! * `environment`: what the server is given beside that.
//! * `requests`: what is asked of it while it runs.
//! * `printed`: what it prints.

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
use requests::{Request, Requests};
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_io::listening::Listening;
use weft_server::attach::memory::protect;
use weft_server::served::orders;
use weft_server::service::{activation, notify};
use weft_server::{Event, Server};

/// Serves until a signal arrives.
pub fn run(args: ServeArgs, control: &Control) -> Result<(), Failure> {
    if args.sharing.protect_memory {
        // Before there are threads: they inherit it.
        protect();
    }
    let listening = Listening::default();
    let desired = args.desired(activation::take(&listening)?, &listening)?;
    args.pcap.begin(control)?;
    let requests = Requests::default();
    let environment = args.environment(&desired, control, requests.events())?;
    let server = Server::start(desired, environment)?;
    requests.catch_signals(args.until_eof, args.config.is_some())?;
    let announced = args.announce.start(&server.urls(), &server.desired().listen)?;
    args.security.warn(server.desired());
    whole(printed::start(&server))?;
    notify::ready(args.takeover.from().is_some());
    let _watchdog = notify::watch(server.loops());
    let lost = serve(&requests, &server)?;
    notify::stopping();
    drop(announced);
    ended(lost, server.stop().map_err(Failure::from))
}

/// Does what is asked, until it is time to end; the source that is lost, if that is why.
fn serve(requests: &Requests, server: &Server) -> Result<Option<String>, Failure> {
    loop {
        match requests.next() {
            Request::Counters => printed::counters(server)?,
            Request::Change(order) => printed::line(&orders::carry_out(&order, server.served()))?,
            Request::Reload => server.served().reload(),
            Request::Event(Event::SourceLost(url)) => return Ok(Some(url)),
            // Nothing that is under way is of any effect any more: hosts are served best by
            // connections that close at once.
            Request::Event(Event::GroupLost(ending)) => {
                at_once(&Failure::of(ErrorKind::Refused, ending.to_string()))
            }
            Request::End | Request::Event(Event::EndRequested) => return Ok(None),
        }
    }
}
