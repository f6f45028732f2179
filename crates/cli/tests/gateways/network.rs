//! Networks of a test's own: the cluster, the hosts and most gateways are in one, and one gateway
//! is in another, linked to the cluster and to the hosts by a link each, so that each can be cut
//! alone.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

/// The cluster's address.
pub const CLUSTER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);

/// The address of the far gateway for hosts.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 98, 1, 2);

/// Said to the test that runs inside.
const INSIDE: &str = "WEFT_TEST_INSIDE_NETWORK";

/// A link between the networks.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// To the cluster.
    Cluster,
    /// To the hosts.
    Hosts,
}

/// Runs this test again in a network of its own, unless it is there already. `false`: it was run
/// there, or the system does not let us make one.
pub fn enter(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = |rights: &[&str]| {
        let mut command = Command::new("unshare");
        command.arg("--net").args(rights).arg("--").stdin(Stdio::null());
        command
    };
    // What root may without a user's own rights, a system may refuse with them.
    let works = |rights: &&[&str]| {
        unshare(rights)
            .arg("true")
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let Some(rights) = [&[][..], &["--map-root-user"]].into_iter().find(works) else {
        weft_testing::skip("the system does not let this user make a network");
        return false;
    };
    let own = std::env::current_exe().unwrap();
    let status =
        unshare(rights).arg(own).args(["--exact", test, "--nocapture"]).env(INSIDE, "1").status();
    assert!(status.unwrap().success(), "{test} failed in its network");
    false
}

fn run(program: &str, args: &str) {
    let status = Command::new(program).args(args.split(' ')).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {args}");
}

/// The other network; it goes with this.
pub struct Far(Child);

impl Far {
    pub fn make() -> Self {
        // It has a network as soon as it says so.
        let mut child = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo; exec sleep 1d"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut [0]).unwrap();
        let far = Self(child);
        run("ip", "link set lo up");
        far.inside("link set lo up");
        for (n, link) in [Link::Cluster, Link::Hosts].into_iter().enumerate() {
            let name = name(link);
            run("ip", &format!("link add {name} type veth peer name {name} netns {}", far.0.id()));
            run("ip", &format!("addr add 10.98.{n}.1/24 dev {name}"));
            run("ip", &format!("link set {name} up"));
            far.inside(&format!("addr add 10.98.{n}.2/24 dev {name}"));
            far.inside(&format!("link set {name} up"));
        }
        far
    }

    fn inside(&self, args: &str) {
        run("nsenter", &format!("--net=/proc/{}/ns/net ip {args}", self.0.id()));
    }

    /// The same command, there. It has the process id of what is started.
    pub fn moved(&self, command: &Command) -> Command {
        let mut moved = Command::new("nsenter");
        moved
            .arg(format!("--net=/proc/{}/ns/net", self.0.id()))
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            moved.env(name, value.unwrap_or_default());
        }
        moved.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
        moved
    }

    pub fn cut(&self, link: Link) {
        run("ip", &format!("link set {} down", name(link)));
    }

    pub fn mend(&self, link: Link) {
        run("ip", &format!("link set {} up", name(link)));
    }
}

fn name(link: Link) -> &'static str {
    match link {
        Link::Cluster => "cluster",
        Link::Hosts => "hosts",
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
