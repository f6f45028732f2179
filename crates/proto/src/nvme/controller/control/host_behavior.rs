//! The feature Host Behavior Support, whose value comes as data (Base 2.1 §5.2.26.1.18).

use super::ControllerCore;
use crate::nvme::controller::admin::error_log::CommandError;
use crate::nvme::controller::admin::event::Next;
use crate::nvme::controller::admin::slot::AdminStage;
use crate::nvme::controller::fault::{Fault, at, data_from_host};
use crate::nvme::copy::HostBehavior;
use crate::nvme::cqe::Cqe;
use crate::nvme::opcode::AdminOpcode;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Nsid, Qid};
use crate::stream::Tag;

impl ControllerCore {
    /// Bytes of the data of the command that sets it.
    pub(super) fn behavior_bytes(&self, sqe: &Sqe, in_capsule: u32) -> Result<u32, Fault> {
        let bytes = data_from_host(sqe, in_capsule, self.identity.port.host_memory)?;
        match bytes as usize {
            HostBehavior::BYTES => Ok(bytes),
            _ => Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH)),
        }
    }

    /// The host's data that [`Next::Fetch`] asked for; `Err`: it will not come, or is damaged, and
    /// the command fails with this status.
    pub fn data(&mut self, tag: Tag, data: Result<&[u8], Status>) -> Next {
        let awaits = |stage: AdminStage| stage == AdminStage::HostBehavior;
        let Some(slot) = self.slots.get_mut(tag.index()).filter(|slot| awaits(slot.stage)) else {
            return Next::Hold;
        };
        slot.stage = AdminStage::Idle;
        let cid = slot.cid;
        let behavior = data.map_err(Fault::new).and_then(|data| {
            HostBehavior::decode(data).ok_or(Fault::new(Status::DATA_SGL_LENGTH_INVALID))
        });
        let mut cqe = Cqe::new(cid, Status::SUCCESS);
        if let Err(fault) = behavior.and_then(|behavior| self.set_behavior(behavior)) {
            self.log_set_features(cid, fault, data.is_ok());
            cqe.status = fault.status;
            (cqe.do_not_retry, cqe.more) = (data.is_ok(), true);
        }
        Next::Reply { cqe: self.stamp(cqe), data_bytes: 0 }
    }

    fn set_behavior(&mut self, behavior: HostBehavior) -> Result<(), Fault> {
        self.features.set_behavior(behavior)?;
        self.link.set_copy_formats(behavior.copy_formats);
        Ok(())
    }

    /// Logs the failure of a Set Features command.
    pub(super) fn log_set_features(&self, cid: Cid, fault: Fault, do_not_retry: bool) {
        self.link.log_error(CommandError {
            qid: Qid(0),
            cid,
            opcode: AdminOpcode::SET_FEATURES.0,
            fault,
            do_not_retry,
            nsid: Nsid(0),
            lba: 0,
        });
    }
}
