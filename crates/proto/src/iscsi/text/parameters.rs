//! Operational parameters: what an end proposes, and what both agreed on.

use super::{Key, KeyKind, Writer};
use crate::iscsi::digest::Digests;

/// Parameters that one end offers. Out-of-range values are brought into range when they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedParameters {
    /// Digests that it takes, or asks for first where it is the initiator.
    pub digests: Digests,
    /// Those that it insists on: None is not acceptable for them.
    pub require_digests: Digests,
    /// MaxConnections.
    pub max_connections: u16,
    /// InitialR2T: whether it wants no unsolicited Data-Out PDUs.
    pub initial_r2t: bool,
    /// ImmediateData.
    pub immediate_data: bool,
    /// MaxRecvDataSegmentLength of its own, bytes.
    pub max_recv_bytes: u32,
    /// MaxBurstLength, bytes.
    pub max_burst_bytes: u32,
    /// FirstBurstLength, bytes.
    pub first_burst_bytes: u32,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u16,
    /// DefaultTime2Wait, seconds.
    pub time2wait_s: u16,
    /// DefaultTime2Retain, seconds.
    pub time2retain_s: u16,
    /// DataPDUInOrder: whether it needs that.
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder: whether it needs that.
    pub data_sequence_in_order: bool,
}

impl Default for OfferedParameters {
    /// The defaults of the standard, no digests, no recovery.
    fn default() -> Self {
        Self {
            digests: Digests::NONE,
            require_digests: Digests::NONE,
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_recv_bytes: 8192,
            max_burst_bytes: 262_144,
            first_burst_bytes: 65_536,
            max_outstanding_r2t: 1,
            time2wait_s: 2,
            time2retain_s: 20,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
        }
    }
}

impl OfferedParameters {
    /// The MaxRecvDataSegmentLength that this end declares.
    pub fn own_recv_bytes(&self) -> u32 {
        self.number(Key::MaxRecvDataSegmentLength)
    }

    /// Its value of a numerical key.
    pub(super) fn number(&self, key: Key) -> u32 {
        let value = match key {
            Key::MaxConnections => self.max_connections.into(),
            Key::MaxRecvDataSegmentLength => self.max_recv_bytes,
            Key::MaxBurstLength => self.max_burst_bytes,
            Key::FirstBurstLength => self.first_burst_bytes,
            Key::DefaultTime2Wait => self.time2wait_s.into(),
            Key::DefaultTime2Retain => self.time2retain_s.into(),
            Key::MaxOutstandingR2T => self.max_outstanding_r2t.into(),
            // RFC 7143 itself.
            Key::ProtocolLevel => 1,
            _ => 0,
        };
        match key.kind() {
            KeyKind::DeclaredNumber { min, max }
            | KeyKind::Minimum { min, max }
            | KeyKind::Maximum { min, max } => value.clamp(min, max),
            _ => value,
        }
    }

    /// Its value of a boolean key.
    pub(super) fn boolean(&self, key: Key) -> bool {
        match key {
            Key::InitialR2T => self.initial_r2t,
            Key::ImmediateData => self.immediate_data,
            Key::DataPduInOrder => self.data_pdu_in_order,
            Key::DataSequenceInOrder => self.data_sequence_in_order,
            _ => false,
        }
    }

    /// Returns the accepted values of a list key, the preferred first.
    pub(super) fn list(&self, key: Key) -> &'static [&'static str] {
        let wanted_and_required = match key {
            Key::HeaderDigest => (self.digests.header, self.require_digests.header),
            Key::DataDigest => (self.digests.data, self.require_digests.data),
            Key::TaskReporting => return &["RFC3720"],
            _ => return &[],
        };
        match wanted_and_required {
            (true, true) => &["CRC32C"],
            (true, false) => &["CRC32C", "None"],
            (false, _) => &["None"],
        }
    }

    /// Appends all operational keys that an initiator offers for a normal session, or the few of a
    /// discovery session.
    pub fn write(&self, discovery: bool, to: &mut Writer) {
        for key in [Key::HeaderDigest, Key::DataDigest] {
            to.put(key.name(), &self.list(key).join(","));
        }
        to.number(Key::MaxRecvDataSegmentLength, self.number(Key::MaxRecvDataSegmentLength));
        for key in [Key::DefaultTime2Wait, Key::DefaultTime2Retain, Key::ErrorRecoveryLevel] {
            to.number(key, self.number(key));
        }
        if discovery {
            return;
        }
        for key in [
            Key::MaxBurstLength,
            Key::FirstBurstLength,
            Key::MaxOutstandingR2T,
            Key::MaxConnections,
        ] {
            to.number(key, self.number(key));
        }
        for key in
            [Key::InitialR2T, Key::ImmediateData, Key::DataPduInOrder, Key::DataSequenceInOrder]
        {
            to.boolean(key, self.boolean(key));
        }
    }
}

/// Parameters of a connection: the standard's defaults until others are negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Digests, from the full feature phase on.
    pub digests: Digests,
    /// MaxConnections.
    pub max_connections: u16,
    /// InitialR2T.
    pub initial_r2t: bool,
    /// ImmediateData.
    pub immediate_data: bool,
    /// MaxRecvDataSegmentLength of this end: what the peer may send in one PDU.
    pub max_recv_bytes: u32,
    /// MaxRecvDataSegmentLength of the peer: what this end may send in one PDU.
    pub max_send_bytes: u32,
    /// MaxBurstLength.
    pub max_burst_bytes: u32,
    /// FirstBurstLength; see [`Self::first_burst`].
    pub first_burst_bytes: u32,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u16,
    /// DefaultTime2Wait.
    pub time2wait_s: u16,
    /// DefaultTime2Retain.
    pub time2retain_s: u16,
    /// DataPDUInOrder.
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder.
    pub data_sequence_in_order: bool,
    /// ErrorRecoveryLevel.
    pub error_recovery_level: u8,
    /// iSCSIProtocolLevel.
    pub protocol_level: u8,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            digests: Digests::NONE,
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_recv_bytes: 8192,
            max_send_bytes: 8192,
            max_burst_bytes: 262_144,
            first_burst_bytes: 65_536,
            max_outstanding_r2t: 1,
            time2wait_s: 2,
            time2retain_s: 20,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            protocol_level: 1,
        }
    }
}

impl Parameters {
    /// Unsolicited data of one command, at most: FirstBurstLength never counts for more than
    /// MaxBurstLength (§13.14).
    pub const fn first_burst(&self) -> u32 {
        if self.first_burst_bytes < self.max_burst_bytes {
            self.first_burst_bytes
        } else {
            self.max_burst_bytes
        }
    }

    /// Enters the result of a numerical negotiation.
    pub(super) fn set_number(&mut self, key: Key, value: u32) {
        match key {
            Key::MaxConnections => self.max_connections = value as u16,
            Key::MaxBurstLength => self.max_burst_bytes = value,
            Key::FirstBurstLength => self.first_burst_bytes = value,
            Key::DefaultTime2Wait => self.time2wait_s = value as u16,
            Key::DefaultTime2Retain => self.time2retain_s = value as u16,
            Key::MaxOutstandingR2T => self.max_outstanding_r2t = value as u16,
            Key::ErrorRecoveryLevel => self.error_recovery_level = value as u8,
            Key::ProtocolLevel => self.protocol_level = value as u8,
            Key::MaxRecvDataSegmentLength => self.max_send_bytes = value,
            _ => {}
        }
    }

    /// Enters the result of a boolean negotiation.
    pub(super) fn set_boolean(&mut self, key: Key, value: bool) {
        match key {
            Key::InitialR2T => self.initial_r2t = value,
            Key::ImmediateData => self.immediate_data = value,
            Key::DataPduInOrder => self.data_pdu_in_order = value,
            Key::DataSequenceInOrder => self.data_sequence_in_order = value,
            _ => {}
        }
    }

    /// Enters the result of a list negotiation.
    pub(super) fn set_choice(&mut self, key: Key, choice: &str) {
        match key {
            Key::HeaderDigest => self.digests.header = choice == "CRC32C",
            Key::DataDigest => self.digests.data = choice == "CRC32C",
            _ => {}
        }
    }
}
