//! The server that is managed, and its methods.

use super::capture::{LastCapture, NAMES, StartCapture};
use super::inventory::{ShownHost, ShownInventory};
use super::methods::{Methods, NoParams};
use super::place::{ControlSocket, clean, named};
use super::protocol::VERSION;
use super::server::ControlServer;
use crate::served::{Served, verbs};
use crate::service::demands::Demands;
use crate::service::takeover::{Giver, HandedOver, Handover, RELEASE, Replaced};
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use weft_block::Error;
use weft_endpoint::report::Report;
use weft_io::RemoteLoop;

/// The parts of a running server that requests read or change.
pub struct Running {
    /// The served subsystems, with their changes.
    pub served: Arc<Served>,
    /// The event loops.
    pub loops: Vec<RemoteLoop>,
    /// The sockets that it can hand over to another process.
    pub giver: Giver,
    /// The last capture of its connections.
    pub capture: LastCapture,
    /// Its demands on hosts, as they were at the start.
    pub demands: Demands,
    /// The address of its metrics.
    pub metrics: OnceLock<SocketAddr>,
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
        let Served { inventory, exports, .. } = &*self.served;
        let (listeners, open_connections) = (exports.urls(), exports.connections());
        Report { listeners, open_connections, ..Report::of(inventory, &self.loops) }
    }

    /// What can be asked of it.
    fn methods(self: &Arc<Self>) -> Methods {
        let mut methods = Methods::default();
        let of = Arc::downgrade(self);
        methods.add_of(&of, "server.status", |running, NoParams {}| Ok(running.report()));
        methods.add_of(&of, "inventory.show", |running, NoParams {}| {
            let Served { inventory, exports, .. } = &*running.served;
            Ok(ShownInventory::of(&inventory.now(), exports.urls()))
        });
        methods.add_of(&of, "host.list", |running, NoParams {}| {
            Ok(ShownHost::all(&running.served.exports))
        });
        verbs::add(&mut methods, &self.served);
        methods.add_of(&of, NAMES.start, |running, asked: StartCapture| {
            running.capture.start(&running.served.exports, asked)
        });
        methods.add_of(&of, NAMES.status, |running, NoParams {}| running.capture.state(false));
        methods.add_of(&of, NAMES.end, |running, NoParams {}| running.capture.state(true));
        if let Some(group) = self.served.group.as_ref().map(Arc::downgrade) {
            methods.add_of(&group, "gateway.list", |group, NoParams {}| Ok(group.show()));
            methods.add_of(&group, "gateway.forget", |group, gateway| group.forget(&gateway));
        }
        methods.add_of(&of, "server.handover", |running, to: Handover| {
            let replaced = Replaced {
                metrics: running.metrics.get().copied(),
                demands: running.demands.now(&running.served.inventory.now()),
            };
            Ok(HandedOver { sockets: running.giver.give(&to)?, server: Some(replaced) })
        });
        let end = Arc::clone(&self.giver.end);
        methods.add_answered_first("server.end", move || end());
        if let Some(release) = self.giver.release.clone() {
            methods.add_answered_first(RELEASE, move || release());
        }
        let names: Vec<_> = methods.names().into_iter().chain(["server.info"]).collect();
        methods.add("server.info", move |NoParams {}| {
            let (weft, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
            Ok(Info { weft, protocol: VERSION, pid, methods: names.clone() })
        });
        methods
    }

    /// Opens its control socket. It works without one that is not required.
    pub fn manage(
        self: &Arc<Self>,
        ControlSocket { place, is_required }: &ControlSocket,
    ) -> Result<Option<ControlServer>, Error> {
        if !place.contains(std::path::is_separator) {
            // It is in the runtime directory, in which others may have been killed.
            clean();
        }
        let started = named(place).and_then(|path| ControlServer::start(&path, self.methods()));
        match started {
            Ok(server) => {
                tracing::info!("the control socket is {}", server.path().display());
                Ok(Some(server))
            }
            Err(e) if *is_required => Err(e),
            Err(e) => {
                tracing::warn!(
                    "there is no control socket, so this server cannot be asked or changed: {e}"
                );
                Ok(None)
            }
        }
    }
}
