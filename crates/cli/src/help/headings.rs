//! Headings of options that several commands have.

/// Of connections to NVMe targets.
pub const CONNECTION: &str = "Connection";
/// Of connections to NVMe targets that have to know who connects.
pub const AUTHENTICATION: &str = "NVMe authentication (DH-HMAC-CHAP)";
/// Of connections to iSCSI targets.
pub const ISCSI: &str = "Connection to iSCSI targets";
/// Of lost connections and of several connections to one device.
pub const PATHS: &str = "Reconnect and multipath";
/// Of the log.
pub const LOG: &str = "Log";
/// Of `weft serve`: gateways that share a cluster.
pub const GROUP: &str = "Several gateways in front of one Ceph cluster";
/// Of `weft serve`: its iSCSI target.
pub const ISCSI_TARGET: &str = "iSCSI target";
/// Of `weft serve`: what hosts have to prove.
pub const LET_IN: &str = "Who is let in";
/// Of workloads.
pub const WORKLOAD: &str = "Workload";
/// Of workloads that are written for other tools.
pub const OTHER_TOOLS: &str = "Workloads of other tools";
/// Of fio's options that few workloads need.
pub const FIO: &str = "More of fio's options";
/// Of what fio has and weft needs not.
pub const IGNORED: &str = "Accepted for compatibility with fio, and ignored";
/// Of what fio has and weft refuses.
pub const REFUSED: &str = "Options of fio that are refused";
