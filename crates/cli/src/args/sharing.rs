//! Options of a server that serves a subsystem together with other processes.

use clap::Args;
use weft_server::config::desired::Desired;
use weft_server::values::parse_cntlids;

/// `--cntlid-range` and `--shared`.
#[derive(Args, Debug, Default)]
pub struct SharingArgs {
    /// Identifiers of this process's controllers; processes that serve one subsystem need ranges
    /// that do not overlap [default: 1-65519]
    #[arg(long, value_name = "MIN-MAX", value_parser = parse_cntlids)]
    cntlid_range: Option<(u16, u16)>,
    /// Serve the sources together with other processes, as controllers of one subsystem: the same
    /// files or disks, --nqn, and order of sources; each process with its own --cntlid-range.
    /// Compare, compare-and-write and reservations are then not offered
    #[arg(long)]
    pub shared: bool,
    /// Stay out of the way of memory reclaim, as weft connect does: for disks that this machine
    /// itself attaches
    #[arg(long)]
    pub protect_memory: bool,
}

impl SharingArgs {
    /// Puts them over what a configuration file says.
    pub fn fill(&self, desired: &mut Desired) {
        desired.cntlids = self.cntlid_range.or(desired.cntlids);
        desired.shared |= self.shared;
    }
}
