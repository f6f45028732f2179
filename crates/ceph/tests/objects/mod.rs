//! Objects of a pool as the state that several clients share: on a cluster of Ceph on this machine.

mod fence;
mod state;
mod watch;

use std::time::Duration;
use weft_ceph::{CephAccess, Objects};
use weft_testing::ceph::CephCluster;

/// A client of its own: the same file by another name is another access.
fn client(cluster: &CephCluster, user: &str, which: &str) -> Objects {
    let other = cluster.dir().join(format!("client.{which}"));
    std::fs::create_dir_all(&other).expect("a directory beside the keyring");
    let access = CephAccess {
        conf: Some(cluster.conf()),
        id: Some(user.into()),
        keyring: Some(other.join("../keyring")),
    };
    Objects::open(&access, "rbd", "", Duration::from_secs(60)).unwrap_or_else(|e| panic!("{e}"))
}
