//! The keys of RFC 7143 §12.1 and §13, and their types.

/// Origin of the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// One end says what is so; there is no answer.
    Declared,
    /// A number that one end declares.
    DeclaredNumber {
        /// Least value.
        min: u32,
        /// Greatest value.
        max: u32,
    },
    /// Each end says a number, the least counts.
    Minimum {
        /// Least value.
        min: u32,
        /// Greatest value.
        max: u32,
    },
    /// Each end says a number, the greatest counts.
    Maximum {
        /// Least value.
        min: u32,
        /// Greatest value.
        max: u32,
    },
    /// Yes if both say so.
    And,
    /// Yes if either says so.
    Or,
    /// The offerer lists what it takes in the order of preference; the answer is one of them.
    List,
    /// Obsolete: markers, of which there are none.
    Marker,
    /// Part of authentication; see [`crate::iscsi::chap`].
    Security,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident = $name:literal, $kind:expr;)*) => {
        /// A key of the standard.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Key {
            $($(#[$doc])* $key,)*
        }

        impl Key {
            /// Every key.
            pub const ALL: &[Self] = &[$(Self::$key,)*];

            /// As it is written.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$key => $name,)* }
            }

            /// The key of this name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$key),)*
                    _ => None,
                }
            }

            /// Returns its kind of negotiation.
            pub const fn kind(self) -> KeyKind {
                match self { $(Self::$key => $kind,)* }
            }
        }
    };
}

/// Minimum of a length in bytes.
const LENGTH_MIN: u32 = 512;
const LENGTH_MAX: u32 = (1 << 24) - 1;

keys! {
    /// §12.1: methods of authentication.
    AuthMethod = "AuthMethod", KeyKind::Security;
    /// §12.1.3: algorithms that are offered, or the one chosen.
    ChapAlgorithm = "CHAP_A", KeyKind::Security;
    /// §12.1.3: identifier of a challenge.
    ChapIdentifier = "CHAP_I", KeyKind::Security;
    /// §12.1.3: challenge.
    ChapChallenge = "CHAP_C", KeyKind::Security;
    /// §12.1.3: name of who answers.
    ChapName = "CHAP_N", KeyKind::Security;
    /// §12.1.3: response.
    ChapResponse = "CHAP_R", KeyKind::Security;
    /// §13.1.
    HeaderDigest = "HeaderDigest", KeyKind::List;
    /// §13.1.
    DataDigest = "DataDigest", KeyKind::List;
    /// §13.2: connections of a session.
    MaxConnections = "MaxConnections", KeyKind::Minimum { min: 1, max: 65_535 };
    /// §13.3: asks for targets; appendix C.
    SendTargets = "SendTargets", KeyKind::Declared;
    /// §13.4.
    TargetName = "TargetName", KeyKind::Declared;
    /// §13.5.
    InitiatorName = "InitiatorName", KeyKind::Declared;
    /// §13.6.
    TargetAlias = "TargetAlias", KeyKind::Declared;
    /// §13.7.
    InitiatorAlias = "InitiatorAlias", KeyKind::Declared;
    /// §13.8.
    TargetAddress = "TargetAddress", KeyKind::Declared;
    /// §13.9.
    TargetPortalGroupTag = "TargetPortalGroupTag", KeyKind::DeclaredNumber { min: 0, max: 65_535 };
    /// §13.10: whether writes wait for an R2T before they send more than immediate data.
    InitialR2T = "InitialR2T", KeyKind::Or;
    /// §13.11.
    ImmediateData = "ImmediateData", KeyKind::And;
    /// §13.12: data that the declaring end takes in one PDU.
    MaxRecvDataSegmentLength = "MaxRecvDataSegmentLength", KeyKind::DeclaredNumber { min: LENGTH_MIN, max: LENGTH_MAX };
    /// §13.13: data in one sequence of Data-In or solicited Data-Out PDUs.
    MaxBurstLength = "MaxBurstLength", KeyKind::Minimum { min: LENGTH_MIN, max: LENGTH_MAX };
    /// §13.14: unsolicited data of one command.
    FirstBurstLength = "FirstBurstLength", KeyKind::Minimum { min: LENGTH_MIN, max: LENGTH_MAX };
    /// §13.15.
    DefaultTime2Wait = "DefaultTime2Wait", KeyKind::Maximum { min: 0, max: 3_600 };
    /// §13.16.
    DefaultTime2Retain = "DefaultTime2Retain", KeyKind::Minimum { min: 0, max: 3_600 };
    /// §13.17: R2Ts outstanding of one command.
    MaxOutstandingR2T = "MaxOutstandingR2T", KeyKind::Minimum { min: 1, max: 65_535 };
    /// §13.18.
    DataPduInOrder = "DataPDUInOrder", KeyKind::Or;
    /// §13.19.
    DataSequenceInOrder = "DataSequenceInOrder", KeyKind::Or;
    /// §13.20.
    ErrorRecoveryLevel = "ErrorRecoveryLevel", KeyKind::Minimum { min: 0, max: 2 };
    /// §13.21: Discovery or Normal.
    SessionType = "SessionType", KeyKind::Declared;
    /// §13.23: what is reported of tasks that are aborted.
    TaskReporting = "TaskReporting", KeyKind::List;
    /// §13.24.
    ProtocolLevel = "iSCSIProtocolLevel", KeyKind::Minimum { min: 0, max: 31 };
    /// §13.25.
    InitiatorMarker = "IFMarker", KeyKind::Marker;
    /// §13.25.
    TargetMarker = "OFMarker", KeyKind::Marker;
    /// §13.25.
    InitiatorMarkerInterval = "IFMarkInt", KeyKind::Marker;
    /// §13.25.
    TargetMarkerInterval = "OFMarkInt", KeyKind::Marker;
}

impl Key {
    /// Returns whether only targets say it: an initiator that does so repeats it, or says that it
    /// does not understand it.
    pub const fn is_targets_own(self) -> bool {
        matches!(self, Self::TargetAlias | Self::TargetAddress | Self::TargetPortalGroupTag)
    }

    /// Returns whether it means nothing in a discovery session, where it is answered with
    /// Irrelevant (§13, "Irrelevant when").
    pub const fn is_irrelevant_in_discovery(self) -> bool {
        matches!(
            self,
            Self::MaxConnections
                | Self::InitialR2T
                | Self::ImmediateData
                | Self::MaxBurstLength
                | Self::FirstBurstLength
                | Self::MaxOutstandingR2T
                | Self::DataPduInOrder
                | Self::DataSequenceInOrder
                | Self::TaskReporting
        )
    }
}
