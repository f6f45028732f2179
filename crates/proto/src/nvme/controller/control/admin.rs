//! The commands of the admin queue.

use std::time::Duration;

use super::ControllerCore;
use crate::limits::{ABORTS_MAX, ERROR_ENTRIES_MAX};
use crate::nvme::controller::access::AnaLog;
use crate::nvme::controller::admin::cross_reset_log::CrossResetLog;
use crate::nvme::controller::admin::error_log::CommandError;
use crate::nvme::controller::admin::event::{AbortTicket, ControlEvent, Next};
use crate::nvme::controller::admin::events::Events;
use crate::nvme::controller::admin::features::{Effect, Value};
use crate::nvme::controller::admin::identify::IdentifyRequest;
use crate::nvme::controller::admin::log_request::LogRequest;
use crate::nvme::controller::admin::registers::Change;
use crate::nvme::controller::admin::slot::{AdminStage, Production};
use crate::nvme::controller::admin::{events, features, support};
use crate::nvme::controller::authentication::is_before_tls;
use crate::nvme::controller::fault::{Fault, at, data_to_host};
use crate::nvme::controller::identity::Identity;
use crate::nvme::controller::link::Link;
use crate::nvme::controller::namespace::{Namespace, NamespaceMap};
use crate::nvme::copy::HostBehavior;
use crate::nvme::cqe::Cqe;
use crate::nvme::deviation::Deviation;
use crate::nvme::fabrics::Property;
use crate::nvme::feature::AsyncEventBits;
use crate::nvme::identify::{IDENTIFY_BYTES, NamespaceList};
use crate::nvme::log_page::{
    EffectsLog, ErrorEntry, FeatureEffectsLog, FirmwareSlotLog, LogPageId, SmartLog,
    SupportedLogPages,
};
use crate::nvme::opcode::{AdminOpcode, FabricsType};
use crate::nvme::reservation::ReservationNotification;
use crate::nvme::sqe::{Fuse, Sqe};
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Nsid, Qid};
use crate::nvme::wire::Ascii;
use crate::stream::Tag;

/// Outcome of a command that was not refused.
enum Answer {
    /// Completed, with this in dwords 0 and 1.
    Done(u64),
    /// Completed once this many bytes of data are produced.
    Data(Production, u32),
    /// Completed once this many bytes of the host's data are there.
    Fetch(AdminStage, u32),
    /// Completed later.
    Wait(AdminStage),
    /// Completed by an event that is already there, behind others.
    Queued,
}

/// Bytes of an extended host identifier.
const HOST_IDENTIFIER_BYTES: u32 = 16;

impl ControllerCore {
    pub(super) fn execute(&mut self, now: Duration, tag: Tag, sqe: &Sqe, in_capsule: u32) -> Next {
        match self.dispatch(now, tag, sqe, in_capsule) {
            Ok(Answer::Done(result)) => {
                let cqe = Cqe { result, ..Cqe::new(sqe.cid(), Status::SUCCESS) };
                Next::Reply { cqe: self.stamp(cqe), data_bytes: 0 }
            }
            Ok(Answer::Data(production, bytes)) => {
                self.held(tag, sqe, AdminStage::Produce(production), Next::Produce { bytes })
            }
            Ok(Answer::Fetch(stage, bytes)) => self.held(tag, sqe, stage, Next::Fetch { bytes }),
            Ok(Answer::Wait(stage)) => self.held(tag, sqe, stage, Next::Hold),
            Ok(Answer::Queued) => Next::Hold,
            Err(fault) => self.refuse(sqe, fault),
        }
    }

    fn held(&mut self, tag: Tag, sqe: &Sqe, stage: AdminStage, next: Next) -> Next {
        if self.hold(tag, sqe.cid(), stage) {
            next
        } else {
            self.refuse(sqe, Fault::new(Status::INTERNAL_ERROR))
        }
    }

    fn refuse(&mut self, sqe: &Sqe, fault: Fault) -> Next {
        // Base §6.3: a Connect that fails leaves no entry in the log.
        let is_fabrics = sqe.opcode() == AdminOpcode::FABRICS.0;
        let more = !is_fabrics || sqe.fabrics_type() != FabricsType::CONNECT.0;
        if more {
            let nsid = if is_fabrics { Nsid(0) } else { sqe.nsid() };
            let error = CommandError {
                qid: Qid(0),
                cid: sqe.cid(),
                opcode: sqe.opcode(),
                fault,
                do_not_retry: fault.do_not_retry(),
                nsid,
                lba: 0,
            };
            self.link.log_error(error);
        }
        let cqe = Cqe { more, ..fault.cqe(sqe) };
        Next::Reply { cqe: self.stamp(cqe), data_bytes: 0 }
    }

    fn dispatch(
        &mut self,
        now: Duration,
        tag: Tag,
        sqe: &Sqe,
        in_capsule: u32,
    ) -> Result<Answer, Fault> {
        if sqe.fuse() != Fuse::Normal {
            return Err(Fault::field(at::FLAGS));
        }
        let opcode = AdminOpcode(sqe.opcode());
        if opcode == AdminOpcode::FABRICS {
            return self.fabrics(now, sqe);
        }
        if self.awaits_tls && !is_before_tls(opcode) {
            return Err(Fault::at(Status::OPERATION_DENIED, at::OPCODE));
        }
        // Base §3.5.1: until it is enabled a controller takes Fabrics commands only.
        if !self.registers.operational() {
            return Err(Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::OPCODE));
        }
        if !support::admin_command(self.identity.config.kind, opcode) {
            return Err(Fault::at(Status::INVALID_OPCODE, at::OPCODE));
        }
        match opcode {
            AdminOpcode::GET_LOG_PAGE => self.get_log_page(sqe),
            AdminOpcode::IDENTIFY => self.identify(sqe),
            AdminOpcode::ABORT => self.abort(tag, sqe),
            AdminOpcode::SET_FEATURES => self.set_features(now, sqe, in_capsule),
            AdminOpcode::GET_FEATURES => self.get_features(sqe),
            AdminOpcode::ASYNC_EVENT_REQUEST => self.async_event_request(tag, sqe),
            AdminOpcode::KEEP_ALIVE => self.keep_alive(now, sqe),
            AdminOpcode::CROSS_CONTROLLER_RESET => {
                no_namespace(sqe).and_then(|()| self.begin_cross_reset(sqe)).map(Answer::Wait)
            }
            _ => Err(Fault::at(Status::INVALID_OPCODE, at::OPCODE)),
        }
    }

    fn fabrics(&mut self, now: Duration, sqe: &Sqe) -> Result<Answer, Fault> {
        match FabricsType(sqe.fabrics_type()) {
            FabricsType::PROPERTY_GET => {
                self.registers.read(Property::decode(sqe)).map(Answer::Done)
            }
            FabricsType::PROPERTY_SET => {
                let change = self.registers.write(Property::decode(sqe), &mut self.deviations)?;
                self.react(now, change);
                Ok(Answer::Done(0))
            }
            // Base §6.3: the queue exists already.
            FabricsType::CONNECT => Err(Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::NSID)),
            _ => Err(Fault::at(Status::INVALID_OPCODE, at::NSID)),
        }
    }

    /// Follows a write to CC. That no queue is admitted any more comes before the request to stop
    /// those that there are.
    fn react(&mut self, now: Duration, change: Change) {
        self.link.set_accepts_queues(self.registers.accepts_queues());
        match change {
            Change::None => {}
            Change::Enabled => {
                self.link.renew();
                self.keep_alive.restart(now);
            }
            Change::Quiesce { flush, reset } => {
                if reset {
                    self.reset();
                }
                self.emit(ControlEvent::Quiesce { flush });
            }
        }
    }

    fn identify(&mut self, sqe: &Sqe) -> Result<Answer, Fault> {
        let request = IdentifyRequest::parse(sqe, self.identity.config.kind, &self.namespaces)?;
        data_to_host(sqe, IDENTIFY_BYTES as u32, self.identity.port.host_memory)?;
        self.deviations.note_if(request.is_of_nobody(sqe), Deviation::CommandSetsOfNobody);
        Ok(Answer::Data(Production::Identify(request), IDENTIFY_BYTES as u32))
    }

    fn get_log_page(&mut self, sqe: &Sqe) -> Result<Answer, Fault> {
        let config = &self.identity.config;
        let request =
            LogRequest::parse(sqe, config.kind, config.transfer_bytes_max, &self.namespaces)?;
        data_to_host(sqe, request.bytes, self.identity.port.host_memory)?;
        let request = request.check_offset(self.log_bytes(&request))?;
        self.deviations.note_if(LogRequest::names_namespace(sqe), Deviation::LogPageOfNamespace);
        Ok(Answer::Data(Production::Log(request), request.bytes))
    }

    fn get_features(&mut self, sqe: &Sqe) -> Result<Answer, Fault> {
        let context = context(&self.identity, &self.namespaces, &self.link, &self.events);
        let value = self.features.read(sqe, &context)?;
        self.deviations.note_if(features::selects(sqe), Deviation::FeatureSelect);
        match value {
            Value::Dword(value) => Ok(Answer::Done(u64::from(value))),
            Value::HostIdentifier => {
                data_to_host(sqe, HOST_IDENTIFIER_BYTES, self.identity.port.host_memory)?;
                Ok(Answer::Data(Production::HostIdentifier, HOST_IDENTIFIER_BYTES))
            }
            Value::HostBehavior => {
                let bytes = HostBehavior::BYTES as u32;
                data_to_host(sqe, bytes, self.identity.port.host_memory)?;
                Ok(Answer::Data(Production::HostBehavior, bytes))
            }
        }
    }

    fn set_features(&mut self, now: Duration, sqe: &Sqe, in_capsule: u32) -> Result<Answer, Fault> {
        // The borrows are of single fields, so that the features can change meanwhile.
        let context = context(&self.identity, &self.namespaces, &self.link, &self.events);
        match self.features.set(sqe, &context)? {
            Effect::None => {}
            Effect::Queues(wanted) => return Ok(Answer::Wait(self.ask_for_queues(wanted))),
            Effect::Events(bits) => {
                self.deviations.note_if(
                    !features::are_offered(context.kind, bits),
                    Deviation::EventsNotOffered,
                );
                self.events.enable(bits);
            }
            Effect::HostBehavior => {
                let bytes = self.behavior_bytes(sqe, in_capsule)?;
                return Ok(Answer::Fetch(AdminStage::HostBehavior, bytes));
            }
            Effect::KeepAlive => self.keep_alive.restart(now),
            Effect::Persist { nsid, persist } => return Ok(self.persist(nsid, persist)),
        }
        Ok(Answer::Done(0))
    }

    /// Reservation Persistence (Base 2.1 §5.2.26.1.28) is the owner's to change: it may have to
    /// store something.
    fn persist(&mut self, nsid: Nsid, persist: bool) -> Answer {
        let has = |namespace: &&Namespace| {
            namespace.reservations.is_some() && [namespace.nsid, Nsid::ALL].contains(&nsid)
        };
        let meant: Vec<Nsid> =
            self.namespaces.iter().filter(has).map(|namespace| namespace.nsid).collect();
        if meant.is_empty() {
            return Answer::Done(0);
        }
        let ticket = self.next_reservation_ticket();
        meant.iter().for_each(|&nsid| self.emit(ControlEvent::Persist { ticket, nsid, persist }));
        Answer::Wait(AdminStage::Persist { ticket, left: meant.len(), failed: Status::SUCCESS })
    }

    fn keep_alive(&mut self, now: Duration, sqe: &Sqe) -> Result<Answer, Fault> {
        no_namespace(sqe)?;
        self.keep_alive.restart(now);
        Ok(Answer::Done(0))
    }

    fn async_event_request(&mut self, tag: Tag, sqe: &Sqe) -> Result<Answer, Fault> {
        no_namespace(sqe)?;
        match self.events.request(tag) {
            Ok(Some(event)) => Ok(Answer::Done(u64::from(event.encode()))),
            Ok(None) => Ok(Answer::Wait(AdminStage::Event)),
            Err(_) => Err(Fault::new(Status::ASYNC_EVENT_LIMIT_EXCEEDED)),
        }
    }

    /// Abort (Base §5.1): dword 0 of the completion is 0 where the command was aborted, 1 where it
    /// was not. An aborted command completes first. nvmet and SPDK know no limit, so that a host
    /// which sends more than ACL allows gets an answer that is true, and nothing is kept for it.
    fn abort(&mut self, tag: Tag, sqe: &Sqe) -> Result<Answer, Fault> {
        no_namespace(sqe)?;
        let (sqid, cid) = (Qid(sqe.dword(10) as u16), Cid((sqe.dword(10) >> 16) as u16));
        if sqid == Qid(0) {
            return self.abort_event_request(tag, sqe.cid(), cid);
        }
        let waiting =
            self.slots.iter().filter(|slot| matches!(slot.stage, AdminStage::Abort(_))).count();
        if waiting >= ABORTS_MAX {
            self.deviations.note(Deviation::TooManyAborts);
            return Ok(Answer::Done(1));
        }
        let ticket: AbortTicket = self.next_ticket();
        self.emit(ControlEvent::Abort { ticket, sqid, cid });
        Ok(Answer::Wait(AdminStage::Abort(ticket)))
    }

    /// The Abort `own` of the command `cid` of the admin queue. Of these commands only Asynchronous
    /// Event Requests wait long enough to be aborted. The Abort is completed behind the request.
    fn abort_event_request(&mut self, tag: Tag, own: Cid, cid: Cid) -> Result<Answer, Fault> {
        let found =
            self.slots.iter().position(|slot| slot.stage == AdminStage::Event && slot.cid == cid);
        let Some(aborted) = found.map(|index| Tag(index as u16)) else {
            return Ok(Answer::Done(1));
        };
        let ticket = self.next_ticket();
        if !self.hold(tag, own, AdminStage::Abort(ticket)) {
            return Err(Fault::new(Status::INTERNAL_ERROR));
        }
        self.events.withdraw(aborted);
        self.complete(aborted, Cqe::new(cid, Status::ABORT_REQUESTED));
        self.abort_result(ticket, true);
        Ok(Answer::Queued)
    }

    /// Writes the data of a command.
    pub(super) fn fill(&mut self, now: Duration, production: Production, out: &mut [u8]) {
        match production {
            Production::Identify(request) => {
                request.fill(&self.identity, self.link.instance(), &self.namespaces, out)
            }
            Production::HostBehavior => out.copy_from_slice(&self.features.behavior().encode()),
            Production::HostIdentifier => out.copy_from_slice(&self.identity.host.id.0),
            Production::Log(request) => {
                request.copy(&self.log(now, &request), out);
                if !request.retain {
                    self.log_was_read(request.page);
                }
                if request.removes_completed() {
                    self.cross_resets.remove_completed();
                }
            }
        }
    }

    /// Bytes of a log page.
    fn log_bytes(&self, request: &LogRequest) -> u64 {
        let bytes = match request.page {
            LogPageId::SUPPORTED_PAGES => SupportedLogPages::BYTES,
            LogPageId::ERROR_INFORMATION => ERROR_ENTRIES_MAX * ErrorEntry::BYTES,
            LogPageId::SMART => SmartLog::BYTES,
            LogPageId::FIRMWARE_SLOT => FirmwareSlotLog::BYTES,
            LogPageId::FEATURE_EFFECTS => FeatureEffectsLog::BYTES,
            LogPageId::ANA => AnaLog::BYTES_MAX,
            LogPageId::CROSS_CONTROLLER_RESET => CrossResetLog::BYTES,
            LogPageId::RESERVATION_NOTIFICATION => ReservationNotification::BYTES,
            LogPageId::DISCOVERY => {
                return self
                    .discovery
                    .page_bytes(self.identity.host.nqn.as_ref(), &self.identity.port);
            }
            _ => EffectsLog::BYTES,
        };
        bytes as u64
    }

    fn log(&self, now: Duration, request: &LogRequest) -> Vec<u8> {
        let kind = self.identity.config.kind;
        match request.page {
            LogPageId::SUPPORTED_PAGES => support::supported_pages(kind).encode(),
            LogPageId::ERROR_INFORMATION => self.link.error_page(),
            LogPageId::SMART => self.link.health.smart_log(now.saturating_sub(self.since)).encode(),
            LogPageId::FIRMWARE_SLOT => self.firmware_slots().encode(),
            LogPageId::CHANGED_NAMESPACES => self.changed_namespaces().encode(),
            LogPageId::ANA => self.ana.page(request.groups_only()),
            LogPageId::CROSS_CONTROLLER_RESET => self.cross_resets.page(),
            LogPageId::RESERVATION_NOTIFICATION => self.notices.page(),
            LogPageId::COMMAND_EFFECTS => support::command_effects(kind, &self.namespaces).encode(),
            LogPageId::FEATURE_EFFECTS => support::feature_effects(kind, &self.namespaces).encode(),
            LogPageId::DISCOVERY => {
                self.discovery.page(self.identity.host.nqn.as_ref(), &self.identity.port)
            }
            // NVMe-MI is not spoken: no command of it has an effect.
            _ => vec![0; EffectsLog::BYTES],
        }
    }

    fn firmware_slots(&self) -> FirmwareSlotLog {
        let mut log = FirmwareSlotLog { afi: 1, ..FirmwareSlotLog::default() };
        log.frs[0] = Ascii::new(&self.identity.config.firmware);
        log
    }

    /// The log page has room for 1,024 identifiers, which is as many as there can be namespaces.
    fn changed_namespaces(&self) -> NamespaceList {
        NamespaceList(self.changed.iter().copied().collect())
    }

    /// The host has read a log page without asking to retain the event that goes with it.
    fn log_was_read(&mut self, page: LogPageId) {
        match page {
            LogPageId::CHANGED_NAMESPACES => {
                self.changed.clear();
                self.events.clear(AsyncEventBits::NAMESPACE_ATTRIBUTE);
            }
            LogPageId::ANA => self.events.clear(AsyncEventBits::ANA_CHANGE),
            LogPageId::CROSS_CONTROLLER_RESET => {
                self.events.clear(AsyncEventBits::CROSS_CONTROLLER_RESET)
            }
            LogPageId::RESERVATION_NOTIFICATION => {
                self.notices.was_read();
                self.events.clear(events::RESERVATION);
            }
            LogPageId::DISCOVERY => self.events.clear(AsyncEventBits::DISCOVERY_LOG_CHANGE),
            _ => {}
        }
    }
}

fn context<'a>(
    identity: &Identity,
    namespaces: &'a NamespaceMap,
    link: &Link,
    events: &Events,
) -> features::Context<'a> {
    features::Context {
        kind: identity.config.kind,
        namespaces,
        io_queues_max: identity.config.io_queues_max,
        io_queues: link.io_queues(),
        events: events.enabled(),
    }
}

const _: () = assert!(crate::limits::NAMESPACES_MAX as usize <= NamespaceList::ENTRIES_MAX);

/// Commands that are about the controller as a whole take no namespace identifier (Base §3.3.3.1).
fn no_namespace(sqe: &Sqe) -> Result<(), Fault> {
    if sqe.nsid() == Nsid(0) { Ok(()) } else { Err(Fault::field(at::NSID)) }
}
