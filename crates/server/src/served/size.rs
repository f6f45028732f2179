//! Asks the source of a namespace for its size, and reports the outcome.

use super::{Changed, Served, ShownDifference};
use crate::management::protocol::{FaultCode, RequestFault};
use std::sync::Arc;
use weft_block::{Device, SizeAnswer, units};
use weft_endpoint::inventory::Namespace;
use weft_proto::nvme::types::{Nqn, Nsid};

/// A namespace whose source was asked.
pub(super) struct AskedSize {
    nqn: Nqn,
    nsid: Nsid,
    /// Bytes that were served before.
    before: u64,
    answer: SizeAnswer,
}

impl AskedSize {
    /// Asks the source of a namespace, if all of its bytes are wanted or `wanted` is more than is
    /// known. Waits for it. `None`: it was not asked, as the known size is enough, or there is no
    /// such namespace.
    ///
    /// # Errors
    /// The source did not answer, or cannot be asked while it is open.
    pub(super) fn of(
        served: &Served,
        nqn: &Nqn,
        nsid: Nsid,
        wanted: Option<u64>,
    ) -> Result<Option<Self>, RequestFault> {
        let Some(namespace) = served.inventory.now().namespace(nqn, nsid).cloned() else {
            return Ok(None);
        };
        let device: &Device = namespace.given();
        if wanted.is_some_and(|wanted| wanted <= device.geometry().bytes()) {
            return Ok(None);
        }
        let asked = device.renew_size();
        // Even if one of its paths has not answered.
        served.inventory.look_at_devices();
        let answer = asked?;
        if answer == SizeAnswer::WhenOpened {
            let text = format!(
                "{}: it tells its size only when it is opened: remove namespace {nsid} of {nqn} and add it again",
                device.url()
            );
            return Err(RequestFault::new(FaultCode::Unsupported, text));
        }
        Ok(Some(Self { nqn: nqn.clone(), nsid, before: bytes(&namespace), answer }))
    }

    /// Adds the outcome to the changes.
    pub(super) fn tell(&self, served: &Served, changed: &mut Changed) {
        let Self { nqn, nsid, before, answer } = self;
        let inventory = served.inventory.now();
        let Some(now) = inventory.namespace(nqn, *nsid).map(bytes) else { return };
        changed.generation = inventory.generation();
        let is_told = !changed.changes.is_empty();
        let size = units::format_size(now);
        match answer {
            SizeAnswer::Fixed if !is_told => changed.notes.push(format!(
                "the source of namespace {nsid} of {nqn} keeps the size with which it was made: {size}"
            )),
            _ if now != *before && !is_told => {
                let before = units::format_size(*before);
                let text = format!("serve {size} of namespace {nsid} of {nqn} instead of {before}");
                changed.changes.push(ShownDifference::new("change", text));
            }
            _ if !is_told => changed.notes.push(format!(
                "the source of namespace {nsid} of {nqn} was asked: its size is {size}, as before"
            )),
            _ => {}
        }
    }
}

/// Bytes that are served of a namespace.
fn bytes(namespace: &Arc<Namespace>) -> u64 {
    namespace.blocks * u64::from(namespace.device.geometry().block_bytes)
}
