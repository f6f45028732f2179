//! `weft smart-log`, `error-log`.

use super::connected::ConnectedSession;
use super::hex;
use super::log::{self, LogPageRequest};
use super::target::{OutputOptions, VerbTarget, letters, number};
use crate::commands::identify::NvmeOutputFormat;
use crate::output::nvme_json::print_json;
use crate::process::exit::Failure;
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::Write;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_proto::nvme::log_page::{ErrorEntry, LogPageId, SmartLog};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Nsid;

/// Options of `weft smart-log`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nobH")))]
#[command(after_help = "\
Example:
  weft smart-log nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -o json")]
pub struct SmartLogArgs {
    /// Namespace ID [default: 0xffffffff, the controller]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    #[command(flatten)]
    format: OutputOptions,
    /// Explain the bits of the critical warning
    #[arg(short = 'H', long)]
    human_readable: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// Options of `weft error-log`.
#[derive(Args, Debug)]
#[command(mut_args(letters("eob")))]
#[command(after_help = "\
A controller keeps the errors of its own commands, and each connection has a controller of its own
with most targets.

Example:
  weft error-log nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -e 4")]
pub struct ErrorLogArgs {
    /// Entries to show, at most
    #[arg(short = 'e', long, value_parser = number::<u32>, default_value = "64")]
    log_entries: u32,
    #[command(flatten)]
    format: OutputOptions,
    #[command(flatten)]
    target: VerbTarget,
}

/// Prints SMART / Health Information.
pub fn smart_log(args: &SmartLogArgs, control: &Control) -> Result<(), Failure> {
    let connected = args.target.connect(control)?;
    let nsid = args.namespace_id.map_or(Nsid::ALL, Nsid);
    let request = LogPageRequest { nsid, ..LogPageRequest::of(LogPageId::SMART, SmartLog::BYTES) };
    let page = log::read(&connected, &request)?;
    let log = SmartLog::decode(&page).map_err(|e| connected.malformed(&e))?;
    let mut out = std::io::stdout().lock();
    match args.format.output() {
        NvmeOutputFormat::Binary => out.write_all(&page)?,
        NvmeOutputFormat::Json => print_json(&smart_json(&log, args.human_readable))?,
        NvmeOutputFormat::Normal => {
            let (name, id) = (&connected.name, nsid.0);
            writeln!(out, "Smart Log for NVME device:{name} namespace-id:{id:x}")?;
            smart_text(&mut out, &log, args.human_readable)?;
        }
    }
    Ok(())
}

/// Bits of Critical Warning: the keys of JSON, and what stands in text.
const WARNINGS: [(&str, &str); 6] = [
    ("available_spare", "Available Spare[0]             "),
    ("temp_threshold", "Temp. Threshold[1]             "),
    ("reliability_degraded", "NVM subsystem Reliability[2]   "),
    ("ro", "Read-only[3]                   "),
    ("vmbu_failed", "Volatile mem. backup failed[4] "),
    ("pmr_ro", "Persistent Mem. RO[5]          "),
];

fn smart_json(log: &SmartLog, explained: bool) -> Value {
    let mut root = Map::new();
    let mut put = |key: &str, value: Value| _ = root.insert(key.to_owned(), value);
    // Numbers of 128 bits are text.
    let wide = |number: u128| json!(number.to_string());
    let warning = log.critical_warning;
    let bits = || {
        let bits = WARNINGS.iter().enumerate();
        let bits = bits.map(|(n, (key, _))| ((*key).to_owned(), json!(warning >> n & 1)));
        Value::Object([("value".to_owned(), json!(warning))].into_iter().chain(bits).collect())
    };
    put("critical_warning", if explained { bits() } else { json!(warning) });
    put("temperature", json!(log.temperature));
    put("avail_spare", json!(log.available_spare));
    put("spare_thresh", json!(log.available_spare_threshold));
    put("percent_used", json!(log.percentage_used));
    put("endurance_grp_critical_warning_summary", json!(log.endurance_warning));
    put("data_units_read", wide(log.data_units_read));
    put("data_units_written", wide(log.data_units_written));
    put("host_read_commands", wide(log.host_reads));
    put("host_write_commands", wide(log.host_writes));
    put("controller_busy_time", wide(log.busy_minutes));
    put("power_cycles", wide(log.power_cycles));
    put("power_on_hours", wide(log.power_on_hours));
    put("unsafe_shutdowns", wide(log.unsafe_shutdowns));
    put("media_errors", wide(log.media_errors));
    put("num_err_log_entries", wide(log.error_entries));
    put("warning_temp_time", json!(log.warning_temperature_minutes));
    put("critical_comp_time", json!(log.critical_temperature_minutes));
    for (n, kelvin) in log.temperature_sensors.iter().enumerate().filter(|(_, k)| **k != 0) {
        put(&format!("temperature_sensor_{}", n + 1), json!(kelvin));
    }
    put("thm_temp1_trans_count", json!(log.thermal_1_transitions));
    put("thm_temp2_trans_count", json!(log.thermal_2_transitions));
    put("thm_temp1_total_time", json!(log.thermal_1_seconds));
    put("thm_temp2_total_time", json!(log.thermal_2_seconds));
    Value::Object(root)
}

fn smart_text(out: &mut impl Write, log: &SmartLog, explained: bool) -> std::io::Result<()> {
    let temperature = |kelvin: u16| format!("{}°C ({kelvin} Kelvin)", i32::from(kelvin) - 273);
    let warning = log.critical_warning;
    writeln!(out, "critical_warning\t\t\t: {}", hex::alternate(warning.into()))?;
    for (n, (_, name)) in WARNINGS.iter().enumerate().filter(|_| explained) {
        writeln!(out, "      {name}: {}", warning >> n & 1)?;
    }
    writeln!(out, "temperature\t\t\t\t: {}", temperature(log.temperature))?;
    writeln!(out, "available_spare\t\t\t\t: {}%", log.available_spare)?;
    writeln!(out, "available_spare_threshold\t\t: {}%", log.available_spare_threshold)?;
    writeln!(out, "percentage_used\t\t\t\t: {}%", log.percentage_used)?;
    let endurance = hex::alternate(log.endurance_warning.into());
    writeln!(out, "endurance group critical warning summary: {endurance}")?;
    for (name, units) in [
        ("Data Units Read\t\t\t\t", log.data_units_read),
        ("Data Units Written\t\t\t", log.data_units_written),
    ] {
        writeln!(out, "{name}: {units} ({})", bytes_of(units))?;
    }
    for (name, number) in [
        ("host_read_commands\t\t\t", log.host_reads),
        ("host_write_commands\t\t\t", log.host_writes),
        ("controller_busy_time\t\t\t", log.busy_minutes),
        ("power_cycles\t\t\t\t", log.power_cycles),
        ("power_on_hours\t\t\t\t", log.power_on_hours),
        ("unsafe_shutdowns\t\t\t", log.unsafe_shutdowns),
        ("media_errors\t\t\t\t", log.media_errors),
        ("num_err_log_entries\t\t\t", log.error_entries),
        ("Warning Temperature Time\t\t", log.warning_temperature_minutes.into()),
        ("Critical Composite Temperature Time\t", log.critical_temperature_minutes.into()),
    ] {
        writeln!(out, "{name}: {number}")?;
    }
    for (n, kelvin) in log.temperature_sensors.iter().enumerate().filter(|(_, k)| **k != 0) {
        writeln!(out, "Temperature Sensor {}           : {}", n + 1, temperature(*kelvin))?;
    }
    for (name, number) in [
        ("T1 Trans Count", log.thermal_1_transitions),
        ("T2 Trans Count", log.thermal_2_transitions),
        ("T1 Total Time", log.thermal_1_seconds),
        ("T2 Total Time", log.thermal_2_seconds),
    ] {
        writeln!(out, "Thermal Management {name}\t: {number}")?;
    }
    Ok(())
}

/// Units of 1000 × 512 bytes, with a decimal prefix.
fn bytes_of(units: u128) -> String {
    const PREFIXES: [&str; 9] = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];
    let mut bytes = units as f64 * 512_000.0;
    let mut prefixes = PREFIXES.iter();
    let mut prefix = prefixes.next();
    while bytes >= 1000.0 && prefixes.len() > 0 {
        bytes /= 1000.0;
        prefix = prefixes.next();
    }
    format!("{bytes:.2} {}B", prefix.unwrap_or(&""))
}

/// Prints Error Information.
pub fn error_log(args: &ErrorLogArgs, control: &Control) -> Result<(), Failure> {
    if args.log_entries == 0 {
        let text = "--log-entries is 0: say how many entries to show, or leave the option out";
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    let connected = args.target.connect(control)?;
    // ELPE counts from zero.
    let kept = u32::from(connected.session.controller().identify.elpe) + 1;
    let bytes = args.log_entries.min(kept) as usize * ErrorEntry::BYTES;
    let page = log::read(&connected, &LogPageRequest::of(LogPageId::ERROR_INFORMATION, bytes))?;
    let entries = decoded(&connected, &page)?;
    let mut out = std::io::stdout().lock();
    match args.format.output() {
        NvmeOutputFormat::Binary => out.write_all(&page)?,
        NvmeOutputFormat::Json => {
            let errors: Vec<Value> = entries.iter().map(error_json).collect();
            print_json(&json!({"errors": errors}))?;
        }
        NvmeOutputFormat::Normal => errors_text(&mut out, &connected.name, &entries)?,
    }
    Ok(())
}

fn decoded(connected: &ConnectedSession, page: &[u8]) -> Result<Vec<ErrorEntry>, Failure> {
    let entries = page.chunks(ErrorEntry::BYTES).map(ErrorEntry::decode);
    entries.collect::<Result<_, _>>().map_err(|e| connected.malformed(&e))
}

fn error_json(entry: &ErrorEntry) -> Value {
    json!({
        "error_count": entry.error_count,
        "sqid": entry.sq_id,
        "cmdid": entry.cid,
        "status_field": entry.status_field >> 1,
        "phase_tag": entry.status_field & 1,
        "parm_error_location": entry.parameter_location,
        "lba": entry.lba,
        "nsid": entry.nsid.0,
        "vs": entry.vendor_page,
        "trtype": entry.trtype.0,
        "cs": entry.command_specific,
        "trtype_spec_info": entry.transport_specific,
    })
}

fn errors_text(out: &mut impl Write, name: &str, entries: &[ErrorEntry]) -> std::io::Result<()> {
    const RULE: &str = ".................";
    writeln!(out, "Error Log Entries for device:{name} entries:{}", entries.len())?;
    writeln!(out, "{RULE}")?;
    for (n, entry) in entries.iter().enumerate() {
        let number = |value: u64| hex::alternate(value);
        // Without More and Do Not Retry, which the name does not depend on.
        let status = Status(entry.status_field >> 1 & 0x7ff).text().unwrap_or("Unknown");
        writeln!(out, " Entry[{n:2}]   \n{RULE}")?;
        writeln!(out, "error_count\t: {}", entry.error_count)?;
        writeln!(out, "sqid\t\t: {}", entry.sq_id)?;
        writeln!(out, "cmdid\t\t: {}", number(entry.cid.into()))?;
        let field = number((entry.status_field >> 1).into());
        writeln!(out, "status_field\t: {field}({status})")?;
        writeln!(out, "phase_tag\t: {}", number((entry.status_field & 1).into()))?;
        writeln!(out, "parm_err_loc\t: {}", number(entry.parameter_location.into()))?;
        writeln!(out, "lba\t\t: {}", number(entry.lba))?;
        writeln!(out, "nsid\t\t: {}", number(entry.nsid.0.into()))?;
        writeln!(out, "vs\t\t: {}", entry.vendor_page)?;
        writeln!(out, "trtype\t\t: {}", transport(entry.trtype.0))?;
        writeln!(out, "cs\t\t: {}", number(entry.command_specific))?;
        let specific = number(entry.transport_specific.into());
        writeln!(out, "trtype_spec_info: {specific}\n{RULE}")?;
    }
    Ok(())
}

fn transport(code: u8) -> &'static str {
    match code {
        0 => "The transport type is not indicated or the error is not transport related.",
        1 => "RDMA Transport error.",
        2 => "Fibre Channel Transport error.",
        3 => "TCP Transport error.",
        254 => "Intra-host Transport error.",
        _ => "Reserved",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_printed_as_nvme_cli_does() {
        let mut page = vec![0; 512];
        page[0] = 0x22;
        page[1..3].copy_from_slice(&300_u16.to_le_bytes());
        page[3] = 100;
        page[32] = 3;
        page[64..80].copy_from_slice(&(1_u128 << 70).to_le_bytes());
        page[202..204].copy_from_slice(&310_u16.to_le_bytes());
        page[216..220].copy_from_slice(&5_u32.to_le_bytes());
        let log = SmartLog::decode(&page).unwrap();
        let json = smart_json(&log, false);
        assert_eq!((&json["critical_warning"], &json["temperature"]), (&json!(0x22), &json!(300)));
        assert_eq!(json["host_read_commands"], "1180591620717411303424");
        assert_eq!(
            (&json["temperature_sensor_2"], json.get("temperature_sensor_1")),
            (&json!(310), None)
        );
        let explained = smart_json(&log, true);
        assert_eq!(explained["critical_warning"]["temp_threshold"], 1);
        assert_eq!(explained["critical_warning"]["pmr_ro"], 1);
        let mut out = Vec::new();
        smart_text(&mut out, &log, true).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "critical_warning\t\t\t: 0x22\n",
            "      Persistent Mem. RO[5]          : 1\n",
            "temperature\t\t\t\t: 27°C (300 Kelvin)\n",
            "available_spare\t\t\t\t: 100%\n",
            "Data Units Read\t\t\t\t: 3 (1.54 MB)\n",
            "Data Units Written\t\t\t: 0 (0.00 B)\n",
            "Temperature Sensor 2           : 37°C (310 Kelvin)\n",
            "Thermal Management T1 Trans Count\t: 5\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn errors_are_printed_as_nvme_cli_does() {
        let mut bytes = [0; 64];
        bytes[0] = 36;
        bytes[8] = 2;
        bytes[10..12].copy_from_slice(&0x1044_u16.to_le_bytes());
        bytes[12..14].copy_from_slice(&(0x4080_u16 << 1 | 1).to_le_bytes());
        bytes[14] = 40;
        bytes[16..20].copy_from_slice(&99_999_999_u32.to_le_bytes());
        bytes[24] = 1;
        bytes[29] = 3;
        let entry = ErrorEntry::decode(&bytes).unwrap();
        let json = error_json(&entry);
        assert_eq!(json["status_field"], 0x4080);
        assert_eq!((&json["phase_tag"], &json["lba"]), (&json!(1), &json!(99_999_999)));
        let mut out = Vec::new();
        errors_text(&mut out, "here", &[entry]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("Error Log Entries for device:here entries:1\n"), "{text}");
        for line in [
            "error_count\t: 36\nsqid\t\t: 2\ncmdid\t\t: 0x1044\n",
            "status_field\t: 0x4080(LBA Out of Range)\nphase_tag\t: 0x1\n",
            "lba\t\t: 0x5f5e0ff\nnsid\t\t: 0x1\n",
            "trtype\t\t: TCP Transport error.\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
