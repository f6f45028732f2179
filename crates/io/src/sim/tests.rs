use super::*;
use crate::event_loop::{Activity, Driver, Handle, LoopConfig};
use crate::stream::{Listener, Stream};
use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::rc::Rc;
use weft_base::lock::Lock;

const PORT: &str = "10.0.0.1:7000";

/// Two hosts with a loop each, and a listener on the first.
struct Scene {
    world: World,
    server: Handle,
    client: Handle,
    listener: Box<dyn Listener>,
}

fn scene(net: NetConfig) -> Scene {
    let mut world = World::with_net(3, net);
    let [server, client] = ["10.0.0.1", "10.0.0.2"].map(|ip| {
        let host = world.host(ip);
        let id =
            world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
        world.handle(id)
    });
    let listener = server.listen(PORT.parse().unwrap()).unwrap();
    Scene { world, server, client, listener }
}

fn pair(scene: &mut Scene) -> (Box<dyn Stream>, Box<dyn Stream>) {
    let mut client = scene.client.connect(PORT.parse().unwrap()).unwrap();
    assert!(!client.connected().unwrap());
    scene.world.run_for(Duration::from_millis(10));
    assert!(client.connected().unwrap());
    (client, scene.listener.accept().unwrap())
}

fn send(stream: &mut Box<dyn Stream>, bytes: &[u8]) -> io::Result<usize> {
    stream.send(&[IoSlice::new(bytes)])
}

fn recv(stream: &mut Box<dyn Stream>) -> io::Result<Vec<u8>> {
    let mut bytes = [0; 100];
    let n = stream.recv(&mut [IoSliceMut::new(&mut bytes)])?;
    Ok(bytes[..n].to_vec())
}

fn kind<T: core::fmt::Debug>(result: io::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn settle(scene: &mut Scene) {
    scene.world.run_for(Duration::from_millis(10));
}

#[test]
fn bytes_arrive_later_and_the_end_after_them() {
    let mut scene = scene(NetConfig::default());
    let (mut client, mut server) = pair(&mut scene);
    assert_eq!(send(&mut client, b"hello").unwrap(), 5);
    client.shutdown().unwrap();
    assert_eq!(kind(recv(&mut server)), ErrorKind::WouldBlock);
    settle(&mut scene);
    assert_eq!(recv(&mut server).unwrap(), b"hello");
    assert_eq!(recv(&mut server).unwrap(), b"");
    assert_eq!(kind(send(&mut client, b"more")), ErrorKind::BrokenPipe);
    assert_eq!(send(&mut server, b"back").unwrap(), 4);
    settle(&mut scene);
    assert_eq!(recv(&mut client).unwrap(), b"back");
    assert_eq!((client.peer(), server.local()), (PORT.into(), PORT.into()));
    assert_eq!(client.local(), server.peer());
}

#[test]
fn buffers_are_finite() {
    let net = NetConfig { send_buffer_bytes: 1000, recv_buffer_bytes: 500, ..NetConfig::default() };
    let mut scene = scene(net);
    let (mut client, mut server) = pair(&mut scene);
    assert_eq!(send(&mut client, &[1; 3000]).unwrap(), 1000);
    assert_eq!(kind(send(&mut client, &[1; 10])), ErrorKind::WouldBlock);
    settle(&mut scene);
    assert_eq!(send(&mut client, &[1; 3000]).unwrap(), 500);
    settle(&mut scene);
    assert_eq!(kind(send(&mut client, &[1; 10])), ErrorKind::WouldBlock);
    let mut received = 0;
    while let Ok(bytes) = recv(&mut server) {
        received += bytes.len();
        settle(&mut scene);
    }
    assert_eq!(received, 1500);
}

#[test]
fn a_reset_is_told_once() {
    let mut scene = scene(NetConfig::default());
    let (mut client, mut server) = pair(&mut scene);
    let id = scene.world.connections()[0].id;
    scene.world.cut(id, Cut::Reset);
    assert_eq!(kind(recv(&mut client)), ErrorKind::ConnectionReset);
    assert_eq!(recv(&mut client).unwrap(), b"");
    assert_eq!(kind(send(&mut client, b"x")), ErrorKind::BrokenPipe);
    assert_eq!(kind(send(&mut server, b"x")), ErrorKind::ConnectionReset);
    assert_eq!(kind(send(&mut server, b"x")), ErrorKind::BrokenPipe);
    drop((client, server));
    assert_eq!(scene.world.connections(), []);
}

#[test]
fn half_open_is_noticed_by_sending() {
    let mut scene = scene(NetConfig::default());
    let (mut client, _server) = pair(&mut scene);
    let id = scene.world.connections()[0].id;
    scene.world.cut(id, Cut::HalfOpen(Side::Server));
    scene.world.run_for(Duration::from_secs(1000));
    assert_eq!(kind(recv(&mut client)), ErrorKind::WouldBlock);
    assert_eq!(send(&mut client, b"x").unwrap(), 1);
    settle(&mut scene);
    assert_eq!(kind(recv(&mut client)), ErrorKind::ConnectionReset);
}

#[test]
fn closing_over_unread_bytes_resets() {
    let mut scene = scene(NetConfig::default());
    let (mut client, server) = pair(&mut scene);
    send(&mut client, b"never read").unwrap();
    settle(&mut scene);
    drop(server);
    settle(&mut scene);
    assert_eq!(kind(recv(&mut client)), ErrorKind::ConnectionReset);
}

#[test]
fn silence_is_noticed_by_those_who_send_and_after_minutes() {
    let mut scene = scene(NetConfig::default());
    let (mut client, mut server) = pair(&mut scene);
    let id = scene.world.connections()[0].id;
    scene.world.cut(id, Cut::Silence);
    send(&mut client, b"x").unwrap();
    scene.world.run_for(Duration::from_secs(100));
    assert_eq!(kind(recv(&mut client)), ErrorKind::WouldBlock);
    scene.world.run_for(Duration::from_secs(100));
    assert_eq!(kind(recv(&mut client)), ErrorKind::TimedOut);
    assert_eq!(kind(recv(&mut server)), ErrorKind::WouldBlock);
}

#[test]
fn ports_are_taken_free_or_elsewhere() {
    let scene = scene(NetConfig::default());
    let listen = |at: &str| scene.server.listen(at.parse().unwrap());
    assert_eq!(listen(PORT).err().map(|e| e.kind()), Some(ErrorKind::AddrInUse));
    assert_eq!(listen("10.0.0.9:1").err().map(|e| e.kind()), Some(ErrorKind::AddrNotAvailable));
    let (one, two) = (listen("0.0.0.0:0").unwrap().local(), listen("127.0.0.1:0").unwrap().local());
    assert_ne!(one.rsplit(':').next(), two.rsplit(':').next());
}

#[test]
fn closing_a_listener_resets_those_who_wait_and_frees_the_port() {
    let mut scene = scene(NetConfig::default());
    let mut client = scene.client.connect(PORT.parse().unwrap()).unwrap();
    settle(&mut scene);
    let again = scene.server.listen("10.0.0.1:0".parse().unwrap()).unwrap();
    drop(core::mem::replace(&mut scene.listener, again));
    settle(&mut scene);
    assert_eq!(kind(client.connected()), ErrorKind::ConnectionReset);
    assert!(scene.server.listen(PORT.parse().unwrap()).is_ok());
}

/// Counts its runs, and receives as long as it is told to.
struct Counting {
    stream: Box<dyn Stream>,
    runs: Rc<Cell<u32>>,
    receives: Rc<Cell<u32>>,
    errors: Rc<RefCell<Vec<ErrorKind>>>,
}

impl Driver for Counting {
    fn work(&mut self, _: &Handle) -> Activity {
        self.runs.set(self.runs.get() + 1);
        while self.receives.get() > 0 {
            self.receives.set(self.receives.get() - 1);
            if let Err(e) = recv(&mut self.stream) {
                self.errors.borrow_mut().push(e.kind());
            }
        }
        Activity::Idle
    }
}

#[test]
fn readiness_comes_after_would_block_and_not_before() {
    let mut scene = scene(NetConfig::default());
    let (mut client, mut stream) = pair(&mut scene);
    let (runs, receives, errors) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::default());
    let counting = (Rc::clone(&runs), Rc::clone(&receives), Rc::clone(&errors));
    let driver = scene.server.spawn(|id| {
        scene.server.registrar(id, |r| stream.register(r)).unwrap();
        let again = scene.server.registrar(id, |r| stream.register(r));
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        Counting { stream, runs: counting.0, receives: counting.1, errors: counting.2 }
    });
    settle(&mut scene);
    let told = |scene: &mut Scene, client: &mut Box<dyn Stream>| {
        let before = runs.get();
        send(client, b"x").unwrap();
        settle(scene);
        runs.get() > before
    };
    // Registered on an empty stream: as good as having seen `WouldBlock`.
    assert!(told(&mut scene, &mut client));
    assert!(!told(&mut scene, &mut client));
    receives.set(1);
    scene.server.wake(driver);
    settle(&mut scene);
    assert!(!told(&mut scene, &mut client), "it did not see that nothing was left");
    receives.set(2);
    scene.server.wake(driver);
    settle(&mut scene);
    assert_eq!(*errors.borrow(), [ErrorKind::WouldBlock]);
    assert!(told(&mut scene, &mut client));
}

#[test]
fn time_jumps_and_stands_still() {
    let mut world = World::new(1);
    let host = world.host("10.0.0.1");
    let id = world.add_loop(host, &LoopConfig::default());
    assert!(!world.step(), "nothing is left to happen");
    world.run_for(Duration::from_secs(3600));
    assert_eq!(world.now().since_epoch(), Duration::from_secs(3600));
    let on = world.handle(id);
    assert!(!world.run_until(|_| false, Duration::from_secs(1)));
    on.stop();
    on.remote().post(|_| ());
    assert!(world.run_until(|w| !w.is_running(id), Duration::from_secs(1)));
}

#[test]
fn a_paused_loop_runs_later() {
    let mut scene = scene(NetConfig::default());
    let (mut client, stream) = pair(&mut scene);
    let ran = Rc::new(Cell::new(0));
    let counting = Rc::clone(&ran);
    scene.server.spawn(|id| {
        let mut stream = stream;
        scene.server.registrar(id, |r| stream.register(r)).unwrap();
        Counting { stream, runs: counting, receives: Rc::default(), errors: Rc::default() }
    });
    settle(&mut scene);
    let before = ran.get();
    scene.world.pause(LoopId(0), Duration::from_secs(10));
    send(&mut client, b"x").unwrap();
    scene.world.run_for(Duration::from_secs(9));
    assert_eq!(ran.get(), before);
    scene.world.run_for(Duration::from_secs(2));
    assert!(ran.get() > before);
}

#[test]
fn one_bit_arrives_wrong_and_the_stream_goes_on() {
    let mut scene = scene(NetConfig::default());
    let (mut client, mut server) = pair(&mut scene);
    let number = scene.world.connections()[0].id;
    scene.world.corrupt(number, Side::Client, 7);
    send(&mut client, b"hello").unwrap();
    settle(&mut scene);
    assert_eq!(recv(&mut server).unwrap(), b"hello");
    send(&mut client, b"hello").unwrap();
    settle(&mut scene);
    assert_eq!(recv(&mut server).unwrap(), [b'h', b'e', b'l' ^ 0x80, b'l', b'o']);
}

#[test]
fn a_host_that_was_asleep_finds_its_timers_over() {
    struct Late(Rc<Cell<bool>>);
    impl Driver for Late {
        fn work(&mut self, on: &Handle) -> Activity {
            self.0.set(on.now() >= crate::Time::ZERO + Duration::from_secs(60));
            Activity::Idle
        }
    }
    let mut scene = scene(NetConfig::default());
    let fired = Rc::<Cell<bool>>::default();
    let driver = scene.client.spawn(|_| Late(Rc::clone(&fired)));
    scene.client.wake_at(driver, crate::Time::ZERO + Duration::from_secs(60));
    settle(&mut scene);
    assert!(!fired.get());
    let (host, before) = (scene.world.host("10.0.0.2"), scene.world.now());
    scene.world.jump(host, Duration::from_secs(90));
    settle(&mut scene);
    assert!(fired.get() && scene.client.clock() > scene.server.clock());
    assert!(scene.world.now() - before < Duration::from_secs(1), "the world's time does not jump");
}

#[test]
fn a_watcher_sees_what_happens() {
    let mut scene = scene(NetConfig::default());
    let seen = std::sync::Arc::new(Lock::new(Vec::new()));
    let into = std::sync::Arc::clone(&seen);
    scene.world.watch(move |record| into.lock().push(record.what));
    let _both = pair(&mut scene);
    assert!(seen.lock().contains(&"established"));
}
