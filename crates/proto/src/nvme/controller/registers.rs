//! The properties of a controller, and the handshakes over CC and CSTS: enable, reset, shutdown
//! (Base §3.1.4, §3.5, §3.6, §3.7.2).
//!
//! A reset or a shutdown counts as done only when the owner says that no write of this controller
//! is left in a device ([`Registers::quiesced`]). Until then CSTS.RDY stays set and CSTS.SHST says
//! "in progress", so that a host which starts afresh afterwards never meets a write of before.

use super::fault::{Fault, at};
use super::support::{ControllerKind, VERSION};
use crate::limits::READY_TIMEOUT_MS;
use crate::nvme::deviation::{Deviation, Deviations};
use crate::nvme::fabrics::Property;
use crate::nvme::property::{
    Capabilities, Configuration, ControllerStatus, PropertyOffset, ReadyTimeouts, ShutdownStatus,
};
use crate::nvme::status::Status;

/// What a write to CC has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing that others need to know.
    None,
    /// The controller is enabled now.
    Enabled,
    /// All I/O is to be stopped.
    Quiesce {
        /// Caches are to be flushed as well: a shutdown.
        flush: bool,
        /// It is a controller reset: state goes back to its defaults.
        reset: bool,
    },
}

#[derive(Debug)]
pub(super) struct Registers {
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

    /// Whether commands other than Fabrics commands are accepted.
    pub fn operational(&self) -> bool {
        self.ready && self.reset.is_none() && self.shutdown == ShutdownStatus::NONE && !self.fatal
    }

    /// Whether I/O queues may be created: the entry sizes have to be those of the NVM command set
    /// by then (Base §3.1.4.5).
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

    /// Whether anything can have been written through this controller. Any host may shut a
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

/// Whether a controller can be enabled so. "All command sets" is the NVM command set; hosts select
/// it without looking at CAP.CSS, and on discovery controllers too.
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
mod tests {
    use super::*;

    const ON: u32 = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES;

    fn set(registers: &mut Registers, cc: u32) -> Result<Change, Fault> {
        noted(registers, cc).0
    }

    /// The result, and what was noted.
    fn noted(registers: &mut Registers, cc: u32) -> (Result<Change, Fault>, Vec<Deviation>) {
        let mut deviations = Deviations::default();
        let property = Property { offset: PropertyOffset::CC, bytes: 4, value: u64::from(cc) };
        (registers.write(property, &mut deviations), deviations.iter().collect())
    }

    fn status(registers: &Registers) -> u64 {
        registers.read(Property { offset: PropertyOffset::CSTS, bytes: 4, value: 0 }).unwrap()
    }

    fn enabled() -> Registers {
        let mut registers = Registers::new(ControllerKind::Io, 128);
        assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
        registers
    }

    #[test]
    fn enable_and_reset() {
        let mut registers = Registers::new(ControllerKind::Io, 128);
        assert_eq!((status(&registers), registers.operational()), (0, false));
        // Linux writes the sizes first, then EN.
        assert_eq!(set(&mut registers, Configuration::NVM_ENTRY_SIZES), Ok(Change::None));
        assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
        assert!(registers.operational() && registers.accepts_queues());
        assert_eq!(status(&registers), 1);

        assert_eq!(
            set(&mut registers, Configuration::NVM_ENTRY_SIZES),
            Ok(Change::Quiesce { flush: false, reset: true })
        );
        assert_eq!((status(&registers), registers.operational()), (1, false));
        assert_eq!(set(&mut registers, ON).unwrap_err().status, Status::COMMAND_SEQUENCE_ERROR);
        registers.quiesced();
        assert_eq!(status(&registers), 0);
        assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
    }

    #[test]
    fn shutdown_and_start_again() {
        let mut registers = enabled();
        let quiesce = Ok(Change::Quiesce { flush: true, reset: false });
        assert_eq!(set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL), quiesce);
        assert_eq!((status(&registers), registers.operational()), (0x5, false));
        assert_eq!(set(&mut registers, ON | Configuration::SHUTDOWN_ABRUPT), Ok(Change::None));
        registers.quiesced();
        assert_eq!(status(&registers), 0x9);
        // After a shutdown a reset is needed, which clears the status.
        assert_eq!(set(&mut registers, 0), Ok(Change::Quiesce { flush: false, reset: true }));
        registers.quiesced();
        assert_eq!(status(&registers), 0);
        assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
    }

    #[test]
    fn a_discovery_controller_that_is_shut_down_has_nothing_to_flush() {
        let mut registers = Registers::new(ControllerKind::Discovery, 128);
        assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
        let quiesce = Ok(Change::Quiesce { flush: false, reset: false });
        assert_eq!(set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL), quiesce);
    }

    #[test]
    fn shutdown_while_disabled_ends_with_the_next_enable() {
        let mut registers = Registers::new(ControllerKind::Discovery, 128);
        let quiesce = Ok(Change::Quiesce { flush: false, reset: false });
        assert_eq!(set(&mut registers, Configuration::SHUTDOWN_NORMAL), quiesce);
        registers.quiesced();
        assert_eq!(status(&registers), 0x8);
        assert!(set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL).is_err());
        assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
        assert_eq!((status(&registers), registers.accepts_queues()), (1, false));
    }

    #[test]
    fn shutdown_together_with_reset_and_one_after_the_other() {
        let mut registers = enabled();
        let both = Ok(Change::Quiesce { flush: true, reset: true });
        assert_eq!(set(&mut registers, Configuration::SHUTDOWN_NORMAL), both);
        assert_eq!(status(&registers), 0x5);
        registers.quiesced();
        assert_eq!(status(&registers), 0x8);

        let mut registers = enabled();
        set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL).unwrap();
        set(&mut registers, 0).unwrap();
        registers.quiesced();
        assert_eq!(status(&registers), 0x5, "the second stop is not done yet");
        registers.quiesced();
        assert_eq!(status(&registers), 0);
    }

    #[test]
    fn values_that_are_refused_change_nothing() {
        let mut registers = Registers::new(ControllerKind::Io, 128);
        for bad in [
            ON | Configuration::ADMIN_ONLY,
            ON | 1 << 4,
            ON | 1 << 7,
            ON | 1 << 11,
            ON | 3 << 14,
            ON | Configuration::SHUTDOWN_NORMAL,
        ] {
            assert_eq!(
                set(&mut registers, bad).unwrap_err().status,
                Status::INVALID_FIELD,
                "{bad:#x}"
            );
            assert_eq!(status(&registers), 0);
        }
        // Reserved bits and CRIME are not stored.
        assert_eq!(set(&mut registers, ON | 1 << 24 | 0xe), Ok(Change::Enabled));
        let cc = registers.read(Property { offset: PropertyOffset::CC, bytes: 4, value: 0 });
        assert_eq!(cc, Ok(u64::from(ON)));
        assert_eq!(set(&mut registers, ON | 1 << 11).unwrap_err().status, Status::INVALID_FIELD);
        assert_eq!(set(&mut registers, Configuration::ENABLE), Ok(Change::None));
        assert!(!registers.accepts_queues(), "entry sizes are wrong");
    }

    #[test]
    fn all_command_sets_can_be_selected() {
        for kind in [ControllerKind::Io, ControllerKind::Discovery] {
            let mut registers = Registers::new(kind, 128);
            assert_eq!(registers.cap.has(Capabilities::COMMAND_SETS), kind == ControllerKind::Io);
            let expected = if kind == ControllerKind::Io {
                vec![]
            } else {
                vec![Deviation::CommandSetsNotOffered]
            };
            let done = noted(&mut registers, ON | Configuration::ALL_COMMAND_SETS);
            assert_eq!(done, (Ok(Change::Enabled), expected));
            assert_eq!(registers.accepts_queues(), kind == ControllerKind::Io);
        }
    }

    /// Neither nvmet nor SPDK looks at CC.CSS once the controller is enabled: a host may shut it
    /// down by a CC of its own making.
    #[test]
    fn command_sets_stay_as_they_were_enabled() {
        let mut registers = Registers::new(ControllerKind::Io, 128);
        set(&mut registers, ON | Configuration::ALL_COMMAND_SETS).unwrap();
        assert_eq!(
            noted(&mut registers, ON),
            (Ok(Change::None), vec![Deviation::CommandSetsChanged])
        );
        assert!(registers.accepts_queues());
        let cc = registers.read(Property { offset: PropertyOffset::CC, bytes: 4, value: 0 });
        assert_eq!(cc, Ok(u64::from(ON | Configuration::ALL_COMMAND_SETS)));
        let shutdown = set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL);
        assert_eq!(shutdown, Ok(Change::Quiesce { flush: true, reset: false }));
        for fixed in [ON | 1 << 7, ON | 1 << 11] {
            assert_eq!(
                set(&mut registers, fixed).unwrap_err().status,
                Status::INVALID_FIELD,
                "{fixed:#x}"
            );
        }
    }

    /// nvmet clears CC in a shutdown, so that the next write with EN starts the controller; SPDK
    /// leaves it enabled.
    #[test]
    fn a_controller_starts_again_after_a_shutdown_without_a_reset() {
        let mut registers = enabled();
        set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL).unwrap();
        assert_eq!(noted(&mut registers, ON), (Ok(Change::None), vec![]), "it is not done yet");
        assert!(!registers.operational());
        registers.quiesced();
        assert_eq!((status(&registers), registers.operational()), (0x9, false));
        assert_eq!(
            noted(&mut registers, ON),
            (Ok(Change::Enabled), vec![Deviation::StartWithoutReset])
        );
        assert_eq!(
            (status(&registers), registers.operational(), registers.accepts_queues()),
            (1, true, true)
        );
        let again = set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL);
        assert_eq!(again, Ok(Change::Quiesce { flush: true, reset: false }));
    }

    #[test]
    fn access_by_size_and_offset() {
        let mut registers = Registers::new(ControllerKind::Io, 128);
        let read = |registers: &Registers, offset: u32, bytes: u8| {
            registers.read(Property { offset: PropertyOffset(offset), bytes, value: 0 }).ok()
        };
        let cap = 1 << 59 | 1 << 43 | 1 << 37 | 60 << 24 | 1 << 16 | 127;
        assert_eq!(read(&registers, 0, 8), Some(cap));
        assert_eq!(read(&registers, 8, 4), Some(0x0002_0000));
        assert_eq!(read(&registers, 0x68, 4), Some(60));
        for (offset, bytes) in [
            (0, 4),
            (4, 4),
            (8, 8),
            (0x14, 8),
            (0x14, 0),
            (0x20, 4),
            (0x24, 4),
            (0x1000, 4),
            (u32::MAX, 4),
        ] {
            assert_eq!(read(&registers, offset, bytes), None, "{offset:#x} {bytes}");
        }
        for offset in [0, 8, 0x1c, 0x20, 0x68] {
            let property = Property { offset: PropertyOffset(offset), bytes: 4, value: 1 };
            let written = registers.write(property, &mut Deviations::default());
            assert_eq!(written.unwrap_err().status, Status::INVALID_FIELD);
        }
    }
}
