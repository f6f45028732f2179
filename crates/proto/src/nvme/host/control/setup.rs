//! From Connect to the first I/O: the sequence of steps, and what is checked at each.

use core::time::Duration;

use super::{AssociationStage, HostControl};
use crate::nvme::cqe::Cqe;
use crate::nvme::fabrics::{ConnectResponse, Property};
use crate::nvme::feature::{AsyncEventBits, QueueCounts};
use crate::nvme::host::HostAction;
use crate::nvme::host::config::AdminData;
use crate::nvme::host::error::{HostError, Incompatibility, Violation};
use crate::nvme::host::request::{self, AssociationStep, Purpose};
use crate::nvme::host::timer::Timer;
use crate::nvme::identify::{
    Cns, ControllerType, Csi, IDENTIFY_BYTES, IdentifyController, IdentifyNvmController,
};
use crate::nvme::property::{
    Capabilities, Configuration, ControllerStatus, PropertyOffset, Version,
};
use crate::nvme::types::{Cntlid, Nqn, Nsid, Qid};

/// First wait between two looks at CSTS; it doubles up to [`STATUS_INTERVAL_MAX`].
pub(super) const STATUS_INTERVAL: Duration = Duration::from_millis(5);
/// Longest wait between two looks at CSTS.
const STATUS_INTERVAL_MAX: Duration = Duration::from_millis(200);

/// Events of an I/O controller that are acted upon.
const IO_EVENTS: u32 = AsyncEventBits::NAMESPACE_ATTRIBUTE | AsyncEventBits::CROSS_CONTROLLER_RESET;

/// Controller identifiers from here on are reserved (Base, "Controller ID").
const CNTLID_RESERVED: Cntlid = Cntlid(0xfff0);

impl HostControl {
    /// Sends Connect.
    pub(super) fn start(&mut self, now: Duration) {
        self.stage = AssociationStage::Setup;
        self.remote.cntlid = self.config.cntlid;
        let sqe = self.connect(Qid(0)).encode();
        let data = AdminData::Out(self.connect_data());
        self.line(now, AssociationStep::Connect, sqe, data);
    }

    /// A command of the line has completed: on to the next step.
    pub(super) fn line_completed(
        &mut self,
        now: Duration,
        step: AssociationStep,
        cqe: &Cqe,
        data: &[u8],
    ) -> Result<(), HostError> {
        if step == AssociationStep::Connect && !cqe.status.is_success() {
            return Err(self.connect_refused(Qid(0), cqe));
        }
        match step {
            // These may fail without harm.
            AssociationStep::ConfigureEvents => self.look(now),
            AssociationStep::IdentifyNvmController => self.nvm_controller_known(now, cqe, data),
            AssociationStep::ReadAnaLog => self.access_read(now, cqe, data),
            AssociationStep::ReadHealth => self.health_read(now, cqe, data),
            AssociationStep::ReadChangedNamespaces => self.list_namespaces(now, Nsid(0)),
            AssociationStep::IdentifyDescriptors(nsid) => {
                self.descriptors_known(now, nsid, cqe, data)
            }
            AssociationStep::IdentifyNamespace(nsid) => self.namespace_known(now, nsid, cqe, data),
            AssociationStep::ListNamespaces
                if self.stage == AssociationStage::Ready && !cqe.status.is_success() =>
            {
                self.list_failed(now)
            }
            _ if !cqe.status.is_success() => return Err(refused(step, cqe)),
            AssociationStep::Connect => return self.connected(now, cqe),
            AssociationStep::ReadCapabilities => {
                self.capabilities_known(now, Capabilities(cqe.result))
            }
            AssociationStep::ReadVersion => {
                return self.version_known(now, Version(cqe.result as u32));
            }
            AssociationStep::Enable => self.await_status(now, AssociationStep::AwaitReady),
            AssociationStep::Reset => self.await_status(now, AssociationStep::AwaitStopped),
            AssociationStep::Shutdown => self.await_status(now, AssociationStep::AwaitShutdown),
            AssociationStep::AwaitReady => {
                return self.status_known(now, ControllerStatus(cqe.result as u32));
            }
            AssociationStep::AwaitStopped | AssociationStep::AwaitShutdown => {
                self.ending_status_known(now, step, ControllerStatus(cqe.result as u32))
            }
            AssociationStep::IdentifyController => return self.controller_known(now, data),
            AssociationStep::SetQueueCount => {
                self.queues_granted(now, QueueCounts::decode(cqe.result as u32))
            }
            AssociationStep::ListNamespaces => return self.namespaces_listed(now, data),
            AssociationStep::ReadDiscoveryLog => return self.discovery_read(now, data),
            AssociationStep::OpenQueue(_)
            | AssociationStep::KeepAlive
            | AssociationStep::Abort
            | AssociationStep::CrossReset
            | AssociationStep::ReadCrossResetLog => {}
        }
        Ok(())
    }

    fn property_get(&mut self, now: Duration, step: AssociationStep, offset: PropertyOffset) {
        self.line(now, step, Property::get(offset), AdminData::None);
    }

    pub(super) fn identify(&mut self, now: Duration, step: AssociationStep, cns: Cns, nsid: Nsid) {
        let data = AdminData::In { len: IDENTIFY_BYTES as u32 };
        self.line(now, step, request::identify(cns, nsid, Csi::NVM), data);
    }

    fn connected(&mut self, now: Duration, cqe: &Cqe) -> Result<(), HostError> {
        let response = ConnectResponse::decode(cqe.result as u32);
        check_authentication(response)?;
        let asked = self.config.cntlid;
        let other = asked < CNTLID_RESERVED && response.cntlid != asked;
        if response.cntlid >= CNTLID_RESERVED || other {
            return Err(HostError::Violation(Violation::ControllerId(response.cntlid)));
        }
        self.remote.cntlid = response.cntlid;
        self.property_get(now, AssociationStep::ReadCapabilities, PropertyOffset::CAP);
        Ok(())
    }

    fn capabilities_known(&mut self, now: Duration, capabilities: Capabilities) {
        self.remote.capabilities = capabilities;
        let entries = capabilities.queue_entries().min(self.config.queue_entries.into());
        self.queue_entries = entries as u16;
        self.property_get(now, AssociationStep::ReadVersion, PropertyOffset::VS);
    }

    /// Enables the controller with the NVM command set, entries of the usual size and its smallest
    /// memory page, which nothing on a fabric depends on.
    fn version_known(&mut self, now: Duration, version: Version) -> Result<(), HostError> {
        self.remote.version = version;
        let capabilities = self.remote.capabilities;
        let command_set =
            if capabilities.has(Capabilities::NVM_COMMAND_SET) || self.config.discovery {
                0
            } else if capabilities.has(Capabilities::COMMAND_SETS) {
                Configuration::ALL_COMMAND_SETS
            } else {
                return Err(HostError::Incompatible(Incompatibility::CommandSet));
            };
        let page = capabilities.page_bytes_min().trailing_zeros() - 12;
        let cc = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES | command_set | page << 7;
        self.configuration = Configuration(cc);
        self.set_configuration(now, AssociationStep::Enable);
        let limit = Duration::from_millis(capabilities.timeout_ms().into())
            .saturating_add(self.config.command_timeout);
        self.limit_stage(now, AssociationStep::AwaitReady, limit);
        Ok(())
    }

    /// Writes CC.
    pub(super) fn set_configuration(&mut self, now: Duration, step: AssociationStep) {
        self.line(
            now,
            step,
            Property::set(PropertyOffset::CC, self.configuration.0.into()),
            AdminData::None,
        );
    }

    /// Reads CSTS now, and again from time to time until it says what `step` waits for or the timer
    /// of the stage goes off.
    pub(super) fn await_status(&mut self, now: Duration, step: AssociationStep) {
        self.status_interval = STATUS_INTERVAL;
        self.property_get(now, step, PropertyOffset::CSTS);
    }

    /// Reads CSTS again.
    pub(super) fn read_status(&mut self, now: Duration) {
        let step = match self.stage {
            AssociationStage::Resetting => AssociationStep::AwaitStopped,
            AssociationStage::ShuttingDown => AssociationStep::AwaitShutdown,
            _ => AssociationStep::AwaitReady,
        };
        self.property_get(now, step, PropertyOffset::CSTS);
    }

    /// CSTS has been read after the controller was enabled.
    fn status_known(&mut self, now: Duration, status: ControllerStatus) -> Result<(), HostError> {
        if status.fatal() {
            return Err(HostError::Violation(Violation::Fatal));
        }
        if !status.ready() {
            self.read_status_later(now);
            return Ok(());
        }
        self.timers.stop(Timer::Stage);
        self.schedule_keep_alive(now);
        self.identify(now, AssociationStep::IdentifyController, Cns::CONTROLLER, Nsid(0));
        Ok(())
    }

    pub(super) fn read_status_later(&mut self, now: Duration) {
        self.timers.set(Timer::Status, now.saturating_add(self.status_interval));
        self.status_interval = (self.status_interval * 2).min(STATUS_INTERVAL_MAX);
    }

    fn controller_known(&mut self, now: Duration, data: &[u8]) -> Result<(), HostError> {
        let malformed =
            |source| HostError::Malformed { step: AssociationStep::IdentifyController, source };
        let id = IdentifyController::decode(data).map_err(malformed)?;
        self.check_identity(&id)?;
        if !self.config.discovery {
            check_abilities(&id)?;
            // MAXCMD is not told by every controller.
            let entries = if id.maxcmd == 0 { u16::MAX } else { id.maxcmd.max(2) };
            self.queue_entries = self.queue_entries.min(entries);
        }
        *self.remote.identify = id;
        if self.config.discovery {
            self.configure_events(now);
        } else if self.has_command_sets() {
            self.identify(
                now,
                AssociationStep::IdentifyNvmController,
                Cns::COMMAND_SET_CONTROLLER,
                Nsid(0),
            );
        } else {
            self.ask_for_queues(now);
        }
        Ok(())
    }

    /// Checks that the controller is the one that was connected to, of the right kind.
    fn check_identity(&self, id: &IdentifyController) -> Result<(), HostError> {
        if id.cntlid != self.remote.cntlid {
            let violation =
                Violation::ControllerIdChanged { connect: self.remote.cntlid, identify: id.cntlid };
            return Err(HostError::Violation(violation));
        }
        let incompatibility = match (self.config.discovery, id.cntrltype) {
            (false, ControllerType::DISCOVERY) => Incompatibility::DiscoveryController,
            // Older discovery controllers do not tell their type.
            (false, _) if self.config.subsystem.as_str() == Nqn::DISCOVERY => {
                Incompatibility::DiscoveryController
            }
            (false, ControllerType::ADMINISTRATIVE) => Incompatibility::AdministrativeController,
            (true, ControllerType::IO | ControllerType::ADMINISTRATIVE) => {
                Incompatibility::NotDiscovery
            }
            // A discovery subsystem may go by a unique name and still be reached by the well-known
            // one. Names that cannot be read are borne: nothing depends on them.
            (false, _) if id.subnqn.nqn().is_ok_and(|name| name != self.config.subsystem) => {
                return Err(HostError::Violation(Violation::Subsystem));
            }
            _ => return Ok(()),
        };
        Err(HostError::Incompatible(incompatibility))
    }

    /// Returns whether the controller can be asked about command sets (Base 2.0, or a part of it in
    /// an older controller).
    pub(super) fn has_command_sets(&self) -> bool {
        self.remote.version >= Version::V2_0
            || self.remote.capabilities.has(Capabilities::COMMAND_SETS)
    }

    fn nvm_controller_known(&mut self, now: Duration, cqe: &Cqe, data: &[u8]) {
        if cqe.status.is_success() {
            self.remote.nvm = IdentifyNvmController::decode(data).ok();
        }
        self.ask_for_queues(now);
    }

    fn ask_for_queues(&mut self, now: Duration) {
        let sqe = request::set_queue_count(self.config.io_queues);
        self.line(now, AssociationStep::SetQueueCount, sqe, AdminData::None);
    }

    fn queues_granted(&mut self, now: Duration, granted: QueueCounts) {
        let count =
            u32::from(self.config.io_queues).min(granted.submission).min(granted.completion);
        self.opening = (1..=count as u16).map(Qid).collect();
        self.configure_events(now);
    }

    /// Asks for the events that are acted upon, where the controller has any of them.
    fn configure_events(&mut self, now: Duration) {
        let wanted = match self.config.discovery {
            true => AsyncEventBits::DISCOVERY_LOG_CHANGE,
            false if self.has_access_states() => IO_EVENTS | AsyncEventBits::ANA_CHANGE,
            false => IO_EVENTS,
        };
        let events = self.remote.identify.oaes & wanted;
        if events == 0 || !self.config.lasts() {
            return self.look(now);
        }
        self.line(
            now,
            AssociationStep::ConfigureEvents,
            request::configure_events(events),
            AdminData::None,
        );
    }

    /// Begins the association's own work: the log, or the namespaces. Events that come in the
    /// meantime are kept until it has been read.
    fn look(&mut self, now: Duration) {
        self.request_event(now);
        if self.config.discovery { self.read_discovery(now) } else { self.begin_scan(now) }
    }

    /// The discovery log has been read, for the first time or again.
    pub(super) fn discovery_done(&mut self, now: Duration) {
        self.stage = AssociationStage::Ready;
        self.after_look(now);
    }

    /// The namespaces are known: what else has to be known before the I/O queues are opened.
    pub(super) fn namespaces_found(&mut self, now: Duration) {
        if self.has_access_states() { self.read_access(now) } else { self.ask_health(now) }
    }

    /// Opens the I/O queues.
    pub(super) fn open_queues(&mut self, now: Duration) {
        let first = self.opening.first().copied().unwrap_or_default();
        self.limit_stage(now, AssociationStep::OpenQueue(first), self.config.command_timeout);
        for qid in self.opening.clone() {
            self.push(HostAction::OpenQueue { qid, entries: self.queue_entries });
        }
    }

    /// Connect of an I/O queue was answered. Controllers that grant more queues than they have are
    /// borne: one is enough.
    pub(super) fn queue_connected(
        &mut self,
        now: Duration,
        qid: Qid,
        cqe: &Cqe,
    ) -> Result<(), HostError> {
        if self.stage != AssociationStage::Setup || !self.opening.contains(&qid) {
            return Ok(());
        }
        self.opening.retain(|&opening| opening != qid);
        if cqe.status.is_success() {
            check_authentication(ConnectResponse::decode(cqe.result as u32))?;
            self.open.push(qid);
        } else if self.opening.is_empty() && self.open.is_empty() {
            return Err(self.connect_refused(qid, cqe));
        }
        if self.opening.is_empty() {
            self.open.sort_unstable();
            self.timers.stop(Timer::Stage);
            self.stage = AssociationStage::Ready;
            self.push(HostAction::Ready);
            self.after_look(now);
        }
        Ok(())
    }

    /// Keeps one Asynchronous Event Request outstanding, where somebody listens.
    pub(super) fn request_event(&mut self, now: Duration) {
        if self.config.lasts()
            && !self.event_refused
            && self.requests.count(Purpose::AsyncEvent) == 0
        {
            self.send(now, Purpose::AsyncEvent, request::async_event(), AdminData::None, None);
        }
    }
}

/// Checks the needs of a fabric and the NVM command set (Base §4.3.2, §5.17.2.1).
fn check_abilities(id: &IdentifyController) -> Result<(), HostError> {
    let incompatibility = if id.sgls & IdentifyController::SGLS_SUPPORTED == 0 {
        Incompatibility::Sgl
    } else if id.ioccsz < 4 || id.iorcsz < 1 {
        Incompatibility::CapsuleSize { ioccsz: id.ioccsz, iorcsz: id.iorcsz }
    } else if !fits(id.sqes, 6) || !fits(id.cqes, 4) {
        Incompatibility::EntrySize { sqes: id.sqes, cqes: id.cqes }
    } else {
        return Ok(());
    };
    Err(HostError::Incompatible(incompatibility))
}

/// Returns whether an entry size lies between the required (bits 3:0) and the maximum (bits 7:4).
fn fits(sizes: u8, size: u8) -> bool {
    (sizes & 0xf) <= size && size <= sizes >> 4
}

/// Whoever drives the association authenticates, and takes what was required and has been done out
/// of the answer to Connect.
fn check_authentication(response: ConnectResponse) -> Result<(), HostError> {
    if response.authentication & ConnectResponse::SECURE_CHANNEL_REQUIRED != 0 {
        return Err(HostError::Incompatible(Incompatibility::SecureChannel));
    }
    if response.authentication != 0 {
        Err(HostError::Incompatible(Incompatibility::Authentication))
    } else {
        Ok(())
    }
}

/// A refusal that needs no explanation of its own.
pub(super) fn refused(step: AssociationStep, cqe: &Cqe) -> HostError {
    HostError::Refused { step, status: cqe.status, do_not_retry: cqe.do_not_retry }
}
