//! Files and disks that a change would open again while they are served, which their locks forbid.

use super::state::ServedState;
use crate::config::desired::DesiredNamespace;
use crate::management::protocol::{FaultCode, RequestFault};
use weft_block::grammar;
use weft_endpoint::url::without_secret;
use weft_proto::nvme::types::Nqn;

/// A file or disk of a source.
#[derive(PartialEq, Eq)]
struct Opened<'a> {
    path: &'a str,
    read_only: bool,
}

impl Opened<'_> {
    /// Returns whether only one of both can be open.
    fn excludes(&self, other: &Self) -> bool {
        self.path == other.path && !(self.read_only && other.read_only)
    }
}

/// The files and disks of a source that are locked.
fn locked(namespace: &DesiredNamespace) -> impl Iterator<Item = Opened<'_>> {
    grammar::sources(&namespace.source).into_iter().filter_map(|of| {
        let is_locked = !grammar::options(of.url).1.contains(&("lock", "off"));
        let read_only = of.above.contains(&"readonly");
        Some(Opened { path: grammar::path(of.url).filter(|_| is_locked)?, read_only })
    })
}

/// Refuses a change that would open a file or disk again, with other filters or options, while it
/// is served. `shared`: this server locks nothing against others.
///
/// # Errors
/// [`FaultCode::InUse`], with what to do instead.
pub(super) fn check(
    served: &ServedState,
    wanted: &ServedState,
    shared: bool,
) -> Result<(), RequestFault> {
    if shared {
        return Ok(());
    }
    let stays =
        |of: &DesiredNamespace| served.namespaces().any(|(_, it)| it.origin() == of.origin());
    for (_, of) in wanted.namespaces().filter(|(_, of)| !stays(of)) {
        for opened in locked(of) {
            let holds =
                |(_, it): &(&Nqn, &DesiredNamespace)| locked(it).any(|had| had.excludes(&opened));
            let Some((nqn, holder)) = served.namespaces().find(holds) else { continue };
            let text = format!(
                "cannot serve {}: namespace {} of {nqn} has {} open, which is opened once, also with --force; \
                 apply a configuration without that namespace first, and then this one",
                without_secret(&of.source),
                holder.nsid,
                opened.path
            );
            return Err(RequestFault::new(FaultCode::InUse, text));
        }
    }
    Ok(())
}
