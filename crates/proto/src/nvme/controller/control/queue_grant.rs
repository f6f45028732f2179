//! The feature Number of Queues (Base §5.27.1.5), whose answer depends on what all controllers of
//! the target have: the owner gives it.

use super::ControllerCore;
use crate::nvme::controller::admin_slot::AdminStage;
use crate::nvme::controller::control_event::{ControlEvent, QueueTicket};
use crate::nvme::controller::fault::Fault;
use crate::nvme::controller::features::queue_counts;
use crate::nvme::cqe::Cqe;
use crate::nvme::status::Status;
use crate::stream::Tag;

impl ControllerCore {
    /// Asks the owner for up to `wanted` I/O queues.
    pub(super) fn ask_for_queues(&mut self, wanted: u16) -> AdminStage {
        let ticket = QueueTicket(self.next_number());
        self.emit(ControlEvent::Queues { ticket, wanted });
        AdminStage::Queues(ticket)
    }

    /// The answer to [`ControlEvent::Queues`]: the I/O queues that are allocated. With none left
    /// (0) the command fails, and the host can try again later.
    pub fn queues_allocated(&mut self, ticket: QueueTicket, queues: u16) {
        let waits = AdminStage::Queues(ticket);
        let Some(index) = self.slots.iter().position(|slot| slot.stage == waits) else { return };
        let cid = self.slots[index].cid;
        let mut cqe = Cqe::new(cid, Status::SUCCESS);
        if queues > 0 {
            self.features.set_queues(queues);
            cqe.result = u64::from(queue_counts(queues));
        } else {
            let fault = Fault::new(Status::INTERNAL_ERROR);
            self.log_set_features(cid, fault, false);
            (cqe.status, cqe.more) = (fault.status, true);
        }
        self.complete(Tag(index as u16), cqe);
    }
}
