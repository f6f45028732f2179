//! The whole stack in one process on virtual time: initiators, gateways, targets and the store
//! behind them, with faults that a seed chooses and a checker that knows what each block may hold.
//!
//! * [`run::run`] runs one seed. The seed decides everything, so the same seed is the same history.
//! * [`config`]: who there is; [`scene`]: what the run is about; [`wanted`]: what can be chosen
//!   instead of the seed. [`faults`]: what goes wrong, and when. [`holds`]: for how long at most.
//! * [`store`]: the disk behind the targets. [`serving`]: targets and gateways. [`initiator`] and
//!   [`workload`]: who uses them;
//!   [`reserving`]: who reserves them.
//! * [`mirror`]: a mirror over several targets, instead of all that.
//! * [`group`]: a group of gateways in front of a cluster, in the same way.
//! * [`oracle`]: what each block may hold; [`stamp`]: what is written, so that each block names its
//!   write. [`journal`]: the trace.
//! * [`bugs`]: those that are planted to prove that it finds them.
#![forbid(unsafe_code)]

pub mod bugs;
pub mod config;
mod drawn;
mod every_run;
pub mod faults;
pub mod group;
pub mod holds;
pub mod initiator;
pub mod journal;
pub mod mirror;
pub mod oracle;
pub mod reserving;
pub mod run;
pub mod scene;
pub mod serving;
pub mod stamp;
pub mod store;
pub mod wanted;
pub mod workload;
