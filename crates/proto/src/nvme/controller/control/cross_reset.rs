//! Cross-Controller Reset (Base 2.3 §5.4.3, from TP8028): a host asks another controller of the
//! subsystem to reset one that it lost, and learns when no device holds a write of it.
//!
//! The owner ends the association of the named controller, as if its host had gone, and the
//! operation is over when that has ended. What has ended already is answered at once (Immediate
//! Reset Successful); everything else has an entry in the log page until then.

use super::ControllerCore;
use crate::limits::CROSS_RESETS_EXECUTED_MAX;
use crate::nvme::controller::admin::event::ControlEvent;
use crate::nvme::controller::admin::slot::AdminStage;
use crate::nvme::controller::fault::{Fault, at};
use crate::nvme::controller::subsystem::Subsystem;
use crate::nvme::cqe::Cqe;
use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::feature::{AsyncEventBits, AsyncNotice};
use crate::nvme::log_page::{CrossResetEntry, CrossResetStatus, LogPageId};
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::Cntlid;
use crate::stream::Tag;

/// State of a controller for which a reset was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrossReset {
    /// It has ended, and no device holds anything of it.
    Over,
    /// It exists, or is ending: its association must be ended.
    UnderWay,
    /// It is not for this subsystem, or not for this host, to say.
    Refused(Status),
}

impl Subsystem {
    /// Decides on the request of the controller `from`'s host to reset another one.
    pub fn cross_reset(&self, from: Cntlid, named: CrossControllerReset) -> CrossReset {
        let Some((_, host)) = self.controllers().find(|(cntlid, _)| *cntlid == from) else {
            return CrossReset::Refused(Status::INTERNAL_ERROR);
        };
        let is_named = |instance: crate::nvme::controller::instance::Instance| {
            (instance.ciu, instance.cirn) == (named.ciu, named.cirn)
        };
        match self.instance(named.icid) {
            // A host resets its own controllers only.
            Some((owner, instance)) if is_named(instance) && owner == host => CrossReset::UnderWay,
            Some((_, instance)) if is_named(instance) => CrossReset::Refused(Status::INVALID_FIELD),
            // An instance of this process that is there no more has ended, or was reset by its
            // host. Of one of before, or of another process, only those know who alone can write to
            // what is served.
            _ if self.made_instance(named.cirn) || self.is_alone() => CrossReset::Over,
            _ => CrossReset::Refused(Status::INVALID_CONTROLLER_ID),
        }
    }
}

impl ControllerCore {
    /// The command: the subsystem is to say what can be done.
    pub(super) fn begin_cross_reset(&mut self, sqe: &Sqe) -> Result<AdminStage, Fault> {
        let named = CrossControllerReset::decode(sqe);
        // The identifier alone does not say that it is this controller: the first one of a process
        // that was started again has that of the first one before, which is the one that its host
        // has lost.
        let own = self.link.instance();
        if named.icid == self.cntlid() && (named.ciu, named.cirn) == (own.ciu, own.cirn) {
            return Err(Fault::field(at::CDW10));
        }
        let is_named =
            |entry: &&CrossResetEntry| (entry.icid, entry.ciu) == (named.icid, named.ciu);
        if self.cross_resets.under_way().find(is_named).is_some() {
            return Err(Fault::new(Status::CROSS_CONTROLLER_RESET_IN_PROGRESS));
        }
        let held = self
            .slots
            .iter()
            .filter(|slot| matches!(slot.stage, AdminStage::CrossReset(_)))
            .count();
        if self.cross_resets.under_way().count() + held >= usize::from(CROSS_RESETS_EXECUTED_MAX) {
            return Err(Fault::new(Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED));
        }
        self.emit(ControlEvent::CrossReset(named));
        Ok(AdminStage::CrossReset(named))
    }

    /// The answer to [`ControlEvent::CrossReset`]. If it is under way,
    /// [`ControllerCore::cross_reset_over`] follows.
    pub fn cross_reset(&mut self, named: CrossControllerReset, found: CrossReset) {
        let waits = self.slots.iter().position(|slot| slot.stage == AdminStage::CrossReset(named));
        let Some(index) = waits else { return };
        let cid = self.slots[index].cid;
        let mut cqe = Cqe::new(cid, Status::SUCCESS);
        match found {
            CrossReset::Over => {
                cqe.result = u64::from(CrossControllerReset::IMMEDIATE_RESET_SUCCESSFUL)
            }
            CrossReset::UnderWay => self.cross_resets.add(CrossResetEntry {
                icid: named.icid,
                ciu: named.ciu,
                acid: self.cntlid(),
                ccrs: CrossResetStatus::IN_PROGRESS,
                ccrf: CrossResetEntry::VALIDATED | CrossResetEntry::INITIATED,
            }),
            CrossReset::Refused(status) => cqe = Cqe::refuse(cid, status),
        }
        self.complete(Tag(index as u16), cqe);
    }

    /// No device holds a write of this controller.
    pub fn cross_reset_over(&mut self, named: CrossControllerReset) {
        if self.cross_resets.complete(named) {
            let notice = AsyncNotice::CROSS_CONTROLLER_RESET_COMPLETED;
            self.raise(
                AsyncEventBits::CROSS_CONTROLLER_RESET,
                notice,
                LogPageId::CROSS_CONTROLLER_RESET,
            );
        }
    }
}
