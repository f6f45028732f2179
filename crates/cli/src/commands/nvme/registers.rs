//! `weft show-regs`.

use super::connected::ConnectedSession;
use super::refusal;
use super::target::{OutputOptions, VerbTarget, letters};
use crate::commands::identify::NvmeOutputFormat;
use crate::output::nvme_json::print_json;
use crate::process::exit::Failure;
use clap::Args;
use serde_json::{Map, Value};
use std::io::Write;
use weft_endpoint::Control;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::fabrics::Property;
use weft_proto::nvme::property::{Capabilities, Configuration, ControllerStatus, PropertyOffset};
use weft_proto::nvme::status::Status;

/// Options of `weft show-regs`.
#[derive(Args, Debug)]
#[command(mut_args(letters("obH")))]
#[command(after_help = "\
They are those of the controller of this connection. Registers that controllers have only on a bus
count as all ones with -o json and -o binary.

Example:
  weft show-regs nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -H")]
pub struct ShowRegsArgs {
    #[command(flatten)]
    format: OutputOptions,
    /// Explain the bits
    #[arg(short = 'H', long)]
    human_readable: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// The properties that fabrics have.
#[derive(Clone, Copy, Debug, Default)]
struct Properties {
    cap: Option<u64>,
    vs: Option<u32>,
    cc: Option<u32>,
    csts: Option<u32>,
    nssr: Option<u32>,
    crto: Option<u32>,
}

impl Properties {
    fn read(connected: &ConnectedSession) -> Result<Self, Failure> {
        let long = |offset| property(connected, offset);
        let short = |offset| Ok::<_, Failure>(long(offset)?.map(|value| value as u32));
        Ok(Self {
            cap: long(PropertyOffset::CAP)?,
            vs: short(PropertyOffset::VS)?,
            cc: short(PropertyOffset::CC)?,
            csts: short(PropertyOffset::CSTS)?,
            nssr: short(PropertyOffset::NSSR)?,
            crto: short(PropertyOffset::CRTO)?,
        })
    }

    fn shorts(&self) -> [(PropertyOffset, Option<u32>); 5] {
        [
            (PropertyOffset::VS, self.vs),
            (PropertyOffset::CC, self.cc),
            (PropertyOffset::CSTS, self.csts),
            (PropertyOffset::NSSR, self.nssr),
            (PropertyOffset::CRTO, self.crto),
        ]
    }
}

/// A property, where the controller has it.
fn property(connected: &ConnectedSession, offset: PropertyOffset) -> Result<Option<u64>, Failure> {
    let (cqe, _) = connected.session.admin(Property::get(offset), CommandData::None)?;
    // Controllers differ in how they refuse what they need not have.
    let is_optional = matches!(offset, PropertyOffset::NSSR | PropertyOffset::CRTO);
    if cqe.status == Status::INVALID_FIELD || is_optional && !cqe.status.is_success() {
        return Ok(None);
    }
    refusal::check(&connected.name, "Property Get", &cqe)?;
    Ok(Some(cqe.result))
}

/// Prints the properties.
pub fn show_regs(args: &ShowRegsArgs, control: &Control) -> Result<(), Failure> {
    let connected = args.target.connect(control)?;
    let read = Properties::read(&connected)?;
    let mut out = std::io::stdout().lock();
    match args.format.output() {
        NvmeOutputFormat::Binary => out.write_all(&bytes(&read))?,
        NvmeOutputFormat::Json => print_json(&as_json(&read))?,
        NvmeOutputFormat::Normal => text(&mut out, &read, args.human_readable)?,
    }
    Ok(())
}

/// The registers as they lie on a bus.
fn bytes(read: &Properties) -> Vec<u8> {
    const BYTES: usize = 0xe1c;
    let mut bytes = vec![0xff; BYTES];
    if let Some(cap) = read.cap {
        bytes[..8].copy_from_slice(&cap.to_le_bytes());
    }
    for (offset, value) in read.shorts() {
        if let (at, Some(value)) = (offset.0 as usize, value) {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}

/// In nvme-cli's order; numbers of 32 bits have a sign.
fn as_json(read: &Properties) -> Value {
    let long = |value: Option<u64>| Value::from(value.unwrap_or(u64::MAX));
    let short = |value: Option<u32>| Value::from(value.unwrap_or(u32::MAX) as i32);
    let absent = || short(None);
    let fields = [
        ("cap", long(read.cap)),
        ("vs", short(read.vs)),
        ("intms", absent()),
        ("intmc", absent()),
        ("cc", short(read.cc)),
        ("csts", short(read.csts)),
        ("nssr", short(read.nssr)),
        ("crto", short(read.crto)),
        ("aqa", absent()),
        ("asq", long(None)),
        ("acq", long(None)),
        ("cmbloc", absent()),
        ("cmbsz", absent()),
        ("bpinfo", absent()),
        ("bprsel", absent()),
        ("bpmbl", long(None)),
        ("cmbmsc", long(None)),
        ("cmbsts", absent()),
        ("pmrcap", absent()),
        ("pmrctl", absent()),
        ("pmrsts", absent()),
        ("pmrebs", absent()),
        ("pmrswtp", absent()),
        ("pmrmscl", absent()),
        ("pmrmscu", absent()),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn text(out: &mut impl Write, read: &Properties, explained: bool) -> std::io::Result<()> {
    if let Some(cap) = read.cap {
        writeln!(out, "cap     : {cap:x}")?;
        if explained {
            capabilities(out, Capabilities(cap))?;
        }
    }
    if let Some(vs) = read.vs {
        writeln!(out, "version : {vs:x}")?;
        if explained {
            writeln!(out, "\tNVMe specification {}.{}\n", vs >> 16, vs >> 8 & 0xff)?;
        }
    }
    if let Some(cc) = read.cc {
        writeln!(out, "cc      : {cc:x}")?;
        if explained {
            configuration(out, Configuration(cc))?;
        }
    }
    if let Some(csts) = read.csts {
        writeln!(out, "csts    : {csts:x}")?;
        if explained {
            status(out, ControllerStatus(csts))?;
        }
    }
    if let Some(nssr) = read.nssr {
        writeln!(out, "nssr    : {nssr:x}")?;
        if explained {
            writeln!(out, "\tNVM Subsystem Reset Control (NSSRC): {nssr}\n")?;
        }
    }
    if let Some(crto) = read.crto {
        writeln!(out, "crto    : {crto:x}")?;
        if explained {
            let seconds = |halves: u32| halves / 2;
            writeln!(out, "\tCRIMT                               : {} secs", seconds(crto >> 16))?;
            let with_media = seconds(crto & 0xffff);
            writeln!(out, "\tCRWMT                               : {with_media} secs")?;
        }
    }
    Ok(())
}

/// CAP (Base §3.1.4.1).
fn capabilities(out: &mut impl Write, cap: Capabilities) -> std::io::Result<()> {
    let bit = |n: u32| cap.0 >> n & 1 != 0;
    let support = |is: bool| if is { "Supported" } else { "Not Supported" };
    let yes = |is: bool| if is { "Yes" } else { "No" };
    let page = |exponent: u64| 1_u64 << (12 + (exponent & 0xf));
    let media = support(bit(59));
    writeln!(out, "\tController Ready With Media Support (CRWMS): {media}")?;
    let independent = support(bit(60));
    writeln!(out, "\tController Ready Independent of Media Support (CRIMS): {independent}")?;
    writeln!(
        out,
        "\tController Memory Buffer Supported (CMBS): The Controller Memory Buffer is {}",
        support(bit(57))
    )?;
    writeln!(
        out,
        "\tPersistent Memory Region Supported (PMRS): The Persistent Memory Region is {}",
        support(bit(56))
    )?;
    writeln!(out, "\tMemory Page Size Maximum         (MPSMAX): {} bytes", page(cap.0 >> 52))?;
    writeln!(out, "\tMemory Page Size Minimum         (MPSMIN): {} bytes", page(cap.0 >> 48))?;
    writeln!(out, "\tBoot Partition Support              (BPS): {}", yes(bit(45)))?;
    let nvm = support(bit(37));
    writeln!(out, "\tCommand Sets Supported              (CSS): NVM command set is {nvm}")?;
    let indent = " ".repeat(43);
    writeln!(out, "\t{indent}One or more I/O Command Sets are {}", support(bit(43)))?;
    let admin_only = match bit(44) {
        true => "Only Admin Command Set Supported",
        false => "I/O Command Set is Supported",
    };
    writeln!(out, "\t{indent}{admin_only}")?;
    writeln!(out, "\tNVM Subsystem Reset Supported     (NSSRS): {}", yes(bit(36)))?;
    let stride = 4_u64 << (cap.0 >> 32 & 0xf);
    writeln!(out, "\tDoorbell Stride                   (DSTRD): {stride} bytes")?;
    writeln!(out, "\tTimeout                              (TO): {} ms", cap.timeout_ms())?;
    writeln!(
        out,
        "\tArbitration Mechanism Supported     (AMS): Weighted Round Robin with Urgent Priority Class is {}",
        if bit(17) { "supported" } else { "not supported" }
    )?;
    writeln!(out, "\tContiguous Queues Required          (CQR): {}", yes(bit(16)))?;
    let entries = (cap.0 & 0xffff) + 1;
    writeln!(out, "\tMaximum Queue Entries Supported    (MQES): {entries}\n")
}

/// CC (Base §3.1.4.5).
fn configuration(out: &mut impl Write, cc: Configuration) -> std::io::Result<()> {
    let media = if cc.0 >> 24 & 1 == 0 { "Disabled" } else { "Enabled" };
    writeln!(out, "\tController Ready Independent of Media Enable (CRIME): {media}\n")?;
    let (completion, submission) =
        (1 << cc.completion_entry_size(), 1 << cc.submission_entry_size());
    writeln!(out, "\tI/O Completion Queue Entry Size (IOCQES): {completion} bytes")?;
    writeln!(out, "\tI/O Submission Queue Entry Size (IOSQES): {submission} bytes")?;
    let shutdown = match cc.shutdown() {
        0 => "No notification; no effect",
        1 => "Normal shutdown notification",
        2 => "Abrupt shutdown notification",
        _ => "Reserved",
    };
    writeln!(out, "\tShutdown Notification              (SHN): {shutdown}")?;
    let arbitration = match cc.arbitration() {
        0 => "Round Robin",
        1 => "Weighted Round Robin with Urgent Priority Class",
        7 => "Vendor Specific",
        _ => "Reserved",
    };
    writeln!(out, "\tArbitration Mechanism Selected     (AMS): {arbitration}")?;
    let page = 4096_u64 << cc.page_size();
    writeln!(out, "\tMemory Page Size                   (MPS): {page} bytes")?;
    let sets = match cc.command_sets() {
        0 => "NVM Command Set",
        6 => "All supported I/O Command Sets",
        7 => "Admin Command Set only",
        _ => "Reserved",
    };
    writeln!(out, "\tI/O Command Set Selected           (CSS): {sets}")?;
    let enabled = if cc.enabled() { "Yes" } else { "No" };
    writeln!(out, "\tEnable                              (EN): {enabled}\n")
}

/// CSTS (Base §3.1.4.6).
fn status(out: &mut impl Write, csts: ControllerStatus) -> std::io::Result<()> {
    let yes = |bit: u32| if csts.0 >> bit & 1 == 0 { "No" } else { "Yes" };
    writeln!(out, "\tProcessing Paused               (PP): {}", yes(5))?;
    writeln!(out, "\tNVM Subsystem Reset Occurred (NSSRO): {}", yes(4))?;
    let shutdown = match csts.shutdown().0 {
        0 => "Normal operation (no shutdown has been requested)",
        1 => "Shutdown processing occurring",
        2 => "Shutdown processing complete",
        _ => "Reserved",
    };
    writeln!(out, "\tShutdown Status               (SHST): {shutdown}")?;
    let fatal = if csts.fatal() { "True" } else { "False" };
    writeln!(out, "\tController Fatal Status        (CFS): {fatal}")?;
    writeln!(out, "\tReady                          (RDY): {}\n", yes(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Properties {
        Properties {
            cap: Some(1 << 59 | 1 << 37 | 15 << 24 | 1 << 16 | 127),
            vs: Some(0x0002_0100),
            cc: Some(0x0046_0001),
            csts: Some(1),
            nssr: None,
            crto: Some(15),
        }
    }

    #[test]
    fn properties_are_printed_as_nvme_cli_does() {
        let shown = |explained| {
            let mut out = Vec::new();
            text(&mut out, &read(), explained).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            shown(false),
            "cap     : 80000200f01007f\nversion : 20100\ncc      : 460001\ncsts    : 1\ncrto    : f\n"
        );
        let explained = shown(true);
        for line in [
            "(CRWMS): Supported\n",
            "\tMemory Page Size Maximum         (MPSMAX): 4096 bytes\n",
            "\tDoorbell Stride                   (DSTRD): 4 bytes\n",
            "\tTimeout                              (TO): 7500 ms\n",
            "(MQES): 128\n\n",
            "\tNVMe specification 2.1\n\n",
            "\tI/O Submission Queue Entry Size (IOSQES): 64 bytes\n",
            "\tReady                          (RDY): Yes\n\n",
            "\tCRWMT                               : 7 secs\n",
        ] {
            assert!(explained.contains(line), "{line}: {explained}");
        }
    }

    #[test]
    fn what_fabrics_lack_is_all_ones() {
        let json = as_json(&read());
        assert_eq!((&json["vs"], &json["nssr"]), (&Value::from(0x0002_0100), &Value::from(-1)));
        assert_eq!(json["asq"], Value::from(u64::MAX));
        let bytes = bytes(&read());
        assert_eq!(
            (bytes.len(), &bytes[8..16]),
            (0xe1c, &[0, 1, 2, 0, 0xff, 0xff, 0xff, 0xff][..])
        );
        assert_eq!(bytes[0x68..0x6c], [15, 0, 0, 0]);
    }
}
