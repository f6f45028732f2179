//! The meaning of the bits of Identify fields, in the form of `nvme id-ctrl -H` and
//! `nvme id-ns -H`.

use serde_json::Value;
use std::io::Write;

/// One bit of a field, and its meaning.
struct Bit(&'static str, u8, &'static str);

/// Bits of Identify Controller (Base §5.17.2.1), printed as "supported" or "not supported".
const CONTROLLER: &[Bit] = &[
    Bit("cmic", 3, "ANA"),
    Bit("cmic", 1, "Multi Controller"),
    Bit("cmic", 0, "Multi Port"),
    Bit("oaes", 31, "Discovery Log Change Notices"),
    Bit("oaes", 11, "Asymmetric Namespace Access Change Notices"),
    Bit("oaes", 9, "Firmware Activation Notices"),
    Bit("oaes", 8, "Namespace Attribute Changed Event"),
    Bit("ctratt", 9, "UUID List"),
    Bit("ctratt", 7, "Namespace Granularity"),
    Bit("ctratt", 6, "Traffic Based Keep Alive"),
    Bit("ctratt", 0, "128-bit Host Identifier"),
    Bit("oacs", 3, "NS Management and Attachment"),
    Bit("oacs", 2, "FW Commit and Download"),
    Bit("oacs", 1, "Format NVM"),
    Bit("oacs", 0, "Security Send and Receive"),
    Bit("lpa", 2, "Extended data for Get Log Page"),
    Bit("lpa", 1, "Command Effects Log Page"),
    Bit("lpa", 0, "SMART/Health Log Page per NS"),
    Bit("oncs", 8, "Copy"),
    Bit("oncs", 7, "Verify"),
    Bit("oncs", 6, "Timestamp"),
    Bit("oncs", 5, "Reservations"),
    Bit("oncs", 4, "Save and Select"),
    Bit("oncs", 3, "Write Zeroes"),
    Bit("oncs", 2, "Data Set Management"),
    Bit("oncs", 1, "Write Uncorrectable"),
    Bit("oncs", 0, "Compare"),
    Bit("fuses", 0, "Fused Compare and Write"),
    Bit("vwc", 0, "Volatile Write Cache"),
    Bit("sgls", 20, "SGL Offset"),
    Bit("sgls", 2, "Keyed SGL Data Block descriptor"),
];

/// Bits of Identify Namespace (NVM §4.1.5.1).
const NAMESPACE: &[Bit] = &[
    Bit("nsfeat", 4, "NPWG, NPWA, NPDG, NPDA, and NOWS"),
    Bit("nsfeat", 2, "Deallocated or Unwritten Logical Block error"),
    Bit("nsfeat", 1, "Namespace uses NAWUN, NAWUPF, and NACWU"),
    Bit("nsfeat", 0, "Thin Provisioning"),
    Bit("mc", 1, "Metadata Pointer"),
    Bit("mc", 0, "Metadata as Part of Extended Data LBA"),
    Bit("nmic", 0, "Namespace Multipath Capable"),
    Bit("dlfeat", 3, "Write Zeroes with the Deallocate bit"),
];

/// The structure that the fields belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Structure {
    /// Identify Controller.
    Controller,
    /// Identify Namespace.
    Namespace,
}

/// Prints the meaning of a field's bits, one line each: position, value, and for example "Multi
/// Controller Supported".
pub fn explain(
    out: &mut impl Write,
    of: Structure,
    name: &str,
    value: &Value,
) -> std::io::Result<()> {
    let Some(number) = value.as_u64() else { return Ok(()) };
    let table = if of == Structure::Controller { CONTROLLER } else { NAMESPACE };
    for Bit(_, bit, text) in table.iter().filter(|Bit(field, ..)| *field == name) {
        let set = number >> bit & 1;
        writeln!(
            out,
            "  [{bit}:{bit}] : {set:#x}\t{text} {}Supported",
            if set == 1 { "" } else { "Not " }
        )?;
    }
    match (of, name) {
        (Structure::Namespace, "flbas") => {
            writeln!(out, "  [3:0] : {:#x}\tCurrent LBA Format Selected", number & 0xf)
        }
        (Structure::Namespace, "dlfeat") => {
            let reads = ["not reported", "0x00 in all bytes", "0xff in all bytes"];
            let text = reads.get((number & 7) as usize).copied().unwrap_or("reserved");
            writeln!(
                out,
                "  [2:0] : {:#x}\tBytes read from a deallocated logical block: {text}",
                number & 7
            )
        }
        _ => Ok(()),
    }
}
