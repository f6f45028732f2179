//! Every byte of each source arrives by each protocol, also where it does not fill its last block:
//! then zeroes follow, or nothing where the protocol counts bytes.

use crate::each;
use crate::local;
use crate::served::{PROTOCOLS, Served};
use std::path::PathBuf;
use std::sync::Arc;
use weft_block::BlockDevice;
use weft_block::testing::{TestPlan, holds_every_byte};
use weft_endpoint::ConnectOptions;

/// A file with this many bytes, none of which is zero; removed in the end.
struct Content {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Content {
    fn new(name: &str, bytes: usize) -> Self {
        let name = format!("weft-every-byte-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let bytes: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8 + 1).collect();
        std::fs::write(&path, &bytes).unwrap();
        Self { path, bytes }
    }

    fn open(&self, options: &str) -> Arc<dyn BlockDevice> {
        local(&format!("readonly:file:{},{options}", self.path.display()))
    }

    /// The source that `open` opens has these bytes, and so it has behind each export.
    fn arrives(&self, open: impl Fn() -> Arc<dyn BlockDevice>) {
        holds_every_byte(&open(), &self.bytes, TestPlan::default());
        each(|protocol| {
            let device = open();
            let mut expected = self.bytes.clone();
            if !protocol.name.starts_with("NBD") {
                expected.resize(device.geometry().bytes() as usize, 0);
            }
            let served = Served::start(protocol, vec![device]);
            holds_every_byte(&served.open(0), &expected, TestPlan::default());
        });
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn remote(url: &str) -> Arc<dyn BlockDevice> {
    weft_endpoint::open(url, &ConnectOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn of_a_file() {
    for (bytes, options) in [(200_001, "block=512"), (1, "block=512"), (70_000, "block=4096")] {
        let content = Content::new(&format!("file-{bytes}"), bytes);
        content.arrives(|| content.open(options));
    }
}

#[test]
fn of_an_nbd_export() {
    for bytes in [200_001, 300, 65_536] {
        let content = Content::new(&format!("nbd-{bytes}"), bytes);
        let nbd = PROTOCOLS.iter().find(|protocol| protocol.name == "NBD").unwrap();
        let behind = Served::start(nbd, vec![content.open("block=512")]);
        content.arrives(|| remote(&behind.urls()[0]));
    }
}

/// Blocks of 512 bytes would cut such a disk in other places than its own.
#[test]
fn of_disks_with_blocks_of_4096_bytes() {
    let content = Content::new("4096", 24 * 4096);
    for protocol in PROTOCOLS.iter().filter(|protocol| !protocol.name.starts_with("NBD")) {
        let behind = Served::start(protocol, vec![content.open("block=4096")]);
        assert_eq!(remote(&behind.urls()[0]).geometry().block_bytes, 4096);
        content.arrives(|| remote(&behind.urls()[0]));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn of_an_image_of_ceph() {
    use weft_block::Refusal;
    let Some(cluster) = weft_testing::ceph::CephCluster::shared() else { return };
    let content = Content::new("image", 200_001);
    cluster.run("rbd", &["import", "--no-progress", &content.path.to_string_lossy(), "rbd/odd"]);
    let url = cluster.url("rbd/odd");
    content.arrives(|| remote(&format!("readonly:{url}")));
    let refused = weft_endpoint::open(&url, &ConnectOptions::default()).err().unwrap();
    let odd = Refusal::OddSize { bytes: 200_001, block_bytes: 512 };
    assert_eq!(refused.refusal(), Some(&odd), "{refused}");
}
