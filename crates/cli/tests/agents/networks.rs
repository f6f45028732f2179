//! Networks of their own for a target and agents.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn ip(args: &str) -> bool {
    let command = Command::new("ip")
        .args(args.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    command.is_ok_and(|status| status.success())
}

/// Networks for a target and agents: a bridge in one, and a network for each agent that is linked
/// to it.
pub struct Networks {
    prefix: String,
    agents: usize,
}

impl Networks {
    /// None if the system does not let us make them.
    pub fn make(agents: usize) -> Option<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let prefix = format!("weft{}-{}", std::process::id(), MADE.fetch_add(1, SeqCst));
        let networks = Self { prefix, agents };
        let hub = networks.hub();
        if !ip(&format!("netns add {hub}")) {
            eprintln!(
                "no networks of their own: the system does not let this user make them, so the loopback is used"
            );
            return None;
        }
        let begun = ip(&format!("-n {hub} link add hub type bridge"))
            && ip(&format!("-n {hub} addr add 10.99.0.1/24 dev hub"))
            && ip(&format!("-n {hub} link set dev hub up"))
            && ip(&format!("-n {hub} link set dev lo up"));
        assert!(
            begun && (0..agents).all(|at| networks.link(at)),
            "a network was made and cannot be linked"
        );
        Some(networks)
    }

    pub fn hub(&self) -> String {
        format!("{}-hub", self.prefix)
    }

    pub fn name(&self, at: usize) -> String {
        format!("{}-{at}", self.prefix)
    }

    fn link(&self, at: usize) -> bool {
        let (hub, name) = (self.hub(), self.name(at));
        ip(&format!("netns add {name}"))
            && ip(&format!("-n {hub} link add a{at} type veth peer name eth0 netns {name}"))
            && ip(&format!("-n {hub} link set dev a{at} master hub up"))
            && ip(&format!("-n {name} addr add 10.99.0.{}/24 dev eth0", at + 2))
            && ip(&format!("-n {name} link set dev eth0 up"))
            && ip(&format!("-n {name} link set dev lo up"))
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for at in 0..self.agents {
            ip(&format!("netns del {}", self.name(at)));
        }
        ip(&format!("netns del {}", self.hub()));
    }
}

/// The same command in a network.
pub fn inside(network: Option<&str>, command: Command) -> Command {
    let Some(network) = network else { return command };
    let mut moved = Command::new("ip");
    moved.args(["netns", "exec", network]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        moved.env(name, value.unwrap_or_default());
    }
    moved.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    moved
}
