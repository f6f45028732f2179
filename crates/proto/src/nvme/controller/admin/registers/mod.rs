//! The properties of a controller, and the handshakes over CC and CSTS: enable, reset, shutdown
//! (Base §3.1.4, §3.5, §3.6, §3.7.2).
//!
//! A reset or a shutdown counts as done only when the owner says that no write of this controller
//! is left in a device ([`Registers::quiesced`]). Until then CSTS.RDY stays set and CSTS.SHST says
//! "in progress", so that a host which starts afresh afterwards never meets an earlier write.

use super::super::fault::{Fault, at};
use super::support::{ControllerKind, VERSION};
use crate::limits::READY_TIMEOUT_MS;
use crate::nvme::deviation::{Deviation, Deviations};
use crate::nvme::fabrics::Property;
use crate::nvme::property::{
    Capabilities, Configuration, ControllerStatus, PropertyOffset, ReadyTimeouts, ShutdownStatus,
};
use crate::nvme::status::Status;

/// Effect of a write to CC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) enum Change {
    /// Nothing that others need to know.
    None,
    /// The controller is enabled now.
    Enabled,
    /// All I/O must be stopped.
    Quiesce {
        /// Caches must be flushed as well: a shutdown.
        flush: bool,
        /// It is a controller reset: state goes back to its defaults.
        reset: bool,
    },
}

#[derive(Debug)]
pub(in crate::nvme::controller) struct Registers {
    kind: ControllerKind,
    cap: Capabilities,
    cc: Configuration,
    ready: bool,
    fatal: bool,
    shutdown: ShutdownStatus,
    /// A reset waits for the I/O to stop; whether it leaves the controller shut down.
    reset: Option<ShutdownStatus>,
    /// Stops that were asked for and not yet answered.
    stops: u32,
}

impl Registers {
    /// Properties of a controller whose I/O queues have up to `entries` entries.
    pub fn new(kind: ControllerKind, entries: u16) -> Self {
        // What Identify (CNS 1Ch) lists goes with I/O controllers.
        let command_sets = if kind == ControllerKind::Io { Capabilities::COMMAND_SETS } else { 0 };
        let cap = Capabilities::new(entries, READY_TIMEOUT_MS).0
            | Capabilities::CONTIGUOUS_QUEUES
            | Capabilities::NVM_COMMAND_SET
            | command_sets
            | Capabilities::READY_WITH_MEDIA;
        Self {
            kind,
            cap: Capabilities(cap),
            cc: Configuration(0),
            ready: false,
            fatal: false,
            shutdown: ShutdownStatus::NONE,
            reset: None,
            stops: 0,
        }
    }

    /// Returns whether commands other than Fabrics commands are accepted.
    pub fn operational(&self) -> bool {
        self.ready && self.reset.is_none() && self.shutdown == ShutdownStatus::NONE && !self.fatal
    }

    /// Returns whether I/O queues may be created: the entry sizes have to be those of the NVM
    /// command set by then (Base §3.1.4.5).
    pub fn accepts_queues(&self) -> bool {
        let sizes = self.cc.submission_entry_size() == 6 && self.cc.completion_entry_size() == 4;
        self.operational() && sizes && self.kind == ControllerKind::Io
    }

    /// Sets CSTS.CFS: the host is to reset the controller, or the association has ended.
    pub fn set_fatal(&mut self) {
        self.fatal = true;
    }

    /// Value of a property. The access has to have the property's size (Base §3.1.4).
    pub fn read(&self, property: Property) -> Result<u64, Fault> {
        let value = match property.offset {
            PropertyOffset::CAP => self.cap.0,
            PropertyOffset::VS => u64::from(VERSION.0),
            PropertyOffset::CC => u64::from(self.cc.0),
            PropertyOffset::CSTS => u64::from(self.status().0),
            PropertyOffset::CRTO => u64::from(ReadyTimeouts::new(READY_TIMEOUT_MS).0),
            _ => return Err(Fault::field(at::CDW11)),
        };
        check_size(property)?;
        Ok(value)
    }

    /// Writes a property: CC is the only one that can be written.
    pub fn write(
        &mut self,
        property: Property,
        deviations: &mut Deviations,
    ) -> Result<Change, Fault> {
        if property.offset != PropertyOffset::CC {
            return Err(Fault::field(at::CDW11));
        }
        check_size(property)?;
        self.configure(Configuration(property.value as u32 & WRITABLE), deviations)
    }

    fn status(&self) -> ControllerStatus {
        ControllerStatus::new(self.ready, self.fatal, self.shutdown)
    }

    fn configure(
        &mut self,
        new: Configuration,
        deviations: &mut Deviations,
    ) -> Result<Change, Fault> {
        if new.shutdown() == 3 {
            return Err(Fault::field(at::CDW12));
        }
        match (self.cc.enabled(), new.enabled()) {
            (false, true) => self.enable(new, deviations),
            (true, false) => Ok(self.start_reset(new)),
            (true, true) if selections(new) != selections(self.cc) => Err(Fault::field(at::CDW12)),
            (true, true) => {
                deviations.note_if(
                    new.command_sets() != self.cc.command_sets(),
                    Deviation::CommandSetsChanged,
                );
                Ok(self.reconfigure(new.with_command_sets_of(self.cc), deviations))
            }
            (false, false) => Ok(self.reconfigure(new, deviations)),
        }
    }

    /// CC.EN from 0 to 1. Values that are not supported are refused, and nothing changes.
    fn enable(&mut self, new: Configuration, deviations: &mut Deviations) -> Result<Change, Fault> {
        if self.ready || self.stops > 0 {
            return Err(Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::CDW12));
        }
        if !is_supported(new) || new.shutdown() != 0 {
            return Err(Fault::field(at::CDW12));
        }
        let offered = new.command_sets() == 0 || self.cap.has(Capabilities::COMMAND_SETS);
        deviations.note_if(!offered, Deviation::CommandSetsNotOffered);
        self.cc = new;
        self.ready = true;
        self.fatal = false;
        self.shutdown = ShutdownStatus::NONE;
        Ok(Change::Enabled)
    }

    /// CC.EN from 1 to 0, maybe together with a shutdown (Base §3.1.4.5, SHN).
    fn start_reset(&mut self, new: Configuration) -> Change {
        let shuts_down = new.shutdown() != 0 && self.cc.shutdown() == 0;
        if shuts_down {
            self.shutdown = ShutdownStatus::IN_PROGRESS;
        }
        self.reset = Some(if shuts_down { ShutdownStatus::COMPLETE } else { ShutdownStatus::NONE });
        self.cc = new;
        self.stops += 1;
        Change::Quiesce { flush: shuts_down && self.writes(), reset: true }
    }

    /// A write that leaves CC.EN as it is.
    fn reconfigure(&mut self, new: Configuration, deviations: &mut Deviations) -> Change {
        if self.shutdown == ShutdownStatus::COMPLETE && new.enabled() && new.shutdown() == 0 {
            // Nothing of before is left: a shutdown stops as much as a reset does.
            deviations.note(Deviation::StartWithoutReset);
            self.cc = new;
            self.shutdown = ShutdownStatus::NONE;
            return Change::Enabled;
        }
        let shuts_down =
            new.shutdown() != 0 && self.cc.shutdown() == 0 && self.shutdown == ShutdownStatus::NONE;
        self.cc = new;
        if !shuts_down {
            return Change::None;
        }
        self.shutdown = ShutdownStatus::IN_PROGRESS;
        self.stops += 1;
        Change::Quiesce { flush: self.writes(), reset: false }
    }

    /// Returns whether anything can have been written through this controller. Any host may shut a
    /// discovery controller down, which is no reason to make devices work.
    fn writes(&self) -> bool {
        self.kind == ControllerKind::Io
    }

    /// One of the stops that were asked for is done.
    pub fn quiesced(&mut self) {
        self.stops = self.stops.saturating_sub(1);
        if self.stops > 0 {
            return;
        }
        if self.shutdown == ShutdownStatus::IN_PROGRESS {
            self.shutdown = ShutdownStatus::COMPLETE;
        }
        if let Some(shutdown) = self.reset.take() {
            self.shutdown = shutdown;
            self.ready = false;
            self.fatal = false;
            self.cc = Configuration(0);
        }
    }
}

/// Bits of CC that mean something here; CRIME and reserved bits are read-only.
const WRITABLE: u32 = 0x00ff_fff1;

/// Returns whether a controller can be enabled so. "All command sets" is the NVM command set; hosts
/// select it without looking at CAP.CSS, and on discovery controllers too.
fn is_supported(cc: Configuration) -> bool {
    [0, Configuration::ALL_COMMAND_SETS >> 4].contains(&cc.command_sets())
        && selections(cc) == (0, 0)
}

/// Memory page size and arbitration: fixed while the controller is enabled. So are the command
/// sets, but some hosts shut a controller down by a CC of their own making; as there is one command
/// set, theirs does not matter.
fn selections(cc: Configuration) -> (u32, u32) {
    (cc.page_size(), cc.arbitration())
}

fn check_size(property: Property) -> Result<(), Fault> {
    match property.offset.bytes() {
        Some(bytes) if bytes == property.bytes => Ok(()),
        _ => Err(Fault::field(at::CDW10)),
    }
}

#[cfg(test)]
mod tests;
