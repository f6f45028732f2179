//! The matrix: each source behind each export, opened again by that protocol's initiator, passes
//! the conformance test of a local device. A further protocol is one more line of [`PROTOCOLS`].

#[path = "../common/served.rs"]
mod common;
#[path = "../common/devices.rs"]
mod devices;
mod every_byte;
mod in_process;
mod served;
mod watched;

use devices::Testing;
use served::{PROTOCOLS, Protocol, QUEUES, Served, open_once};
use std::sync::Arc;
use watched::Watched;
use weft_block::testing::{Rig, TestPlan, conformance};
use weft_block::{
    BlockDevice, DeviceChange, ErrorKind, OpKind, OpenOptions, Outcome, Raw, RawScsi, Status,
    StatusKind,
};
use weft_endpoint::{ConnectOptions, Disk};

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

fn conforms(url: &str, plan: TestPlan) {
    each(|protocol| {
        let served = Served::start(protocol, vec![local(url)]);
        let device = served.open(0);
        // NBD tells the shortest range that can be had, which is a byte.
        let block_bytes =
            if protocol.name.starts_with("NBD") { 512 } else { local(url).geometry().block_bytes };
        assert_eq!(device.geometry().block_bytes, block_bytes);
        conformance(&device, TestPlan { rounds: 40, compare_blocks: COMPARE_BLOCKS, ..plan });
    });
}

#[test]
fn ram_of_512_byte_blocks() {
    conforms("ram:8MiB", TestPlan { loops: 2, ..TestPlan::default() });
}

#[test]
fn ram_of_4096_byte_blocks() {
    conforms("ram:16MiB,block=4096", TestPlan { loops: 2, ..TestPlan::default() });
}

#[test]
fn nothing() {
    conforms("null:8MiB", TestPlan { keeps_data: false, ..TestPlan::default() });
}

#[test]
fn a_file() {
    let path = std::env::temp_dir().join(format!("weft-matrix-{}.img", std::process::id()));
    each(|protocol| {
        let url = format!("file:{},size=8MiB", path.display());
        let served = Served::start(protocol, vec![local(&url)]);
        conformance(
            &served.open(0),
            TestPlan { rounds: 20, compare_blocks: COMPARE_BLOCKS, ..TestPlan::default() },
        );
    });
    std::fs::remove_file(&path).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn an_image_of_ceph() {
    let Some(cluster) = weft_testing::ceph::CephCluster::shared() else { return };
    let url = cluster.url(&cluster.image("matrix", "32M"));
    let device =
        weft_endpoint::open(&url, &ConnectOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    each(|protocol| {
        let served = Served::start(protocol, vec![Arc::clone(&device)]);
        let plan = TestPlan {
            rounds: 10,
            loops: 2,
            compare_blocks: COMPARE_BLOCKS,
            ..TestPlan::default()
        };
        conformance(&served.open(0), plan);
    });
}

/// Each filter, in one device.
#[test]
fn filters() {
    let delay = "delay:read=20us,write=5us,depth=4,spread=lognormal";
    conforms(
        &format!("stats:limit:write-iops=200k,bw=2GB,{delay},error:rate=0,ram:8MiB"),
        TestPlan { loops: 2, ..TestPlan::default() },
    );
}

#[test]
fn without_writes() {
    conforms("readonly:ram:8MiB", TestPlan { loops: 2, ..TestPlan::default() });
}

#[test]
fn a_stripe() {
    conforms(
        "stripe:64KiB,ram:3MiB,ram:3MiB,ram:4MiB",
        TestPlan { loops: 2, ..TestPlan::default() },
    );
}

/// Members that are other protocols' devices, and one of this machine.
#[test]
fn a_stripe_of_remote_devices() {
    let behind: Vec<_> =
        PROTOCOLS.iter().map(|protocol| Served::start(protocol, vec![local("ram:2MiB")])).collect();
    let members: Vec<_> =
        behind.iter().map(|served| served.urls()[0].replace("?socket=", ",socket=")).collect();
    let options = ConnectOptions { nr_io_queues: QUEUES, ..ConnectOptions::default() };
    let device =
        weft_endpoint::open(&format!("stripe:16KiB,{},ram:2MiB", members.join(",")), &options);
    let device = device.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(device.geometry().bytes(), (members.len() as u64 + 1) << 21);
    conformance(
        &device,
        TestPlan { rounds: 20, loops: 2, compare_blocks: COMPARE_BLOCKS, ..TestPlan::default() },
    );
    let served = Served::start(&PROTOCOLS[0], vec![device]);
    conformance(
        &served.open(0),
        TestPlan { rounds: 20, compare_blocks: COMPARE_BLOCKS, ..TestPlan::default() },
    );
}

/// A source that is itself another protocol's: a gateway.
#[test]
fn a_gateway() {
    each(|protocol| {
        let behind = Served::start(&PROTOCOLS[0], vec![local("ram:8MiB")]);
        let served = Served::start(protocol, vec![behind.open(0)]);
        conformance(
            &served.open(0),
            TestPlan { rounds: 20, compare_blocks: COMPARE_BLOCKS, ..TestPlan::default() },
        );
    });
}

/// Each loop of a gateway has a connection of its own to what is behind it, and moves blocks on
/// that.
#[test]
fn a_gateway_uses_a_queue_on_each_loop() {
    each(|protocol| {
        let behind = Served::start(&PROTOCOLS[0], vec![local("ram:8MiB")]);
        let watched = Arc::new(Watched::new(behind.open(0), 2));
        let served = Served::start(protocol, vec![Arc::clone(&watched) as Arc<dyn BlockDevice>]);
        // Connections go round the loops.
        let rig = Rig::new(&served.open_with(2), TestPlan { loops: 2, ..TestPlan::default() });
        for n in 0..100 {
            rig.write((n % 2) as usize, n, &[n as u8; 512]);
            assert_eq!(rig.read((n / 2 % 2) as usize, n, 1), [n as u8; 512]);
        }
        rig.end();
        let used = watched.used();
        assert!(
            used.len() == 2 && used.iter().all(|&operations| operations > 20),
            "{}: {used:?}",
            protocol.name
        );
        assert!(watched.most_open() <= 2, "{}", protocol.name);
    });
}

#[test]
fn errors_keep_their_meaning() {
    let cases = [
        ("media", StatusKind::Media),
        ("nospace", StatusKind::NoSpace),
        ("protected", StatusKind::WriteProtected),
    ];
    each(|protocol| {
        for (kind, meaning) in cases {
            let served = Served::start(
                protocol,
                vec![local(&format!("error:rate=1,ops=write,kind={kind},ram:8MiB"))],
            );
            let disk = Disk::on(served.open(0)).unwrap();
            let error = disk.write(3, &[1; 512]).unwrap_err();
            assert!(
                error.to_string().contains(&format!("{meaning:?}")),
                "{}: {kind}: {error}",
                protocol.name
            );
            disk.read(3, &mut [0; 512]).unwrap();
        }
    });
}

/// What a read of a device that ends with `status` ends with behind two exports, one behind the
/// other.
fn behind_a_gateway([inner, outer]: [&Protocol; 2], status: Status) -> Status {
    let testing = Testing::new("ram:8MiB");
    testing.knobs.fail_with(status);
    let behind = Served::start(inner, vec![testing as Arc<dyn BlockDevice>]);
    let served = Served::start(outer, vec![behind.open(0)]);
    let rig = Rig::new(&served.open(0), TestPlan::default());
    let answer = rig.run(0, vec![rig.request(OpKind::Read, 0, vec![0; 512])]).remove(0);
    rig.end();
    assert!(matches!(answer.outcome, Outcome::Done(_)), "{:?}", answer.outcome);
    answer.outcome.status()
}

/// Both carry more words than the kinds have; between them the standard translation counts.
#[test]
fn a_gateway_keeps_the_words_of_its_protocol() {
    let [nvme, iscsi] = ["NVMe/TCP", "iSCSI"]
        .map(|name| PROTOCOLS.iter().find(|protocol| protocol.name == name).unwrap());
    let sense = |sense_key, additional_sense, information| {
        Raw::Scsi(RawScsi { status: 2, sense_key, additional_sense, information })
    };
    let media = |raw| Status::with_raw(StatusKind::Media, raw);
    // Application Tag Check Error, Do Not Retry.
    let (tag_in_nvme, tag_in_scsi) = (media(Raw::Nvme(0x4283)), media(sense(3, 0x1002, None)));
    assert_eq!(behind_a_gateway([nvme, nvme], tag_in_nvme), tag_in_nvme);
    assert_eq!(behind_a_gateway([nvme, iscsi], tag_in_nvme), tag_in_scsi);
    assert_eq!(behind_a_gateway([iscsi, nvme], tag_in_scsi), tag_in_nvme);
    // Record not found, at block 77: no word for it in NVMe.
    let scsi_only = media(sense(3, 0x1401, Some(77)));
    assert_eq!(behind_a_gateway([iscsi, iscsi], scsi_only), scsi_only);
    assert_eq!(behind_a_gateway([iscsi, nvme], scsi_only), media(Raw::Nvme(0x4281)));
}

#[test]
fn sizes_are_those_of_the_source_and_of_its_new_size_when_opened_again() {
    each(|protocol| {
        let testing = Testing::new("ram:8MiB");
        let served = Served::start(
            protocol,
            vec![Arc::clone(&testing) as Arc<dyn BlockDevice>, local("ram:5MiB,block=4096")],
        );
        assert_eq!(
            (served.open(0).geometry().bytes(), served.open(1).geometry().bytes()),
            (8 << 20, 5 << 20)
        );
        testing.knobs.change(DeviceChange::Resized { blocks: 4 << 11 });
        assert_eq!(served.open(0).geometry().bytes(), 4 << 20, "{}", protocol.name);
    });
}

#[test]
fn what_is_not_there_is_refused() {
    each(|protocol| {
        let served = Served::start(protocol, vec![local("ram:5MiB")]);
        let error = served
            .try_open(&(protocol.absent)(&served.urls()[0]))
            .err()
            .expect("there is no such thing");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{}: {error}", protocol.name);
    });
}

#[test]
fn an_export_that_stops_leaves_truthful_answers() {
    each(|protocol| {
        let served = Served::start(protocol, vec![local("ram:8MiB")]);
        let disk = Disk::on(open_once(&served.urls()[0])).unwrap();
        std::thread::scope(|scope| {
            let (begun, begins) = std::sync::mpsc::channel();
            let writer = scope.spawn(move || {
                let write = |round: u64| {
                    disk.write(round % 1000, &[7; 512]).is_ok() && begun.send(()).is_ok()
                };
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
