//! Authentication Send and Authentication Receive (Base §6.1, §6.2) on a queue, and what a queue
//! answers whose host has not authenticated yet. What the messages mean is in
//! [`crate::nvme::auth`].

use super::control::ControllerCore;
use super::fault::{Fault, at, data_from_host, data_to_host};
use super::io::queue::IoQueue;
use crate::nvme::auth::MESSAGE_BYTES_MAX;
use crate::nvme::cqe::Cqe;
use crate::nvme::fabrics::Security;
use crate::nvme::opcode::{AdminOpcode, FabricsType};
use crate::nvme::sqe::{Fuse, HostMemory, Sqe};
use crate::nvme::status::Status;
use core::time::Duration;

impl ControllerCore {
    /// A command of the admin queue came that others execute: counts it.
    pub fn passed(&mut self, now: Duration) {
        self.started = self.started.wrapping_add(1);
        self.keep_alive.command(now);
    }

    /// Fills in the completion with which others answer a command.
    pub fn stamped(&self, cqe: Cqe) -> Cqe {
        self.stamp(cqe)
    }

    /// The commands that came are being answered: the time for keep alive begins, by a clock that
    /// was read now.
    pub fn answered(&mut self, now: Duration) {
        self.keep_alive.answered(now);
    }

    /// The host has got a key for TLS over this connection, which has none: until it comes again
    /// with the key, commands are refused that change something (Operation Denied). Whoever took
    /// over the connection after the authentication could send them.
    pub fn await_tls(&mut self) {
        self.awaits_tls = true;
    }
}

/// Returns whether a host may send this admin command on a plain connection although it must use
/// TLS. Hosts of Linux set up the controller before they connect again: they enable it, read its
/// Identify data and its log of Asymmetric Namespace Access, without which they give up, and keep
/// it alive. None of these changes anything.
pub(super) fn is_before_tls(opcode: AdminOpcode) -> bool {
    matches!(opcode, AdminOpcode::IDENTIFY | AdminOpcode::GET_LOG_PAGE | AdminOpcode::KEEP_ALIVE)
}

impl IoQueue {
    /// Messages of authentications are looked at from now on, by others: see
    /// [`super::IoNext::Authenticate`].
    pub fn set_authenticates(&mut self) {
        self.authenticates = true;
    }

    /// Goes on with the commands of a queue that was connected by the same Connect, and took none
    /// but those of an authentication.
    pub fn continues(&mut self, before: &Self) {
        self.started = before.started;
    }

    /// A command came that others execute, before any was started here: counts it.
    pub fn passed(&mut self) {
        self.started = self.started.wrapping_add(1);
    }

    /// Fills in the completion with which others answer a command.
    pub fn stamped(&self, cqe: Cqe) -> Cqe {
        self.stamp(cqe)
    }
}

/// Role of a command in an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationCommand {
    /// Authentication Send: a message of this many bytes must be fetched.
    Send {
        /// Bytes: 1 to [`MESSAGE_BYTES_MAX`].
        bytes: u32,
    },
    /// Authentication Receive: the host has room for a message of this many bytes.
    Receive {
        /// Bytes, more than zero.
        bytes: u32,
    },
    /// Nothing.
    Other,
}

impl AuthenticationCommand {
    /// Parses a command of a queue whose transport takes `memory`, with `in_capsule_bytes` of data
    /// in its capsule.
    ///
    /// # Errors
    /// The completion that refuses it.
    pub fn parse(sqe: &Sqe, in_capsule_bytes: u32, memory: HostMemory) -> Result<Self, Cqe> {
        let is_fabrics = sqe.opcode() == AdminOpcode::FABRICS.0;
        let command = match FabricsType(sqe.fabrics_type()) {
            FabricsType::AUTHENTICATION_SEND if is_fabrics => send(sqe, in_capsule_bytes, memory),
            FabricsType::AUTHENTICATION_RECEIVE if is_fabrics => receive(sqe, memory),
            _ => Ok(Self::Other),
        };
        command.map_err(|fault| fault.cqe(sqe))
    }

    /// The answer to every other command before the host has authenticated.
    pub fn required(sqe: &Sqe) -> Cqe {
        Cqe::refuse(sqe.cid(), Status::AUTHENTICATION_REQUIRED)
    }

    /// The answer to a command that is not the next one.
    pub fn out_of_order(sqe: &Sqe) -> Cqe {
        Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::NSID).cqe(sqe)
    }
}

fn send(
    sqe: &Sqe,
    in_capsule_bytes: u32,
    memory: HostMemory,
) -> Result<AuthenticationCommand, Fault> {
    let bytes = checked(sqe)?;
    if bytes as usize > MESSAGE_BYTES_MAX {
        return Err(Fault::field(at::CDW11));
    }
    if data_from_host(sqe, in_capsule_bytes, memory)? != bytes {
        return Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH));
    }
    Ok(AuthenticationCommand::Send { bytes })
}

fn receive(sqe: &Sqe, memory: HostMemory) -> Result<AuthenticationCommand, Fault> {
    let bytes = checked(sqe)?;
    data_to_host(sqe, bytes, memory)?;
    Ok(AuthenticationCommand::Receive { bytes })
}

/// The length of a message, of a command for in-band authentication that is not fused.
fn checked(sqe: &Sqe) -> Result<u32, Fault> {
    let security = Security::decode(sqe);
    if sqe.fuse() != Fuse::Normal {
        return Err(Fault::field(at::FLAGS));
    }
    if !security.is_authentication() {
        return Err(Fault::field(at::CDW10));
    }
    if security.bytes == 0 {
        return Err(Fault::field(at::CDW11));
    }
    Ok(security.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::fabrics::Property;
    use crate::nvme::property::PropertyOffset;
    use crate::nvme::sqe::Sgl;

    fn parse(sqe: &Sqe, in_capsule_bytes: u32) -> Result<AuthenticationCommand, Status> {
        AuthenticationCommand::parse(sqe, in_capsule_bytes, HostMemory::Transport)
            .map_err(|cqe| cqe.status)
    }

    fn with_data(mut sqe: Sqe, identifier: u8, length: u32) -> Sqe {
        sqe.set_sgl(Sgl { address: 0, length, identifier });
        sqe
    }

    #[test]
    fn messages_and_other_commands_are_told_apart() {
        let send = with_data(Security::send(80), Sgl::IN_CAPSULE, 80);
        assert_eq!(parse(&send, 80), Ok(AuthenticationCommand::Send { bytes: 80 }));
        let receive = with_data(Security::receive(4096), Sgl::TRANSPORT, 4096);
        assert_eq!(parse(&receive, 0), Ok(AuthenticationCommand::Receive { bytes: 4096 }));
        assert_eq!(parse(&Property::get(PropertyOffset::CAP), 0), Ok(AuthenticationCommand::Other));
        // Opcode 5 of the admin queue is another command.
        assert_eq!(parse(&Sqe::default(), 0), Ok(AuthenticationCommand::Other));
    }

    #[test]
    fn wrong_fields_are_refused() {
        let length = Err(Status::DATA_SGL_LENGTH_INVALID);
        assert_eq!(parse(&with_data(Security::send(80), Sgl::IN_CAPSULE, 72), 72), length);
        assert_eq!(parse(&with_data(Security::receive(80), Sgl::TRANSPORT, 72), 0), length);
        let field = Err(Status::INVALID_FIELD);
        assert_eq!(parse(&with_data(Security::send(0), Sgl::TRANSPORT, 0), 0), field);
        let long = MESSAGE_BYTES_MAX as u32 + 1;
        assert_eq!(parse(&with_data(Security::send(long), Sgl::TRANSPORT, long), 0), field);
        let mut other = with_data(Security::send(80), Sgl::TRANSPORT, 80);
        other.0[43] = 1;
        assert_eq!(parse(&other, 0), field, "another security protocol");
    }
}
