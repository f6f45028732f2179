//! Targets and hosts over each of the transports.

use super::fabric::Fabric;
use super::host_end::HostEnd;
use super::testbed::Testbed;
use crate::export::Export;
use crate::export::nvme::TargetLimits;
use crate::export::nvme::target_state::TargetState;
use crate::export::nvme::{Target, TargetConfig};
use crate::inventory::{LiveInventory, SubsystemConfig};
use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::{BlockDevice, Pending};
use weft_connection::capture::Capture;
use weft_connection::identity::HostIdentity;
use weft_initiator::source::ConnectOptions;
use weft_initiator::source::nvme::device::NvmeDevice;
use weft_initiator::source::nvme::rdma::RdmaLink;
use weft_initiator::source::nvme::session::{self, Session};
use weft_initiator::source::nvme::tcp::TcpLink;
use weft_initiator::source::nvme::transport::{ControllerLink, OpenLink};
use weft_io::rdma::{QueuePair, QueuePairConfig, QueuePairEvent};
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop};
use weft_proto::nvme::types::{Cntlid, Id128, Nqn, Qid};
use weft_proto::nvme_rdma::cm::CmRequest;

/// A target that listens, whatever its hosts come by.
pub(super) trait Serving: Send {
    /// Connections that are open.
    fn connections(&self) -> usize;

    /// Admits nobody any more; lets commands under way end.
    fn drain(&self);

    /// Closes every connection.
    fn close(&self);

    /// Has connections captured.
    fn capture(&self, capture: &Capture);
}

impl Serving for Target {
    fn connections(&self) -> usize {
        Self::connections(self)
    }

    fn drain(&self) {
        Self::drain(self);
    }

    fn close(&self) {
        Self::close(self);
    }

    fn capture(&self, capture: &Capture) {
        Export::capture(self, capture);
    }
}

impl Serving for Arc<TargetState> {
    fn connections(&self) -> usize {
        self.members.open()
    }

    fn drain(&self) {
        self.members.drain();
    }

    fn close(&self) {
        self.members.stop();
    }

    fn capture(&self, capture: &Capture) {
        self.members.capture(capture);
    }
}

/// A target that serves one device, over some transport.
pub(super) trait Transport: 'static {
    /// The host's connections.
    type Link: ControllerLink;

    /// Loops that take the machine's time, the first ones for a target.
    fn stage() -> Testbed {
        Testbed::of_the_system()
    }

    /// Begins to serve on this loop and `loops`; gives where, and what keeps the target.
    fn serve(
        on: &Handle,
        loops: Vec<RemoteLoop>,
        device: Arc<dyn BlockDevice>,
        seed: u64,
    ) -> (<Self::Link as OpenLink>::Place, Box<dyn Serving>);

    /// Connects and says nothing, until the result is dropped.
    fn connect(on: &Handle, place: &<Self::Link as OpenLink>::Place) -> Box<dyn Any>;

    /// Cuts a connection, if the transport knows how: the admin connection is 0.
    fn cut(place: &<Self::Link as OpenLink>::Place, nth: usize) -> bool {
        let _ = (place, nth);
        false
    }
}

pub(super) fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:transport").unwrap()
}

fn inventory(device: Arc<dyn BlockDevice>) -> Arc<LiveInventory> {
    LiveInventory::of_devices(SubsystemConfig::new(nqn()), vec![device]).unwrap()
}

/// NVMe/TCP.
pub(super) struct Tcp;

impl Transport for Tcp {
    type Link = TcpLink;

    fn serve(
        on: &Handle,
        loops: Vec<RemoteLoop>,
        device: Arc<dyn BlockDevice>,
        _: u64,
    ) -> (Vec<SocketAddr>, Box<dyn Serving>) {
        // The address of the target's host in a simulation. Elsewhere it is the loopback.
        let listen = |at: &str| {
            let config = TargetConfig {
                inventory: inventory(Arc::clone(&device)),
                listen: vec![at.parse().unwrap()],
                identities: weft_connection::identity::Identities::seeded(1),
                tls: weft_connection::tls::TlsFiles::default(),
            };
            Target::start_on(on, config, TargetLimits::default(), loops.clone())
        };
        let target = listen("10.0.0.1:4420").or_else(|_| listen("127.0.0.1:0")).unwrap();
        (target.addresses().to_vec(), Box::new(target))
    }

    fn connect(on: &Handle, place: &Vec<SocketAddr>) -> Box<dyn Any> {
        Box::new(on.connect(place[0]).unwrap())
    }
}

/// Messages.
pub(super) struct Messages;

impl Transport for Messages {
    type Link = HostEnd;

    fn serve(
        on: &Handle,
        loops: Vec<RemoteLoop>,
        device: Arc<dyn BlockDevice>,
        seed: u64,
    ) -> (Arc<Fabric>, Box<dyn Serving>) {
        let shared = TargetState::new(
            inventory(device),
            TargetLimits::default(),
            on.pool().cap_bytes(),
            loops,
            1,
        );
        let fabric = Fabric::new(seed);
        fabric.listen(on, &shared);
        (fabric, Box::new(shared))
    }

    fn connect(_: &Handle, place: &Arc<Fabric>) -> Box<dyn Any> {
        Box::new(place.connect())
    }

    fn cut(place: &Arc<Fabric>, nth: usize) -> bool {
        place.cut(nth);
        true
    }
}

/// NVMe over RDMA, in a simulated world.
pub(super) struct Rdma;

/// Where its target listens.
const AT: &str = "10.0.0.1:4420";

impl Transport for Rdma {
    type Link = RdmaLink;

    fn stage() -> Testbed {
        Testbed::of_a_world()
    }

    fn serve(
        on: &Handle,
        loops: Vec<RemoteLoop>,
        device: Arc<dyn BlockDevice>,
        _: u64,
    ) -> (Vec<SocketAddr>, Box<dyn Serving>) {
        let identities = weft_connection::identity::Identities::seeded(1);
        let config = TargetConfig {
            inventory: inventory(device),
            listen: Vec::new(),
            identities,
            tls: weft_connection::tls::TlsFiles::default(),
        };
        let target = Target::start_on(on, config, TargetLimits::default(), loops).unwrap();
        target.listen_on(on, &format!("nvme+rdma://{AT}")).unwrap();
        (target.addresses(), Box::new(target))
    }

    fn connect(on: &Handle, place: &Vec<SocketAddr>) -> Box<dyn Any> {
        let id = on.spawn(|id| {
            let mut pair = on.connect_rdma(place[0]).unwrap();
            on.registrar(id, |r| pair.register(r)).unwrap();
            Silent(pair)
        });
        Box::new(Removed(on.clone(), id))
    }
}

/// Asks for a connection, and then says nothing.
struct Silent(Box<dyn QueuePair>);

impl Driver for Silent {
    fn work(&mut self, on: &Handle) -> Activity {
        let Silent(pair) = self;
        while let Some(event) = pair.poll(on).unwrap() {
            if event == QueuePairEvent::Resolved {
                let (queues, bytes) = (8, 64);
                let config = QueuePairConfig {
                    send_queue: queues,
                    receives: queues,
                    receive_bytes: bytes,
                    message_bytes: bytes,
                    slots: queues,
                    reads: 0,
                    exposure: None,
                    lent_pieces: 0,
                };
                pair.create(&config).unwrap();
                pair.open(
                    &CmRequest { qid: Qid(0), receives: queues, hsqsize: 7, cntlid: Cntlid(0) }
                        .encode(),
                )
                .unwrap();
            }
        }
        Activity::Idle
    }
}

/// Removes a driver.
struct Removed(Handle, DriverId);

impl Drop for Removed {
    fn drop(&mut self) {
        self.0.remove(self.1);
    }
}

/// An association with the target there.
pub(super) fn connect<L: ControllerLink>(
    place: L::Place,
    options: &ConnectOptions,
) -> Pending<Session<L>> {
    let host = Nqn::new("nqn.2026-01.example.host:transport").unwrap();
    let options = ConnectOptions {
        host: Some(HostIdentity { nqn: host, id: Id128([9; 16]) }),
        ..options.clone()
    };
    session::begin("the target".into(), nqn(), None, &options, |on, _, found| found(on, Ok(place)))
        .unwrap()
}

/// Its namespace.
pub(super) fn open<L: ControllerLink>(
    place: L::Place,
    options: &ConnectOptions,
) -> Pending<Arc<NvmeDevice<L>>> {
    connect::<L>(place, options)
        .and_then(|session| session.device(None, |nsid| format!("namespace {nsid}")))
}
