//! Requests: checks every rule, in one place, before execution.

use super::slot::{RequestSlot, RequestState};
use super::{After, CommandKind, NbdEngine, Phase, ServerCommand, ServerEvent, Step};
use crate::limits::NBD_PAYLOAD_BYTES_MAX;
use crate::nbd::code::{CommandCode, CommandFlags, ErrorCode, TransmissionFlags};
use crate::nbd::message::{Request, request_bytes};
use crate::nbd::{Form, Violation};
use crate::stream::{Rx, Tag};

/// Handling of a valid request.
enum Verdict {
    /// The layer above does it.
    Do(CommandKind),
    /// It is answered here: everything is reported as allocated.
    Allocated,
}

impl NbdEngine {
    #[inline]
    pub(super) fn request(&mut self, bytes: &[u8]) -> Step {
        let need = request_bytes(self.form);
        if bytes.len() < need {
            return Step::Next(0, Rx::More { need });
        }
        let Some(request) = Request::decode(self.form, &bytes[..need]) else {
            return self.violate(Violation::RequestMagic);
        };
        if request.command == CommandCode::DISC {
            self.phase = Phase::Leaving;
            return Step::Next(need, Rx::Event(ServerEvent::Disconnect));
        }
        let payload = self.payload_bytes(&request);
        if payload > NBD_PAYLOAD_BYTES_MAX.into() {
            return self.violate(Violation::Payload(payload));
        }
        let verdict = self.judge(&request);
        let error = *verdict.as_ref().err().unwrap_or(&ErrorCode::SUCCESS);
        let Request { command, cookie, offset, length, .. } = request;
        let Some((tag, slot)) = self.slots.take() else {
            return Step::Next(0, Rx::Event(ServerEvent::Full));
        };
        *slot = RequestSlot { state: RequestState::Ready, command, error, cookie, offset, length };
        match verdict {
            Ok(Verdict::Do(kind)) => {
                self.hand_on(need, tag, ServerCommand { kind, offset, length })
            }
            Err(_) if payload > 0 => {
                self.after = After::Refused(tag);
                Step::Next(need, Rx::Discard { len: payload as u32 })
            }
            Ok(Verdict::Allocated) | Err(_) => {
                self.ready.push_back(tag);
                Step::Used(need)
            }
        }
    }

    #[inline]
    fn hand_on(&mut self, used: usize, tag: Tag, command: ServerCommand) -> Step {
        let write = matches!(command.kind, CommandKind::Write { .. });
        if let Some(slot) = self.slots.at(tag) {
            slot.state = if write { RequestState::Receiving } else { RequestState::Busy };
        }
        if write {
            self.phase = Phase::Payload(tag);
        }
        Step::Next(used, Rx::Event(ServerEvent::Request { tag, command }))
    }

    /// Announces the payload of a write, for which the layer above has had the time to find memory.
    #[inline]
    pub(super) fn payload(&mut self, tag: Tag) -> Step {
        self.phase = Phase::Requests;
        self.after = After::Arrived(tag);
        let len = self.slots.at(tag).map_or(0, |slot| slot.length as u32);
        Step::Next(0, Rx::Payload { tag, offset: 0, len, digest: false })
    }

    /// Bytes behind the header. A write has a payload even if its extended header lacks
    /// `PAYLOAD_LEN`, which the specification demands: QEMU 10 does not set it.
    #[inline]
    fn payload_bytes(&self, request: &Request) -> u64 {
        let is_told = self.form == Form::Extended && request.flags.has(CommandFlags::PAYLOAD_LEN);
        if is_told || request.command == CommandCode::WRITE { request.length } else { 0 }
    }

    /// Checks a request against all rules: flags, rights, range, alignment, size.
    #[inline]
    fn judge(&self, request: &Request) -> Result<Verdict, ErrorCode> {
        let can = |flag| self.export.flags.has(flag);
        let Request { flags, command, offset, length, .. } = *request;
        if flags.0 & !self.allowed_flags(command).0 != 0 {
            return Err(ErrorCode::EINVAL);
        }
        let fua = flags.has(CommandFlags::FUA);
        match command {
            CommandCode::READ => {
                self.in_range(request, ErrorCode::EINVAL)?;
                self.is_short(request, ErrorCode::EOVERFLOW)?;
                Ok(Verdict::Do(CommandKind::Read))
            }
            CommandCode::WRITE => {
                self.may_write()?;
                self.in_range(request, ErrorCode::ENOSPC)?;
                self.is_short(request, ErrorCode::EINVAL)?;
                Ok(Verdict::Do(CommandKind::Write { fua }))
            }
            CommandCode::FLUSH
                if can(TransmissionFlags::SEND_FLUSH) && offset == 0 && length == 0 =>
            {
                Ok(Verdict::Do(CommandKind::Flush))
            }
            CommandCode::TRIM if can(TransmissionFlags::SEND_TRIM) => {
                self.may_write()?;
                self.in_range(request, ErrorCode::EINVAL)?;
                Ok(Verdict::Do(CommandKind::Trim { fua }))
            }
            CommandCode::WRITE_ZEROES if can(TransmissionFlags::SEND_WRITE_ZEROES) => {
                self.may_write()?;
                self.in_range(request, ErrorCode::ENOSPC)?;
                // Nothing is known of how fast a device is at this.
                if flags.has(CommandFlags::FAST_ZERO) {
                    return Err(ErrorCode::ENOTSUP);
                }
                Ok(Verdict::Do(CommandKind::WriteZeroes {
                    may_free: !flags.has(CommandFlags::NO_HOLE),
                    fua,
                }))
            }
            CommandCode::BLOCK_STATUS if self.block_status => {
                self.in_range(request, ErrorCode::EINVAL)?;
                Ok(Verdict::Allocated)
            }
            _ => Err(ErrorCode::EINVAL),
        }
    }

    /// The flags that a command may have.
    #[inline]
    fn allowed_flags(&self, command: CommandCode) -> CommandFlags {
        let can = |flag| self.export.flags.has(flag);
        let own = match command {
            CommandCode::READ => {
                CommandFlags::default().with_if(CommandFlags::DF, can(TransmissionFlags::SEND_DF))
            }
            CommandCode::WRITE => CommandFlags::default()
                .with_if(CommandFlags::PAYLOAD_LEN, self.form == Form::Extended),
            CommandCode::WRITE_ZEROES => CommandFlags::NO_HOLE
                .with_if(CommandFlags::FAST_ZERO, can(TransmissionFlags::SEND_FAST_ZERO)),
            CommandCode::BLOCK_STATUS => CommandFlags::REQ_ONE,
            _ => CommandFlags::default(),
        };
        own.with_if(CommandFlags::FUA, can(TransmissionFlags::SEND_FUA))
    }

    #[inline]
    fn may_write(&self) -> Result<(), ErrorCode> {
        if self.export.flags.has(TransmissionFlags::READ_ONLY) {
            Err(ErrorCode::EPERM)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn in_range(&self, request: &Request, beyond: ErrorCode) -> Result<(), ErrorCode> {
        let Request { offset, length, .. } = *request;
        if !self.export.contains(offset, length) {
            return Err(beyond);
        }
        if length == 0 || !self.export.is_aligned(offset, length) {
            Err(ErrorCode::EINVAL)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn is_short(&self, request: &Request, too_long: ErrorCode) -> Result<(), ErrorCode> {
        if request.length > self.export.sizes.payload_max.into() { Err(too_long) } else { Ok(()) }
    }
}
