//! Studies of several machines: the messages between a study and its agents, and the sum of their
//! measurements.
//!
//! An agent is a machine that runs workloads for a study. This module has no socket: [`message`]
//! has the messages and their form on the wire, [`order`] a workload to run, [`measured`] the
//! result of a run, [`clock`] the comparison of clocks, and [`merged`] the sum of several runs. The
//! program connects them, after both ends have proved that they have the same key.

pub mod clock;
pub mod measured;
mod merged;
pub mod message;
pub mod order;

pub use clock::{AgentClock, Offset, Trip};
pub use measured::{MeasuredRun, ProcessorWatch};
pub use merged::{least, merged};
pub use message::{AgentMessage, StudyMessage};
pub use order::RunOrder;
