//! The server that is managed, and what can be asked of it.

use super::inventory::{ShownHost, ShownInventory};
use super::methods::{Methods, NoParams};
use super::place::named;
use super::protocol::VERSION;
use super::server::ControlServer;
use crate::served::{Served, verbs};
use crate::service::takeover::{Giver, Handover};
use serde::Serialize;
use std::sync::Arc;
use weft_block::Error;
use weft_endpoint::export::Exports;
use weft_endpoint::inventory::LiveInventory;
use weft_endpoint::report::Report;
use weft_io::RemoteLoop;

/// A running `weft serve`.
#[derive(Clone)]
pub struct Running {
    /// What is served.
    pub inventory: Arc<LiveInventory>,
    /// Where it is served.
    pub exports: Arc<Exports>,
    /// The event loops.
    pub loops: Vec<RemoteLoop>,
    /// All of that, to change it.
    pub served: Arc<Served>,
    /// What it can hand over to another process.
    pub giver: Giver,
}

/// Who answers.
#[derive(Debug, Serialize)]
struct Info {
    /// The version of weft.
    weft: &'static str,
    /// The version of the protocol.
    protocol: u32,
    pid: u32,
    methods: Vec<&'static str>,
}

impl Running {
    /// Its state. Waits for no I/O.
    pub fn report(&self) -> Report {
        let (listeners, open_connections) = (self.exports.urls(), self.exports.connections());
        Report { listeners, open_connections, ..Report::of(&self.inventory, &self.loops) }
    }

    /// What can be asked of it.
    fn methods(self) -> Methods {
        let running = Arc::new(self);
        let mut methods = Methods::default();
        let observed = Arc::clone(&running);
        methods.add("server.status", move |NoParams {}| Ok(observed.report()));
        let shown = Arc::clone(&running);
        methods.add("inventory.show", move |NoParams {}| {
            Ok(ShownInventory::of(&shown.inventory.now(), shown.exports.urls()))
        });
        let connected = Arc::clone(&running);
        methods.add("host.list", move |NoParams {}| Ok(ShownHost::all(&connected.exports)));
        verbs::add(&mut methods, &running.served);
        if let Some(group) = running.served.group.clone() {
            let of = Arc::clone(&group);
            methods.add("gateway.list", move |NoParams {}| Ok(of.show()));
            methods.add("gateway.forget", move |forget| group.forget(&forget));
        }
        let giver = running.giver.clone();
        methods.add("server.handover", move |to: Handover| giver.give(&to));
        let end = Arc::clone(&running.giver.end);
        methods.add_answered_first("server.end", move || end());
        let names: Vec<_> = methods.names().into_iter().chain(["server.info"]).collect();
        methods.add("server.info", move |NoParams {}| {
            let (weft, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
            Ok(Info { weft, protocol: VERSION, pid, methods: names.clone() })
        });
        methods
    }
}

/// Opens the control socket of a server: where it is told, or one that is named by the process,
/// without which the server works, too.
pub fn manage(given: Option<&str>, running: Running) -> Result<Option<ControlServer>, Error> {
    let own = format!("serve-{}", std::process::id());
    let started = named(given.unwrap_or(&own))
        .and_then(|path| ControlServer::start(&path, running.methods()));
    match started {
        Ok(server) => {
            tracing::info!("the control socket is {}", server.path().display());
            Ok(Some(server))
        }
        Err(e) if given.is_some() => Err(e),
        Err(e) => {
            tracing::warn!(
                "there is no control socket, so this server cannot be asked or changed: {e}"
            );
            Ok(None)
        }
    }
}
