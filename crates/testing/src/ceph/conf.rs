//! The configuration of a cluster for tests.

use std::net::Ipv4Addr;
use std::path::Path;

/// How daemons store, so that little memory and a small file are enough.
const DAEMONS: &str = "\
osd objectstore = bluestore
bluestore block size = 2147483648
bluestore cache autotune = false
bluestore cache size = 67108864
rocksdb log to ceph log = false
# With the usual buffers the log of the daemon's database outgrows so small a file.
bluestore rocksdb options annex = write_buffer_size=16777216,max_total_wal_size=67108864
# The same layout whatever disk is below.
bluestore debug enforce settings = ssd
# For a quick start and end.
bluestore fsck on mkfs = false
bdev aio poll ms = 50
osd op num shards = 2
osd op num threads per shard = 1
";

/// Writes `ceph.conf`. `copies` daemons each have a copy of everything.
pub(super) fn write(dir: &Path, fsid: &str, (monitor, address): (&str, Ipv4Addr), copies: u32) {
    let d = dir.display();
    let daemon = format!(
        "log file = {d}/$name.log\npid file = {d}/$name.pid\nadmin socket = {d}/$name.asok\ncrash dir = {d}/crash"
    );
    let text = format!(
        "[global]
fsid = {fsid}
mon host = [{monitor}]
public addr = {address}
cluster addr = {address}
ms bind msgr1 = false
keyring = {d}/keyring
auth cluster required = cephx
auth service required = cephx
auth client required = cephx

[mon]
{daemon}
mon data = {d}/$name
mon cluster log file = {d}/cluster.log
auth allow insecure global id reclaim = false
# The disk of a machine that runs tests may be nearly full.
mon data avail warn = 0
mon data avail crit = 0
# Changes are agreed to as they come, and not once a second.
paxos propose interval = 0.05
# Nobody is there who would choose these; all daemons are on one host.
osd pool default size = {copies}
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
# One word is enough to take a daemon for lost, and its data stays where it is.
mon osd min down reporters = 1
mon osd down out interval = 1000000

[osd]
{daemon}
osd data = {d}/$name
{DAEMONS}"
    );
    std::fs::write(dir.join("ceph.conf"), text).expect("the cluster's configuration");
}
