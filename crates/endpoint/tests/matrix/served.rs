//! Devices behind an export of some protocol, on a place of its own.

use std::sync::Arc;
use weft_block::{BlockDevice, Error};
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::{ConnectOptions, PathOptions, TlsFiles, open};
use weft_io::RemoteLoop;
use weft_proto::nvme::types::Nqn;

/// A protocol of the matrix.
pub struct Protocol {
    pub name: &'static str,
    /// Where to listen; `{}` is a path that nobody else has.
    listen: &'static str,
    /// The URL of something that the same server does not have.
    pub absent: fn(&str) -> String,
}

pub const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "NVMe/TCP",
        listen: "nvme+tcp://127.0.0.1:0",
        absent: |url| format!("{url}/9"),
    },
    Protocol {
        name: "iSCSI",
        listen: "iscsi://127.0.0.1:0",
        absent: |url| url.trim_end_matches('0').to_owned() + "9",
    },
    Protocol { name: "NBD", listen: "nbd://127.0.0.1:0", absent: |url| format!("{url}9") },
    #[cfg(unix)]
    Protocol {
        name: "NBD over a Unix socket",
        listen: "nbd+unix:///?socket={}",
        absent: |url| url.replace("///1", "///absent"),
    },
];

/// More than loops: queues are dropped with operations under way, and their connections come back
/// when those have ended.
pub const QUEUES: u16 = 8;

pub struct Served(crate::common::Served<Exports>);

impl Served {
    pub fn start(protocol: &Protocol, devices: Vec<Arc<dyn BlockDevice>>) -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("weft-matrix-{}-{number}.sock", std::process::id()));
        let subsystem = SubsystemConfig::new(Nqn::new("nqn.2026-01.example.weft:matrix").unwrap());
        let config = ExportConfig {
            inventory: LiveInventory::of_devices(subsystem, devices).unwrap(),
            iscsi: Default::default(),
            tls: TlsFiles::default(),
            late_writers: Default::default(),
        };
        let listen = protocol.listen.replace("{}", &path.to_string_lossy());
        let start = |loops: &[RemoteLoop]| {
            export::start(&config, &[listen], loops).unwrap_or_else(|e| panic!("{e}"))
        };
        Self(crate::common::Served::start(&crate::common::loops(2), start))
    }

    /// The URL of each device.
    pub fn urls(&self) -> Vec<String> {
        self.0.urls()
    }

    pub fn try_open(&self, url: &str) -> Result<Arc<dyn BlockDevice>, Error> {
        open_with(url, QUEUES)
    }

    /// Opens the first device from outside, with exactly `queues` connections.
    pub fn open_with(&self, queues: u16) -> Arc<dyn BlockDevice> {
        open_with(&self.urls()[0], queues).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The device of this number, from outside.
    pub fn open(&self, number: usize) -> Arc<dyn BlockDevice> {
        let urls = self.urls();
        // NVMe has one URL for all namespaces.
        let url =
            urls.get(number).cloned().unwrap_or_else(|| format!("{}/{}", urls[0], number + 1));
        self.try_open(&url).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// Opens what ends with its connection.
pub fn open_once(url: &str) -> Arc<dyn BlockDevice> {
    open(url, &ConnectOptions { paths: PathOptions::once(), ..ConnectOptions::default() })
        .unwrap_or_else(|e| panic!("{e}"))
}

fn open_with(url: &str, nr_io_queues: u16) -> Result<Arc<dyn BlockDevice>, Error> {
    open(url, &ConnectOptions { nr_io_queues, ..ConnectOptions::default() })
}
