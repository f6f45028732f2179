//! Execution of the messages of the front end.

use super::device::{Device, Records, records_bytes};
use super::incoming::Message;
use super::vring::Vring;
use std::io;
use std::os::fd::AsFd;
use weft_io::guest::foreign::Foreign;
use weft_io::guest::mapping::{Mapping, shared_memory};
use weft_io::guest::memory::{GuestMemory, GuestRegion};
use weft_io::guest::messages::SideChannel;
use weft_io::guest::notify::{Call, Kick};
use weft_io::{DriverId, Handle};
use weft_proto::limits::{VHOST_USER_QUEUES_MAX, VHOST_USER_REGIONS_MAX, VIRTIO_QUEUE_SIZE_MAX};
use weft_proto::vhost_user::{
    BackEndReply, InflightDescription, LogDescription, MemoryRegion, Request, Violation,
    VringState, protocol_feature,
};
use weft_proto::virtio::block::CONFIG_WRITEBACK_AT;
use weft_proto::virtio::feature::FeatureBits;

/// Largest configuration that a front end reads, bytes.
const CONFIG_BYTES_MAX: u32 = 256;

/// What became of a message.
pub(super) enum Answer {
    /// It is done.
    Done,
    /// An answer of its own.
    Reply(BackEndReply),
    /// An answer that comes when nothing is in flight of a queue.
    Stop(u16),
    /// All queues are to come to rest.
    Reset,
}

/// Why a message has failed.
pub(super) enum Failure {
    Violation(Violation),
    /// The front end may be told of it.
    Refused(String),
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Self::Refused(e.to_string())
    }
}

fn refused<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::Refused(why.to_owned()))
}

fn region(of: &MemoryRegion) -> GuestRegion {
    GuestRegion { guest: of.guest, bytes: of.bytes, user: of.user, offset: of.offset }
}

impl Device {
    /// Does what a message says.
    pub(super) fn dispatch(
        &mut self,
        message: Message,
        on: &Handle,
        driver: DriverId,
    ) -> Result<Answer, Failure> {
        let Message { header, request, mut files } = message;
        match request {
            Request::GetFeatures => return Ok(number(self.offered.0)),
            Request::SetFeatures(features) => self.set_features(features, header.code)?,
            Request::GetProtocolFeatures => return Ok(number(protocol_feature::ALL)),
            Request::SetProtocolFeatures(features) => {
                self.protocol = features & protocol_feature::ALL;
            }
            Request::GetQueueNum => return Ok(number(VHOST_USER_QUEUES_MAX.into())),
            Request::GetMaxMemSlots => return Ok(number(VHOST_USER_REGIONS_MAX as u64)),
            Request::ResetOwner | Request::ResetDevice => return Ok(Answer::Reset),
            Request::SetMemTable(regions) => self.set_memory(&regions, &files)?,
            Request::AddMemReg(of) => self.add_region(&of, files.pop())?,
            Request::RemMemReg(of) => {
                if !self.guest.memory.borrow_mut().remove(&region(&of)) {
                    return refused("there is no such region of memory");
                }
            }
            Request::SetLogBase(of) => return self.set_log(&of, files.pop()),
            Request::SetBackendReqFd => {
                self.channel = files.pop().map(SideChannel::new).transpose()?;
            }
            Request::GetConfig { offset, len, flags } => {
                return Ok(Answer::Reply(self.get_config(offset, len, flags)));
            }
            Request::SetConfig { offset, bytes, .. } => self.set_config(offset, &bytes)?,
            Request::GetInflightFd(of) => return self.make_records(&of),
            Request::SetInflightFd(of) => self.set_records(&of, files.pop())?,
            Request::GetVringBase(of) => return Ok(Answer::Stop(of.index)),
            of_queue => self.set_vring(&of_queue, files.pop(), on, driver)?,
        }
        Ok(Answer::Done)
    }

    /// Does what a message says of a queue.
    fn set_vring(
        &mut self,
        request: &Request,
        file: Option<Foreign>,
        on: &Handle,
        driver: DriverId,
    ) -> Result<(), Failure> {
        match *request {
            Request::SetVringNum(of) => return self.set_size(of),
            // Of a running queue, only the log is switched, and that is one for all.
            Request::SetVringAddr(of) => {
                self.at_rest(of.index, |vring| vring.address = Some(of));
            }
            Request::SetVringBase(of) => self.at_rest(of.index, |vring| vring.base = of.number),
            Request::SetVringKick(of) => {
                let kick = file.map(|file| Kick::register(file, on, driver)).transpose()?;
                let enables = !self.features.has(FeatureBits::PROTOCOL_FEATURES);
                self.any(of.index, |vring| {
                    (vring.kick, vring.is_started) = (kick, true);
                    vring.is_enabled |= enables;
                });
            }
            Request::SetVringCall(of) => {
                let call = file.map(Call::new).transpose()?;
                self.any(of.index, |vring| vring.call = call);
            }
            Request::SetVringErr(of) => {
                let err = file.map(Call::new).transpose()?;
                self.any(of.index, |vring| vring.err = err);
            }
            Request::SetVringEnable(of) => {
                self.any(of.index, |vring| vring.is_enabled = of.number != 0);
            }
            // SET_OWNER and SET_LOG_FD, of which nothing follows here.
            _ => {}
        }
        Ok(())
    }

    fn any(&mut self, index: u16, set: impl FnOnce(&mut Vring)) {
        if let Some(vring) = self.vrings.get_mut(usize::from(index)) {
            set(vring);
        }
    }

    /// Sets something that stays as it is while a queue runs.
    fn at_rest(&mut self, index: u16, set: impl FnOnce(&mut Vring)) {
        self.any(index, |vring| {
            if !vring.is_running() {
                set(vring);
            }
        });
    }

    fn set_features(&mut self, features: FeatureBits, code: u32) -> Result<(), Failure> {
        if features.without(self.offered) != FeatureBits::default() {
            return Err(Violation::Value(code).into());
        }
        self.features = features;
        if !features.has(FeatureBits::LOG_ALL) {
            self.guest.memory.borrow_mut().log_to(None);
        }
        Ok(())
    }

    fn set_size(&mut self, of: VringState) -> Result<(), Failure> {
        match u16::try_from(of.number) {
            Ok(size) if (1..=VIRTIO_QUEUE_SIZE_MAX).contains(&size) => {
                self.at_rest(of.index, |vring| vring.size = size);
                Ok(())
            }
            _ => refused(&format!("a queue has at most {VIRTIO_QUEUE_SIZE_MAX} entries")),
        }
    }

    /// Takes other memory. What is under way keeps the guest's addresses, which are looked up when
    /// data is copied.
    fn set_memory(&mut self, regions: &[MemoryRegion], files: &[Foreign]) -> Result<(), Failure> {
        let mut memory = GuestMemory::default();
        for (of, file) in regions.iter().zip(files) {
            memory.add(region(of), file.as_fd())?;
        }
        self.guest.memory.borrow_mut().replace(memory);
        Ok(())
    }

    fn add_region(&mut self, of: &MemoryRegion, file: Option<Foreign>) -> Result<(), Failure> {
        let mut memory = self.guest.memory.borrow_mut();
        if memory.len() >= VHOST_USER_REGIONS_MAX {
            return refused("there are too many regions of memory");
        }
        match file {
            Some(file) => Ok(memory.add(region(of), file.as_fd())?),
            None => refused("a region of memory has no descriptor"),
        }
    }

    fn set_log(&mut self, of: &LogDescription, file: Option<Foreign>) -> Result<Answer, Failure> {
        let Some(file) = file else { return refused("the log has no descriptor") };
        let log = Mapping::of(file.as_fd(), of.offset, of.bytes)?;
        self.guest.memory.borrow_mut().log_to(Some(log));
        Ok(number(0))
    }

    fn get_config(&self, offset: u32, len: u32, flags: u32) -> BackEndReply {
        let mut bytes = Vec::new();
        if offset.saturating_add(len) <= CONFIG_BYTES_MAX {
            let config = self.config().encode();
            let (from, to) = (offset as usize, (offset + len) as usize);
            bytes.extend((from..to).map(|at| config.get(at).copied().unwrap_or(0)));
        }
        BackEndReply::Config { offset, flags, bytes }
    }

    fn set_config(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Failure> {
        match (offset, bytes) {
            (CONFIG_WRITEBACK_AT, [value @ (0 | 1)]) => {
                self.writeback = *value == 1;
                Ok(())
            }
            _ => refused("only the write cache is set by the configuration"),
        }
    }

    fn make_records(&mut self, of: &InflightDescription) -> Result<Answer, Failure> {
        let bytes = records_bytes(of.queues, of.queue_size);
        if !fits(of) {
            return refused("there are too many or too large queues for what is in flight");
        }
        self.record_file = Some(shared_memory("weft-vhost-user-in-flight", bytes)?);
        Ok(Answer::Reply(BackEndReply::Inflight(InflightDescription { bytes, offset: 0, ..*of })))
    }

    fn set_records(
        &mut self,
        of: &InflightDescription,
        file: Option<Foreign>,
    ) -> Result<(), Failure> {
        let is_enough = fits(of) && of.bytes >= records_bytes(of.queues, of.queue_size);
        let Some(file) = file.filter(|_| is_enough) else {
            return refused("the memory for what is in flight does not fit to the queues");
        };
        if self.vrings.iter().any(Vring::is_running) {
            return refused("queues run, so what is in flight stays where it is");
        }
        let mapping = Mapping::of(file.as_fd(), of.offset, of.bytes)?;
        self.records = Some(Records { mapping, queue_size: of.queue_size, queues: of.queues });
        Ok(())
    }
}

fn number(of: u64) -> Answer {
    Answer::Reply(BackEndReply::Number(of))
}

/// Whether records are of queues that there may be.
fn fits(of: &InflightDescription) -> bool {
    (1..=VHOST_USER_QUEUES_MAX).contains(&of.queues)
        && (1..=VIRTIO_QUEUE_SIZE_MAX).contains(&of.queue_size)
}
