//! Needs of the lab on the machine that it runs on.

use anyhow::Result;
use xtask::sh;

use super::{
    cache::Cache,
    guest::{self, Guest},
    plan::Plan,
};

/// What the host needs besides Rust: qemu, what fills the guest, and what unpacks it.
const HOST_PACKAGES: &[&str] =
    &["qemu-system-x86", "busybox-static", "dash", "kmod", "xz-utils", "util-linux"];

/// Makes sure of everything on the host's side and builds the guest's image.
pub(super) fn prepare(plan: &Plan) -> Result<Guest> {
    host_ready()?;
    guest::build(&Cache::open()?, plan)
}

/// Insists on a host that can run the lab.
pub(super) fn host_ready() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err(sh::Missing("the lab needs Debian on x86-64".into()).into());
    }
    lab_host::require(HOST_PACKAGES)
}
