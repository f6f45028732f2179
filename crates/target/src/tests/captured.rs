//! A capture of a queue pair shows the PDUs of NVMe/TCP that its capsules and data would be.

use super::place::{Rdma, Transport, open};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use weft_block::testing::conformance;
use weft_block::{BlockDevice, OpenOptions};
use weft_connection::capture::{Capture, CaptureConfig};
use weft_connection::loops::ask;
use weft_initiator::source::ConnectOptions;
use weft_testing::programs;

/// The types of PDUs that both ends send: those of the connection, capsules, and data.
const TYPES: [&str; 6] = ["0", "1", "4", "5", "6", "7"];

fn capture(name: &str) -> (Capture, PathBuf) {
    let path = std::env::temp_dir().join(format!("weft-{name}-{}.pcapng", std::process::id()));
    let time = Duration::from_secs(600);
    let config = CaptureConfig { path: path.clone(), bytes: 64 << 20, time, host: None };
    (Capture::start(&config).unwrap(), path)
}

fn dissect(path: &PathBuf, more: &[&str]) -> String {
    let mut tshark = programs::command("tshark");
    let ran = tshark.args(["-n", "-d", "tcp.port==4420,nvme-tcp", "-r"]).arg(path).args(more);
    let ran = ran.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// tshark finds no fault, and PDUs of all types.
fn check(path: &PathBuf) {
    let faults = "_ws.malformed || _ws.expert.severity == error || tcp.analysis.lost_segment";
    assert_eq!(dissect(path, &["-Y", faults]), "", "{}", path.display());
    let found = dissect(path, &["-Y", "nvme-tcp", "-T", "fields", "-e", "nvme-tcp.type"]);
    let mut types: Vec<_> = found.split(['\n', ',']).filter(|kind| !kind.is_empty()).collect();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types, TYPES, "{}", path.display());
    // No data is shown that was not sent: each structure has a multiple of 16 bytes, behind 24 of a
    // header.
    let fields = ["-Y", "nvme-tcp", "-T", "fields", "-e", "nvme-tcp.type", "-e", "nvme-tcp.plen"];
    let sizes = dissect(path, &fields);
    for frame in sizes.lines() {
        let (kinds, lengths) = frame.split_once('\t').unwrap();
        let of_data = |(kind, _): &(&str, &str)| matches!(*kind, "6" | "7");
        for (kind, length) in kinds.split(',').zip(lengths.split(',')).filter(of_data) {
            let length: u32 = length.parse().unwrap();
            assert_eq!((length - 24) % 16, 0, "type {kind}: {length}, {}", path.display());
        }
    }
}

#[test]
fn queue_pairs_are_captured_as_nvme_tcp() {
    let stage = Rdma::stage();
    let spread = stage.target.to_vec();
    let device = weft_block::open("ram:16MiB", &OpenOptions::default()).unwrap();
    let (of_target, of_host) = (capture("rdma-target"), capture("rdma-host"));
    let at_target = of_target.0.clone();
    let (place, kept) = ask(&stage.target[0], move |on| {
        let (place, target) = Rdma::serve(on, spread, device, 1);
        target.capture(&at_target);
        (place, target)
    })
    .unwrap();
    stage.options.control.set_capture(of_host.0.clone());
    let options = ConnectOptions { nr_io_queues: 4, queue_size: 32, ..stage.options.clone() };
    let device: Arc<dyn BlockDevice> =
        open::<<Rdma as Transport>::Link>(place, &options).wait().unwrap();
    let plan = weft_block::testing::TestPlan { rounds: 2, compare_blocks: 1, ..Default::default() };
    conformance(&device, plan);
    drop((device, kept));
    let has_tshark = programs::have(&["tshark"]);
    for (capture, path) in [of_target, of_host] {
        let outcome = capture.end().unwrap();
        assert!(outcome.packets > 20 && outcome.dropped == 0, "{outcome:?}");
        if has_tshark {
            check(&path);
        }
        std::fs::remove_file(path).unwrap();
    }
}
