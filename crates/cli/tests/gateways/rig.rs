//! A cluster and the gateways of a group in front of it, each a process of its own.

use super::network::{self, Far};
use crate::support::{Ran, Scratch, program, run, this_program, weft};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use weft_testing::ceph::CephCluster;
use weft_testing::wait::until;
use weft_testing::{port, process};

/// The subsystem.
pub const NQN: &str = "nqn.2026-01.example:hall";

/// The same as a target of iSCSI.
const IQN: &str = "iqn.2026-01.example:hall";

/// Its namespaces, to begin with.
pub const NAMESPACES: u32 = 3;

/// Bytes of each.
pub const NAMESPACE_MIB: u64 = 32;

/// The cluster of a rig.
pub enum ItsCluster {
    /// That of all tests which do it no harm.
    Shared(&'static CephCluster),
    Own(CephCluster),
}

impl Deref for ItsCluster {
    type Target = CephCluster;

    fn deref(&self) -> &CephCluster {
        match self {
            Self::Shared(cluster) => cluster,
            Self::Own(cluster) => cluster,
        }
    }
}

pub struct Rig {
    /// The group's name, which begins the names of its images.
    name: String,
    pub cluster: ItsCluster,
    /// The machine of the gateway `far`.
    pub far: Option<Far>,
    scratch: Scratch,
    addresses: BTreeMap<String, SocketAddr>,
    /// Where they listen for iSCSI, if they do.
    iscsi: BTreeMap<String, SocketAddr>,
    running: BTreeMap<String, Child>,
    /// The program of gateways that start from now on, and of the commands that ask them.
    pub program: PathBuf,
}

/// A gateway, as `weft gateway list` shows it.
pub struct Gateway {
    pub state: String,
    pub client: Option<String>,
    pub groups: Vec<u32>,
}

impl Rig {
    /// A group of these gateways that serves images of the cluster that tests share. `None`: Ceph
    /// is not installed.
    pub fn start(name: &str, gateways: &[&str]) -> Option<Self> {
        Some(Self::of(ItsCluster::Shared(CephCluster::shared()?), None, name, gateways, false))
    }

    /// The same in front of a cluster of its own.
    pub fn start_alone(name: &str, gateways: &[&str]) -> Option<Self> {
        Some(Self::of(ItsCluster::Own(CephCluster::start(1)?), None, name, gateways, false))
    }

    /// As [`Self::start`], by another program.
    pub fn start_by(program: PathBuf, name: &str, gateways: &[&str]) -> Option<Self> {
        let cluster = ItsCluster::Shared(CephCluster::shared()?);
        Some(Self::by(program, cluster, None, name, gateways, false))
    }

    /// As [`Self::start`]; the gateways also listen for iSCSI.
    pub fn start_with_iscsi(name: &str, gateways: &[&str]) -> Option<Self> {
        Some(Self::of(ItsCluster::Shared(CephCluster::shared()?), None, name, gateways, true))
    }

    /// As [`Self::start_alone`] in networks; the gateway `far` is in another one than the others.
    pub fn start_apart(name: &str, gateways: &[&str]) -> Option<Self> {
        let far = Far::make();
        let cluster = ItsCluster::Own(CephCluster::start_at(network::CLUSTER, 1)?);
        Some(Self::of(cluster, Some(far), name, gateways, false))
    }

    fn of(
        cluster: ItsCluster,
        far: Option<Far>,
        name: &str,
        gateways: &[&str],
        iscsi: bool,
    ) -> Self {
        Self::by(this_program(), cluster, far, name, gateways, iscsi)
    }

    fn by(
        program: PathBuf,
        cluster: ItsCluster,
        far: Option<Far>,
        name: &str,
        gateways: &[&str],
        iscsi: bool,
    ) -> Self {
        let scratch = Scratch::new(&format!("gateways-{name}"));
        let (addresses, running) = (BTreeMap::new(), BTreeMap::new());
        let name = name.to_owned();
        let mut rig = Self {
            name,
            cluster,
            far,
            scratch,
            addresses,
            iscsi: BTreeMap::new(),
            running,
            program,
        };
        let mut text = format!("[[subsystem]]\nnqn = \"{NQN}\"\n");
        for nsid in 1..=NAMESPACES {
            let image = rig.image(&format!("disk-{nsid}"), &format!("{NAMESPACE_MIB}M"));
            text += &format!(
                "[[subsystem.namespace]]\nnsid = {nsid}\nana_group = {nsid}\nsource = \"rbd:{image}\"\n"
            );
        }
        let file = rig.scratch.path().join("group.toml");
        std::fs::write(&file, text).unwrap();
        for (n, gateway) in gateways.iter().enumerate() {
            let at = if *gateway == "far" { network::FAR } else { Ipv4Addr::LOCALHOST };
            rig.addresses.insert(
                (*gateway).to_owned(),
                SocketAddr::from((at, port::free(Ipv4Addr::LOCALHOST))),
            );
            if iscsi {
                rig.iscsi.insert(
                    (*gateway).to_owned(),
                    SocketAddr::from((at, port::free(Ipv4Addr::LOCALHOST))),
                );
            }
            rig.launch(gateway);
            if n == 0 {
                rig.weft(gateway, &["apply", &file.display().to_string()]);
            }
        }
        // Each has its part.
        until("all gateways serve", || {
            let states = gateways.iter().map(|gateway| rig.gateway(gateway));
            states
                .into_iter()
                .all(|gateway| gateway.state == "serving" && !gateway.groups.is_empty())
        });
        rig
    }

    /// Makes an image for this group; its name with the pool.
    pub fn image(&self, name: &str, size: &str) -> String {
        self.cluster.image(&format!("{}-{name}", self.name), size)
    }

    fn socket(&self, gateway: &str) -> PathBuf {
        self.scratch.path().join(format!("{gateway}.sock"))
    }

    fn said(&self, gateway: &str) -> PathBuf {
        self.scratch.path().join(format!("{gateway}.log"))
    }

    /// Starts a gateway, and waits until it answers.
    pub fn launch(&mut self, gateway: &str) {
        let directory = self.scratch.path().join(gateway);
        std::fs::create_dir_all(&directory).unwrap();
        let listen = format!("nvme+tcp://{}", self.addresses[gateway]);
        let iscsi = self.iscsi.get(gateway).map(|at| format!("iscsi://{at}"));
        let (conf, socket) =
            (self.cluster.conf().display().to_string(), self.socket(gateway).display().to_string());
        let group = ["serve", "--cluster", &conf, "--group", &self.name, "--gateway", gateway];
        let own = ["--listen", &listen, "--control", &socket, "--threads", "2"];
        let log = std::fs::File::create(self.said(gateway)).unwrap();
        let mut command = program(&self.program, &directory, &[&group[..], &own[..]].concat());
        if let Some(iscsi) = iscsi {
            command.args(["--listen", &iscsi, "--iqn", IQN]);
        }
        if let (Some(far), "far") = (&self.far, gateway) {
            command = far.moved(&command);
        }
        let mut child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let asked = |rig: &Self| run(rig.command(gateway, &["gateway", "list"])).status.success();
        until("the gateway answers", || {
            assert_eq!(
                child.try_wait().unwrap(),
                None,
                "{}",
                std::fs::read_to_string(self.said(gateway)).unwrap()
            );
            asked(self)
        });
        self.running.insert(gateway.to_owned(), child);
    }

    fn command(&self, gateway: &str, args: &[&str]) -> Command {
        let mut command = program(&self.program, self.scratch.path(), args);
        command.arg("--control").arg(self.socket(gateway));
        command
    }

    /// Runs a command at a gateway.
    pub fn ran(&self, gateway: &str, args: &[&str]) -> Ran {
        run(self.command(gateway, args))
    }

    /// Runs a command at a gateway, which succeeds.
    pub fn weft(&self, gateway: &str, args: &[&str]) {
        let ran = self.ran(gateway, args);
        assert!(ran.status.success(), "{args:?}: {ran:?}");
    }

    fn listed(&self, at: &str) -> Vec<(String, Gateway)> {
        let ran = self.ran(at, &["gateway", "list", "--json"]);
        let shown: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let one = |gateway: &Value| {
            let groups = gateway["ana_groups"]
                .as_array()
                .unwrap()
                .iter()
                .map(|group| group.as_u64().unwrap() as u32)
                .collect();
            let is = Gateway {
                state: text(&gateway["state"]).unwrap(),
                client: text(&gateway["client"]),
                groups,
            };
            (text(&gateway["name"]).unwrap(), is)
        };
        shown["gateways"].as_array().unwrap().iter().map(one).collect()
    }

    /// A gateway that answers; not one that stands still.
    fn witness(&self) -> &str {
        let answers =
            |child: &Child| !process::stands_still(child.id()) && !process::has_ended(child.id());
        self.running
            .iter()
            .find(|(_, child)| answers(child))
            .map(|(name, _)| name)
            .expect("one gateway is left")
    }

    /// The state of a gateway, as the others know it.
    pub fn gateway(&self, name: &str) -> Gateway {
        let found = self.listed(self.witness()).into_iter().find(|(of, _)| of == name);
        found.map_or_else(
            || Gateway { state: "unknown".into(), client: None, groups: Vec::new() },
            |(_, gateway)| gateway,
        )
    }

    /// The state of a gateway, as another one sees it.
    pub fn state_at(&self, at: &str, of: &str) -> String {
        self.listed(at).into_iter().find(|(name, _)| name == of).unwrap().1.state
    }

    /// The gateway that is optimized for an ANA group.
    pub fn optimized(&self, group: u32) -> String {
        let mut found = String::new();
        until("the group has a gateway", || {
            let owner = self
                .listed(self.witness())
                .into_iter()
                .find(|(_, gateway)| gateway.groups.contains(&group));
            owner.is_some_and(|(name, _)| {
                found = name;
                true
            })
        });
        found
    }

    /// Number of namespaces that a gateway serves.
    pub fn namespaces(&self, at: &str) -> usize {
        let ran = self.ran(at, &["control", "inventory.show"]);
        let shown: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        shown["subsystems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| of["namespaces"].as_array().unwrap().len())
            .sum()
    }

    /// Number of hosts' commands that a gateway has in flight.
    pub fn in_flight(&self, at: &str) -> u64 {
        let ran = self.ran(at, &["control", "server.status"]);
        let shown: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let subsystems = shown["subsystems"].as_array().unwrap().iter();
        let namespaces = subsystems.flat_map(|of| of["namespaces"].as_array().unwrap());
        namespaces.map(|namespace| namespace["counts"]["in_flight"].as_u64().unwrap()).sum()
    }

    /// The ports that a gateway's discovery reports.
    pub fn discovered(&self, at: &str) -> Vec<String> {
        let ran = run(weft(
            self.scratch.path(),
            &["discover", &format!("nvme+tcp://{}", self.addresses[at])],
        ));
        assert!(ran.status.success(), "{ran:?}");
        let mut ports: Vec<String> = ran
            .out
            .lines()
            .filter_map(|line| line.strip_prefix("trsvcid: "))
            .map(str::to_owned)
            .collect();
        ports.sort();
        ports.dedup();
        ports
    }

    /// The address at which a gateway listens.
    pub fn address(&self, gateway: &str) -> SocketAddr {
        self.addresses[gateway]
    }

    pub fn ports(&self) -> Vec<u16> {
        self.addresses.values().map(SocketAddr::port).collect()
    }

    pub fn iscsi_ports(&self) -> Vec<u16> {
        self.iscsi.values().map(SocketAddr::port).collect()
    }

    /// The URLs of a namespace, one for each gateway.
    pub fn urls(&self, nsid: u32) -> Vec<String> {
        self.addresses.values().map(|at| format!("nvme+tcp://{at}/{NQN}/{nsid}")).collect()
    }

    /// Whom the cluster keeps out.
    pub fn blocklist(&self) -> String {
        self.cluster.run("ceph", &["osd", "blocklist", "ls"])
    }

    /// Sends a signal to a gateway, and after `STOP` waits until it stands still: a processor that
    /// runs it may take a while.
    pub fn signal(&self, gateway: &str, signal: &str) {
        let pid = self.running[gateway].id();
        process::signal(pid, signal);
        if signal == "STOP" {
            until("it stands still", || process::stands_still(pid));
        }
    }

    pub fn kill(&mut self, gateway: &str) {
        let mut child = self.running.remove(gateway).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until a gateway ends by itself; what it said.
    pub fn wait(&mut self, gateway: &str) -> (ExitStatus, String) {
        let mut child = self.running.remove(gateway).unwrap();
        let mut ended = None;
        until("the gateway ends", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        (ended.unwrap(), std::fs::read_to_string(self.said(gateway)).unwrap())
    }

    /// Ends a gateway as a service manager does.
    pub fn terminate(&mut self, gateway: &str) {
        self.signal(gateway, "TERM");
        let (status, said) = self.wait(gateway);
        assert!(status.success(), "{status:?}: {said}");
    }

    /// Ends all gateways.
    pub fn end(&mut self) {
        for gateway in self.running.keys().cloned().collect::<Vec<_>>() {
            self.terminate(&gateway);
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for (name, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                eprintln!(
                    "{name} said:\n{}",
                    std::fs::read_to_string(self.scratch.path().join(format!("{name}.log")))
                        .unwrap_or_default()
                );
            }
        }
    }
}
