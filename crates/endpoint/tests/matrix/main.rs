//! The matrix: each source behind each export, opened again by that protocol's initiator, passes the conformance test of a local
//! device. A further protocol is one more line of [`PROTOCOLS`].

#[path = "../common/devices.rs"]
mod devices;
mod served;

use devices::Testing;
use served::{PROTOCOLS, Protocol, Served};
use std::sync::Arc;
use weft_block::testing::{Plan, conformance};
use weft_block::{BlockDevice, Change, ErrorKind, OpenOptions, StatusKind};
use weft_endpoint::Disk;

/// A fused pair of NVMe is atomic for one block of these sources.
const COMPARE_BLOCKS: usize = 1;

fn local(url: &str) -> Arc<dyn BlockDevice> {
    weft_block::open(url, &OpenOptions::default()).unwrap()
}

/// Runs a test for each protocol; a failure says which.
fn each(test: impl Fn(&Protocol)) {
    for protocol in PROTOCOLS {
        eprintln!("over {}", protocol.name);
        test(protocol);
    }
}

fn conforms(url: &str, plan: Plan) {
    each(|protocol| {
        let served = Served::start(protocol, vec![local(url)]);
        let device = served.open(0);
        assert_eq!(device.geometry().block_bytes, local(url).geometry().block_bytes);
        conformance(&device, Plan { rounds: 40, compare_blocks: COMPARE_BLOCKS, ..plan });
    });
}

#[test]
fn ram_of_512_byte_blocks() {
    conforms("ram:8MiB", Plan { loops: 2, ..Plan::default() });
}

#[test]
fn ram_of_4096_byte_blocks() {
    conforms("ram:16MiB,block=4096", Plan { loops: 2, ..Plan::default() });
}

#[test]
fn nothing() {
    conforms("null:8MiB", Plan { keeps_data: false, ..Plan::default() });
}

#[test]
fn a_file() {
    let path = std::env::temp_dir().join(format!("weft-matrix-{}.img", std::process::id()));
    each(|protocol| {
        let url = format!("file:{},size=8MiB", path.display());
        let served = Served::start(protocol, vec![local(&url)]);
        conformance(&served.open(0), Plan { rounds: 20, compare_blocks: COMPARE_BLOCKS, ..Plan::default() });
    });
    std::fs::remove_file(&path).unwrap();
}

/// A source that is itself another protocol's: a gateway.
#[test]
fn a_gateway() {
    each(|protocol| {
        let behind = Served::start(&PROTOCOLS[0], vec![local("ram:8MiB")]);
        let served = Served::start(protocol, vec![behind.open_shared(0)]);
        conformance(&served.open(0), Plan { rounds: 20, compare_blocks: COMPARE_BLOCKS, ..Plan::default() });
    });
}

#[test]
fn errors_keep_their_meaning() {
    let cases = [("media", StatusKind::Media), ("nospace", StatusKind::NoSpace), ("protected", StatusKind::WriteProtected)];
    each(|protocol| {
        for (kind, meaning) in cases {
            let served = Served::start(protocol, vec![local(&format!("error:rate=1,ops=write,kind={kind},ram:8MiB"))]);
            let disk = Disk::on(served.open(0)).unwrap();
            let error = disk.write(3, &[1; 512]).unwrap_err();
            assert!(error.to_string().contains(&format!("{meaning:?}")), "{}: {kind}: {error}", protocol.name);
            disk.read(3, &mut [0; 512]).unwrap();
        }
    });
}

#[test]
fn sizes_are_those_of_the_source_and_of_its_new_size_when_opened_again() {
    each(|protocol| {
        let testing = Testing::new("ram:8MiB");
        let served = Served::start(protocol, vec![Arc::clone(&testing) as Arc<dyn BlockDevice>, local("ram:5MiB,block=4096")]);
        assert_eq!((served.open(0).geometry().bytes(), served.open(1).geometry().bytes()), (8 << 20, 5 << 20));
        testing.knobs.change(Change::Resized { blocks: 4 << 11 });
        assert_eq!(served.open(0).geometry().bytes(), 4 << 20, "{}", protocol.name);
    });
}

#[test]
fn what_is_not_there_is_refused() {
    each(|protocol| {
        let served = Served::start(protocol, vec![local("ram:5MiB")]);
        let error = served.try_open(&(protocol.absent)(&served.urls()[0])).err().expect("there is no such thing");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{}: {error}", protocol.name);
    });
}

#[test]
fn an_export_that_stops_leaves_truthful_answers() {
    each(|protocol| {
        let served = Served::start(protocol, vec![local("ram:8MiB")]);
        let disk = Disk::on(served.open(0)).unwrap();
        std::thread::scope(|scope| {
            let (begun, begins) = std::sync::mpsc::channel();
            let writer = scope.spawn(move || {
                let write = |round: u64| disk.write(round % 1000, &[7; 512]).is_ok() && begun.send(()).is_ok();
                (0..).take_while(|round| write(*round)).count();
                disk
            });
            begins.recv().unwrap();
            drop(served);
            drop(begins);
            assert!(writer.join().unwrap().flush().is_err(), "{}", protocol.name);
        });
    });
}
