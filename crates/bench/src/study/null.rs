//! The null suite: the comparison of iSCSI and NVMe/TCP on a device that does nothing, as others have published it.

use crate::results::{Lane, Published, Workload};
use crate::workload::Rw;

/// Jobs, each of which has one operation in flight.
const JOBS: u32 = 256;

/// The workload: 4 KiB, random, 70 % reads.
pub(super) fn workload() -> Workload {
    Workload {
        name: "4k-randrw70-256jobs".into(),
        title: "4 KiB random 30 % write, 256 jobs".into(),
        rw: Rw::RandRw.to_string(),
        bs_bytes: 4096,
        iodepth: 1,
        jobs: JOBS,
        read_percent: 70,
        latency: false,
    }
}

/// Where the figures were published.
const SOURCE: &str = "a published comparison of iSCSI and NVMe/TCP on a null device (in Japanese), random 4K 70:30, 256 jobs";

/// What was published of it.
pub(super) fn published() -> [Published; 2] {
    let of = |lane: &str, read_iops, write_iops, read_mean_ns, write_mean_ns| Published {
        lane: lane.to_owned(),
        read_iops,
        write_iops,
        read_mean_ns,
        write_mean_ns,
        source: SOURCE.to_owned(),
    };
    [of(Lane::ISCSI, 24_800.0, 10_700.0, 8.17e6, 4.86e6), of(Lane::NVME_TCP, 104_000.0, 44_700.0, 1.71e6, 1.73e6)]
}
