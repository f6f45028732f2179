//! Keeps a server of a disk of this machine out of the way of memory reclaim.
//!
//! When memory is short, the system writes dirty pages to the disk and waits for that. If the
//! server of the disk needed memory for it, and the system waited for the server, nobody would go
//! on. So the server tells the system that it is part of the way to a disk (`PR_SET_IO_FLUSHER`),
//! that its pages stay in memory (`mlockall`), and that it is not to be killed (`oom_score_adj`).
//! No operation allocates anyway.

/// Protects this process, as far as the system permits it; what it does not is said once.
#[cfg(target_os = "linux")]
pub fn protect() {
    use weft_io::kernel_file;
    let refused: Vec<&str> = [
        (
            rustix::process::configure_io_flusher_behavior(true).is_ok(),
            "PR_SET_IO_FLUSHER (needs CAP_SYS_RESOURCE)",
        ),
        (lock(), "locked memory (needs CAP_IPC_LOCK, or LimitMEMLOCK=infinity)"),
        (
            kernel_file::write("/proc/self/oom_score_adj", "-1000").is_ok(),
            "protection from the OOM killer (needs CAP_SYS_RESOURCE)",
        ),
    ]
    .into_iter()
    .filter_map(|(permitted, what)| (!permitted).then_some(what))
    .collect();
    if !refused.is_empty() {
        let what = refused.join(", ");
        tracing::warn!(
            "the system does not permit {what}: if memory runs out while this disk is written to, the machine may hang"
        );
    }
}

/// Linux alone has such means.
#[cfg(not(target_os = "linux"))]
pub fn protect() {}

/// Locks all pages, also later ones, when they are first used. Not under a limit: later allocations
/// would fail.
#[cfg(target_os = "linux")]
fn lock() -> bool {
    use rustix::mm::{MlockAllFlags, mlockall};
    use rustix::process::{Resource, geteuid, getrlimit};
    let unlimited = geteuid().is_root() || getrlimit(Resource::Memlock).current.is_none();
    unlimited
        && mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_ok()
}
