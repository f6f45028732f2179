//! The possible violations of NVMe/TCP by a peer, and the answers to them (Fatal Error Status and
//! Information, NVMe TCP 1.1 §3.6.2.4 and §3.6.2.5).

use super::term::FatalErrorStatus as Fes;

/// Why this end closed the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A PDU-Type that is unknown or goes in the other direction.
    #[error(
        "the peer sent a PDU of type {0:#04x}, which this end of an NVMe/TCP connection cannot receive"
    )]
    PduType(u8),
    /// Something else came before the connection was initialized.
    #[error("the peer sent a PDU before the connection was initialized")]
    NotInitialized,
    /// A second ICReq or ICResp.
    #[error("the peer initialized the connection twice")]
    InitializedTwice,
    /// HDGSTF does not say what was agreed on.
    #[error("the header digest flag contradicts what was negotiated")]
    HeaderDigestFlag,
    /// DDGSTF does not say what was agreed on.
    #[error("the data digest flag contradicts what was negotiated")]
    DataDigestFlag,
    /// SUCCESS without LAST_PDU.
    #[error("the controller reported success before the last data PDU")]
    SuccessNotLast,
    /// HLEN is not that of the type.
    #[error("the PDU header length is not that of its type")]
    HeaderLength,
    /// PDO points into the header, behind the PDU, or is not aligned as asked.
    #[error("the PDU data offset is invalid")]
    DataOffset,
    /// PLEN does not suit the type.
    #[error("the PDU length is invalid")]
    PduLength,
    /// The header digest is wrong; holds the one received.
    #[error("the header digest is wrong: data was damaged in transit")]
    HeaderDigest(u32),
    /// A PFV other than 0.
    #[error("the peer speaks PDU format version {0}, this end version 0 only")]
    FormatVersion(u16),
    /// HPDA or CPDA above 31.
    #[error("the peer asks for a data alignment that does not exist")]
    Alignment,
    /// ICResp enables a digest that was not asked for.
    #[error("the controller enabled a digest that was not requested")]
    UnrequestedDigest,
    /// MAXH2CDATA is below 4096 or no multiple of 4.
    #[error("the controller states an invalid MAXH2CDATA")]
    MaxH2cData,
    /// A data PDU or R2T for no command that is outstanding.
    #[error("a data PDU names a command that is not outstanding")]
    DataCommandId,
    /// A response for no command that is outstanding.
    #[error("a response names a command that is not outstanding")]
    ResponseCommandId,
    /// H2CData for no R2T that is outstanding.
    #[error("a data PDU names an R2T that is not outstanding")]
    TransferTag,
    /// DATAL is not the length of the data, or R2TL is 0.
    #[error("the data length of a PDU contradicts the rest of its header")]
    DataLength,
    /// Data outside of what was submitted or asked for.
    #[error("a data PDU or R2T lies outside of its command's data")]
    OutOfRange,
    /// Data or R2Ts of a command out of order.
    #[error("the peer sent data or R2Ts of a command out of order")]
    OutOfOrder,
    /// C2HData or R2T for a command that has no such data, or none left after LAST_PDU.
    #[error("the controller moved data of a command that has none left in this direction")]
    UnexpectedTransfer,
    /// Success before all data was there.
    #[error("the controller reported success before it had sent all data")]
    ShortData,
    /// Success of a command whose data was not taken.
    #[error("the controller reported success without having taken the data of the command")]
    UnfetchedData,
    /// More commands than the queue has entries.
    #[error("the host submitted more commands than its queue holds")]
    QueueOverrun,
    /// An H2CData PDU with more data than MAXH2CDATA.
    #[error("a data PDU holds more than the {0} bytes that MAXH2CDATA allows")]
    H2cDataLimit(u32),
    /// A capsule with more data than was announced.
    #[error("a command capsule holds more than the {0} bytes of data that were announced")]
    InCapsuleLimit(u32),
    /// More R2Ts outstanding than MAXR2T.
    #[error("the controller sent more R2Ts than the {0} per command that were announced")]
    R2tLimit(u8),
    /// A TermReq of invalid length. It is not answered.
    #[error("the peer ended the connection with a malformed request")]
    MalformedTermReq,
    /// The host did not get its Connect accepted in time. It is not told.
    #[error("no Connect within {} s", .0.as_secs_f32())]
    ConnectLate(core::time::Duration),
}

impl Violation {
    /// FES and FEI.
    pub const fn wire(self) -> (Fes, u32) {
        match self {
            Self::PduType(_) => (Fes::INVALID_HEADER_FIELD, 0),
            Self::HeaderDigestFlag | Self::DataDigestFlag | Self::SuccessNotLast => {
                (Fes::INVALID_HEADER_FIELD, 1)
            }
            Self::HeaderLength => (Fes::INVALID_HEADER_FIELD, 2),
            Self::DataOffset => (Fes::INVALID_HEADER_FIELD, 3),
            Self::PduLength | Self::MalformedTermReq => (Fes::INVALID_HEADER_FIELD, 4),
            Self::DataCommandId => (Fes::INVALID_HEADER_FIELD, 8),
            Self::Alignment | Self::TransferTag => (Fes::INVALID_HEADER_FIELD, 10),
            Self::UnrequestedDigest => (Fes::INVALID_HEADER_FIELD, 11),
            Self::MaxH2cData => (Fes::INVALID_HEADER_FIELD, 12),
            Self::DataLength => (Fes::INVALID_HEADER_FIELD, 16),
            // CID of the completion, which starts behind the common header.
            Self::ResponseCommandId => (Fes::INVALID_HEADER_FIELD, 20),
            Self::NotInitialized
            | Self::InitializedTwice
            | Self::OutOfOrder
            | Self::UnexpectedTransfer
            | Self::ShortData
            | Self::UnfetchedData
            | Self::QueueOverrun
            | Self::ConnectLate(_) => (Fes::SEQUENCE_ERROR, 0),
            Self::HeaderDigest(received) => (Fes::HEADER_DIGEST_ERROR, received),
            Self::OutOfRange => (Fes::OUT_OF_RANGE, 0),
            Self::H2cDataLimit(_) | Self::InCapsuleLimit(_) | Self::R2tLimit(_) => {
                (Fes::LIMIT_EXCEEDED, 0)
            }
            Self::FormatVersion(_) => (Fes::UNSUPPORTED_PARAMETER, 8),
        }
    }
}
