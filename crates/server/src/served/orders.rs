//! Commands on standard input with which tests change what a running server serves.

use super::{ChangeMode, Served, ServedState};
use crate::config::desired::DesiredNamespace;
use crate::management::protocol::{FaultCode, RequestFault};
use weft_endpoint::inventory::Access;
use weft_proto::nvme::types::Nsid;

/// Executes one command on the first subsystem: `add NSID SOURCE`, `remove NSID`,
/// `resize NSID BLOCKS`, `deny` or `allow` (all hosts). The answer is a line with the new
/// generation, or with the reason why the command failed.
pub fn carry_out(order: &str, served: &Served) -> String {
    let changed = served
        .change(ChangeMode { force: true, dry_run: false }, |state| edit(order, state, served));
    match changed {
        Ok(changed) => format!("inventory: generation {}", changed.generation),
        Err(e) => format!("inventory: cannot {order}: {e}"),
    }
}

fn edit(order: &str, state: &mut ServedState, served: &Served) -> Result<(), RequestFault> {
    let words: Vec<&str> = order.split_whitespace().collect();
    let unknown = || RequestFault::new(FaultCode::Invalid, format!("\"{order}\" is not a command"));
    let number = |word: &str| word.parse::<u32>().map(Nsid).map_err(|_| unknown());
    let subsystem = state.subsystems.first_mut().ok_or_else(unknown)?;
    match words[..] {
        ["add", at, url] => {
            let name = Some(at.to_owned());
            subsystem.namespaces.push(DesiredNamespace {
                name,
                ..DesiredNamespace::new(number(at)?, url.to_owned())
            });
        }
        ["remove", at] => {
            let at = number(at)?;
            subsystem.namespaces.retain(|namespace| namespace.nsid != at);
        }
        ["resize", at, blocks] => {
            let (at, blocks): (_, u64) = (number(at)?, blocks.parse().map_err(|_| unknown())?);
            let now = served.inventory.now();
            let block_bytes =
                now.namespace(&subsystem.nqn, at).map_or(0, |it| it.device.geometry().block_bytes);
            subsystem.namespace_mut(at)?.bytes = Some(blocks * u64::from(block_bytes));
        }
        ["deny"] => {
            (subsystem.hosts, subsystem.initiators) =
                (Access::Only([].into()), Access::Only([].into()))
        }
        ["allow"] => (subsystem.hosts, subsystem.initiators) = (Access::Any, Access::Any),
        _ => return Err(unknown()),
    }
    Ok(())
}
