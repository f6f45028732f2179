//! ClusterReach of a gateway's process in the cluster, and the time at which it must end because it has
//! lost it: neither too late, nor while the monitors answer.

use super::cluster_link::ClusterLink;
use crate::journal::SimJournal;
use core::time::Duration;
use weft_group::GatewayName;
use weft_io::Time;

/// Time for which a gateway may serve after its last beat.
pub const LEASE: Duration = Duration::from_secs(4);

/// Time for which a gateway that does not serve hears nothing of the monitors before it ends.
pub const SILENCE: Duration = Duration::from_secs(4);

/// How much later than it should a process may end: its clock is wrong, and it is looked after now
/// and then.
const SLACK: Duration = Duration::from_millis(500);

/// How long monitors that can be reached take at most to be asked and to answer.
const ANSWERED: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub struct ClusterReach {
    /// Since when the process has run without reaching anything of the cluster.
    isolated_since: Time,
    /// Since when it has run and reached the monitors.
    reached_since: Time,
}

impl ClusterReach {
    /// Notes what the process reaches now, if it runs.
    pub fn note(&mut self, now: Time, runs: bool, link: &ClusterLink) {
        let reaches_monitors = !link.are_monitors_cut(now);
        if !runs || !link.is_cut(now) || reaches_monitors {
            self.isolated_since = now;
        }
        if !runs || !reaches_monitors {
            self.reached_since = now;
        }
    }

    /// A process that has served, and knows of others, does not run on without the cluster.
    pub fn check_life(&self, now: Time, name: &GatewayName, journal: &SimJournal) {
        if now > self.isolated_since + LEASE + SILENCE + SLACK {
            let since = now - self.isolated_since;
            journal.violation(format!("{name} lost the cluster {since:?} ago, and has not ended"));
        }
    }

    /// A process ends because it has lost the cluster: then it has not reached the monitors.
    pub fn check_end(&self, now: Time, name: &GatewayName, journal: &SimJournal) {
        if now > self.reached_since + ANSWERED {
            let since = now - self.reached_since;
            journal.violation(format!(
                "{name} ends without the cluster, whose monitors it has reached for {since:?}"
            ));
        }
    }
}
