//! Reads and writes through source and export, in one process: no allocation for any of them.
//! Counted by an allocator of this program's own.

mod bridge;
mod counting;
mod load;

use counting::asked;
use load::{Mix, Shape, start};
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, OpenOptions};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::paths::Failover;
use weft_endpoint::source::iscsi::IscsiOptions;
use weft_endpoint::{ConnectOptions, PathOptions, TlsFiles, open};
use weft_io::RemoteLoop;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_testing::allocations::{in_a_quiet_window, of_thread};

/// How long a window may take.
const PATIENCE: Duration = Duration::from_secs(300);

const NQN: &str = "nqn.2026-01.example.weft:allocations";

/// Operations that are copied, and operations that are not.
const SHAPES: [Shape; 2] = [
    Shape { bytes: 4096, window: 20_000, mix: Mix::Both },
    Shape { bytes: 65_536, window: 4_000, mix: Mix::Both },
];

/// Allocations that a window of them may cost: none, but for the poller's own tables on Windows.
const GROWTH: u64 = if cfg!(windows) { 50 } else { 0 };

/// A RAM disk, larger than what is read and written.
fn ram() -> Arc<dyn BlockDevice> {
    weft_block::open("ram:16MiB", &OpenOptions::default()).unwrap()
}

/// One loop on a thread of its own.
fn one_loop() -> Loops {
    Loops::start(&LoopsConfig { threads: Some(1), ..LoopsConfig::default() }).unwrap()
}

/// Serves a device by one protocol, at one address or several.
fn serve(listen: &[&str], device: Arc<dyn BlockDevice>, on: &[RemoteLoop]) -> Exports {
    let name = Name::new("iqn.2026-01.example.weft:allocations").unwrap();
    let config = ExportConfig {
        inventory: LiveInventory::of_devices(
            SubsystemConfig::new(Nqn::new(NQN).unwrap()),
            vec![device],
        )
        .unwrap(),
        iscsi: Settings { name: Some(name), ..Settings::default() },
        tls: TlsFiles::default(),
        late_writers: Default::default(),
    };
    export::start(&config, &listen.iter().map(|&listen| listen.to_owned()).collect::<Vec<_>>(), on)
        .unwrap()
}

/// Without keep alive, whose commands may allocate.
fn options(digests: bool) -> ConnectOptions {
    let host = HostIdentity {
        nqn: Nqn::new("nqn.2026-01.example.host:allocations").unwrap(),
        id: Id128([1; 16]),
    };
    let initiator_name = Some(Name::new("iqn.2026-01.example.host:allocations").unwrap());
    ConnectOptions {
        host: Some(host),
        keep_alive_ms: 0,
        hdr_digest: digests,
        data_digest: digests,
        iscsi: IscsiOptions { initiator_name, ..IscsiOptions::default() },
        paths: PathOptions { failover: Failover::Fast, ..PathOptions::default() },
        ..ConnectOptions::default()
    }
}

fn nothing_is_allocated(listen: &str, with_digests: &[bool]) {
    for (shape, &digests) in
        SHAPES.iter().flat_map(|&shape| with_digests.iter().map(move |digests| (shape, digests)))
    {
        let served = one_loop();
        let exports = serve(&[listen], ram(), served.remotes());
        let device = open(&exports.urls()[0], &options(digests)).unwrap();
        let client = one_loop();
        let run = start(&client, &device, shape);
        let target = &served.remotes()[0];
        let mut before = asked(target, |_| of_thread());
        let mut last = [0; 2];
        in_a_quiet_window(GROWTH, || {
            let of_source = run.recv_timeout(PATIENCE).expect("the window ends");
            let so_far = asked(target, |_| of_thread());
            last = [of_source, so_far - std::mem::replace(&mut before, so_far)];
            last[0].max(last[1])
        });
        let [of_source, of_target] = last;
        // Before what it loads goes away.
        client.stop().unwrap();
        let what = format!("{listen}, {} bytes, digests {digests}", shape.bytes);
        assert!((0..=GROWTH).contains(&of_source), "{of_source} allocations of the source: {what}");
        assert!((0..=GROWTH).contains(&of_target), "{of_target} allocations of the target: {what}");
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
