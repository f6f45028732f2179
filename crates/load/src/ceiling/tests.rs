use super::*;
use crate::Error;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testing::wait::PATIENCE;

struct Server {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

fn server(bytes: usize) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let thread = std::thread::spawn(move || {
        serve(listener, &CeilingMemory::new(bytes).unwrap(), None, &seen).unwrap()
    });
    Server { at, stop, thread: Some(thread) }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn short(change: impl FnOnce(&mut CeilingSpec)) -> CeilingSpec {
    let mut spec = CeilingSpec {
        ramp_time: Duration::from_millis(10),
        runtime: Duration::from_millis(60),
        ..CeilingSpec::default()
    };
    change(&mut spec);
    spec
}

/// On a machine that is busy otherwise a short run may not get its turn: then a longer one.
fn longer_until(
    mut spec: CeilingSpec,
    run: impl Fn(&CeilingSpec) -> CeilingReport,
    enough: impl Fn(&CeilingReport) -> bool,
) -> CeilingReport {
    loop {
        let report = run(&spec);
        if enough(&report) {
            return report;
        }
        assert!(spec.runtime < PATIENCE, "too little in {:?}", spec.runtime);
        spec.runtime *= 2;
    }
}

fn until_something_moves(at: SocketAddr, spec: CeilingSpec) -> CeilingReport {
    let wanted = [spec.rwmixread > 0, spec.rwmixread < 100];
    let moves =
        |report: &CeilingReport| report.ios.iter().zip(wanted).all(|(&ios, it)| ios > 0 || !it);
    longer_until(spec, |spec| run(at, spec).unwrap(), moves)
}

#[test]
fn all_shapes_move_operations() {
    let server = server(4 << 20);
    let shapes: [fn(&mut CeilingSpec); 8] = [
        |_| (),
        |s| s.rwmixread = 0,
        |s| (s.bytes, s.rwmixread) = (65_536, 0),
        |s| (s.bytes, s.rwmixread, s.random) = (65_536, 50, false),
        |s| (s.iodepth, s.connections, s.rwmixread) = (8, 3, 70),
        |s| s.iodepth = 1,
        |s| (s.iodepth, s.tuning.block) = (1, true),
        |s| (s.iodepth, s.rate_iops) = (1, Some(1000)),
    ];
    for (at, shape) in shapes.into_iter().enumerate() {
        let spec = short(shape);
        let report = until_something_moves(server.at, spec.clone());
        assert_eq!(report.ios[0] > 0, spec.rwmixread > 0, "{at}: {:?}", report.ios);
        assert_eq!(report.ios[1] > 0, spec.rwmixread < 100, "{at}: {:?}", report.ios);
        assert_eq!(report.latency.count(), report.ios.iter().sum::<u64>());
        assert!(report.iops() > 0.0 && report.system_calls > 0 && report.server_system_calls > 0);
    }
}

#[test]
fn the_best_tuning_is_one_of_those_tried() {
    let server = server(4 << 20);
    for bytes in [4096, 65_536] {
        let spec = short(|s| (s.bytes, s.server_pid) = (bytes, Some(std::process::id())));
        // The system counts processor time in steps.
        let is_counted =
            |report: &CeilingReport| report.server.is_some_and(|server| !server.total().is_zero());
        let best = |spec: &CeilingSpec| run_best(server.at, spec).unwrap();
        let report = longer_until(spec, best, is_counted);
        assert!(CeilingTuning::worth_trying(bytes).contains(&report.tuning));
    }
}

#[test]
fn strangers_cost_nobody_but_themselves() {
    let server = server(1 << 20);
    let mut garbage = std::net::TcpStream::connect(server.at).unwrap();
    garbage.write_all(&[0x5a; 4096]).unwrap();
    let _half = std::net::TcpStream::connect(server.at).unwrap();
    assert!(run(server.at, &short(|_| ())).is_ok());
    let too_large = run(server.at, &short(|s| s.bytes = 2 << 20));
    assert!(matches!(too_large, Err(Error::Option { option: "bs", .. })));
}

#[test]
fn a_server_of_another_kind_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.9 hello there\r\n").unwrap();
    });
    let error = run(at, &short(|_| ())).unwrap_err();
    thread.join().unwrap();
    assert!(matches!(error, Error::NotACeiling(_)), "{error}");
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(gone, &short(|_| ())).unwrap_err();
    assert_eq!(error.kind(), weft_block::ErrorKind::Refused);
}
