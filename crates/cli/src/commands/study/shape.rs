//! The cause of a distance between initiator and target: `--shape`.

use super::lateness::Lateness;

/// The cause of a distance: a process of weft, or the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// A relay between initiator and target.
    Relay,
    /// netem on the network between two namespaces.
    #[cfg(target_os = "linux")]
    Netem,
}

impl Shape {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            #[cfg(target_os = "linux")]
            Self::Netem => "netem",
        }
    }

    /// Returns why it is not possible here, without a full stop.
    pub fn refusal(self) -> Option<String> {
        match self {
            Self::Relay => None,
            #[cfg(target_os = "linux")]
            Self::Netem => super::netem::refusal(),
        }
    }

    /// A note for the report.
    pub fn note(self, lateness: &Lateness) -> Option<String> {
        match self {
            Self::Relay => lateness.note(),
            #[cfg(target_os = "linux")]
            Self::Netem => Some(super::netem::NOTE.to_owned()),
        }
    }
}
