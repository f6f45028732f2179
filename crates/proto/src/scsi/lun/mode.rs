//! Mode parameters of a logical unit, MODE SENSE (SPC-4 §6.11) and MODE SELECT (SPC-4 §6.9).

use super::config::{UnitFeatures, UnitGeometry};
use super::writer::Writer;
use crate::limits::SCSI_MODE_LIST_BYTES_MAX;
use crate::scsi::bytes::be16;
use crate::scsi::cdb::{Command, PageControl};
use crate::scsi::sense::Sense;
use crate::scsi::status::AdditionalSense;

const ERROR_RECOVERY: u8 = 0x01;
const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x1c;
const ALL: u8 = 0x3f;
const PAGES: [u8; 4] = [ERROR_RECOVERY, CACHING, CONTROL, INFORMATIONAL_EXCEPTIONS];

/// Bytes of the longest page, with its head.
const PAGE_BYTES_MAX: usize = 20;

const WRITE_PROTECT: u8 = 0x80;
const DPO_AND_FUA: u8 = 0x10;
const LONG_LBA: u8 = 0x01;
const D_SENSE: u8 = 0x04;
const SOFTWARE_WRITE_PROTECT: u8 = 0x08;
const WRITE_CACHE: u8 = 0x04;

/// Settings that MODE SELECT can change. The same for all initiators; gone with a reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    /// Sense data in the descriptor format.
    pub descriptor_sense: bool,
    /// No writes for now.
    pub write_protect: bool,
}

/// Request of MODE SENSE.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModeRequest {
    pub ten: bool,
    pub no_descriptors: bool,
    pub long_lba: bool,
    pub control: PageControl,
    pub page: u8,
    pub subpage: u8,
}

impl ModeRequest {
    /// Returns the request of a MODE SENSE CDB.
    pub fn of(command: &Command) -> Option<Self> {
        match *command {
            Command::ModeSense {
                ten, no_descriptors, long_lba, control, page, subpage, ..
            } => Some(Self { ten, no_descriptors, long_lba, control, page, subpage }),
            _ => None,
        }
    }

    /// Checks that such a page exists.
    pub fn check(&self) -> Result<(), Sense> {
        if self.control == PageControl::Saved {
            return Err(Sense::illegal(AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED));
        }
        if self.page != ALL && !PAGES.contains(&self.page) {
            return Err(Sense::cdb_bit(2, 5));
        }
        if self.subpage != 0 && self.subpage != 0xff {
            return Err(Sense::cdb_byte(3));
        }
        Ok(())
    }

    /// Writes header, block descriptor and pages.
    pub fn report(
        &self,
        mode: Mode,
        geometry: &UnitGeometry,
        features: UnitFeatures,
        out: &mut Writer,
    ) {
        let protected = !features.write || mode.write_protect;
        let device = DPO_AND_FUA | if protected { WRITE_PROTECT } else { 0 };
        let descriptor = match (self.no_descriptors, self.ten && self.long_lba) {
            (true, _) => 0,
            (false, false) => 8,
            (false, true) => 16,
        };
        match self.ten {
            false => out.bytes(&[0, 0, device, descriptor]),
            true => out.bytes(&[
                0,
                0,
                0,
                device,
                u8::from(descriptor == 16) * LONG_LBA,
                0,
                0,
                descriptor,
            ]),
        }
        put_descriptor(geometry, descriptor, out);
        for page in PAGES.into_iter().filter(|&page| self.page == ALL || self.page == page) {
            let (bytes, length) = page_bytes(page, self.control, mode, features);
            out.bytes(&bytes[..length]);
        }
        match self.ten {
            false => out.set(0, 1, out.len() as u64 - 1),
            true => out.set(0, 2, out.len() as u64 - 2),
        }
    }
}

/// Block descriptor, short or long (SBC-3 §6.4.2).
fn put_descriptor(geometry: &UnitGeometry, bytes: u8, out: &mut Writer) {
    match bytes {
        8 => {
            out.number(4, geometry.blocks.min(u32::MAX.into()));
            out.number(4, geometry.block_bytes.into());
        }
        16 => {
            out.number(8, geometry.blocks);
            out.zeroes(4);
            out.number(4, geometry.block_bytes.into());
        }
        _ => {}
    }
}

/// One page with its head, and its length. Without the bits of the page code that MODE SELECT
/// ignores (PS).
fn page_bytes(
    page: u8,
    control: PageControl,
    mode: Mode,
    features: UnitFeatures,
) -> ([u8; PAGE_BYTES_MAX], usize) {
    let mut bytes = [0; PAGE_BYTES_MAX];
    let length = match page {
        CACHING => 20,
        _ => 12,
    };
    (bytes[0], bytes[1]) = (page, length as u8 - 2);
    if control == PageControl::Changeable {
        if page == CONTROL {
            (bytes[2], bytes[4]) = (D_SENSE, SOFTWARE_WRITE_PROTECT);
        }
        return (bytes, length);
    }
    let mode = if control == PageControl::Default { Mode::default() } else { mode };
    match page {
        CACHING => bytes[2] = u8::from(features.volatile_cache) * WRITE_CACHE,
        CONTROL => {
            bytes[2] = u8::from(mode.descriptor_sense) * D_SENSE;
            // Unrestricted reordering, as block devices do it.
            bytes[3] = 0x10;
            bytes[4] = u8::from(mode.write_protect) * SOFTWARE_WRITE_PROTECT;
            // BUSY TIMEOUT PERIOD: unlimited.
            bytes[8..10].fill(0xff);
        }
        _ => {}
    }
    (bytes, length)
}

/// Checks the length of the parameter list of a MODE SELECT.
pub(super) fn check_select(parameters: u32) -> Result<(), Sense> {
    match parameters {
        0..=SCSI_MODE_LIST_BYTES_MAX => Ok(()),
        _ => Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR)),
    }
}

/// Returns the new mode after a parameter list, which changes anything only if it has no faults.
pub(super) fn select(
    list: &[u8],
    ten: bool,
    mode: Mode,
    geometry: &UnitGeometry,
    features: UnitFeatures,
) -> Result<Mode, Sense> {
    let length_error = Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
    let header = if ten { 8 } else { 4 };
    if list.len() < header {
        return Err(length_error);
    }
    let descriptor = if ten { usize::from(be16(list, 6)) } else { usize::from(list[3]) };
    let long = ten && list[4] & LONG_LBA != 0;
    let mut at = header + descriptor;
    if list.len() < at {
        return Err(length_error);
    }
    check_descriptor(&list[header..at], long, geometry)
        .map_err(|()| Sense::parameter(header as u16))?;
    let mut next = mode;
    while at < list.len() {
        let room = &list[at..];
        let (Some(&code), Some(&length)) = (room.first(), room.get(1)) else {
            return Err(length_error);
        };
        if !PAGES.contains(&(code & 0x7f)) {
            return Err(Sense::parameter(at as u16));
        }
        let length = 2 + usize::from(length);
        let page = room.get(..length).ok_or(length_error)?;
        next = select_page(page, next, features)
            .map_err(|byte| Sense::parameter((at + byte) as u16))?;
        at += length;
    }
    Ok(next)
}

/// A block descriptor may say only what is so: number of blocks (zero and all ones mean the same)
/// and their size.
fn check_descriptor(descriptor: &[u8], long: bool, geometry: &UnitGeometry) -> Result<(), ()> {
    let mut as_is = [0; 16];
    let mut writer = Writer::new(&mut as_is);
    put_descriptor(geometry, if long { 16 } else { 8 }, &mut writer);
    let (blocks, size) = if long { (0..8, 12..16) } else { (0..4, 5..8) };
    match descriptor.len() {
        0 => Ok(()),
        bytes if bytes != blocks.end + if long { 8 } else { 4 } => Err(()),
        _ => {
            let count = &descriptor[blocks.clone()];
            let is_same = *count == as_is[blocks]
                || count.iter().all(|&byte| byte == 0)
                || count.iter().all(|&byte| byte == 0xff);
            let is_size = descriptor[size.clone()] == as_is[size];
            if is_same && is_size { Ok(()) } else { Err(()) }
        }
    }
}

/// The mode with the values of one page; where it changes what cannot be, the byte that does.
fn select_page(page: &[u8], mode: Mode, features: UnitFeatures) -> Result<Mode, usize> {
    let code = page[0] & 0x7f;
    let (current, length) = page_bytes(code, PageControl::Current, mode, features);
    let (changeable, _) = page_bytes(code, PageControl::Changeable, mode, features);
    if page.len() != length {
        return Err(1);
    }
    for byte in 2..length {
        if (page[byte] ^ current[byte]) & !changeable[byte] != 0 {
            return Err(byte);
        }
    }
    Ok(match code {
        CONTROL => Mode {
            descriptor_sense: page[2] & D_SENSE != 0,
            write_protect: page[4] & SOFTWARE_WRITE_PROTECT != 0,
        },
        _ => mode,
    })
}
