//! Names of the ports of a nexus (SPC-4 §7.6.4).

use crate::nvme::types::Id128;
use crate::scsi::bytes::{be16, put};
use std::sync::Arc;

/// Protocol identifier of iSCSI (SPC-4 §7.6.1), in bits 3:0.
const PROTOCOL_ISCSI: u8 = 0x5;
/// Protocol identifier of what has no protocol of SCSI.
const PROTOCOL_NONE: u8 = 0xf;
/// FORMAT CODE 01b: the name of an initiator port, which the session's identifier is part of.
const FORMAT_PORT: u8 = 0x40;

/// Bytes of the longest TransportID: a header, an iSCSI name of 223 bytes, `,i,0x` and 12 digits,
/// padded with NUL to a multiple of 4.
pub const TRANSPORT_ID_BYTES_MAX: usize = 4 + 244;

/// TransportID of an initiator port (SPC-4 §7.6.4), cheap to copy. Registrations of persistent
/// reservations are kept under it, so it has to be the same when an initiator comes back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TransportId(Arc<[u8]>);

impl TransportId {
    /// That of an iSCSI initiator port: the initiator's name in its normal form, and the ISID of
    /// the session (RFC 7143 §3.4.2). A name of more than 223 bytes, which iSCSI rules out, is cut
    /// off.
    pub fn iscsi(name: &str, isid: [u8; 6]) -> Self {
        let name = &name.as_bytes()[..name.len().min(223)];
        let isid: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = name.len() + 5 + isid.len();
        // NUL-terminated, of at least 20 bytes and a multiple of 4.
        let field = (text + 1).next_multiple_of(4).max(20);
        let mut bytes = vec![0; 4 + field];
        bytes[0] = FORMAT_PORT | PROTOCOL_ISCSI;
        put(&mut bytes[2..4], field as u64);
        bytes[4..4 + text].copy_from_slice(&[name, b",i,0x", isid.as_bytes()].concat());
        Self(bytes.into())
    }

    /// Returns the name by which initiators see a registered NVMe host: SCSI has no TransportID for
    /// it, so the protocol is "none", and the host identifier is in bytes 8 to 23.
    pub(super) fn nvme(host: &Id128) -> Self {
        let mut bytes = [0; 24];
        bytes[0] = PROTOCOL_NONE;
        bytes[8..].copy_from_slice(&host.0);
        Self(bytes.as_slice().into())
    }

    /// The TransportID at the front of bytes: only its length is checked.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let length = 4 + usize::from(be16(bytes.get(..4)?, 2));
        let is_sound = length.is_multiple_of(4) && length <= TRANSPORT_ID_BYTES_MAX;
        Some(Self(bytes.get(..length).filter(|_| is_sound)?.into()))
    }

    /// The bytes: a multiple of 4, at most [`TRANSPORT_ID_BYTES_MAX`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An I_T nexus by what lasts: the initiator port, and the target port by its relative identifier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NexusName {
    /// The initiator port.
    pub initiator: TransportId,
    /// Relative port identifier of the target port: 1 and on. In registrations also
    /// [`NexusName::ALL_PORTS`].
    pub target_port: u16,
}

impl NexusName {
    /// The number of no target port: that of a registration for all of them.
    pub const ALL_PORTS: u16 = 0;

    /// Returns whether a registration under this name is that of a nexus.
    pub fn covers(&self, nexus: &Self) -> bool {
        self.initiator == nexus.initiator
            && (self.target_port == nexus.target_port || self.target_port == Self::ALL_PORTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iscsi_port_is_laid_out_as_the_standard_shows() {
        let id = TransportId::iscsi("iqn.2026-11.example:a", [0x40, 0, 1, 0x37, 0, 2]);
        let text = b"iqn.2026-11.example:a,i,0x400001370002";
        assert_eq!(id.as_bytes()[..4], [0x45, 0, 0, 40]);
        assert_eq!(&id.as_bytes()[4..4 + text.len()], text);
        assert_eq!(id.as_bytes()[4 + text.len()..], [0, 0]);
        assert_eq!(TransportId::decode(id.as_bytes()), Some(id));
    }

    #[test]
    fn short_and_long_names_fit() {
        assert_eq!(TransportId::iscsi("", [0; 6]).as_bytes().len(), 24);
        assert_eq!(
            TransportId::iscsi(&"n".repeat(300), [0; 6]).as_bytes().len(),
            TRANSPORT_ID_BYTES_MAX
        );
        assert_eq!(TransportId::decode(&[0x45, 0, 0, 20, 0]), None);
        assert_eq!(TransportId::decode(&[0x45, 0]), None);
    }
}
