//! Access rules of other targets' configurations: each configuration is imported and served, and
//! clients connect. Those that the rule permits get in with their rights, and others do not.
//!
//! The rules are those of the table in `docs/import.md`. In the configurations, `DISK1` to `DISK4`
//! stand for files of 1 MiB, and `PORT1` and `PORT2` for ports that are free.

mod ceph_iscsi;
mod lio;
mod nvmet;
mod spdk;
mod tgt;

use crate::free;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::{ConnectOptions, Disk, PathOptions, TlsFiles, TlsPsk};
use weft_io::file_system::inode_block_bytes;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::auth::{DhchapSecret, Hash, InterchangeKey, PskKeys};
use weft_proto::nvme::types::Nqn;
use weft_server::config::import::import;
use weft_server::config::{NoSourceOptions, read};
use weft_server::{Environment, Server};

/// What a client may do with a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    None,
    Read,
    Write,
}

/// A client, and the disk that it opens.
struct Client {
    url: String,
    options: ConnectOptions,
    /// The key with which it connects by TLS.
    tls: Option<u8>,
}

/// An NVMe host that opens `URL/NQN/NSID`.
fn host(name: &str, url: &str) -> Client {
    let nqn = Nqn::new(&format!("nqn.2014-08.org.example.host:{name}")).unwrap();
    let host = Some(HostIdentity::named(nqn).unwrap());
    Client::new(url, ConnectOptions { host, ..ConnectOptions::default() })
}

/// An iSCSI initiator that opens `URL/IQN/LUN`.
fn initiator(name: &str, url: &str) -> Client {
    let name = Name::new(&format!("iqn.1994-05.org.example.host:{name}")).unwrap();
    let mut options = ConnectOptions::default();
    options.iscsi.initiator_name = Some(name);
    Client::new(url, options)
}

impl Client {
    fn new(url: &str, options: ConnectOptions) -> Self {
        let (paths, connect_timeout) = (PathOptions::once(), Duration::from_secs(20));
        let options = ConnectOptions { paths, connect_timeout, ..options };
        Self { url: url.to_owned(), options, tls: None }
    }

    /// The secret of an NVMe host.
    fn secret(mut self, byte: u8) -> Self {
        self.options.secrets.host = Some(dhchap_secret(byte));
        self
    }

    /// The secret by which the subsystem has to prove itself.
    fn expects(mut self, byte: u8) -> Self {
        self.options.secrets.controller = Some(dhchap_secret(byte));
        self
    }

    /// The only hash functions that it knows.
    fn hashes(mut self, hashes: &[Hash]) -> Self {
        self.options.secrets.hashes = hashes.to_vec();
        self
    }

    /// Connects with TLS.
    fn tls(mut self, byte: u8) -> Self {
        self.tls = Some(byte);
        self
    }

    /// User and password of an initiator.
    fn chap(mut self, user: &str, password: &str) -> Self {
        self.options.iscsi.user = Some(user.to_owned());
        self.options.iscsi.secret = Some(password.into());
        self
    }

    /// The password by which the target has to prove itself.
    fn expects_password(mut self, password: &str) -> Self {
        self.options.iscsi.target_secret = Some(password.into());
        self
    }

    /// What it may do, its blocks, and why not more.
    fn right(&self, place: &Place) -> (Right, u32, String) {
        let psk = self.tls.map(|byte| {
            let keys = PskKeys::parse(&tls_key(byte)).unwrap();
            TlsPsk::new(keys).unwrap()
        });
        let tls = TlsFiles { psk, ..TlsFiles::default() };
        let options = ConnectOptions { tls, ..self.options.clone() };
        let disk = match Disk::open(&place.filled(&self.url), &options) {
            Ok(disk) => disk,
            Err(e) => return (Right::None, 0, e.to_string()),
        };
        let block = disk.geometry().block_bytes;
        let mut data = vec![0; 4096];
        if let Err(e) = disk.read(0, &mut data) {
            return (Right::None, block, e.to_string());
        }
        match disk.write(0, &data) {
            Ok(()) => (Right::Write, block, String::new()),
            Err(e) => (Right::Read, block, e.to_string()),
        }
    }
}

fn dhchap_secret(byte: u8) -> DhchapSecret {
    DhchapSecret::of_key(&[byte; 32], None).unwrap()
}

/// The content of a file with a secret of DH-HMAC-CHAP.
fn dhchap(byte: u8) -> String {
    dhchap_secret(byte).text().to_string()
}

/// The file with the keys for TLS.
const TLS_KEYS: &str = "tls.keys";

/// A key for TLS.
fn tls_key(byte: u8) -> String {
    InterchangeKey::of_key(&[byte; 32], Some(Hash::Sha256)).unwrap().text().to_string()
}

/// A rule, a configuration that has it, and what clients may do.
struct Case {
    rule: &'static str,
    text: String,
    secrets: Vec<(&'static str, String)>,
    tries: Vec<(Client, Right)>,
    block: Option<u32>,
    writes: &'static str,
    reports: Vec<&'static str>,
}

impl Case {
    fn new(rule: &'static str, text: String) -> Self {
        let (secrets, tries, reports) = (Vec::new(), Vec::new(), Vec::new());
        Self { rule, text, secrets, tries, block: None, writes: "", reports }
    }

    /// The content of a file that the result names.
    fn file(mut self, name: &'static str, content: impl Into<String>) -> Self {
        self.secrets.push((name, content.into()));
        self
    }

    fn may(mut self, client: Client, right: Right) -> Self {
        self.tries.push((client, right));
        self
    }

    /// The block size of the disks.
    fn blocks(mut self, bytes: u32) -> Self {
        self.block = Some(bytes);
        self
    }

    /// A part of the result.
    fn writes(mut self, part: &'static str) -> Self {
        self.writes = part;
        self
    }

    /// A part of what is reported.
    fn reports(mut self, part: &'static str) -> Self {
        self.reports.push(part);
        self
    }

    /// Whether this machine can run it.
    fn can_run(&self) -> bool {
        self.secrets.iter().all(|(name, _)| *name != TLS_KEYS) || weft_tls::available().is_ok()
    }

    fn check(self, of: &str) {
        let place = Place::new();
        let about = format!("{of}: {}", self.rule);
        let (toml, left) = import(&place.filled(&self.text), "config", false).unwrap();
        assert!(toml.contains(self.writes), "{about}: {} is not in the result", self.writes);
        let left = left.join("\n");
        for part in &self.reports {
            assert!(left.contains(part), "{about}: {part} is not reported: {left}");
        }
        // Ports of tgt and Ceph are always the same, and images of Ceph become files.
        let toml = toml
            .replace(":3260", &format!(":{}", place.ports[0]))
            .replace("0.0.0.0", "127.0.0.1")
            .replace("rbd:rbd/", &format!("{}/", place.directory.display()));
        let desired = || read(&toml, "test", (&place.directory, &NoSourceOptions));
        for (name, content) in &self.secrets {
            assert!(desired().is_err(), "{about}: starts without {name}:\n{toml}");
            place.private(name, content);
        }
        let desired = desired().unwrap_or_else(|e| panic!("{about}: {:?}\n{toml}", e.lines()));
        let server = Server::start(desired, Environment::default()).unwrap();
        for (client, right) in &self.tries {
            let (found, block, why) = client.right(&place);
            let whose = format!("{about}: {}: {why}\n{toml}", client.url);
            assert_eq!(found, *right, "{whose}");
            if let Some(bytes) = self.block.filter(|_| found != Right::None) {
                assert_eq!(block, bytes, "{whose}");
            }
        }
        server.stop().unwrap();
    }
}

/// Checks the rules of a format. Those that this machine cannot run count as one skipped test.
fn check(of: &str, cases: Vec<Case>) {
    let (checked, skipped): (Vec<_>, Vec<_>) = cases.into_iter().partition(Case::can_run);
    checked.into_iter().for_each(|case| case.check(of));
    let rules: Vec<_> = skipped.iter().map(|case| case.rule).collect();
    if let (Err(why), false) = (weft_tls::available(), rules.is_empty()) {
        weft_testing::skip(format!("{}: {why}", rules.join("; ")));
    }
}

/// Files and ports of one case.
struct Place {
    directory: PathBuf,
    ports: [u16; 2],
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // Files of nvmet have the blocks of their inodes. In a container these may not be known.
        let parents = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
        let known = parents.iter().find(|path| inode_block_bytes(path) == Some(4096));
        let parent = known.unwrap_or(&parents[0]);
        let directory = parent.join(format!("weft-imports-{own}"));
        std::fs::create_dir_all(&directory).unwrap();
        for n in 1..=4 {
            std::fs::write(directory.join(format!("disk{n}")), vec![0; 1 << 20]).unwrap();
        }
        Self { directory, ports: [free().port(), free().port()] }
    }

    /// A text with its files and ports.
    fn filled(&self, text: &str) -> String {
        let [first, second] = self.ports.map(|port| port.to_string());
        text.replace("DISK", &self.directory.join("disk").display().to_string())
            .replace("FILES", &self.directory.display().to_string())
            .replace("PORT1", &first)
            .replace("PORT2", &second)
    }

    fn private(&self, name: &str, content: &str) {
        let path = self.directory.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn the_table_has_each_rule() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/import.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, text) = text.split_once("## Access rules").unwrap();
    let formats = ["nvmet", "SPDK", "LIO", "tgt", "ceph-iscsi"];
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        formats.contains(&cells[0]).then(|| (cells[0].to_owned(), cells[1].to_owned()))
    });
    let all = [nvmet::cases(), spdk::cases(), lio::cases(), tgt::cases(), ceph_iscsi::cases()];
    let tested = formats.iter().zip(all).flat_map(|(of, cases)| {
        cases.into_iter().map(|case| ((*of).to_owned(), case.rule.to_owned()))
    });
    assert_eq!(rows.collect::<Vec<_>>(), tested.collect::<Vec<_>>());
}
