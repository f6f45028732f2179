//! Devices behind an export of some protocol, on a place of its own.

use std::sync::Arc;
use weft_block::mailbox::Mailbox;
use weft_block::{BlockDevice, Error};
use weft_endpoint::export::{self, ExportConfig, Exports, Named};
use weft_endpoint::loops::{Loops, LoopsConfig, ask};
use weft_endpoint::{ConnectOptions, TlsFiles, open};
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
    Protocol { name: "NVMe/TCP", listen: "nvme+tcp://127.0.0.1:0", absent: |url| format!("{url}/9") },
    Protocol { name: "iSCSI", listen: "iscsi://127.0.0.1:0", absent: |url| url.trim_end_matches('0').to_owned() + "9" },
    Protocol { name: "NBD", listen: "nbd://127.0.0.1:0", absent: |url| format!("{url}9") },
    #[cfg(unix)]
    Protocol { name: "NBD over a Unix socket", listen: "nbd+unix:///?socket={}", absent: |url| url.replace("///1", "///absent") },
];

/// More than loops: queues are dropped with operations under way, and their connections come back when those have ended.
const QUEUES: u16 = 8;

pub struct Served {
    exports: Option<Exports>,
    loops: Option<Loops>,
    /// What a gateway needs kept.
    keeper: Loops,
}

impl Served {
    pub fn start(protocol: &Protocol, devices: Vec<Arc<dyn BlockDevice>>) -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weft-matrix-{}-{number}.sock", std::process::id()));
        let loops = Loops::start(&LoopsConfig { threads: Some(2), ..LoopsConfig::default() }).unwrap();
        let keeper = Loops::start(&LoopsConfig { threads: Some(1), ..LoopsConfig::default() }).unwrap();
        let named = (1..).zip(devices).map(|(n, device)| Named { name: n.to_string(), device });
        let config = ExportConfig {
            devices: named.collect(),
            subsystem: Nqn::new("nqn.2026-01.example.weft:matrix").unwrap(),
            allow_hosts: None,
            iscsi: Default::default(),
            tls: TlsFiles::default(),
        };
        let listen = protocol.listen.replace("{}", &path.to_string_lossy());
        let exports = export::start(&config, &[listen], loops.remotes()).unwrap_or_else(|e| panic!("{e}"));
        Self { exports: Some(exports), loops: Some(loops), keeper }
    }

    /// The URL of each device.
    pub fn urls(&self) -> Vec<String> {
        self.exports.as_ref().unwrap().urls()
    }

    pub fn try_open(&self, url: &str) -> Result<Arc<dyn BlockDevice>, Error> {
        open(url, &ConnectOptions { nr_io_queues: QUEUES, ..ConnectOptions::default() })
    }

    /// The device of this number, from outside.
    pub fn open(&self, number: usize) -> Arc<dyn BlockDevice> {
        let urls = self.urls();
        // NVMe has one URL for all namespaces.
        let url = urls.get(number).cloned().unwrap_or_else(|| format!("{}/{}", urls[0], number + 1));
        self.try_open(&url).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The same for any number of users.
    pub fn open_shared(&self, number: usize) -> Arc<dyn BlockDevice> {
        let device = self.open(number);
        ask(&self.keeper.remotes()[0], move |on| Mailbox::open(device, on)).unwrap().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.exports.take().unwrap().stop().unwrap();
        self.loops.take().unwrap().stop().unwrap();
    }
}
