//! Targets of several sources with one loop on the target's core.

use anyhow::{Context, Result, bail};
use rustix::thread::disable_transparent_huge_pages;

use super::super::super::{contestant::Target, setting::Setting};

/// Serves sources by one loop on the target's core; the URL is that of the first listener.
pub fn serve(setting: &Setting, sources: &[&str], more: &[&str]) -> Result<Target> {
    let (cpu, [first, others @ ..]) = (setting.target_cpu.to_string(), sources) else {
        bail!("there is nothing to serve");
    };
    let fixed = ["--threads", "1", "--cpus_allowed", &cpu];
    Target::with(setting, first, "nvme+tcp://127.0.0.1:0", &[others, &fixed, more].concat())
}

/// Does the same without huge pages: each block that is written to takes 4 KiB of a sparse RAM
/// disk, instead of 2 MiB.
pub fn serve_sparse(setting: &Setting, sources: &[&str]) -> Result<Target> {
    // The program inherits this from the process that starts it.
    disable_transparent_huge_pages(true).context("cannot switch huge pages off")?;
    let target = serve(setting, sources, &[]);
    disable_transparent_huge_pages(false).context("cannot switch huge pages on again")?;
    target
}
