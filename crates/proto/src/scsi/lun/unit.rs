//! A logical unit: its configuration, and the state that its nexuses share.
//!
//! A lock protects the state; plain reads and writes never take it. Each change increments a
//! generation number, and a nexus uses its own copy of the state until the generation changes.

use super::access::{AccessState, PortAccess, is_accessible};
use super::attention::{Attention, Attentions};
use super::config::{UnitConfig, UnitFeatures, UnitGeometry, UnitIdentity};
use super::mode::Mode;
use super::name::NexusName;
use crate::limits::{SCSI_STEP_BYTES, SCSI_WRITE_SAME_BYTES_MAX};
use crate::reservation::{
    Changes, NamespaceFollower, Notice, PermittedAccess, Registrant, Reservations,
};
use crate::scsi::cdb::table::{Operation, SupportedBy};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use weft_base::lock::Lock;

/// One attached nexus's name for as long as it is attached. Never used twice by one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NexusId(pub u64);

/// A nexus as the unit sees it.
#[derive(Debug)]
pub(super) struct Attached {
    pub id: NexusId,
    pub registrant: Registrant,
    pub attentions: Attentions,
    /// Its commands must be aborted.
    pub abort: bool,
}

/// State shared by nexuses.
#[derive(Debug)]
pub(super) struct UnitState {
    pub blocks: u64,
    pub mode: Mode,
    /// Holder of the unit by RESERVE(6).
    pub reserved_by: Option<NexusId>,
    /// Target ports, each once.
    pub ports: Vec<PortAccess>,
    /// Its device can be reached; otherwise it is so by no port.
    pub is_reached: bool,
    pub nexuses: Vec<Attached>,
}

/// A nexus's view of the state, for each command.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub generation: u32,
    pub blocks: u64,
    pub mode: Mode,
    pub access: PermittedAccess,
    /// Another nexus has the unit by RESERVE(6).
    pub is_reserved: bool,
    /// That of the target port by which the nexus came.
    pub state: AccessState,
    /// Neither of the two keeps the nexus from reading and writing.
    pub is_free: bool,
    pub has_attention: bool,
}

/// A logical unit. Nexuses on any loop use it at the same time.
#[derive(Debug)]
pub struct LogicalUnit {
    config: UnitConfig,
    reservations: Option<Arc<Reservations>>,
    generation: AtomicU32,
    state: Lock<UnitState>,
}

impl LogicalUnit {
    /// A new logical unit. The reservations are those of its namespace; without them their commands
    /// are refused.
    pub fn new(config: UnitConfig, reservations: Option<Arc<Reservations>>) -> Arc<Self> {
        let state = UnitState {
            blocks: config.geometry.blocks,
            mode: Mode::default(),
            reserved_by: None,
            ports: Vec::new(),
            is_reached: true,
            nexuses: Vec::new(),
        };
        let unit = Arc::new(Self {
            config,
            reservations,
            generation: AtomicU32::new(0),
            state: Lock::new(state),
        });
        if let Some(reservations) = &unit.reservations {
            let follower: Weak<Self> = Arc::downgrade(&unit);
            reservations.join(follower);
        }
        unit
    }

    /// The reservations of its namespace.
    pub fn reservations(&self) -> Option<&Arc<Reservations>> {
        self.reservations.as_ref()
    }

    /// Bytes of a block.
    #[inline]
    pub fn block_bytes(&self) -> u32 {
        self.config.geometry.block_bytes
    }

    /// Size and limits, now.
    pub fn geometry(&self) -> UnitGeometry {
        UnitGeometry { blocks: self.lock().blocks, ..self.config.geometry }
    }

    /// Returns its features.
    pub fn features(&self) -> UnitFeatures {
        self.config.features
    }

    /// Returns whether it has what an operation needs.
    pub(super) fn supports(&self, operation: &Operation) -> bool {
        match operation.needs {
            SupportedBy::Every => true,
            SupportedBy::Discard => self.features().discard,
            SupportedBy::Compare => self.features().compare,
            SupportedBy::Reservations => self.reservations().is_some(),
            // RESERVE(6) is a matter of one logical unit, and those of other gateways would not
            // know.
            SupportedBy::OwnReservations => {
                self.reservations().is_some_and(|reservations| !reservations.is_of_group())
            }
        }
    }

    /// Returns its names.
    pub fn identity(&self) -> &UnitIdentity {
        &self.config.identity
    }

    /// Changes the size of the unit and notifies all initiators.
    pub fn resize(&self, blocks: u64) {
        let mut state = self.change();
        if state.blocks != blocks {
            state.blocks = blocks;
            state.tell_all(Attention::CapacityChanged);
        }
    }

    /// Sets how well the unit is reached by each target port, at most
    /// [`SCSI_PORTS_MAX`](crate::limits::SCSI_PORTS_MAX), and whether its device can be reached at
    /// all, and notifies all initiators where a state has changed; returns whether one has. A port
    /// of which nothing is said is optimized. Where the device cannot be reached, the device
    /// decides which commands work.
    pub fn set_access(&self, ports: &[PortAccess], is_reached: bool) -> bool {
        let has_changed = {
            let state = self.lock();
            if state.is_reached == is_reached && state.ports == ports {
                return false;
            }
            state.differs(ports, is_reached)
        };
        let mut state = self.change();
        (state.ports, state.is_reached) = (ports.to_vec(), is_reached);
        if has_changed {
            state.tell_all(Attention::AccessStateChanged);
        }
        has_changed
    }

    /// Returns whether its device can be reached.
    pub(super) fn is_reached(&self) -> bool {
        self.lock().is_reached
    }

    /// Longest READ or WRITE, in blocks.
    #[inline]
    pub(super) fn transfer_blocks_max(&self) -> u32 {
        self.config.geometry.max_transfer_bytes / self.block_bytes()
    }

    /// Most that the device does at once, in blocks.
    pub(super) fn operation_blocks_max(&self) -> u32 {
        self.config.geometry.max_operation_bytes / self.block_bytes()
    }

    /// Most that the device compares and writes as one, in blocks.
    pub(super) fn compare_and_write_blocks(&self) -> u32 {
        self.config.geometry.compare_and_write_blocks
    }

    /// Blocks that are verified, or written by repetition, in one step.
    pub(super) fn step_blocks(&self) -> u32 {
        (SCSI_STEP_BYTES / self.block_bytes()).min(self.operation_blocks_max()).max(1)
    }

    /// Longest WRITE SAME, in blocks.
    pub(super) fn write_same_blocks_max(&self) -> u32 {
        (SCSI_WRITE_SAME_BYTES_MAX / u64::from(self.block_bytes())) as u32
    }

    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The state, to look at.
    pub(super) fn lock(&self) -> MutexGuard<'_, UnitState> {
        self.state.lock()
    }

    /// The state, to change: all nexuses look again. The generation is counted up under the lock,
    /// so that who sees the new one waits for the change.
    pub(super) fn change(&self) -> MutexGuard<'_, UnitState> {
        let state = self.lock();
        self.generation.fetch_add(1, Ordering::Release);
        state
    }

    /// The state as it matters to one nexus.
    pub(super) fn view(&self, id: NexusId) -> View {
        let state = self.lock();
        let attached = state.nexuses.iter().find(|nexus| nexus.id == id);
        let is_reserved = state.reserved_by.is_some_and(|holder| holder != id);
        let at = attached.map_or(AccessState::OPTIMIZED, |nexus| state.state_at(nexus.port()));
        View {
            generation: self.generation(),
            blocks: state.blocks,
            mode: state.mode,
            access: attached.map_or(PermittedAccess::NONE, |nexus| self.access(&nexus.registrant)),
            is_reserved,
            state: at,
            is_free: !is_reserved && is_accessible(at),
            has_attention: attached.is_some_and(|nexus| !nexus.attentions.is_empty()),
        }
    }

    fn access(&self, registrant: &Registrant) -> PermittedAccess {
        self.reservations
            .as_ref()
            .map_or(PermittedAccess::FULL, |reservations| reservations.access(registrant))
    }

    pub(super) fn attach(&self, id: NexusId, name: NexusName, first: Attention) {
        let mut attentions = Attentions::default();
        attentions.add(first);
        self.change().nexuses.push(Attached {
            id,
            registrant: Registrant::Nexus(name),
            attentions,
            abort: false,
        });
    }

    /// Gives one nexus a notice.
    pub(super) fn tell(&self, id: NexusId, attention: Attention) {
        if let Some(nexus) = self.change().nexus(id) {
            nexus.attentions.add(attention);
        }
    }

    /// The nexus is lost: what belongs to it alone goes with it. Registrations stay.
    pub(super) fn detach(&self, id: NexusId) {
        let mut state = self.change();
        state.nexuses.retain(|nexus| nexus.id != id);
        if state.reserved_by == Some(id) {
            state.reserved_by = None;
        }
    }

    /// Returns whether there was an order to abort the commands of a nexus, which is thereby taken.
    pub(super) fn take_abort(&self, id: NexusId) -> bool {
        let mut state = self.lock();
        state.nexus(id).is_some_and(|nexus| core::mem::take(&mut nexus.abort))
    }
}

impl NamespaceFollower for LogicalUnit {
    /// The nexuses whose commands are aborted are for the owner to wake: see
    /// [`super::Nexus::take_abort`].
    fn reservations_changed(&self, changes: &Changes) {
        let mut state = self.change();
        for (registrant, notice) in &changes.notices {
            for nexus in
                state.nexuses.iter_mut().filter(|nexus| registrant.covers(&nexus.registrant))
            {
                nexus.attentions.add(match notice {
                    Notice::RegistrationPreempted => Attention::RegistrationsPreempted,
                    Notice::ReservationReleased => Attention::ReservationsReleased,
                    Notice::ReservationPreempted => Attention::ReservationsPreempted,
                });
            }
        }
        state
            .abort_where(|nexus| changes.aborted.iter().any(|lost| lost.covers(&nexus.registrant)));
    }
}

impl Attached {
    /// The target port by which it came.
    fn port(&self) -> u16 {
        match &self.registrant {
            Registrant::Nexus(name) => name.target_port,
            Registrant::Host(_) => 0,
        }
    }
}

impl UnitState {
    pub fn nexus(&mut self, id: NexusId) -> Option<&mut Attached> {
        self.nexuses.iter_mut().find(|nexus| nexus.id == id)
    }

    pub fn tell_all(&mut self, attention: Attention) {
        self.tell_others(None, attention);
    }

    /// Tells all but one.
    pub fn tell_others(&mut self, but: Option<NexusId>, attention: Attention) {
        for nexus in self.nexuses.iter_mut().filter(|nexus| Some(nexus.id) != but) {
            nexus.attentions.add(attention);
        }
    }

    /// Orders the commands of some nexuses aborted; returns these.
    pub fn abort_where(&mut self, is_meant: impl Fn(&Attached) -> bool) -> Vec<NexusId> {
        let mut aborted = Vec::new();
        for nexus in self.nexuses.iter_mut().filter(|nexus| is_meant(nexus)) {
            nexus.abort = true;
            aborted.push(nexus.id);
        }
        aborted
    }

    /// Resets the logical unit (SAM-5 §6.3.3): the mode is as after power on, RESERVE(6) ends, all
    /// initiators are notified.
    pub fn reset(&mut self) {
        self.mode = Mode::default();
        self.reserved_by = None;
        self.tell_all(Attention::DeviceReset);
    }
}
