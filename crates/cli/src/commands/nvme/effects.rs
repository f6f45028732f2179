//! `weft effects-log`.

use super::log::{self, LogPageRequest};
use super::target::{OutputOptions, VerbTarget, letters, number};
use crate::commands::identify::NvmeOutputFormat;
use crate::output::nvme_json::print_json;
use crate::process::exit::Failure;
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::Write;
use weft_endpoint::Control;
use weft_proto::nvme::log_page::{EffectsLog, LogPageId};
use weft_proto::nvme::opcode::{AdminOpcode, NvmOpcode};

/// The command set identifier of the NVM command set.
const NVM: u8 = 0;

/// That of Zoned Namespaces.
const ZONED: u8 = 2;

/// Options of `weft effects-log`.
#[derive(Args, Debug)]
#[command(mut_args(letters("oHbc")))]
#[command(after_help = "\
Example:
  weft effects-log nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -H")]
pub struct EffectsLogArgs {
    #[command(flatten)]
    format: OutputOptions,
    /// Explain the bits
    #[arg(short = 'H', long)]
    human_readable: bool,
    /// Command set identifier
    #[arg(short = 'c', long, value_parser = number::<u8>, default_value = "0")]
    csi: u8,
    #[command(flatten)]
    target: VerbTarget,
}

/// Prints Commands Supported and Effects.
pub fn effects_log(args: &EffectsLogArgs, control: &Control) -> Result<(), Failure> {
    let connected = args.target.connect(control)?;
    let request = LogPageRequest {
        command_set: args.csi,
        ..LogPageRequest::of(LogPageId::COMMAND_EFFECTS, EffectsLog::BYTES)
    };
    let page = log::read(&connected, &request)?;
    let log = EffectsLog::decode(&page).map_err(|e| connected.malformed(&e))?;
    let mut out = std::io::stdout().lock();
    match args.format.output() {
        NvmeOutputFormat::Binary => out.write_all(&page)?,
        NvmeOutputFormat::Json => print_json(&json!([as_json(&log, args.csi)]))?,
        NvmeOutputFormat::Normal => text(&mut out, &log, args.csi, args.human_readable)?,
    }
    Ok(())
}

/// The commands that there are, with their effects.
fn supported(effects: &[u32; 256]) -> impl Iterator<Item = (u8, u32)> {
    let all = (0..=u8::MAX).zip(*effects);
    all.filter(|(_, effects)| effects & EffectsLog::SUPPORTED != 0)
}

/// Name of an admin command, or of an I/O command.
pub fn name(is_admin: bool, opcode: u8) -> &'static str {
    let text = match is_admin {
        true => AdminOpcode(opcode).text(),
        false => NvmOpcode(opcode).text(),
    };
    text.unwrap_or("Unknown")
}

fn as_json(log: &EffectsLog, command_set: u8) -> Value {
    let commands = |prefix: &str, is_admin: bool, effects: &[u32; 256]| {
        let line = |(opcode, effects): (u8, u32)| {
            (format!("{prefix}_{opcode} ({})", name(is_admin, opcode)), json!(effects))
        };
        Value::Object(supported(effects).map(line).collect::<Map<_, _>>())
    };
    json!({
        "command_set_identifier": command_set,
        "admin_cmd_set": commands("ACS", true, &log.admin),
        "io_cmd_set": commands("IOCS", false, &log.io),
    })
}

fn text(
    out: &mut impl Write,
    log: &EffectsLog,
    command_set: u8,
    explained: bool,
) -> std::io::Result<()> {
    let set = match command_set {
        NVM => "NVM",
        ZONED => "ZNS",
        _ => "Unknown",
    };
    writeln!(out, "{set} Command Set Log Page\n{}", "-".repeat(80))?;
    for (header, is_admin, is_vendors) in [
        ("Admin Commands", true, false),
        ("Vendor Specific Admin Commands", true, true),
        ("I/O Commands", false, false),
        ("Vendor Specific I/O Commands", false, true),
    ] {
        let first_of_vendors = if is_admin { 0xc0 } else { 0x80 };
        let effects = if is_admin { &log.admin } else { &log.io };
        let mut commands = supported(effects)
            .filter(|(opcode, _)| (*opcode >= first_of_vendors) == is_vendors)
            .peekable();
        if commands.peek().is_none() {
            continue;
        }
        writeln!(out, "{header}")?;
        for (opcode, effects) in commands {
            let name = name(is_admin, opcode);
            match is_admin {
                true => write!(out, "ACS{opcode:<6}[{name:<32}] {effects:08x}")?,
                false => write!(out, "IOCS{opcode:<5}[{name:<32}] {effects:08x}")?,
            }
            writeln!(out, "{}", if explained { meaning(effects) } else { String::new() })?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The bits of an entry (Base §5.16.1.6).
fn meaning(effects: u32) -> String {
    const USES_UUID: u32 = 1 << 19;
    let bits = [
        ("CSUPP", EffectsLog::SUPPORTED),
        ("LBCC", EffectsLog::CONTENT_CHANGE),
        ("NCC", EffectsLog::NAMESPACE_CAPABILITY_CHANGE),
        ("NIC", EffectsLog::NAMESPACE_INVENTORY_CHANGE),
        ("CCC", EffectsLog::CONTROLLER_CAPABILITY_CHANGE),
        ("USS", USES_UUID),
    ];
    let sign = |bit: u32| if effects & bit == 0 { '-' } else { '+' };
    let bits: String = bits.iter().map(|(name, bit)| format!("  {name}{}", sign(*bit))).collect();
    let restriction = match effects >> 16 & 7 {
        0 => "No command restriction",
        1 => "No other command for same namespace",
        2 => "No other command for any namespace",
        _ => "Reserved CSE",
    };
    format!("{bits}  {restriction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_printed_as_nvme_cli_does() {
        let mut page = vec![0; 4096];
        page[2 * 4] = 1;
        page[0xc1 * 4] = 1;
        page[1024 + 4..1024 + 8].copy_from_slice(&0x0001_0003_u32.to_le_bytes());
        page[1024 + 9 * 4] = 2;
        let log = EffectsLog::decode(&page).unwrap();
        let json = as_json(&log, 0);
        let admin = json!({"ACS_2 (Get Log Page)": 1, "ACS_193 (Unknown)": 1});
        assert_eq!(json["admin_cmd_set"], admin);
        assert_eq!(json["io_cmd_set"], json!({"IOCS_1 (Write)": 0x0001_0003}));
        let mut out = Vec::new();
        text(&mut out, &log, 0, true).unwrap();
        let text = String::from_utf8(out).unwrap();
        for lines in [
            "NVM Command Set Log Page\n----",
            "\nAdmin Commands\nACS2     [Get Log Page                    ] 00000001  CSUPP+  LBCC-  NCC-  NIC-  CCC-  USS-  No command restriction\n\n",
            "Vendor Specific Admin Commands\nACS193   [Unknown ",
            "I/O Commands\nIOCS1    [Write                           ] 00010003  CSUPP+  LBCC+  NCC-  NIC-  CCC-  USS-  No other command for same namespace\n\n",
        ] {
            assert!(text.contains(lines), "{lines}: {text}");
        }
    }
}
