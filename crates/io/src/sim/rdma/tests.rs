//! Queue pairs of a world, by their interface.

use super::RdmaConfig;
use crate::event_loop::{Handle, LoopConfig};
use crate::rdma::{
    Exposure, QueuePair, QueuePairConfig, QueuePairEvent, QueuePairListener, SlotData, WorkError,
    WorkOutcome,
};
use crate::sim::{Cut, NetConfig, PortAnswer, Side, World};
use core::time::Duration;
use std::io::ErrorKind;

const PORT: &str = "10.0.0.1:4420";

const CONFIG: QueuePairConfig = QueuePairConfig {
    send_queue: 8,
    receives: 4,
    receive_bytes: 16,
    message_bytes: 16,
    slots: 2,
    reads: 4,
    exposure: Some(Exposure::Window),
    lent_pieces: 2,
};

/// Two hosts with a loop each, and a listener on the first.
struct Scene {
    world: World,
    server: Handle,
    client: Handle,
    listener: Option<Box<dyn QueuePairListener>>,
}

type Ends = (Box<dyn QueuePair>, Box<dyn QueuePair>);

impl Scene {
    fn new() -> Self {
        let mut world = World::with_net(3, NetConfig::default());
        world.set_rdma(|rdma| *rdma = RdmaConfig::default());
        let [server, client] = ["10.0.0.1", "10.0.0.2"].map(|ip| {
            let host = world.host(ip);
            let id =
                world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
            world.handle(id)
        });
        let listener = Some(server.listen_rdma(PORT.parse().unwrap()).unwrap());
        Self { world, server, client, listener }
    }

    fn settle(&mut self) {
        self.world.run_for(Duration::from_millis(10));
    }

    fn ask(&mut self) -> Box<dyn QueuePair> {
        let mut client = self.client.connect_rdma(PORT.parse().unwrap()).unwrap();
        self.settle();
        assert_eq!(self.at_client(&mut client), [QueuePairEvent::Resolved]);
        client.create(&CONFIG).unwrap();
        client.open(b"hello").unwrap();
        client
    }

    /// Both ends of a connection that stands, with two receives each.
    fn pair(&mut self) -> Ends {
        let mut client = self.ask();
        self.settle();
        let mut server = self.listener.as_mut().unwrap().accept().unwrap();
        assert!(server.private_data().starts_with(b"hello"));
        server.create(&CONFIG).unwrap();
        server.open(b"welcome").unwrap();
        self.settle();
        assert_eq!(self.at_client(&mut client), [QueuePairEvent::Established]);
        assert!(client.private_data().starts_with(b"welcome"));
        assert_eq!(self.at_server(&mut server), [QueuePairEvent::Established]);
        for end in [&mut client, &mut server] {
            (0..2).for_each(|buffer| end.post_receive(buffer));
        }
        (client, server)
    }

    fn at_client(&self, pair: &mut Box<dyn QueuePair>) -> Vec<QueuePairEvent> {
        std::iter::from_fn(|| pair.poll(&self.client).unwrap()).collect()
    }

    fn at_server(&self, pair: &mut Box<dyn QueuePair>) -> Vec<QueuePairEvent> {
        std::iter::from_fn(|| pair.poll(&self.server).unwrap()).collect()
    }

    fn cut(&mut self, how: Cut) {
        let id = self.world.connections()[0].id;
        self.world.cut(id, how);
    }
}

fn received(buffer: u16, invalidated: Option<u32>) -> QueuePairEvent {
    QueuePairEvent::Received { buffer, immediate: None, invalidated }
}

fn ended(id: u64, ended: WorkOutcome) -> QueuePairEvent {
    QueuePairEvent::WorkEnded { id, ended }
}

fn flushed_receives() -> [QueuePairEvent; 2] {
    [0, 1].map(|buffer| QueuePairEvent::ReceiveEnded { buffer, error: None })
}

#[test]
fn messages_and_memory_get_across() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    client.prepare(0, 8).unwrap();
    client.copy_in(0, 0, b"contents");
    let theirs = client.expose(1, 0, 8, false).unwrap();
    client.send(2, b"read it", None, None);
    scene.settle();
    assert_eq!(scene.at_client(&mut client), [ended(2, WorkOutcome::Done)]);
    assert_eq!(scene.at_server(&mut server), [received(0, None)]);
    assert_eq!(server.received(0), b"read it");
    server.prepare(1, 8).unwrap();
    server.read(3, SlotData { slot: 1, offset: 0, bytes: 8 }, theirs);
    scene.settle();
    assert_eq!(scene.at_server(&mut server), [ended(3, WorkOutcome::Done)]);
    let mut bytes = [0; 8];
    server.copy_out(1, 0, &mut bytes);
    assert_eq!(&bytes, b"contents");
    server.send(4, b"done", None, Some(theirs.key));
    scene.settle();
    assert_eq!(scene.at_client(&mut client), [received(0, Some(theirs.key))]);
    client.release(0);
    let open = &scene.world.connections()[0];
    assert!(open.open && open.carried == [7 + 8, 4], "{open:?}");
}

#[test]
fn who_has_no_key_is_refused_and_both_ends_fail() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    client.prepare(0, 8).unwrap();
    let theirs = client.expose(1, 0, 8, false).unwrap();
    scene.settle();
    server.prepare(0, 8).unwrap();
    server.write(5, SlotData { slot: 0, offset: 0, bytes: 8 }, theirs, false);
    scene.settle();
    let refused = [ended(5, WorkOutcome::Failed(WorkError::RemoteAccess))];
    assert_eq!(scene.at_server(&mut server), [&refused[..], &flushed_receives()].concat());
    assert_eq!(scene.at_client(&mut client), flushed_receives());
}

#[test]
fn a_send_waits_for_a_receive() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    (0..3).for_each(|id| client.send(id, b"x", None, None));
    scene.settle();
    assert_eq!(scene.at_server(&mut server).len(), 2);
    assert!(scene.world.rdma_counts().not_ready > 0);
    server.post_receive(1);
    scene.settle();
    assert_eq!(scene.at_server(&mut server), [received(1, None)]);
    assert_eq!(scene.at_client(&mut client).len(), 3);
}

#[test]
fn who_disconnects_flushes_and_the_other_end_hears_of_it() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    client.disconnect();
    scene.settle();
    let all = [&flushed_receives()[..], &[QueuePairEvent::Disconnected]].concat();
    assert_eq!(scene.at_client(&mut client), all);
    assert_eq!(scene.at_server(&mut server), [QueuePairEvent::Disconnected]);
    server.disconnect();
    scene.settle();
    assert_eq!(scene.at_server(&mut server), flushed_receives());
    drop((client, server));
    assert_eq!(scene.world.connections(), []);
}

#[test]
fn memory_stays_until_it_is_released_even_when_the_queue_pair_is_destroyed() {
    let mut scene = Scene::new();
    let (mut client, _server) = scene.pair();
    client.prepare(0, 8).unwrap();
    client.copy_in(0, 0, b"contents");
    client.destroy();
    let mut bytes = [0; 4];
    client.copy_out(0, 4, &mut bytes);
    assert_eq!(&bytes, b"ents");
    client.release(0);
}

#[test]
fn silence_is_noticed_by_who_sends_and_by_nobody_else() {
    for how in [Cut::Silence, Cut::HalfOpen(Side::Server)] {
        let mut scene = Scene::new();
        let (mut client, mut server) = scene.pair();
        scene.cut(how);
        scene.world.run_for(Duration::from_secs(1000));
        assert_eq!(scene.at_client(&mut client), []);
        assert_eq!(scene.at_server(&mut server).is_empty(), how == Cut::Silence);
        client.send(6, b"x", None, None);
        scene.world.run_for(Duration::from_secs(3));
        assert_eq!(scene.at_client(&mut client), []);
        scene.world.run_for(Duration::from_secs(2));
        let failed = [ended(6, WorkOutcome::Failed(WorkError::RetriesExceeded))];
        assert_eq!(scene.at_client(&mut client), [&failed[..], &flushed_receives()].concat());
    }
}

#[test]
fn a_short_partition_delays_and_a_long_one_breaks() {
    for (span, breaks) in [(2, false), (6, true)] {
        let mut scene = Scene::new();
        let (mut client, mut server) = scene.pair();
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|ip| scene.world.host(ip));
        scene.world.partition(a, b);
        client.send(7, b"x", None, None);
        scene.world.run_for(Duration::from_secs(span));
        scene.world.heal(a, b);
        scene.settle();
        assert_eq!(scene.at_server(&mut server).is_empty(), breaks);
        let outcome = if breaks {
            WorkOutcome::Failed(WorkError::RetriesExceeded)
        } else {
            WorkOutcome::Done
        };
        assert_eq!(scene.at_client(&mut client)[0], ended(7, outcome));
    }
}

#[test]
fn a_host_without_power_is_found_out_by_who_sends() {
    let mut scene = Scene::new();
    let (mut client, server) = scene.pair();
    let host = scene.world.host("10.0.0.1");
    scene.world.crash(host);
    scene.world.power_on(host);
    drop(server);
    scene.settle();
    assert_eq!(scene.at_client(&mut client), []);
    client.send(8, b"x", None, None);
    scene.world.run_for(Duration::from_secs(5));
    assert_eq!(
        scene.at_client(&mut client)[0],
        ended(8, WorkOutcome::Failed(WorkError::RetriesExceeded))
    );
}

#[test]
fn a_port_rejects_refuses_or_does_not_answer() {
    let mut scene = Scene::new();
    let mut client = scene.ask();
    scene.settle();
    scene.listener.as_mut().unwrap().accept().unwrap().reject(b"no");
    scene.settle();
    assert_eq!(scene.at_client(&mut client), [QueuePairEvent::Rejected]);
    assert_eq!(client.private_data(), b"no");
    let port = PORT.parse().unwrap();
    scene.world.set_answer(port, PortAnswer::Never);
    let mut client = scene.ask();
    scene.world.run_for(Duration::from_secs(61));
    assert_eq!(scene.at_client(&mut client), [QueuePairEvent::Failed]);
    scene.world.set_answer(port, PortAnswer::Usual);
    scene.listener = None;
    let mut client = scene.ask();
    scene.settle();
    assert_eq!(scene.at_client(&mut client), [QueuePairEvent::Rejected]);
    assert!(client.private_data().is_empty());
}

#[test]
fn memory_and_descriptors_run_out() {
    let mut scene = Scene::new();
    let (mut client, _server) = scene.pair();
    scene.world.set_rdma(|rdma| rdma.no_memory_one_in = 1);
    client.prepare(0, 8).unwrap();
    assert_eq!(client.prepare(1, 8).unwrap_err().kind(), ErrorKind::OutOfMemory);
    client.release(0);
    client.prepare(1, 8).unwrap();
    let host = scene.world.host("10.0.0.2");
    scene.world.set_exhausted(host, true);
    assert!(scene.client.connect_rdma(PORT.parse().unwrap()).is_err());
    assert!(scene.client.listen_rdma("10.0.0.2:1".parse().unwrap()).is_err());
}

#[test]
fn lent_memory_is_read_where_it_is_and_comes_back() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    client.prepare(0, 8).unwrap();
    let theirs = client.expose(1, 0, 8, true).unwrap();
    scene.settle();
    let pool = crate::Pool::new(1 << 20);
    let piece = |bytes: &[u8]| {
        let mut buf = pool.take(bytes.len()).unwrap();
        buf.copy_from_slice(bytes);
        crate::Segment::from(buf)
    };
    let pieces = |count: usize| -> crate::Segments {
        [&b"xxcon"[..], b"tents", b"more"][..count].iter().map(|b| piece(b)).collect()
    };
    assert_eq!(server.lend(1, pieces(3)).unwrap_err().memory.len(), 3, "too many pieces");
    server.lend(1, pieces(2)).unwrap();
    assert!(server.lend(1, pieces(1)).is_err(), "one at a time");
    server.write(2, SlotData { slot: 1, offset: 2, bytes: 8 }, theirs, true);
    assert!(server.take_back(1).is_none(), "the device may read it");
    scene.settle();
    assert_eq!(scene.at_server(&mut server), [ended(2, WorkOutcome::Done)]);
    assert_eq!(server.take_back(1).unwrap().len(), 2);
    assert!(server.take_back(1).is_none());
    let mut bytes = [0; 8];
    client.copy_out(0, 0, &mut bytes);
    assert_eq!(&bytes, b"contents");
    // It is freed with a queue pair that is dropped, and comes back from one that is destroyed.
    server.lend(0, pieces(1)).unwrap();
    server.write(3, SlotData { slot: 0, offset: 0, bytes: 4 }, theirs, true);
    server.lend(1, pieces(1)).unwrap();
    server.destroy();
    assert_eq!(server.take_back(0).unwrap().len(), 1);
    drop(server);
    assert_eq!(pool.taken_bytes(), 0);
}
