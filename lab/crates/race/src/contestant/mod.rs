//! Contestants of the race.

mod ceiling;
mod command;
mod contender;
mod nbd;
mod tgt;
mod weft;

use anyhow::Result;

use super::setting::Setting;

pub use ceiling::Ceiling;
pub use command::Custom;
pub use contender::Contestant;
pub use weft::{Target, Weft, fill};

/// The peers that are found on this machine, with lines that say what is missing for others.
pub fn peers(setting: &Setting) -> (Vec<Box<dyn Contestant>>, Vec<String>) {
    let mut found: Vec<Box<dyn Contestant>> = Vec::new();
    let mut missing = Vec::new();
    let mut take = |name: &str, peer: Result<Box<dyn Contestant>>| match peer {
        Ok(peer) => found.push(peer),
        Err(error) => missing.push(format!("{name} is not measured: {error:#}")),
    };
    take("tgt", tgt::foreign(setting));
    take("weft over iSCSI", tgt::ours(setting));
    take("nbdkit", nbd::foreign(setting));
    take("weft over NBD", nbd::ours(setting));
    (found, missing)
}
