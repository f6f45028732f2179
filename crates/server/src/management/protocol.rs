//! Requests and answers: one JSON object in each line.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use weft_block::{Error, ErrorKind};

/// The version of the protocol. New methods, and new fields of answers, do not change it.
pub const VERSION: u32 = 1;

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagementRequest {
    /// [`VERSION`].
    pub version: u32,
    /// Anything; the answer repeats it.
    #[serde(default)]
    pub id: Value,
    /// Name of the method.
    pub method: String,
    /// An object; what is in it depends on the method.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
}

/// An answer: a result or an error.
#[derive(Debug, Serialize, Deserialize)]
pub struct ManagementAnswer {
    /// [`VERSION`].
    pub version: u32,
    /// That of the request; null if it could not be read.
    #[serde(default)]
    pub id: Value,
    /// The result, if the request succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The reason of the failure, otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RequestFault>,
}

/// Why a request failed. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFault {
    /// The kind of error.
    pub code: FaultCode,
    /// One sentence: what is wrong and what to do.
    pub message: String,
    /// The hosts that use what the request would take away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// Kinds of errors. The words never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultCode {
    /// The line is no request, or too long.
    Malformed,
    /// Another version of the protocol.
    Version,
    /// No such method.
    UnknownMethod,
    /// The parameters, or the configuration, are wrong.
    Invalid,
    /// No such subsystem, namespace, host, file or peer.
    NotFound,
    /// Not permitted, by the system or by a peer.
    PermissionDenied,
    /// Something uses it: a host, or another program.
    InUse,
    /// Another gateway of the group has made a change at the same moment.
    Conflict,
    /// No space, memory, queues or clients left.
    NoResources,
    /// A peer refused or ended a connection.
    Refused,
    /// No answer in time.
    TimedOut,
    /// A peer violates its protocol.
    Protocol,
    /// Not supported.
    Unsupported,
    /// Any other error of the operating system.
    Io,
    /// A code that a newer server sent.
    #[serde(other)]
    Other,
}

impl RequestFault {
    /// An error without hosts.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hosts: Vec::new() }
    }
}

impl ManagementAnswer {
    /// The answer to the request with this `id`.
    pub fn to(id: Value, outcome: Result<Value, RequestFault>) -> Self {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(fault) => (None, Some(fault)),
        };
        Self { version: VERSION, id, result, error }
    }
}

impl FaultCode {
    const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Io => Self::Io,
            ErrorKind::Usage => Self::Invalid,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::PermissionDenied => Self::PermissionDenied,
            ErrorKind::InUse => Self::InUse,
            ErrorKind::NoResources => Self::NoResources,
            ErrorKind::Refused => Self::Refused,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::Protocol => Self::Protocol,
            ErrorKind::Unsupported => Self::Unsupported,
        }
    }

    const fn kind(self) -> ErrorKind {
        match self {
            Self::Malformed | Self::Invalid => ErrorKind::Usage,
            Self::NotFound => ErrorKind::NotFound,
            Self::PermissionDenied => ErrorKind::PermissionDenied,
            Self::InUse | Self::Conflict => ErrorKind::InUse,
            Self::NoResources => ErrorKind::NoResources,
            Self::Refused => ErrorKind::Refused,
            Self::TimedOut => ErrorKind::TimedOut,
            Self::Protocol => ErrorKind::Protocol,
            Self::Unsupported | Self::Version | Self::UnknownMethod => ErrorKind::Unsupported,
            Self::Io | Self::Other => ErrorKind::Io,
        }
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for RequestFault {
    fn from(error: Error) -> Self {
        Self::new(FaultCode::of(error.kind()), error.to_string())
    }
}

impl From<weft_endpoint::inventory::InventoryError> for RequestFault {
    fn from(error: weft_endpoint::inventory::InventoryError) -> Self {
        Error::from(error).into()
    }
}

impl From<RequestFault> for Error {
    fn from(fault: RequestFault) -> Self {
        Self::new(fault.code.kind(), fault.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_are_words_and_keep_their_kind() {
        let fault = RequestFault::from(Error::new(ErrorKind::InUse, "it is used"));
        let answer = serde_json::to_value(ManagementAnswer::to(json!(3), Err(fault))).unwrap();
        assert_eq!(
            answer,
            json!({"version": 1, "id": 3, "error": {"code": "in-use", "message": "it is used"}})
        );
        let newer: RequestFault =
            serde_json::from_value(json!({"code": "on-fire", "message": "it burns"})).unwrap();
        assert_eq!(newer.code, FaultCode::Other);
    }
}
