//! The target port groups of a logical unit, as initiators see them (SPC-5 §6.36).

use super::access::{AccessState, PortAccess, is_accessible};
use super::unit::UnitState;
use super::writer::Writer;
use crate::limits::ANA_TRANSITION_S;

/// T_SUP, O_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP: all states may be met.
const SUPPORTED: u8 = 0xcf;
/// STATUS CODE: the state changes by itself.
const IMPLICIT: u8 = 0x02;
/// RTPG_FMT of the extended header.
const EXTENDED: u8 = 0x10;

/// Bytes of the head of the response to REPORT TARGET PORT GROUPS, and of a group of one port.
pub(super) const HEAD_BYTES: usize = 8;
pub(super) const GROUP_BYTES: usize = 12;

impl UnitState {
    /// The state that was set for a port.
    pub(super) fn state_at(&self, port: u16) -> AccessState {
        self.ports
            .iter()
            .find(|known| known.port == port)
            .map_or(AccessState::OPTIMIZED, |known| known.state)
    }

    /// Returns whether initiators must get notice of a changed state of a port.
    pub(super) fn differs(&self, ports: &[PortAccess], is_reached: bool) -> bool {
        let moved = |now: &PortAccess| {
            self.ports.iter().any(|was| was.port == now.port && was.state != now.state)
        };
        self.is_reached != is_reached || ports.iter().any(moved)
    }

    /// Returns the ports that are reported to an initiator that came by `own`.
    fn reported_ports(&self, own: u16) -> impl Iterator<Item = (u16, AccessState)> {
        let is_known = self.ports.iter().any(|known| known.port == own);
        let unknown = (!is_known).then_some((own, AccessState::OPTIMIZED));
        let known = self.ports.iter().filter(move |known| known.is_open || known.port == own);
        unknown.into_iter().chain(known.map(|known| (known.port, known.state)))
    }

    /// Returns the number of ports that are reported to an initiator that came by `own`.
    pub(super) fn reported_ports_count(&self, own: u16) -> usize {
        self.reported_ports(own).count()
    }

    /// The response to REPORT TARGET PORT GROUPS (SPC-5 §6.36) for an initiator that came by `own`.
    pub(super) fn report_groups(&self, own: u16, extended: bool, out: &mut Writer) {
        out.zeroes(4);
        if extended {
            out.bytes(&[EXTENDED, ANA_TRANSITION_S, 0, 0]);
        }
        for (port, state) in self.reported_ports(own) {
            let state = if !self.is_reached && is_accessible(state) {
                AccessState::UNAVAILABLE
            } else {
                state
            };
            out.bytes(&[state.0, SUPPORTED]);
            out.number(2, port.into());
            // One port.
            out.bytes(&[0, IMPLICIT, 0, 1, 0, 0]);
            out.number(2, port.into());
        }
        out.set(0, 4, out.len() as u64 - 4);
    }
}
