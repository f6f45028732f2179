//! Hosts that send a SCSI target what the fuzzer likes, and a host whose probe is answered as it
//! likes.

use weft_proto::nvme::status::Status;
use weft_proto::scsi::cdb::{CDB_BYTES, Command, Operation};
use weft_proto::scsi::initiator::Probe;
use weft_proto::scsi::lun::{AccessState, Nexus, PortAccess, UnitFeatures, lun_of};
use weft_proto::scsi::sense::{SENSE_BYTES_MAX, Sense};
use weft_proto::scsi::status::ScsiStatus;
use weft_proto::scsi::translation;

use crate::Input;
use crate::scsi_rig::{BLOCK, BLOCKS, Rig};

/// Hosts at one time.
const HOSTS: usize = 3;

/// The target and its hosts.
pub struct Scsi {
    rig: Rig,
    hosts: Vec<Nexus>,
}

impl Scsi {
    /// A target whose disk has some features.
    pub fn new(input: &mut Input) -> Self {
        let flags = !input.byte();
        let has = |bit: u8| flags & 1 << bit != 0;
        let rig = Rig::with(UnitFeatures {
            write: has(0),
            volatile_cache: has(1),
            discard: has(2),
            discard_zeroes: has(3),
            write_zeroes: has(4),
            compare: has(5),
        });
        let hosts = (0..HOSTS).map(|isid| rig.new_host(isid as u8)).collect();
        Self { rig, hosts }
    }

    /// Lets one thing happen.
    pub fn step(&mut self, input: &mut Input) {
        let host = input.below(HOSTS);
        match input.below(32) {
            31 => self.hosts[host] = self.rig.new_host(input.byte() % 4),
            30 => self.rig.unit.resize(BLOCKS - input.below(64) as u64),
            29 => {
                let (state, is_open) = (AccessState(input.byte() & 0xf), input.one_in(2));
                let ports = [PortAccess { port: 1 + u16::from(input.byte() & 1), state, is_open }];
                _ = self.rig.unit.set_access(&ports, !input.one_in(8));
            }
            28 => {
                self.hosts[host].reset_unit(lun_of(input.below(2)));
            }
            27 => {
                self.hosts[host].clear_task_set(lun_of(input.below(2)));
            }
            26 => self.rig.disk.faults.push(failure(input)),
            _ => self.command(input, host),
        }
        while self.hosts[host].take_wake().is_some() {}
        for host in &mut self.hosts {
            while host.take_abort().is_some() {}
        }
    }

    fn command(&mut self, input: &mut Input, host: usize) {
        let cdb = cdb(input);
        let lun = if input.one_in(32) { input.u64() } else { 0 };
        let data = data(input);
        let ended = self.rig.send(&mut self.hosts[host], lun, &cdb, &data);
        let Ok(command) = Command::decode(&cdb) else { return };
        assert!(
            ended.data.len() <= allocated(&command),
            "{command:?} got {} bytes",
            ended.data.len()
        );
        assert_eq!(Command::decode(&command.encode().bytes), Ok(command));
        self.rig.disk.requests.clear();
    }
}

/// What an initiator expects at most.
fn allocated(command: &Command) -> usize {
    match *command {
        Command::Read { extent, .. } => extent.blocks as usize * BLOCK,
        Command::ReadCapacity10 => 8,
        Command::Inquiry { allocation, .. }
        | Command::RequestSense { allocation, .. }
        | Command::ReportLuns { allocation, .. }
        | Command::ReadCapacity16 { allocation }
        | Command::ModeSense { allocation, .. }
        | Command::ReserveIn { allocation, .. }
        | Command::ReportTargetPortGroups { allocation, .. }
        | Command::ReportOpCodes { allocation, .. }
        | Command::ReportTaskManagement { allocation, .. }
        | Command::LogSense { allocation, .. }
        | Command::LbaStatus { allocation, .. } => allocation as usize,
        _ => 0,
    }
}

/// Mostly a command that there is, with small numbers and little that is reserved.
fn cdb(input: &mut Input) -> [u8; CDB_BYTES] {
    if input.one_in(16) {
        return input.array();
    }
    let all = Operation::all();
    let operation = &all[input.below(all.len())];
    let mut cdb = [0; CDB_BYTES];
    // Which bytes are not zero.
    let used = input.u16();
    for (at, byte) in cdb.iter_mut().enumerate().filter(|(at, _)| used & 1 << at != 0) {
        *byte = input.byte() & if input.one_in(64) { 0xff } else { operation.usage[at] };
    }
    cdb[0] = operation.opcode.0;
    if let Some(action) = operation.service_action {
        cdb[1] = cdb[1] & 0xe0 | action;
    }
    cdb
}

/// Nothing, a block of one byte over and over, or a parameter list.
fn data(input: &mut Input) -> Vec<u8> {
    match input.below(4) {
        0 => Vec::new(),
        1 => vec![input.byte(); BLOCK * input.below(4)],
        _ => {
            let mut list = input.bytes(48);
            list.resize(list.len() + input.below(64), 0);
            list
        }
    }
}

fn failure(input: &mut Input) -> (ScsiStatus, Option<Sense>) {
    match input.below(3) {
        0 => (ScsiStatus::BUSY, None),
        1 => (ScsiStatus::RESERVATION_CONFLICT, None),
        _ => translation::from_nvme(Status(input.u16() | 1)),
    }
}

/// Gives a probe arbitrary answers until it ends; it does so by itself before the fuzzer gives up.
pub fn scsi_probe(input: &mut Input) {
    let mut probe = Probe::new();
    for _ in 0..1000 {
        let Some(question) = probe.question() else { return };
        let status = input.pick(&[
            ScsiStatus::GOOD,
            ScsiStatus::CHECK_CONDITION,
            ScsiStatus::BUSY,
            ScsiStatus::RESERVATION_CONFLICT,
        ]);
        let sense = Sense::decode(&input.bytes(SENSE_BYTES_MAX));
        let length = input.below(question.data_in_bytes as usize + 1);
        if probe.answer(status, sense, &input.bytes(length)).is_err() {
            return;
        }
    }
    panic!("the probe does not end");
}
