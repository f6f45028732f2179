//! Scan of the namespaces: the active list, then each namespace.

use core::time::Duration;

use super::{AssociationStage, HostControl};
use crate::limits::REMOTE_NAMESPACES_MAX;
use crate::nvme::cqe::Cqe;
use crate::nvme::feature::{AsyncEvent, AsyncEventType, AsyncNotice};
use crate::nvme::host::HostAction;
use crate::nvme::host::config::AdminData;
use crate::nvme::host::error::{HostError, Violation};
use crate::nvme::host::namespace::{NamespaceProblem, RemoteNamespace};
use crate::nvme::host::request::{self, AssociationStep, Purpose};
use crate::nvme::host::timer::Timer;
use crate::nvme::identify::{Cns, Csi, IdentifyNamespace, NamespaceDescriptors, NamespaceList};
use crate::nvme::log_page::LogPageId;
use crate::nvme::property::Version;
use crate::nvme::status::Status;
use crate::nvme::types::Nsid;

/// Pause before a failed look at the namespaces is repeated.
const RESCAN_DELAY: Duration = Duration::from_secs(1);
/// Number of repetitions; then the host waits for the next event.
const RESCANS_MAX: u32 = 5;
/// Information of an Error event that says that the controller has failed for good (Base,
/// "Asynchronous Event Information – Error Status").
const PERSISTENT_INTERNAL_ERROR: u8 = 3;

/// A look at the namespaces, under way.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Active ones, ascending.
    list: Vec<Nsid>,
    /// Number of the list's entries that have been looked at.
    done: usize,
    descriptors: NamespaceDescriptors,
    /// The names of the namespace that is being looked at could not be read.
    nameless: bool,
    /// Of a namespace that was known less came than before: it is looked at again.
    incomplete: bool,
    /// Those of which that is so.
    unsure: Vec<Nsid>,
    found: Vec<RemoteNamespace>,
    unusable: Vec<(Nsid, NamespaceProblem)>,
    failures: u32,
    /// There are more than are looked at.
    pub cut_off: bool,
}

impl HostControl {
    /// Looks at the namespaces from the beginning.
    pub(super) fn begin_scan(&mut self, now: Duration) {
        self.scan = Scan { failures: self.scan.failures, ..Scan::default() };
        match self.config.namespace {
            Some(nsid) => {
                self.scan.list.push(nsid);
                self.next_namespace(now);
            }
            None => self.list_namespaces(now, Nsid(0)),
        }
    }

    /// Looks again, beginning with the log page that lets the controller report the next change.
    fn rescan(&mut self, now: Duration) {
        self.scan = Scan { failures: self.scan.failures, ..Scan::default() };
        let len = NamespaceList::BYTES as u32;
        let sqe = request::log_page(LogPageId::CHANGED_NAMESPACES, 0, len, false);
        self.line(now, AssociationStep::ReadChangedNamespaces, sqe, AdminData::In { len });
    }

    /// The list could not be had: nothing is known of any namespace.
    pub(super) fn list_failed(&mut self, now: Duration) {
        self.unsure = self.namespaces.iter().map(|namespace| namespace.nsid).collect();
        self.rescan_failed(now);
    }

    /// Something is missing: later, perhaps.
    fn rescan_failed(&mut self, now: Duration) {
        self.scan.failures += 1;
        if self.scan.failures <= RESCANS_MAX {
            self.timers.set(Timer::Rescan, now.saturating_add(RESCAN_DELAY));
        } else {
            self.scan.failures = 0;
            self.after_look(now);
        }
    }

    /// Asks for the active namespaces above `after`. With one namespace wanted the list is not
    /// needed.
    pub(super) fn list_namespaces(&mut self, now: Duration, after: Nsid) {
        if after == Nsid(0) && self.config.namespace.is_some() {
            return self.begin_scan(now);
        }
        self.identify(now, AssociationStep::ListNamespaces, Cns::ACTIVE_NAMESPACES, after);
    }

    /// A part of the list has arrived. A full one is followed by another.
    pub(super) fn namespaces_listed(
        &mut self,
        now: Duration,
        data: &[u8],
    ) -> Result<(), HostError> {
        let malformed =
            |source| HostError::Malformed { step: AssociationStep::ListNamespaces, source };
        let part = NamespaceList::decode(data).map_err(malformed)?.0;
        let last = self.scan.list.last().copied().unwrap_or(Nsid(0));
        if part.first().is_some_and(|&first| first <= last) {
            return Err(HostError::Violation(Violation::NamespaceOrder));
        }
        let full = part.len() == NamespaceList::ENTRIES_MAX;
        let room = REMOTE_NAMESPACES_MAX - self.scan.list.len();
        self.scan.cut_off = part.len() > room || (full && part.len() == room);
        self.scan.list.extend(part.into_iter().take(room));
        match self.scan.list.last() {
            Some(&last) if full && !self.scan.cut_off => self.list_namespaces(now, last),
            _ => self.next_namespace(now),
        }
        Ok(())
    }

    /// Looks at the next namespace of the list, first at its names where the controller has them.
    fn next_namespace(&mut self, now: Duration) {
        let Some(&nsid) = self.scan.list.get(self.scan.done) else {
            return self.scan_done(now);
        };
        self.scan.done += 1;
        self.scan.descriptors = NamespaceDescriptors::default();
        self.scan.nameless = false;
        if self.remote.version >= Version::V1_3 || self.has_command_sets() {
            self.identify(
                now,
                AssociationStep::IdentifyDescriptors(nsid),
                Cns::NAMESPACE_DESCRIPTORS,
                nsid,
            );
        } else {
            self.identify(now, AssociationStep::IdentifyNamespace(nsid), Cns::NAMESPACE, nsid);
        }
    }

    /// The names have arrived, or not: controllers exist whose list of them is broken, and whose
    /// namespaces work.
    pub(super) fn descriptors_known(&mut self, now: Duration, nsid: Nsid, cqe: &Cqe, data: &[u8]) {
        match NamespaceDescriptors::decode(data) {
            Ok(descriptors) if cqe.status.is_success() => self.scan.descriptors = descriptors,
            _ => self.scan.nameless = true,
        }
        match self.scan.descriptors.csi {
            Some(csi) if csi != Csi::NVM => {
                self.scan.unusable.push((nsid, NamespaceProblem::CommandSet(csi)));
                self.next_namespace(now);
            }
            _ => self.identify(now, AssociationStep::IdentifyNamespace(nsid), Cns::NAMESPACE, nsid),
        }
    }

    /// A namespace has been described. One that went away since it was listed is passed over.
    pub(super) fn namespace_known(&mut self, now: Duration, nsid: Nsid, cqe: &Cqe, data: &[u8]) {
        let derived = match cqe.status {
            Status::SUCCESS => {
                IdentifyNamespace::decode(data).map_err(NamespaceProblem::Malformed).and_then(
                    |id| RemoteNamespace::derive(nsid, id, &self.scan.descriptors, &self.remote),
                )
            }
            Status::INVALID_NAMESPACE => Ok(None),
            status => Err(NamespaceProblem::Refused(status)),
        };
        let before =
            self.namespaces.iter().chain(&self.used).find(|namespace| namespace.nsid == nsid);
        match (derived, before) {
            (Ok(Some(mut namespace)), Some(before)) if self.scan.nameless => {
                namespace.keep_names(before);
                if before.uuid.is_some() {
                    self.scan.incomplete = true;
                    self.scan.unsure.push(nsid);
                }
                self.scan.found.push(namespace);
            }
            (Ok(namespace), _) => self.scan.found.extend(namespace),
            // A look that failed says nothing of a namespace that was there.
            (Err(problem), Some(before)) if !problem.is_format() => {
                self.scan.found.push(before.clone());
                self.scan.incomplete = true;
                self.scan.unsure.push(nsid);
            }
            (Err(problem), _) => self.scan.unusable.push((nsid, problem)),
        }
        self.next_namespace(now);
    }

    fn scan_done(&mut self, now: Duration) {
        let incomplete = core::mem::take(&mut self.scan.incomplete);
        if !incomplete {
            self.scan.failures = 0;
        }
        let found = core::mem::take(&mut self.scan.found);
        let unusable = core::mem::take(&mut self.scan.unusable);
        let changed = self.namespaces != found || self.unusable != unusable;
        self.namespaces = found;
        self.unusable = unusable;
        self.unsure = core::mem::take(&mut self.scan.unsure);
        if self.stage == AssociationStage::Setup {
            return self.namespaces_found(now);
        }
        if changed {
            self.push(HostAction::NamespacesChanged);
        }
        if incomplete { self.rescan_failed(now) } else { self.after_look(now) }
    }

    /// Only this namespace matters from now on. It is remembered, so that it is known again when it
    /// goes and comes back.
    pub fn use_namespace(&mut self, nsid: Nsid) {
        self.used = self.namespaces.iter().find(|namespace| namespace.nsid == nsid).cloned();
        self.config.namespace = Some(nsid);
    }

    /// There is reason to believe that the namespaces are others by now.
    pub fn look_again(&mut self, now: Duration) {
        self.look_again |= self.stage == AssociationStage::Ready;
        if self.look_again && !self.line_busy() {
            self.after_look(now);
        }
    }

    /// Returns whether the namespaces are being looked at again, or will be without another reason.
    pub fn is_looking(&self) -> bool {
        let looks =
            |purpose| matches!(purpose, Purpose::Line(step) if step != AssociationStep::ReadAnaLog);
        self.look_again || self.requests.any(looks) || self.timers.is_set(Timer::Rescan)
    }

    /// Returns whether the last look did not tell if a namespace is still the one that it was.
    pub fn is_unsure(&self, nsid: Nsid) -> bool {
        self.unsure.contains(&nsid)
    }

    /// An asynchronous event, or the refusal to send any.
    pub(super) fn event_completed(&mut self, now: Duration, cqe: &Cqe) -> Result<(), HostError> {
        if !cqe.status.is_success() {
            self.event_refused = true;
            return Ok(());
        }
        let event = AsyncEvent::decode(cqe.result as u32);
        self.push(HostAction::Event(event));
        if event.kind == AsyncEventType::ERROR && event.information == PERSISTENT_INTERNAL_ERROR {
            return Err(HostError::Violation(Violation::Fatal));
        }
        let relevant = match event.notice() {
            Some(AsyncNotice::NAMESPACE_ATTRIBUTE_CHANGED) => !self.config.discovery,
            Some(AsyncNotice::DISCOVERY_LOG_CHANGE) => self.config.discovery,
            _ => false,
        };
        self.look_again |= relevant;
        match event.notice() {
            Some(AsyncNotice::ANA_CHANGE) => self.access_changed(),
            Some(AsyncNotice::CROSS_CONTROLLER_RESET_COMPLETED) => self.look_at_cross_resets(now),
            _ => {}
        }
        if self.stage == AssociationStage::Ready && !self.line_busy() {
            self.after_look(now);
        }
        Ok(())
    }

    /// The line is free: looks again where an event has asked for it, else waits for the next
    /// event. The next event is asked for only then, so that a controller which reports change
    /// after change sets the pace itself.
    pub(super) fn after_look(&mut self, now: Duration) {
        if !core::mem::take(&mut self.look_again) {
            return if self.access.again { self.read_access(now) } else { self.request_event(now) };
        }
        self.timers.stop(Timer::Rescan);
        if self.config.discovery { self.read_discovery(now) } else { self.rescan(now) }
    }
}
