//! INQUIRY: the standard data (SPC-4 §6.6.2) and the vital product data pages (SPC-4 §7.8, SBC-3
//! §6.6).

use super::blocks::compare_blocks_max;
use super::unit::LogicalUnit;
use super::writer::Writer;
use crate::limits::SCSI_UNMAP_RANGES_MAX;
use crate::scsi::sense::Sense;

const SUPPORTED_PAGES: u8 = 0x00;
const SERIAL_NUMBER: u8 = 0x80;
const IDENTIFICATION: u8 = 0x83;
const EXTENDED: u8 = 0x86;
const BLOCK_LIMITS: u8 = 0xb0;
const BLOCK_CHARACTERISTICS: u8 = 0xb1;
const PROVISIONING: u8 = 0xb2;
const PAGES: [u8; 7] = [
    SUPPORTED_PAGES,
    SERIAL_NUMBER,
    IDENTIFICATION,
    EXTENDED,
    BLOCK_LIMITS,
    BLOCK_CHARACTERISTICS,
    PROVISIONING,
];

/// Peripheral qualifier and type of a logical unit that is not there, and cannot be.
const NO_UNIT: u8 = 0x7f;

const TPGS_IMPLICIT: u8 = 0x10;
const MULTIP: u8 = 0x10;

/// Bytes of the standard data.
const STANDARD_BYTES: usize = 96;
/// PAGE LENGTH of the pages that SBC-3 gives 64 bytes.
const PAGE_LENGTH: u8 = 0x3c;
/// Characters of a T10 vendor ID based designator.
const T10_CHARACTERS: usize = 64;

/// Subject of INQUIRY.
pub(super) struct Inquiry<'a> {
    /// Name of the target.
    pub target: &'a str,
    /// Relative identifier of the target port.
    pub port: u16,
    /// `None` where there is no logical unit.
    pub unit: Option<&'a LogicalUnit>,
}

impl Inquiry<'_> {
    /// Writes what INQUIRY wants.
    pub fn write(&self, page: Option<u8>, out: &mut Writer) -> Result<(), Sense> {
        match (page, self.unit) {
            (None, unit) => standard(self.port, unit, out),
            (Some(page), Some(unit)) if PAGES.contains(&page) => self.vital(unit, page, out),
            (Some(SUPPORTED_PAGES), None) => {
                out.bytes(&[NO_UNIT, SUPPORTED_PAGES, 0, 1, SUPPORTED_PAGES])
            }
            _ => return Err(Sense::cdb_byte(2)),
        }
        Ok(())
    }

    fn vital(&self, unit: &LogicalUnit, page: u8, out: &mut Writer) {
        out.bytes(&[0, page, 0, 0]);
        match page {
            SUPPORTED_PAGES => out.bytes(&PAGES),
            SERIAL_NUMBER => put_serial(unit, out),
            IDENTIFICATION => self.identification(unit, out),
            EXTENDED => {
                // Simple task attribute; a volatile cache is told as such.
                out.bytes(&[0, 0x01, u8::from(unit.features().volatile_cache)]);
                out.zeroes(usize::from(PAGE_LENGTH) - 3);
            }
            BLOCK_LIMITS => block_limits(unit, out),
            BLOCK_CHARACTERISTICS => {
                // Not rotating.
                out.number(2, 1);
                out.zeroes(usize::from(PAGE_LENGTH) - 2);
            }
            _ => provisioning(unit, out),
        }
        out.set(2, 2, out.len() as u64 - 4);
    }

    /// Device identification (SPC-4 §7.8.6): names of the logical unit that last, then of the port and
    /// of the target.
    fn identification(&self, unit: &LogicalUnit, out: &mut Writer) {
        let identity = unit.identity();
        designator(out, 0x02, 0x01, |out| match &identity.t10 {
            Some(text) => out.text(text.chars().count().min(T10_CHARACTERS), text),
            None => {
                out.text(8, &identity.vendor);
                out.text(16, &identity.product);
                put_serial(unit, out);
            }
        });
        designator(out, 0x01, 0x03, |out| match &*identity.naa {
            [] => out.number(8, locally_assigned(&identity.uuid)),
            naa => out.bytes(naa),
        });
        if let Some(nguid) = &identity.nguid {
            designator(out, 0x01, 0x02, |out| out.bytes(nguid));
        }
        designator(out, 0x01, 0x0a, |out| {
            out.bytes(&[0x10, 0]);
            out.bytes(&identity.uuid);
        });
        // Of the target port, whose protocol is valid and iSCSI: its number, and that of its group,
        // which is the same.
        let port = self.port;
        for kind in [0x94, 0x95] {
            designator(out, 0x51, kind, |out| out.number(4, port.into()));
        }
        designator(out, 0x53, 0x98, |out| {
            let name = format!("{},t,0x{port:04x}", self.target);
            out.bytes(name.as_bytes());
            out.zeroes((name.len() + 1).next_multiple_of(4) - name.len());
        });
    }
}

fn standard(port: u16, unit: Option<&LogicalUnit>, out: &mut Writer) {
    let (peripheral, texts) = match unit {
        Some(unit) => {
            (0, [&*unit.identity().vendor, &unit.identity().product, &unit.identity().revision])
        }
        None => (NO_UNIT, [""; 3]),
    };
    let has_ports = unit.is_some_and(|unit| unit.lock().reported_ports_count(port) > 1);
    // SPC-4; hierarchical LUNs, response data format 2; implicit asymmetric access (TPGS); several
    // target ports (MULTIP); commands are queued.
    out.bytes(&[
        peripheral,
        0,
        0x06,
        0x12,
        STANDARD_BYTES as u8 - 5,
        TPGS_IMPLICIT,
        u8::from(has_ports) * MULTIP,
        0x02,
    ]);
    for (bytes, text) in [8, 16, 4].into_iter().zip(texts) {
        out.text(bytes, text);
    }
    out.zeroes(22);
    // SAM-5, SPC-4, SBC-3, iSCSI.
    for version in [0x00a0, 0x0460, 0x04c0, 0x0960] {
        out.number(2, version);
    }
    out.zeroes(STANDARD_BYTES - out.len());
}

fn put_serial(unit: &LogicalUnit, out: &mut Writer) {
    let serial = &unit.identity().serial;
    out.text(serial.chars().count().min(36), serial);
}

fn designator(out: &mut Writer, code_set: u8, kind: u8, put: impl FnOnce(&mut Writer)) {
    let at = out.len();
    out.bytes(&[code_set, kind, 0, 0]);
    put(out);
    out.set(at + 3, 1, out.len() as u64 - at as u64 - 4);
}

/// NAA 3h: an identifier of 60 bits that is unique as far as UUIDs are.
fn locally_assigned(uuid: &[u8; 16]) -> u64 {
    let whole = u128::from_be_bytes(*uuid);
    let folded = (whole >> 64) as u64 ^ whole as u64;
    3 << 60 | folded & ((1 << 60) - 1)
}

/// Block limits (SBC-3 §6.6.3): what is refused when it is more.
fn block_limits(unit: &LogicalUnit, out: &mut Writer) {
    let geometry = unit.geometry();
    let discards = unit.features().discard;
    let granularity = geometry.optimal_blocks.min(u16::MAX.into());
    // WSNZ: zero blocks of WRITE SAME are refused.
    out.bytes(&[0x01, compare_blocks_max(unit)]);
    out.number(2, granularity.into());
    out.number(4, unit.transfer_blocks_max().into());
    // Optimal transfer length, maximum prefetch: nothing to say.
    out.zeroes(8);
    out.number(4, if discards { u32::MAX.into() } else { 0 });
    out.number(4, if discards { SCSI_UNMAP_RANGES_MAX.into() } else { 0 });
    out.number(4, if discards { geometry.optimal_blocks.into() } else { 0 });
    // UGAVALID, alignment 0.
    out.number(4, if discards { 0x8000_0000 } else { 0 });
    out.number(8, unit.write_same_blocks_max().into());
    out.zeroes(usize::from(PAGE_LENGTH) + 4 - out.len());
}

/// Logical block provisioning (SBC-3 §6.6.4).
fn provisioning(unit: &LogicalUnit, out: &mut Writer) {
    let features = unit.features();
    let flags = match (features.discard, features.discard_zeroes) {
        (false, _) => 0,
        // LBPU, LBPWS, LBPWS10.
        (true, false) => 0xe0,
        (true, true) => 0xe4,
    };
    // Thin provisioning, where there is something to give back.
    out.bytes(&[0, flags, if features.discard { 2 } else { 0 }, 0]);
}
