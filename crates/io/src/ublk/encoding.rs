//! Encoding of the driver's structures, byte by byte, in the byte order of the machine.

/// Flags of a device, and bits of what the driver can do.
pub mod flag {
    /// A device stays when its server ends, and waits for another.
    pub const USER_RECOVERY: u64 = 1 << 3;
    /// The new server gets the unanswered requests of the first one again.
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// A device of a user who is not root.
    pub const UNPRIVILEGED_DEV: u64 = 1 << 5;
    /// Commands are encoded like ioctls.
    pub const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    /// Data is copied by calls on the device.
    pub const USER_COPY: u64 = 1 << 7;
    /// A device can get another size.
    pub const UPDATE_SIZE: u64 = 1 << 10;
}

/// Bytes of `ublksrv_ctrl_cmd`, `ublksrv_ctrl_dev_info`, `ublksrv_io_desc`, and of `ublk_params`
/// up to what describes discards.
pub(super) const CONTROL_BYTES: usize = 32;
/// See above.
pub(super) const INFO_BYTES: usize = 64;
/// See above.
pub(super) const DESCRIPTOR_BYTES: usize = 24;
/// See above.
pub(super) const PARAMETER_BYTES: usize = 60;

/// The most requests that a queue of any device has: descriptors of queues are this far apart.
pub(super) const DEPTH_MAX: usize = 4096;

/// Offset of the data of requests in the device's file.
const DATA_OFFSET: u64 = 0x8000_0000;

/// `UBLK_PARAM_TYPE_BASIC` and `UBLK_PARAM_TYPE_DISCARD`.
const PARAMETER_TYPES: u32 = 1 | 2;

/// The number of a command: what it transfers, as ioctls say it, and its own number.
const fn number(direction: u32, bytes: usize, number: u32) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'u' as u32) << 8 | number
}

const fn reads(nr: u32) -> u32 {
    number(2, CONTROL_BYTES, nr)
}

const fn changes(nr: u32) -> u32 {
    number(3, CONTROL_BYTES, nr)
}

/// Commands of `/dev/ublk-control`.
pub(super) mod command {
    use super::{changes, reads};

    pub const ADD_DEV: u32 = changes(0x04);
    pub const DEL_DEV: u32 = changes(0x05);
    pub const START_DEV: u32 = changes(0x06);
    pub const STOP_DEV: u32 = changes(0x07);
    pub const SET_PARAMS: u32 = changes(0x08);
    pub const GET_PARAMS: u32 = reads(0x09);
    pub const START_USER_RECOVERY: u32 = changes(0x10);
    pub const END_USER_RECOVERY: u32 = changes(0x11);
    pub const GET_DEV_INFO2: u32 = reads(0x12);
    pub const GET_FEATURES: u32 = reads(0x13);
    pub const UPDATE_SIZE: u32 = changes(0x15);
}

/// Commands of a queue.
pub(super) const FETCH_REQ: u32 = number(3, 16, 0x20);
/// See above.
pub(super) const COMMIT_AND_FETCH_REQ: u32 = number(3, 16, 0x21);

/// `ublksrv_ctrl_cmd`: for a device, with a buffer at an address, and one number.
pub(super) fn control(
    device: u32,
    (address, len): (u64, u16),
    data: u64,
    path_len: u16,
) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[..4].copy_from_slice(&device.to_ne_bytes());
    // It is about no queue.
    bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
    bytes[6..8].copy_from_slice(&len.to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes[16..24].copy_from_slice(&data.to_ne_bytes());
    bytes[24..26].copy_from_slice(&path_len.to_ne_bytes());
    bytes
}

/// `ublksrv_io_cmd`: a request of a queue, the result of the one before, and where its data goes.
pub(super) fn request(queue: u16, tag: u16, result: i32, address: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&queue.to_ne_bytes());
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes[8..].copy_from_slice(&address.to_ne_bytes());
    bytes
}

/// Returns the place of a request's data in the device's file.
pub(super) const fn data_offset(queue: u16, tag: u16) -> u64 {
    DATA_OFFSET + ((queue as u64) << 41 | (tag as u64) << 25)
}

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was not started, or has been stopped.
    Dead,
    /// It is served.
    Live,
    /// Its server is gone, and it waits for another one.
    Quiesced,
    /// Its server is gone, and requests fail.
    FailIo,
    /// One that this program does not know.
    Other(u16),
}

/// `ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its number.
    pub device: u32,
    /// Queues.
    pub queues: u16,
    /// Requests of each.
    pub depth: u16,
    /// Its state; of no meaning for a new one.
    pub state: State,
    /// Bytes of a request with data at most.
    pub request_bytes: u32,
    /// See [`flag`].
    pub flags: u64,
    /// The process that serves it.
    pub process: i32,
    /// Label that its first server left for later ones; the driver ignores it.
    pub label: u64,
    /// User and group of the process that made it: the driver says this itself.
    pub owner: (u32, u32),
}

impl Info {
    pub(super) fn encode(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        bytes[..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.request_bytes.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.device.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.process.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.label.to_ne_bytes());
        bytes[40..44].copy_from_slice(&self.owner.0.to_ne_bytes());
        bytes[44..48].copy_from_slice(&self.owner.1.to_ne_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; INFO_BYTES]) -> Self {
        let state = match u16::from_ne_bytes(part(bytes, 4)) {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Quiesced,
            3 => State::FailIo,
            other => State::Other(other),
        };
        Self {
            queues: u16::from_ne_bytes(part(bytes, 0)),
            depth: u16::from_ne_bytes(part(bytes, 2)),
            state,
            request_bytes: u32::from_ne_bytes(part(bytes, 8)),
            device: u32::from_ne_bytes(part(bytes, 12)),
            process: i32::from_ne_bytes(part(bytes, 16)),
            flags: u64::from_ne_bytes(part(bytes, 24)),
            label: u64::from_ne_bytes(part(bytes, 32)),
            owner: (u32::from_ne_bytes(part(bytes, 40)), u32::from_ne_bytes(part(bytes, 44))),
        }
    }

    /// Returns whether it is one of a user who is not root: it ends with the process that serves
    /// it.
    pub fn is_of_user(&self) -> bool {
        self.flags & flag::UNPRIVILEGED_DEV != 0
    }
}

/// Properties of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskAttributes {
    /// It accepts no writes.
    pub read_only: bool,
    /// It has a volatile write cache, and does flushes and forced writes.
    pub volatile_cache: bool,
}

/// `ublk_params`: properties of a disk for the block layer. Sizes and lengths are in sectors of 512
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkParameters {
    /// See [`DiskAttributes`].
    pub attributes: DiskAttributes,
    /// Bytes of a block: a power of two.
    pub block_bytes: u32,
    /// Bytes that are best written together: a power of two, at least a block.
    pub optimal_bytes: u32,
    /// The longest read or write.
    pub max_sectors: u32,
    /// Size.
    pub sectors: u64,
    /// The longest discard; 0: it does none.
    pub discard_sectors: u32,
    /// The longest write of zeroes; 0: it does none.
    pub zeroes_sectors: u32,
}

impl UblkParameters {
    pub(super) fn encode(&self) -> [u8; PARAMETER_BYTES] {
        let mut bytes = [0; PARAMETER_BYTES];
        let attributes = u32::from(self.attributes.read_only)
            | if self.attributes.volatile_cache { 1 << 2 | 1 << 3 } else { 0 };
        let (block, optimal) = (self.block_bytes.ilog2() as u8, self.optimal_bytes.ilog2() as u8);
        bytes[..4].copy_from_slice(&(PARAMETER_BYTES as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&PARAMETER_TYPES.to_ne_bytes());
        bytes[8..12].copy_from_slice(&attributes.to_ne_bytes());
        bytes[12..16].copy_from_slice(&[block, optimal.min(12).max(block), optimal, block]);
        bytes[16..20].copy_from_slice(&self.max_sectors.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.sectors.to_ne_bytes());
        bytes[44..48].copy_from_slice(&self.block_bytes.to_ne_bytes());
        bytes[48..52].copy_from_slice(&self.discard_sectors.to_ne_bytes());
        bytes[52..56].copy_from_slice(&self.zeroes_sectors.to_ne_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        bytes
    }

    /// The bytes of a block and the sectors of a disk, from what the driver has of it.
    pub(super) fn decode_size(bytes: &[u8; PARAMETER_BYTES]) -> (u32, u64) {
        let shift = u32::from(bytes[12]).min(31);
        (1 << shift, u64::from_ne_bytes(part(bytes, 24)))
    }
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkRequestKind {
    /// A read.
    Read,
    /// A write; `fua`: durable when it ends.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// A flush.
    Flush,
    /// The sectors are no longer needed.
    Discard,
    /// The sectors read as zeroes from now on.
    WriteZeroes {
        /// Their space may be freed.
        deallocate: bool,
        /// Force unit access.
        fua: bool,
    },
    /// Something that this program does not know, and was not announced.
    Unknown(u8),
}

/// `ublksrv_io_desc`: a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkRequest {
    /// Its kind.
    pub kind: UblkRequestKind,
    /// The first sector.
    pub sector: u64,
    /// Its length in sectors.
    pub sectors: u32,
}

impl UblkRequest {
    pub(super) fn decode(bytes: &[u8; DESCRIPTOR_BYTES]) -> Self {
        let word = u32::from_ne_bytes(part(bytes, 0));
        let (fua, keeps) = (word >> 8 & 1 << 13 != 0, word >> 8 & 1 << 15 != 0);
        let kind = match word as u8 {
            0 => UblkRequestKind::Read,
            1 => UblkRequestKind::Write { fua },
            2 => UblkRequestKind::Flush,
            3 => UblkRequestKind::Discard,
            5 => UblkRequestKind::WriteZeroes { deallocate: !keeps, fua },
            other => UblkRequestKind::Unknown(other),
        };
        let sectors = u32::from_ne_bytes(part(bytes, 4));
        Self { kind, sectors, sector: u64::from_ne_bytes(part(bytes, 8)) }
    }
}

/// Some bytes of a structure.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|n| bytes[at + n])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        assert_eq!(command::ADD_DEV, 0xc020_7504);
        assert_eq!(command::GET_DEV_INFO2, 0x8020_7512);
        assert_eq!(command::GET_FEATURES, 0x8020_7513);
        assert_eq!((FETCH_REQ, COMMIT_AND_FETCH_REQ), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn the_places_of_data_do_not_overlap() {
        assert_eq!(data_offset(0, 0), 0x8000_0000);
        assert_eq!(data_offset(0, 1) - data_offset(0, 0), 32 << 20);
        assert_eq!(data_offset(1, 0) - data_offset(0, 0), (32 << 20) * (1 << 16));
    }

    #[test]
    fn infos_survive() {
        let info = Info {
            device: 7,
            queues: 3,
            depth: 128,
            state: State::Dead,
            request_bytes: 1 << 19,
            flags: flag::USER_COPY | flag::USER_RECOVERY,
            process: 4711,
            label: u64::MAX - 1,
            owner: (1000, 100),
        };
        assert_eq!(Info::decode(&info.encode()), info);
        let mut bytes = info.encode();
        for (number, state) in [(2, State::Quiesced), (3, State::FailIo), (9, State::Other(9))] {
            bytes[4] = number;
            assert_eq!(Info::decode(&bytes).state, state);
        }
    }

    #[test]
    fn requests_are_read_as_the_driver_writes_them() {
        let request = |word: u32| {
            let mut bytes = [0; DESCRIPTOR_BYTES];
            bytes[..4].copy_from_slice(&word.to_ne_bytes());
            bytes[4..8].copy_from_slice(&8u32.to_ne_bytes());
            bytes[8..16].copy_from_slice(&(1u64 << 33).to_ne_bytes());
            UblkRequest::decode(&bytes)
        };
        let read = UblkRequest { kind: UblkRequestKind::Read, sector: 1 << 33, sectors: 8 };
        assert_eq!(request(0), read);
        let kinds = [
            (1, UblkRequestKind::Write { fua: false }),
            (1 | 1 << 21, UblkRequestKind::Write { fua: true }),
            (2, UblkRequestKind::Flush),
            (3, UblkRequestKind::Discard),
            (5, UblkRequestKind::WriteZeroes { deallocate: true, fua: false }),
            (5 | 1 << 23, UblkRequestKind::WriteZeroes { deallocate: false, fua: false }),
            (255, UblkRequestKind::Unknown(255)),
        ];
        kinds.into_iter().for_each(|(word, kind)| assert_eq!(request(word).kind, kind));
    }

    #[test]
    fn parameters_name_sizes_by_their_logarithms() {
        let parameters = UblkParameters {
            attributes: DiskAttributes { read_only: true, volatile_cache: true },
            block_bytes: 4096,
            optimal_bytes: 65_536,
            max_sectors: 1024,
            sectors: 1 << 40,
            discard_sectors: 8,
            zeroes_sectors: 16,
        };
        let bytes = parameters.encode();
        assert_eq!(bytes[12..16], [12, 12, 16, 12]);
        assert_eq!(bytes[8..12], 0b1101u32.to_ne_bytes());
        assert_eq!(UblkParameters::decode_size(&bytes), (4096, 1 << 40));
        let small = UblkParameters { block_bytes: 512, optimal_bytes: 512, ..parameters };
        assert_eq!(small.encode()[12..16], [9; 4]);
    }
}
