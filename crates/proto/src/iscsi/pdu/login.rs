//! Login Request and Login Response (RFC 7143 §11.12, §11.13).

use core::fmt;

use super::TaskTag;
use super::wire::{Field, code, pdu};
use crate::iscsi::serial::Serial;

/// The initiator's part of a session's name (§11.12.5): with the initiator's name it identifies one
/// end of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isid(pub [u8; 6]);

impl Isid {
    /// A random one (T = 10b): 24 bits at random and a qualifier.
    pub const fn random(random: [u8; 3], qualifier: u16) -> Self {
        let [high, low] = qualifier.to_be_bytes();
        Self([0x80, random[0], random[1], random[2], high, low])
    }
}

impl fmt::Display for Isid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Field for Isid {
    fn read(at: &[u8]) -> Self {
        Self(Field::read(at))
    }

    fn write(self, at: &mut [u8]) {
        self.0.write(at);
    }
}

/// A stage of login (§11.12.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoginStage(pub u8);

impl LoginStage {
    /// SecurityNegotiation.
    pub const SECURITY: Self = Self(0);
    /// LoginOperationalNegotiation.
    pub const OPERATIONAL: Self = Self(1);
    /// FullFeaturePhase.
    pub const FULL_FEATURE: Self = Self(3);
}

code! {
    /// Flags and stages of login PDUs (§11.12.1 to §11.12.3).
    LoginFlags & 0xff {
        /// None.
        NONE = 0,
        /// T: ready to go to the next stage.
        TRANSIT = 0x80,
        /// C: the text goes on in the next PDU.
        CONTINUE = 0x40,
    }
}

impl LoginFlags {
    /// Of a PDU in stage `current`; with `next` it proposes or does the transit to that.
    pub const fn new(current: LoginStage, next: Option<LoginStage>) -> Self {
        match next {
            Some(next) => Self(0x80 | (current.0 & 3) << 2 | next.0 & 3),
            None => Self((current.0 & 3) << 2),
        }
    }

    /// With C set.
    #[must_use]
    pub const fn continued(self) -> Self {
        Self(self.0 | Self::CONTINUE.0)
    }

    /// Returns whether T is set.
    pub const fn is_transit(self) -> bool {
        self.0 & Self::TRANSIT.0 != 0
    }

    /// Returns whether C is set.
    pub const fn is_continued(self) -> bool {
        self.0 & Self::CONTINUE.0 != 0
    }

    /// CSG.
    pub const fn current(self) -> LoginStage {
        LoginStage(self.0 >> 2 & 3)
    }

    /// NSG, which counts only with T.
    pub const fn next(self) -> LoginStage {
        LoginStage(self.0 & 3)
    }
}

pdu! {
    /// Login Request (§11.12), which is always immediate (0x40 is part of its first byte). Its data
    /// segment is text.
    LoginRequest = LOGIN_REQUEST, 0 {
        /// I, which is always set.
        immediate: bool = 0,
        /// Flags and stages.
        flags: LoginFlags = 1,
        /// Highest version that is spoken; 0.
        version_max: u8 = 2,
        /// Lowest version that is spoken; 0.
        version_min: u8 = 3,
        /// The initiator's part of the session's name.
        isid: Isid = 8,
        /// The target's part; 0 for a new session.
        tsih: u16 = 14,
        /// Names the login; the same in all its requests.
        task: TaskTag = 16,
        /// Names the connection in the session.
        cid: u16 = 20,
        /// The next command of the session: the first one, where the session is new.
        cmd_sn: Serial = 24,
        /// Status that has arrived.
        exp_stat_sn: Serial = 28,
    }
}

/// Status-Class and Status-Detail of a Login Response (§11.13.5), the class in the upper byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoginStatus(pub u16);

macro_rules! login_status {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        impl LoginStatus {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// Returns its meaning, in a few words.
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($code => $text,)*
                    _ => "an unknown status",
                }
            }
        }
    };
}

login_status! {
    /// Success.
    SUCCESS = 0x0000, "success";
    /// The target has moved for now; TargetAddress says where.
    MOVED_TEMPORARILY = 0x0101, "the target has moved temporarily";
    /// The target has moved for good; TargetAddress says where.
    MOVED_PERMANENTLY = 0x0102, "the target has moved permanently";
    /// Miscellaneous initiator errors.
    INITIATOR_ERROR = 0x0200, "initiator error";
    /// Authentication failed, or the target does not speak the initiator's methods.
    AUTHENTICATION_FAILURE = 0x0201, "authentication failed";
    /// The initiator may not use this target.
    AUTHORIZATION_FAILURE = 0x0202, "the initiator is not allowed to use the target";
    /// There is no such target.
    NOT_FOUND = 0x0203, "there is no such target";
    /// The target is gone for good.
    TARGET_REMOVED = 0x0204, "the target was removed";
    /// No version in common.
    UNSUPPORTED_VERSION = 0x0205, "no common protocol version";
    /// Too many connections in the session.
    TOO_MANY_CONNECTIONS = 0x0206, "too many connections in the session";
    /// A key that is needed is missing, such as InitiatorName or TargetName.
    MISSING_PARAMETER = 0x0207, "a required parameter is missing";
    /// The target cannot include the connection in the session.
    CANNOT_INCLUDE = 0x0208, "the connection cannot be included in the session";
    /// The target does not support this type of session.
    SESSION_TYPE = 0x0209, "the session type is not supported";
    /// The session for a new connection does not exist.
    NO_SESSION = 0x020a, "the session does not exist";
    /// A request came in a stage in which it is not allowed.
    INVALID_DURING_LOGIN = 0x020b, "a request is invalid during login";
    /// The target failed.
    TARGET_ERROR = 0x0300, "the target failed";
    /// The target or this port of it cannot serve now.
    SERVICE_UNAVAILABLE = 0x0301, "service unavailable";
    /// The target has no room for a further session or connection.
    OUT_OF_RESOURCES = 0x0302, "the target is out of resources";
}

impl LoginStatus {
    /// Status-Class: 0 success, 1 redirection, 2 initiator error, 3 target error.
    pub const fn class(self) -> u8 {
        (self.0 >> 8) as u8
    }
}

impl Field for LoginStatus {
    fn read(at: &[u8]) -> Self {
        Self(Field::read(at))
    }

    fn write(self, at: &mut [u8]) {
        self.0.write(at);
    }
}

pdu! {
    /// Login Response (§11.13). Its data segment is text.
    LoginResponse = LOGIN_RESPONSE, 0 {
        /// Flags and stages.
        flags: LoginFlags = 1,
        /// Highest version that is spoken; 0.
        version_max: u8 = 2,
        /// The version in use; 0.
        version_active: u8 = 3,
        /// As in the request.
        isid: Isid = 8,
        /// The target's part of the session's name; set in the last response.
        tsih: u16 = 14,
        /// As in the request.
        task: TaskTag = 16,
        /// Its place in the order of responses; the first one chooses.
        stat_sn: Serial = 24,
        /// The next command that is expected.
        exp_cmd_sn: Serial = 28,
        /// The last command that is taken.
        max_cmd_sn: Serial = 32,
        /// The outcome.
        status: LoginStatus = 36,
    }
}
