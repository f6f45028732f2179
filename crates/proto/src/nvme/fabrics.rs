//! Fabrics commands (Base §6): Connect with its data and its response, Property Get and Property
//! Set, for both ends.

use super::auth::{PROTOCOL_SPECIFIC, SECURITY_PROTOCOL};
use super::opcode::FabricsType;
use super::property::PropertyOffset;
use super::sqe::Sqe;
use super::types::{Cntlid, Id128, Qid};
use super::wire::{NqnField, structure};

/// Command-specific fields of Connect (Base §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// RECFMT: 0 is the only format there is.
    pub record_format: u16,
    /// QID: the queue to create; 0 is the admin queue.
    pub qid: Qid,
    /// SQSIZE: entries of the submission queue, counted from zero; 0 is not legal.
    pub sq_size: u16,
    /// CATTR: bits 1:0 priority class, bit 2 [`Self::DISABLE_FLOW_CONTROL`].
    pub attributes: u8,
    /// KATO: keep alive timeout in milliseconds, of the admin queue; 0 means none.
    pub keep_alive_ms: u32,
}

impl Connect {
    /// CATTR: the host asks not to use SQ flow control.
    pub const DISABLE_FLOW_CONTROL: u8 = 1 << 2;

    /// Offset of RECFMT in the command.
    pub const RECORD_FORMAT_AT: u16 = 40;
    /// Offset of QID in the command.
    pub const QID_AT: u16 = 42;
    /// Offset of SQSIZE in the command.
    pub const SQ_SIZE_AT: u16 = 44;
    /// Offset of CATTR in the command.
    pub const ATTRIBUTES_AT: u16 = 46;
    /// Offset of KATO in the command.
    pub const KEEP_ALIVE_AT: u16 = 48;

    /// Reads the fields of a command.
    pub fn decode(sqe: &Sqe) -> Self {
        Self {
            record_format: sqe.dword(10) as u16,
            qid: Qid((sqe.dword(10) >> 16) as u16),
            sq_size: sqe.dword(11) as u16,
            attributes: (sqe.dword(11) >> 16) as u8,
            keep_alive_ms: sqe.dword(12),
        }
    }

    /// The command, without command identifier and data pointer.
    pub fn encode(&self) -> Sqe {
        let mut sqe = Sqe::fabrics(FabricsType::CONNECT.0);
        sqe.set_dword(10, u32::from(self.record_format) | u32::from(self.qid.0) << 16);
        sqe.set_dword(11, u32::from(self.sq_size) | u32::from(self.attributes) << 16);
        sqe.set_dword(12, self.keep_alive_ms);
        sqe
    }
}

structure! {
    /// Data of Connect (Base §6.3).
    pub struct ConnectData[1024] {
        /// HOSTID. Zero on an I/O queue means that the host does not tell it again.
        0 host_id: Id128,
        /// CNTLID: [`Cntlid::DYNAMIC`] or [`Cntlid::STATIC`] on the admin queue, or the controller
        /// that is meant.
        16 cntlid: Cntlid,
        /// SUBNQN.
        256 subnqn: NqnField,
        /// HOSTNQN.
        512 hostnqn: NqnField,
    }
}

impl ConnectData {
    /// Offset of HOSTID in the data.
    pub const HOST_ID_AT: u16 = 0;
    /// Offset of CNTLID in the data.
    pub const CNTLID_AT: u16 = 16;
    /// Offset of SUBNQN in the data.
    pub const SUBNQN_AT: u16 = 256;
    /// Offset of HOSTNQN in the data.
    pub const HOSTNQN_AT: u16 = 512;
}

/// Place of the error that Connect Invalid Parameters reports: dword 0 of the response (Base §6.3,
/// IPO and IATTR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidParameter {
    /// Offset of the field in bytes.
    pub offset: u16,
    /// True if the offset counts in the data; in the command otherwise.
    pub in_data: bool,
}

impl InvalidParameter {
    /// A field of the command.
    pub const fn command(offset: u16) -> Self {
        Self { offset, in_data: false }
    }

    /// A field of the data.
    pub const fn data(offset: u16) -> Self {
        Self { offset, in_data: true }
    }

    /// Dword 0 of the completion.
    pub const fn encode(self) -> u32 {
        self.offset as u32 | (self.in_data as u32) << 16
    }

    /// Reads dword 0 of the completion.
    pub const fn decode(dword0: u32) -> Self {
        Self { offset: dword0 as u16, in_data: dword0 >> 16 & 1 != 0 }
    }

    /// Name of the field, as the specification has it.
    pub fn field(self) -> Option<&'static str> {
        match (self.in_data, self.offset) {
            (false, Connect::RECORD_FORMAT_AT) => Some("RECFMT"),
            (false, Connect::QID_AT) => Some("QID"),
            (false, Connect::SQ_SIZE_AT) => Some("SQSIZE"),
            (false, Connect::ATTRIBUTES_AT) => Some("CATTR"),
            (false, Connect::KEEP_ALIVE_AT) => Some("KATO"),
            (true, ConnectData::HOST_ID_AT) => Some("HOSTID"),
            (true, ConnectData::CNTLID_AT) => Some("CNTLID"),
            (true, ConnectData::SUBNQN_AT) => Some("SUBNQN"),
            (true, ConnectData::HOSTNQN_AT) => Some("HOSTNQN"),
            _ => None,
        }
    }
}

/// Dword 0 of a successful Connect (Base §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// The controller that the queue belongs to.
    pub cntlid: Cntlid,
    /// AUTHREQ: what the controller asks for before other commands; 0 means nothing.
    pub authentication: u16,
}

impl ConnectResponse {
    /// AUTHREQ: authentication is required (ATR).
    pub const AUTHENTICATION_REQUIRED: u16 = 1 << 1;

    /// AUTHREQ: authentication and a secure channel are required (ASCR).
    pub const SECURE_CHANNEL_REQUIRED: u16 = 1 << 2;

    /// Dword 0 of the completion.
    pub const fn encode(self) -> u32 {
        self.cntlid.0 as u32 | (self.authentication as u32) << 16
    }

    /// Reads dword 0 of the completion.
    pub const fn decode(dword0: u32) -> Self {
        Self { cntlid: Cntlid(dword0 as u16), authentication: (dword0 >> 16) as u16 }
    }
}

/// The field SQHD of the response to Connect that turns SQ flow control off (Base §6.3).
pub const FLOW_CONTROL_OFF: u16 = 0xffff;

/// Command-specific fields of Property Get and Property Set (Base §6.5, §6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Property {
    /// OFST.
    pub offset: PropertyOffset,
    /// Bytes to read or write, 4 or 8; 0 for the reserved sizes.
    pub bytes: u8,
    /// VALUE, of Property Set only.
    pub value: u64,
}

impl Property {
    /// Reads the fields of a command.
    pub fn decode(sqe: &Sqe) -> Self {
        let bytes = match sqe.dword(10) & 7 {
            0 => 4,
            1 => 8,
            _ => 0,
        };
        let value = if bytes == 8 { sqe.qword(12) } else { u64::from(sqe.dword(12)) };
        Self { offset: PropertyOffset(sqe.dword(11)), bytes, value }
    }

    /// Property Get of a property in its size, without command identifier. Unknown properties are
    /// taken to have 4 bytes.
    pub fn get(offset: PropertyOffset) -> Sqe {
        Self::command(FabricsType::PROPERTY_GET, offset)
    }

    /// Property Set, without command identifier.
    pub fn set(offset: PropertyOffset, value: u64) -> Sqe {
        let mut sqe = Self::command(FabricsType::PROPERTY_SET, offset);
        sqe.set_qword(12, value);
        sqe
    }

    fn command(kind: FabricsType, offset: PropertyOffset) -> Sqe {
        let mut sqe = Sqe::fabrics(kind.0);
        sqe.set_dword(10, u32::from(offset.bytes() == Some(8)));
        sqe.set_dword(11, offset.0);
        sqe
    }
}

/// Command-specific fields of Authentication Send and Authentication Receive (Base §6.1, §6.2) for
/// NVMe in-band authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Security {
    /// SECP: the security protocol.
    pub protocol: u8,
    /// SPSP0 and SPSP1.
    pub specific: [u8; 2],
    /// TL or AL: bytes of the data.
    pub bytes: u32,
}

impl Security {
    /// Reads the fields of a command.
    pub fn decode(sqe: &Sqe) -> Self {
        let [_, zero, one, protocol] = sqe.dword(10).to_le_bytes();
        Self { protocol, specific: [zero, one], bytes: sqe.dword(11) }
    }

    /// Returns whether it is a message of NVMe in-band authentication.
    pub fn is_authentication(&self) -> bool {
        self.protocol == SECURITY_PROTOCOL && self.specific == [PROTOCOL_SPECIFIC; 2]
    }

    /// Authentication Send of `bytes` bytes, without command identifier and data pointer.
    pub fn send(bytes: u32) -> Sqe {
        Self::command(FabricsType::AUTHENTICATION_SEND, bytes)
    }

    /// Authentication Receive of at most `bytes` bytes, without command identifier and data
    /// pointer.
    pub fn receive(bytes: u32) -> Sqe {
        Self::command(FabricsType::AUTHENTICATION_RECEIVE, bytes)
    }

    fn command(kind: FabricsType, bytes: u32) -> Sqe {
        let mut sqe = Sqe::fabrics(kind.0);
        sqe.set_dword(
            10,
            u32::from_le_bytes([0, PROTOCOL_SPECIFIC, PROTOCOL_SPECIFIC, SECURITY_PROTOCOL]),
        );
        sqe.set_dword(11, bytes);
        sqe
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::types::Nqn;

    #[test]
    fn connect_bytes() {
        let connect = Connect {
            record_format: 0,
            qid: Qid(3),
            sq_size: 127,
            attributes: Connect::DISABLE_FLOW_CONTROL,
            keep_alive_ms: 5_000,
        };
        let sqe = connect.encode();
        assert_eq!(sqe.0[..5], [0x7f, 0x40, 0, 0, 1]);
        assert_eq!(sqe.0[40..52], [0, 0, 3, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
        assert_eq!(Connect::decode(&sqe), connect);
    }

    #[test]
    fn connect_data_bytes() {
        let data = ConnectData {
            host_id: Id128([9; 16]),
            cntlid: Cntlid::DYNAMIC,
            subnqn: NqnField::from(&Nqn::discovery()),
            hostnqn: NqnField::from(&Nqn::new("nqn.2014-08.org.example:host").unwrap()),
        };
        let bytes = data.encode();
        assert_eq!(bytes.len(), 1024);
        assert_eq!(bytes[..18], [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0xff, 0xff]);
        assert_eq!(&bytes[256..292], b"nqn.2014-08.org.nvmexpress.discovery");
        assert_eq!(&bytes[512..541], b"nqn.2014-08.org.example:host\0");
        assert_eq!(ConnectData::decode(&bytes).unwrap(), data);
        assert!(ConnectData::decode(&bytes[..1023]).is_err());
    }

    #[test]
    fn responses() {
        let invalid = InvalidParameter::data(ConnectData::SUBNQN_AT);
        assert_eq!(invalid.encode(), 0x0001_0100);
        assert_eq!(InvalidParameter::decode(0x0001_0100), invalid);
        assert_eq!(invalid.field(), Some("SUBNQN"));
        assert_eq!(InvalidParameter::command(Connect::QID_AT).encode(), 42);
        assert_eq!(InvalidParameter::command(7).field(), None);
        let response = ConnectResponse { cntlid: Cntlid(7), authentication: 0 };
        assert_eq!(ConnectResponse::decode(response.encode()), response);
    }

    #[test]
    fn authentication_commands() {
        let sqe = Security::send(300);
        assert_eq!((sqe.0[0], sqe.0[4]), (0x7f, 5));
        assert_eq!(sqe.0[40..48], [0, 1, 1, 0xe9, 0x2c, 1, 0, 0]);
        assert_eq!(
            Security::decode(&sqe),
            Security { protocol: 0xe9, specific: [1, 1], bytes: 300 }
        );
        assert_eq!(Security::receive(1).0[4], 6);
        assert!(Security::decode(&sqe).is_authentication());
        let mut other = sqe;
        other.0[42] = 0;
        assert!(!Security::decode(&other).is_authentication());
    }

    #[test]
    fn property_commands() {
        let sqe = Property::get(PropertyOffset::CAP);
        assert_eq!((sqe.0[4], sqe.0[40], sqe.0[44]), (4, 1, 0));
        let sqe = Property::set(PropertyOffset::CC, 0x0046_0001);
        assert_eq!((sqe.0[4], sqe.0[40], sqe.0[44]), (0, 0, 0x14));
        assert_eq!(
            Property::decode(&sqe),
            Property { offset: PropertyOffset::CC, bytes: 4, value: 0x0046_0001 }
        );
        let mut sqe = Property::get(PropertyOffset::VS);
        sqe.0[40] = 2;
        assert_eq!(Property::decode(&sqe).bytes, 0);
    }
}
