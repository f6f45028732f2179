//! Options of a server that serves a subsystem together with other processes.

use crate::exit::Failure;
use clap::Args;
use weft_block::ErrorKind;
use weft_endpoint::ConnectOptions;
use weft_endpoint::inventory::{ControllerRange, Sharing};
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
    /// The same, with what a configuration file says where the command line says nothing.
    pub fn with(&self, desired: &Desired) -> Self {
        Self {
            cntlid_range: self.cntlid_range.or(desired.cntlids),
            shared: self.shared || desired.shared,
            ..*self
        }
    }

    /// What this process is among those that serve the same subsystem.
    pub fn range(&self) -> ControllerRange {
        let cntlids = self.cntlid_range.unwrap_or(ControllerRange::default().cntlids);
        ControllerRange {
            cntlids,
            sharing: if self.shared { Sharing::Blind } else { Sharing::Alone },
        }
    }

    /// The options with which sources are opened.
    pub fn options(&self, options: ConnectOptions) -> ConnectOptions {
        ConnectOptions { shared: self.shared, ..options }
    }

    /// Refuses options that do not go together.
    pub fn check(&self) -> Result<(), Failure> {
        if self.shared && self.cntlid_range.is_none() {
            let text = "--shared needs --cntlid-range, another one for each process: 1-1000 and 1001-2000, for example";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_has_a_range_of_its_own() {
        assert!(SharingArgs { shared: true, ..SharingArgs::default() }.check().is_err());
        assert!(
            SharingArgs { shared: true, cntlid_range: Some((1, 5)), ..SharingArgs::default() }
                .check()
                .is_ok()
        );
    }
}
