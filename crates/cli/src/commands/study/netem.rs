//! Networks of netem: a network namespace for each target, and a pair of interfaces (veth) whose
//! queues delay and limit what they send.
//!
//! A network is private to this machine: its addresses are of the range for benchmarks (RFC 2544).

use super::super::internal::child::Spawned;
use super::peers::kernel::needs::{self, KMOD};
use super::peers::kernel::session::{KernelGroup, KernelSession};
use super::peers::kernel::steps::KernelSteps;
use super::peers::peer::PeerProgram;
use super::serving::{Cores, serve_in};
use crate::process::exit::Failure;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

/// For the report.
pub const NOTE: &str = "The distance is that of netem on this machine: each target is in a network namespace of its own, and the interfaces at both ends send each packet half \
     of a round trip after it was due. It is a queue of the kernel, not a line: there are no losses but those of a full queue, and packets are as large as the loopback's.";

/// The programs that configure networks.
const PROGRAMS: [PeerProgram; 2] = [
    PeerProgram { name: "ip", package: Some("iproute2") },
    PeerProgram { name: "tc", package: Some("iproute2") },
];

/// The modules that the kernel must have.
const MODULES: [&str; 2] = ["veth", "sch_netem"];

/// The start of the range for benchmarks, 198.18.0.0/15, as the kernel lists it.
const RANGE: [&str; 2] = [" 198.18.", " 198.19."];

/// Packets that wait in a queue at most: those of a second at 10 Gbit/s and 1,500 bytes each.
const PACKETS: &str = "800000";

/// Networks that were made.
static MADE: AtomicU16 = AtomicU16::new(0);

/// A network of two hosts: this namespace and a new one. It ends when this is dropped.
pub struct Network {
    _group: KernelGroup,
    namespace: String,
    address: IpAddr,
    setup: Vec<String>,
}

/// Returns why no network can be made here.
pub fn refusal() -> Option<String> {
    let mut why = needs::missing(&[&PROGRAMS[..], KMOD].concat(), &MODULES);
    let routes = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    if RANGE.iter().any(|range| routes.contains(range)) {
        why.push("the addresses 198.18.0.0/15, which it takes, are in use on this machine".into());
    }
    (!why.is_empty()).then(|| why.join("; "))
}

impl Network {
    /// Makes a network that delays each direction by `delay_us`, and limits it to `mbit` megabits
    /// per second; 0: no limit.
    ///
    /// # Errors
    /// The reason, without a full stop. Nothing is left of it.
    pub fn make(session: &Rc<KernelSession>, delay_us: u32, mbit: u32) -> Result<Self, String> {
        let group = KernelGroup::new(session, None);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let [near, far] = addresses(number);
        let namespace = format!("weft-{}-{number}", std::process::id());
        // The kernel takes 15 bytes.
        let here = format!("w{:x}-{number:x}", std::process::id());
        let there = "weft";
        let ip = |words: &str| format!("ip {words}").split(' ').map(str::to_owned).collect();
        let inside = |words: &str| ip(&format!("-n {namespace} {words}"));
        let mut queue = format!("netem limit {PACKETS}");
        if delay_us > 0 {
            queue.push_str(&format!(" delay {delay_us}us"));
        }
        if mbit > 0 {
            queue.push_str(&format!(" rate {mbit}mbit"));
        }
        let tc = |place: &str, device: &str| {
            let command = format!("tc {place}qdisc add dev {device} root {queue}");
            command.split(' ').map(str::to_owned).collect::<Vec<String>>()
        };
        let pair = format!("link add {here} type veth peer name {there} netns {namespace}");
        let steps = KernelSteps::default()
            .load_all(&MODULES)
            .run(ip(&format!("netns add {namespace}")), ip(&format!("netns delete {namespace}")))
            .run(ip(&pair), ip(&format!("link delete {here}")))
            .run(tc("", &here), Vec::new())
            .run(tc(&format!("-n {namespace} "), there), Vec::new())
            .run(ip(&format!("address add {near}/30 dev {here}")), Vec::new())
            .run(inside(&format!("address add {far}/30 dev {there}")), Vec::new())
            .run(ip(&format!("link set {here} up")), Vec::new())
            .run(inside(&format!("link set {there} up")), Vec::new())
            .into_inner();
        let setup = steps.iter().map(|step| step.to_string()).collect();
        group.perform(steps)?;
        Ok(Self { _group: group, namespace, address: far.into(), setup })
    }

    /// Starts a target at the far end.
    pub fn serve(
        &self,
        source: &str,
        schemes: &[String],
        cores: &Cores,
    ) -> Result<Spawned, Failure> {
        serve_in(Some(&self.namespace), source, schemes, self.address, cores)
    }

    /// The commands that made it.
    pub fn setup(&self) -> &[String] {
        &self.setup
    }
}

/// The two hosts of a network of four addresses.
fn addresses(number: u16) -> [Ipv4Addr; 2] {
    let first = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + u32::from(number % (1 << 15)) * 4;
    [first + 1, first + 2].map(Ipv4Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_addresses_of_their_own() {
        let all = [0, 1, 64, u16::MAX].map(addresses);
        let shown = all.map(|[near, far]| format!("{near} {far}"));
        assert_eq!(
            shown,
            [
                "198.18.0.1 198.18.0.2",
                "198.18.0.5 198.18.0.6",
                "198.18.1.1 198.18.1.2",
                "198.19.255.253 198.19.255.254",
            ]
        );
    }
}
