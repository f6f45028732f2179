//! Reads and writes through source and export, in one process: no allocation for any of them. Counted by an allocator of this
//! program's own.

#![allow(clippy::missing_const_for_thread_local, reason = "it is const; for Windows the lint overlooks that")]

mod bridge;
mod counting;
mod load;

use counting::allocations;
use load::{Mix, Shape, start};
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, OpenOptions};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports, Named};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::source::iscsi::IscsiOptions;
use weft_endpoint::{ConnectOptions, TlsFiles, open};
use weft_io::Remote;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Id128, Nqn};

const NQN: &str = "nqn.2026-01.example.weft:allocations";

/// Operations that are copied, and operations that are not.
const SHAPES: [Shape; 2] = [
    Shape { bytes: 4096, warm_up: 10_000, measured: 100_000, mix: Mix::Both },
    Shape { bytes: 65_536, warm_up: 2_000, measured: 10_000, mix: Mix::Both },
];

/// Allocations that all of them may cost together: none, but for the poller's own tables on Windows.
const GROWTH: u64 = if cfg!(windows) { 50 } else { 0 };

/// A RAM disk, larger than what is read and written.
fn ram() -> Arc<dyn BlockDevice> {
    weft_block::open("ram:16MiB", &OpenOptions::default()).unwrap()
}

/// One loop on a thread of its own.
fn one_loop() -> Loops {
    Loops::start(&LoopsConfig { threads: Some(1), ..LoopsConfig::default() }).unwrap()
}

/// Serves a device by one protocol.
fn serve(listen: &str, device: Arc<dyn BlockDevice>, on: &[Remote]) -> Exports {
    let name = Name::new("iqn.2026-01.example.weft:allocations").unwrap();
    let config = ExportConfig {
        devices: vec![Named { name: "1".into(), device }],
        subsystem: Nqn::new(NQN).unwrap(),
        allow_hosts: None,
        iscsi: Settings { name: Some(name), ..Settings::default() },
        tls: TlsFiles::default(),
    };
    export::start(&config, &[listen.to_owned()], on).unwrap()
}

/// Without keep alive, whose commands may allocate.
fn options(digests: bool) -> ConnectOptions {
    let host = HostIdentity { nqn: Nqn::new("nqn.2026-01.example.host:allocations").unwrap(), id: Id128([1; 16]) };
    let initiator_name = Some(Name::new("iqn.2026-01.example.host:allocations").unwrap());
    ConnectOptions {
        host: Some(host),
        keep_alive_ms: 0,
        hdr_digest: digests,
        data_digest: digests,
        iscsi: IscsiOptions { initiator_name, ..IscsiOptions::default() },
        ..ConnectOptions::default()
    }
}

fn nothing_is_allocated(listen: &str, with_digests: &[bool]) {
    for (shape, &digests) in SHAPES.iter().flat_map(|&shape| with_digests.iter().map(move |digests| (shape, digests))) {
        let served = one_loop();
        let exports = serve(listen, ram(), served.remotes());
        let device = open(&exports.urls()[0], &options(digests)).unwrap();
        let client = one_loop();
        let run = start(&client, &device, shape);
        run.recv_timeout(Duration::from_secs(120)).expect("the warm-up ends");
        let before = allocations(&served.remotes()[0]);
        let of_source = run.recv_timeout(Duration::from_secs(120)).expect("the run ends");
        let of_target = allocations(&served.remotes()[0]) - before;
        println!("{listen}: {of_source} of the source, {of_target} of the target, {} bytes, digests {digests}", shape.bytes);
        assert!((0..=GROWTH).contains(&of_source), "{of_source} allocations of the source");
        // What the first question took is its own.
        assert!((0..=GROWTH + 4).contains(&of_target), "{of_target} allocations of the target");
    }
}

#[test]
fn reads_and_writes_over_nvme_tcp_allocate_nothing() {
    nothing_is_allocated("nvme+tcp://127.0.0.1:0", &[false, true]);
}

#[test]
fn reads_and_writes_over_iscsi_allocate_nothing() {
    nothing_is_allocated("iscsi://127.0.0.1:0", &[false, true]);
}

#[test]
fn reads_and_writes_over_nbd_allocate_nothing() {
    nothing_is_allocated("nbd://127.0.0.1:0", &[false]);
}
