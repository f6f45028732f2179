//! Messages of the front end.

use super::Violation;
use super::message::{Header, InflightDescription, code};
use crate::limits::{VHOST_USER_DESCRIPTORS_MAX, VHOST_USER_QUEUES_MAX};
use crate::virtio::feature::FeatureBits;
use core::ops::RangeInclusive;

/// A region of the guest's memory. Its memory is that of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Address in the guest.
    pub guest: u64,
    /// Bytes.
    pub bytes: u64,
    /// Address in the front end.
    pub user: u64,
    /// Offset of its start in the descriptor's file.
    pub offset: u64,
}

/// A number about a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringState {
    /// Queue.
    pub index: u16,
    /// The number.
    pub number: u32,
}

/// Addresses of the parts of a queue, in the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringAddress {
    /// Queue.
    pub index: u16,
    /// Writes to the used ring are logged.
    pub logs: bool,
    /// Descriptors.
    pub descriptors: u64,
    /// Used ring.
    pub used: u64,
    /// Available ring.
    pub available: u64,
    /// The used ring's address in the guest, for the log.
    pub log: u64,
}

/// A descriptor for notifications of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringFile {
    /// Queue.
    pub index: u16,
    /// True if a descriptor comes with it; otherwise there are no notifications.
    pub has_file: bool,
}

/// Memory of the log of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDescription {
    /// Bytes.
    pub bytes: u64,
    /// Offset of its start in the descriptor's file.
    pub offset: u64,
}

/// A message of the front end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Request {
    GetFeatures,
    SetFeatures(FeatureBits),
    SetOwner,
    ResetOwner,
    SetMemTable(Vec<MemoryRegion>),
    SetLogBase(LogDescription),
    SetLogFd,
    SetVringNum(VringState),
    SetVringAddr(VringAddress),
    SetVringBase(VringState),
    GetVringBase(VringState),
    SetVringKick(VringFile),
    SetVringCall(VringFile),
    SetVringErr(VringFile),
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueNum,
    SetVringEnable(VringState),
    SetBackendReqFd,
    GetConfig { offset: u32, len: u32, flags: u32 },
    SetConfig { offset: u32, flags: u32, bytes: Vec<u8> },
    GetInflightFd(InflightDescription),
    SetInflightFd(InflightDescription),
    ResetDevice,
    GetMaxMemSlots,
    AddMemReg(MemoryRegion),
    RemMemReg(MemoryRegion),
}

/// Data behind a header, read from the front.
struct Body<'a> {
    code: u32,
    rest: &'a [u8],
}

impl Body<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(Violation::Length(self.code))?;
        self.rest = rest;
        Ok(*first)
    }

    fn u16(&mut self) -> Result<u16, Violation> {
        self.bytes().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Violation> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Violation> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn queue(&mut self) -> Result<u16, Violation> {
        let index = u16::try_from(self.u32()?).unwrap_or(u16::MAX);
        if index < VHOST_USER_QUEUES_MAX { Ok(index) } else { Err(Violation::Value(self.code)) }
    }

    fn state(&mut self) -> Result<VringState, Violation> {
        Ok(VringState { index: self.queue()?, number: self.u32()? })
    }

    fn address(&mut self) -> Result<VringAddress, Violation> {
        let (index, flags) = (self.queue()?, self.u32()?);
        let [descriptors, used, available, log] =
            [self.u64()?, self.u64()?, self.u64()?, self.u64()?];
        Ok(VringAddress { index, logs: flags & 1 != 0, descriptors, used, available, log })
    }

    fn file(&mut self) -> Result<VringFile, Violation> {
        let number = self.u64()?;
        let (index, has_file) = ((number & 0xff) as u16, number & 0x100 == 0);
        if number > 0x1ff || index >= VHOST_USER_QUEUES_MAX {
            return Err(Violation::Value(self.code));
        }
        Ok(VringFile { index, has_file })
    }

    fn region(&mut self) -> Result<MemoryRegion, Violation> {
        let [guest, bytes, user, offset] = [self.u64()?, self.u64()?, self.u64()?, self.u64()?];
        let ends = [guest, user, offset].map(|at| at.checked_add(bytes));
        if bytes == 0 || ends.contains(&None) {
            return Err(Violation::Value(self.code));
        }
        Ok(MemoryRegion { guest, bytes, user, offset })
    }

    fn table(&mut self) -> Result<Vec<MemoryRegion>, Violation> {
        let (count, _padding) = (self.u32()? as usize, self.u32()?);
        if count > VHOST_USER_DESCRIPTORS_MAX {
            return Err(Violation::Value(self.code));
        }
        (0..count).map(|_| self.region()).collect()
    }

    fn one_region(&mut self) -> Result<MemoryRegion, Violation> {
        let _padding = self.u64()?;
        self.region()
    }

    fn inflight(&mut self) -> Result<InflightDescription, Violation> {
        let (bytes, offset) = (self.u64()?, self.u64()?);
        let (queues, queue_size) = (self.u16()?, self.u16()?);
        // The structure of C ends with padding.
        self.rest = &[];
        Ok(InflightDescription { bytes, offset, queues, queue_size })
    }

    fn log(&mut self) -> Result<LogDescription, Violation> {
        let (bytes, offset) = (self.u64()?, self.u64()?);
        Ok(LogDescription { bytes, offset })
    }

    fn config(&mut self) -> Result<(u32, u32, u32), Violation> {
        let (offset, len, flags) = (self.u32()?, self.u32()?, self.u32()?);
        // What a front end has no bytes for is left out of a request to read.
        if self.rest.len() > len as usize || offset.checked_add(len).is_none() {
            return Err(Violation::Value(self.code));
        }
        Ok((offset, len, flags))
    }

    fn get_config(&mut self) -> Result<Request, Violation> {
        let (offset, len, flags) = self.config()?;
        self.rest = &[];
        Ok(Request::GetConfig { offset, len, flags })
    }

    fn set_config(&mut self) -> Result<Request, Violation> {
        let (offset, len, flags) = self.config()?;
        let bytes = core::mem::take(&mut self.rest).to_vec();
        if bytes.len() != len as usize {
            return Err(Violation::Length(self.code));
        }
        Ok(Request::SetConfig { offset, flags, bytes })
    }
}

impl Request {
    /// Reads a message with what follows its header.
    ///
    /// # Errors
    /// No front end sends this, or it is for other devices.
    pub fn parse(header: &Header, body: &[u8]) -> Result<Self, Violation> {
        let mut body = Body { code: header.code, rest: body };
        let request = match header.code {
            code::GET_FEATURES => Self::GetFeatures,
            code::SET_FEATURES => Self::SetFeatures(FeatureBits(body.u64()?)),
            code::SET_OWNER => Self::SetOwner,
            code::RESET_OWNER => Self::ResetOwner,
            code::SET_MEM_TABLE => Self::SetMemTable(body.table()?),
            code::SET_LOG_BASE => Self::SetLogBase(body.log()?),
            code::SET_LOG_FD => {
                body.rest = &[];
                Self::SetLogFd
            }
            code::SET_VRING_NUM => Self::SetVringNum(body.state()?),
            code::SET_VRING_ADDR => Self::SetVringAddr(body.address()?),
            code::SET_VRING_BASE => Self::SetVringBase(body.state()?),
            code::GET_VRING_BASE => Self::GetVringBase(body.state()?),
            code::SET_VRING_KICK => Self::SetVringKick(body.file()?),
            code::SET_VRING_CALL => Self::SetVringCall(body.file()?),
            code::SET_VRING_ERR => Self::SetVringErr(body.file()?),
            code::GET_PROTOCOL_FEATURES => Self::GetProtocolFeatures,
            code::SET_PROTOCOL_FEATURES => Self::SetProtocolFeatures(body.u64()?),
            code::GET_QUEUE_NUM => Self::GetQueueNum,
            code::SET_VRING_ENABLE => Self::SetVringEnable(body.state()?),
            code::SET_BACKEND_REQ_FD => Self::SetBackendReqFd,
            code::GET_CONFIG => body.get_config()?,
            code::SET_CONFIG => body.set_config()?,
            code::GET_INFLIGHT_FD => Self::GetInflightFd(body.inflight()?),
            code::SET_INFLIGHT_FD => Self::SetInflightFd(body.inflight()?),
            code::RESET_DEVICE => Self::ResetDevice,
            code::GET_MAX_MEM_SLOTS => Self::GetMaxMemSlots,
            code::ADD_MEM_REG => Self::AddMemReg(body.one_region()?),
            code::REM_MEM_REG => Self::RemMemReg(body.one_region()?),
            other => return Err(Violation::Unsupported(other)),
        };
        if body.rest.is_empty() { Ok(request) } else { Err(Violation::Length(header.code)) }
    }

    /// Returns the permitted number of descriptors with it.
    pub fn descriptors(&self) -> RangeInclusive<usize> {
        match self {
            Self::SetMemTable(regions) => regions.len()..=regions.len(),
            Self::SetVringKick(of) | Self::SetVringCall(of) | Self::SetVringErr(of) => {
                usize::from(of.has_file)..=usize::from(of.has_file)
            }
            Self::SetLogBase(_) => 0..=1,
            Self::SetLogFd
            | Self::SetBackendReqFd
            | Self::SetInflightFd(_)
            | Self::AddMemReg(_) => 1..=1,
            // Front ends may send the descriptor of the region along.
            Self::RemMemReg(_) => 0..=1,
            _ => 0..=0,
        }
    }

    /// Returns whether it has an answer of its own.
    pub fn has_reply(&self) -> bool {
        matches!(
            self,
            Self::GetFeatures
                | Self::GetProtocolFeatures
                | Self::GetQueueNum
                | Self::GetConfig { .. }
                | Self::GetInflightFd(_)
                | Self::GetMaxMemSlots
                | Self::GetVringBase(_)
                | Self::SetLogBase(_)
        )
    }
}
