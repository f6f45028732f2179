//! Events of the connection manager, and their effect on a queue pair.

use super::{Phase, Side, VerbsQueuePair};
use crate::rdma::QueuePairEvent;
use crate::rdma::verbs::cm::{Id, Reported};
use crate::rdma::verbs::device::Device;
use crate::rdma::verbs::errors;
use crate::rdma::verbs::ffi::cm_event;
use std::io;

impl VerbsQueuePair {
    /// Processes a report of the connection manager.
    pub(super) fn reported(&mut self, reported: Reported) -> Option<QueuePairEvent> {
        match reported.event {
            cm_event::ADDR_RESOLVED => match self.id().and_then(|id| id.resolve_route()) {
                Ok(()) => None,
                Err(e) => self.failed(errors::of_address(self.peer, e)),
            },
            cm_event::ROUTE_RESOLVED => self.route_resolved(),
            cm_event::ADDR_ERROR
            | cm_event::ROUTE_ERROR
            | cm_event::CONNECT_ERROR
            | cm_event::UNREACHABLE => {
                self.failed(errors::of_address(self.peer, errors::error(reported.status)))
            }
            // The other end closed before it knew that the connection was established, and so could
            // do no more than reject it.
            cm_event::REJECTED if self.established => self.over(QueuePairEvent::Disconnected),
            cm_event::REJECTED => {
                self.trouble = Some(errors::of_rejection(self.peer, reported.status));
                self.private_data = reported.private_data;
                self.over(QueuePairEvent::Rejected)
            }
            cm_event::ESTABLISHED => {
                self.established = true;
                if self.side == Side::Asks {
                    self.private_data = reported.private_data;
                }
                Some(QueuePairEvent::Established)
            }
            cm_event::DISCONNECTED => self.over(QueuePairEvent::Disconnected),
            cm_event::DEVICE_REMOVAL => {
                let device = self.device.map_or("", |device| &device.name);
                self.trouble = Some(format!("the RDMA device {device} is gone"));
                self.over(QueuePairEvent::DeviceRemoved)
            }
            // The end of a waiting time, a changed address: nothing that changes the connection.
            _ => None,
        }
    }

    /// The path is known, and with it the device that the queues are made on.
    fn route_resolved(&mut self) -> Option<QueuePairEvent> {
        let context = self.id().ok().and_then(Id::context);
        match context.ok_or_else(|| io::ErrorKind::NotConnected.into()).and_then(Device::of) {
            Ok(device) => {
                self.device = Some(device);
                Some(QueuePairEvent::Resolved)
            }
            Err(e) => self.failed(e),
        }
    }

    fn failed(&mut self, why: io::Error) -> Option<QueuePairEvent> {
        self.trouble = Some(why.to_string());
        self.over(QueuePairEvent::Failed)
    }

    /// The connection has ended with this event.
    fn over(&mut self, event: QueuePairEvent) -> Option<QueuePairEvent> {
        self.phase = Phase::Over;
        Some(event)
    }
}
