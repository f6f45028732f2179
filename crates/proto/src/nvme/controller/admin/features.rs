//! Values of features, and the rules for reading and setting them (Base §5.27.1, NVM §4.1.3).

use super::super::access;
use super::super::fault::{Fault, at};
use super::super::io::copy_command::COPY_FORMATS;
use super::super::namespace::NamespaceMap;
use super::notices::MASK_BITS;
use super::support::{self, ControllerKind};
use crate::limits::KEEP_ALIVE_GRANULARITY_MS;
use crate::nvme::copy::{CopyFormat, HostBehavior};
use crate::nvme::feature::{AsyncEventBits, FeatureId, QueueCounts};
use crate::nvme::log_page::FeatureEffectsLog;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::Nsid;
use crate::reservation::{ReservationState, Reservations};

/// WCTEMP and CCTEMP, kelvin: the values that the specification recommends; no sensor ever reaches
/// them.
pub(in crate::nvme::controller) const WARNING_TEMPERATURE: u16 = 0x157;
pub(in crate::nvme::controller) const CRITICAL_TEMPERATURE: u16 = 0x175;

/// Settings of a host, or the defaults.
#[derive(Debug)]
pub(in crate::nvme::controller) struct Features {
    arbitration: u32,
    power: u32,
    over_temperature: u16,
    under_temperature: u16,
    /// Of the namespaces for which something was set.
    error_recovery: Vec<(Nsid, u16)>,
    write_atomicity: u32,
    /// Reservation notifications that the host does not want, of the namespaces for which something
    /// was set.
    notification_masks: Vec<(Nsid, u32)>,
    behavior: HostBehavior,
    /// I/O queues that were allocated; `None`: the host has not asked for any.
    queues: Option<u16>,
    /// Not reset by a controller reset: Connect sets it.
    keep_alive_ms: u32,
}

/// Result of reading a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) enum Value {
    /// Dword 0 of the completion.
    Dword(u32),
    /// The extended host identifier, as data.
    HostIdentifier,
    /// Host Behavior Support, as data.
    HostBehavior,
}

/// Effect of setting a feature on other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) enum Effect {
    None,
    /// Host Behavior Support is set by the host's data.
    HostBehavior,
    /// The owner allocates I/O queues, at most this many.
    Queues(u16),
    /// New Asynchronous Event Configuration.
    Events(u32),
    /// The keep alive timer restarts with the new timeout.
    KeepAlive,
    /// Reservations are to outlast a loss of power, or not: those of this namespace, or of all.
    Persist {
        nsid: Nsid,
        persist: bool,
    },
}

/// Input of the rules, apart from the values.
pub(in crate::nvme::controller) struct Context<'a> {
    pub kind: ControllerKind,
    pub namespaces: &'a NamespaceMap,
    pub io_queues_max: u16,
    pub io_queues: u32,
    pub events: u32,
}

impl Context<'_> {
    fn scope(&self, id: FeatureId) -> Result<u32, Fault> {
        support::feature(self.kind, id, self.namespaces).ok_or(Fault::field(at::CDW10))
    }
}

/// Events that a controller can report: what OAES says, and what Asynchronous Event Configuration
/// starts with.
pub(in crate::nvme::controller) fn event_bits(kind: ControllerKind) -> u32 {
    match kind {
        ControllerKind::Io => {
            AsyncEventBits::NAMESPACE_ATTRIBUTE
                | AsyncEventBits::ANA_CHANGE
                | AsyncEventBits::CROSS_CONTROLLER_RESET
        }
        ControllerKind::Discovery => AsyncEventBits::DISCOVERY_LOG_CHANGE,
    }
}

/// The combination of command sets that is in use, as an index of
/// [`crate::nvme::identify::CommandSetCombinations`] (Base §5.27.1.21): there is one, the NVM
/// command set alone.
const COMMAND_SET_COMBINATION: u32 = 0;

/// SMART critical warnings in Asynchronous Event Configuration: settable, although none ever
/// occurs.
const HEALTH_BITS: u32 = 0x3f;

/// Events that a host may enable although the controller never reports them, as SPDK lets it.
fn tolerated_bits(kind: ControllerKind) -> u32 {
    match kind {
        ControllerKind::Io => AsyncEventBits::SUBSYSTEM_SHUTDOWN,
        ControllerKind::Discovery => 0,
    }
}

/// Returns whether a configuration enables events that OAES does not offer.
pub(in crate::nvme::controller) fn are_offered(kind: ControllerKind, bits: u32) -> bool {
    bits & !(event_bits(kind) | HEALTH_BITS) == 0
}

/// Returns whether Get Features selects other than current values (Select).
pub(in crate::nvme::controller) fn selects(sqe: &Sqe) -> bool {
    sqe.dword(10) >> 8 & 7 != 0
}

/// Dword 0 for I/O queues that are allocated. Each has a submission and a completion queue.
pub(in crate::nvme::controller) fn queue_counts(queues: u16) -> u32 {
    let queues = u32::from(queues);
    QueueCounts { submission: queues, completion: queues }.encode()
}

/// A keep alive timeout as it is used: rounded up to the granularity, 0 meaning none.
fn rounded(keep_alive_ms: u32) -> u32 {
    keep_alive_ms.checked_next_multiple_of(KEEP_ALIVE_GRANULARITY_MS).unwrap_or(u32::MAX)
}

impl Features {
    pub fn new(keep_alive_ms: u32) -> Self {
        Self {
            arbitration: 0,
            power: 0,
            over_temperature: WARNING_TEMPERATURE,
            under_temperature: 0,
            error_recovery: Vec::new(),
            write_atomicity: 0,
            notification_masks: Vec::new(),
            behavior: HostBehavior::default(),
            queues: None,
            keep_alive_ms: rounded(keep_alive_ms),
        }
    }

    /// Defaults, as a controller reset leaves them.
    pub fn reset(&mut self) {
        *self = Self::new(self.keep_alive_ms);
    }

    pub fn keep_alive_ms(&self) -> u32 {
        self.keep_alive_ms
    }

    /// Get Features (Base §5.15). There is nothing but current values, since none can be saved
    /// (ONCS bit 4 is clear): which ones a host selects is not looked at.
    pub fn read(&self, sqe: &Sqe, context: &Context<'_>) -> Result<Value, Fault> {
        let id = FeatureId(sqe.dword(10) as u8);
        context.scope(id)?;
        let value = match id {
            FeatureId::ARBITRATION => self.arbitration,
            FeatureId::POWER_MANAGEMENT => self.power,
            FeatureId::TEMPERATURE_THRESHOLD => self.temperature(sqe.dword(11))?,
            FeatureId::ERROR_RECOVERY => self.error_recovery(sqe.nsid(), context)?,
            // WCE: the cache is on, and stays on.
            FeatureId::VOLATILE_WRITE_CACHE => 1,
            FeatureId::NUMBER_OF_QUEUES => {
                queue_counts(self.queues.unwrap_or(context.io_queues_max))
            }
            FeatureId::WRITE_ATOMICITY_NORMAL => self.write_atomicity,
            FeatureId::ASYNC_EVENT_CONFIGURATION => context.events,
            FeatureId::KEEP_ALIVE_TIMER => self.keep_alive_ms,
            FeatureId::COMMAND_SET_PROFILE => COMMAND_SET_COMBINATION,
            // EXHID: on fabrics host identifiers have 128 bits (Base §5.27.1.25).
            FeatureId::HOST_IDENTIFIER if sqe.dword(11) & 1 == 0 => {
                return Err(Fault::field(at::CDW11));
            }
            FeatureId::HOST_IDENTIFIER => return Ok(Value::HostIdentifier),
            FeatureId::HOST_BEHAVIOR_SUPPORT => return Ok(Value::HostBehavior),
            FeatureId::RESERVATION_NOTIFICATION_MASK => {
                reserved(sqe.nsid(), context)?;
                self.notification_mask(sqe.nsid())
            }
            FeatureId::RESERVATION_PERSISTENCE => reserved(sqe.nsid(), context)?
                .is_some_and(|reservations| reservations.look(ReservationState::is_persistent))
                .into(),
            _ => return Err(Fault::field(at::CDW10)),
        };
        Ok(Value::Dword(value))
    }

    /// Set Features (Base §5.27).
    pub fn set(&mut self, sqe: &Sqe, context: &Context<'_>) -> Result<Effect, Fault> {
        let id = FeatureId(sqe.dword(10) as u8);
        let scope = context.scope(id)?;
        if sqe.dword(10) >> 31 != 0 {
            return Err(Fault::at(Status::FEATURE_NOT_SAVEABLE, at::CDW10));
        }
        if scope != FeatureEffectsLog::SCOPE_NAMESPACE
            && ![Nsid(0), Nsid::ALL].contains(&sqe.nsid())
        {
            return Err(Fault::at(Status::FEATURE_NOT_NAMESPACE_SPECIFIC, at::NSID));
        }
        self.apply(id, sqe.nsid(), sqe.dword(11), context)
    }

    fn apply(
        &mut self,
        id: FeatureId,
        nsid: Nsid,
        value: u32,
        context: &Context<'_>,
    ) -> Result<Effect, Fault> {
        match id {
            FeatureId::ARBITRATION => self.arbitration = value & 0xffff_ff07,
            // Power state 0 is the only one.
            FeatureId::POWER_MANAGEMENT if value & 0x1f != 0 => {
                return Err(Fault::field(at::CDW11));
            }
            FeatureId::POWER_MANAGEMENT => self.power = value & 0xff,
            FeatureId::TEMPERATURE_THRESHOLD => self.set_temperature(value)?,
            FeatureId::ERROR_RECOVERY => self.set_error_recovery(nsid, value, context)?,
            // There is no way to switch a device's cache off; pretending would lose data.
            FeatureId::VOLATILE_WRITE_CACHE if value & 1 == 0 => {
                return Err(Fault::at(Status::FEATURE_NOT_CHANGEABLE, at::CDW11));
            }
            FeatureId::VOLATILE_WRITE_CACHE => {}
            FeatureId::NUMBER_OF_QUEUES => return queues(value, context),
            FeatureId::WRITE_ATOMICITY_NORMAL => self.write_atomicity = value & 1,
            FeatureId::ASYNC_EVENT_CONFIGURATION
                if !are_offered(context.kind, value & !tolerated_bits(context.kind)) =>
            {
                return Err(Fault::field(at::CDW11));
            }
            FeatureId::ASYNC_EVENT_CONFIGURATION => return Ok(Effect::Events(value)),
            FeatureId::KEEP_ALIVE_TIMER => {
                self.keep_alive_ms = rounded(value);
                return Ok(Effect::KeepAlive);
            }
            FeatureId::COMMAND_SET_PROFILE if value & 0x1ff != COMMAND_SET_COMBINATION => {
                return Err(Fault::at(Status::COMMAND_SET_COMBINATION_REJECTED, at::CDW11));
            }
            FeatureId::COMMAND_SET_PROFILE => {}
            FeatureId::HOST_BEHAVIOR_SUPPORT => return Ok(Effect::HostBehavior),
            FeatureId::RESERVATION_NOTIFICATION_MASK => {
                self.set_notification_mask(nsid, value, context)?
            }
            FeatureId::RESERVATION_PERSISTENCE => {
                if nsid != Nsid::ALL {
                    reserved(nsid, context)?;
                }
                return Ok(Effect::Persist { nsid, persist: value & 1 != 0 });
            }
            // Base §5.27.1.25: on fabrics Connect sets it, and it cannot be changed.
            FeatureId::HOST_IDENTIFIER => {
                return Err(Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::CDW10));
            }
            _ => return Err(Fault::field(at::CDW10)),
        }
        Ok(Effect::None)
    }

    /// `queues` I/O queues are allocated.
    pub fn set_queues(&mut self, queues: u16) {
        self.queues = Some(queues);
    }

    pub fn behavior(&self) -> HostBehavior {
        self.behavior
    }

    /// Host Behavior Support (Base 2.1 §5.2.26.1.18): only formats of Copy that are there can be
    /// enabled. What else it names makes no difference here, and is kept.
    pub fn set_behavior(&mut self, behavior: HostBehavior) -> Result<(), Fault> {
        let optional = COPY_FORMATS & !CopyFormat::SAME_NAMESPACE.bit();
        if behavior.copy_formats & !optional != 0 || behavior.enabled.iter().any(|bit| *bit > 1) {
            return Err(Fault::new(Status::INVALID_FIELD));
        }
        self.behavior = behavior;
        Ok(())
    }

    /// The threshold that TMPSEL and THSEL select. There is no sensor but the composite one.
    fn temperature(&self, value: u32) -> Result<u32, Fault> {
        match (value >> 16 & 0xf, value >> 20 & 3) {
            (0, 0) => Ok(u32::from(self.over_temperature)),
            (0, 1) => Ok(u32::from(self.under_temperature)),
            _ => Err(Fault::field(at::CDW11)),
        }
    }

    fn set_temperature(&mut self, value: u32) -> Result<(), Fault> {
        // TMPSEL 15 sets the thresholds of all sensors.
        match (value >> 16 & 0xf, value >> 20 & 3) {
            (0 | 15, 0) => self.over_temperature = value as u16,
            (0 | 15, 1) => self.under_temperature = value as u16,
            _ => return Err(Fault::field(at::CDW11)),
        }
        Ok(())
    }

    /// Notifications that the host does not want of a namespace, by their codes.
    pub fn notification_mask(&self, nsid: Nsid) -> u32 {
        self.notification_masks.iter().find(|(of, _)| *of == nsid).map_or(0, |(_, mask)| *mask)
    }

    fn set_notification_mask(
        &mut self,
        nsid: Nsid,
        value: u32,
        context: &Context<'_>,
    ) -> Result<(), Fault> {
        if nsid != Nsid::ALL {
            reserved(nsid, context)?;
        }
        self.notification_masks.retain(|(of, _)| nsid != Nsid::ALL && *of != nsid);
        let meant = context
            .namespaces
            .iter()
            .map(|namespace| namespace.nsid)
            .filter(|&of| nsid == Nsid::ALL || of == nsid);
        self.notification_masks.extend(meant.map(|of| (of, value & MASK_BITS)));
        Ok(())
    }

    fn error_recovery(&self, nsid: Nsid, context: &Context<'_>) -> Result<u32, Fault> {
        access::check(context.namespaces.find(nsid).ok_or(Fault::namespace())?.1)?;
        let found = self.error_recovery.iter().find(|(of, _)| *of == nsid);
        Ok(found.map_or(0, |(_, limit)| u32::from(*limit)))
    }

    /// TLER is stored; DULBE (bit 16) is not supported, as NSFEAT says.
    fn set_error_recovery(
        &mut self,
        nsid: Nsid,
        value: u32,
        context: &Context<'_>,
    ) -> Result<(), Fault> {
        if nsid != Nsid::ALL {
            access::check(context.namespaces.find(nsid).ok_or(Fault::namespace())?.1)?;
        }
        if value & 1 << 16 != 0 {
            return Err(Fault::field(at::CDW11));
        }
        self.error_recovery.retain(|(of, _)| nsid != Nsid::ALL && *of != nsid);
        let meant = context
            .namespaces
            .iter()
            .map(|namespace| namespace.nsid)
            .filter(|&of| nsid == Nsid::ALL || of == nsid);
        self.error_recovery.extend(meant.map(|of| (of, value as u16)));
        Ok(())
    }
}

/// The reservations of a namespace, which is there.
fn reserved<'a>(nsid: Nsid, context: &Context<'a>) -> Result<Option<&'a Reservations>, Fault> {
    let namespace = context.namespaces.find(nsid).ok_or(Fault::namespace())?.1;
    access::check(namespace)?;
    Ok(namespace.reservations.as_deref())
}

/// Number of Queues (Base §5.27.1.5), before the host has connected any. A queue of Fabrics is a
/// pair, so that the larger number counts.
fn queues(value: u32, context: &Context<'_>) -> Result<Effect, Fault> {
    if value & 0xffff == 0xffff || value >> 16 == 0xffff {
        return Err(Fault::field(at::CDW11));
    }
    if context.io_queues > 0 {
        return Err(Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::CDW10));
    }
    let QueueCounts { submission, completion } = QueueCounts::decode(value);
    let wanted = submission.max(completion).min(u32::from(context.io_queues_max));
    Ok(Effect::Queues(wanted as u16))
}
