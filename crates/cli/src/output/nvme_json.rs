//! NVMe structures with nvme-cli's field names, in its order, as JSON and as text.

use crate::output::hex::hex;
use crate::output::nvme_bits;
use crate::output::nvme_bits::Structure;
use serde_json::{Map, Value, json};
use std::io::Write;
use weft_proto::nvme::host::DiscoveryResult;
use weft_proto::nvme::identify::{IdentifyController, IdentifyNamespace};
use weft_proto::nvme::log_page::DiscoveryEntry;

/// Names and values, in order.
pub type Fields = Vec<(&'static str, Value)>;

/// Bit of TREQ: submission queue flow control can be disabled.
const TREQ_FLOW_CONTROL_OFF: u8 = 1 << 2;

macro_rules! numbers {
    ($id:ident: $($name:ident)*) => { [$((stringify!($name), Value::from($id.$name)),)*] };
}

/// A 128-bit number, as a JSON number if it fits.
fn wide(number: u128) -> Value {
    u64::try_from(number).map_or_else(|_| Value::from(number.to_string()), Value::from)
}

/// Identify Controller.
pub fn controller(id: &IdentifyController) -> Fields {
    let mut fields: Fields = numbers!(id: vid ssvid).into();
    fields.extend([
        ("sn", json!(id.sn.text())),
        ("mn", json!(id.mn.text())),
        ("fr", json!(id.fr.text())),
    ]);
    let oui = u32::from(id.ieee[0]) | u32::from(id.ieee[1]) << 8 | u32::from(id.ieee[2]) << 16;
    fields.extend([("rab", json!(id.rab)), ("ieee", json!(oui))]);
    fields.extend(numbers!(id: cmic mdts));
    fields.push(("cntlid", json!(id.cntlid.0)));
    fields.extend(numbers!(id: ver rtd3r rtd3e oaes ctratt rrls));
    fields.push(("cntrltype", json!(id.cntrltype.0)));
    fields.push(("fguid", json!(uuid::Uuid::from_bytes(id.fguid.0).to_string())));
    fields.extend(
        numbers!(id: crdt1 crdt2 crdt3 nvmsr vwci mec oacs acl aerl frmw lpa elpe npss avscc apsta),
    );
    fields.extend(numbers!(id: wctemp cctemp mtfa hmpre hmmin));
    fields.extend([("tnvmcap", wide(id.tnvmcap)), ("unvmcap", wide(id.unvmcap))]);
    fields.extend(numbers!(id: rpmbs edstt dsto fwug kas hctma mntmt mxtmt sanicap hmminds hmmaxd nsetidmax endgidmax));
    fields.extend(numbers!(id: anatt anacap anagrpmax nanagrpid pels domainid));
    fields.push(("megcap", wide(id.megcap)));
    fields
        .extend(numbers!(id: sqes cqes maxcmd nn oncs fuses fna vwc awun awupf icsvscc nwpc acwu));
    fields.push(("ocfs", json!(id.cdfs)));
    fields.extend(numbers!(id: sgls mnan));
    let name = id.subnqn.nqn().map(|nqn| nqn.as_str().to_owned()).unwrap_or_default();
    fields.push(("subnqn", json!(name)));
    fields.extend(numbers!(id: ioccsz iorcsz));
    fields.extend(numbers!(id: icdoff fcatt msdbd ofcs));
    fields
}

/// Identify Namespace.
pub fn namespace(id: &IdentifyNamespace) -> Fields {
    let mut fields: Fields =
        numbers!(id: nsze ncap nuse nsfeat nlbaf flbas mc dpc dps nmic rescap fpi dlfeat).into();
    fields.extend(numbers!(id: nawun nawupf nacwu nabsn nabo nabspf noiob));
    fields.push(("nvmcap", wide(id.nvmcap)));
    if id.nsfeat & IdentifyNamespace::NSFEAT_PREFERRED != 0 {
        fields.extend(numbers!(id: npwg npwa npdg npda nows));
    }
    fields.extend(numbers!(id: mssrl mcl msrc anagrpid nsattr nvmsetid endgid));
    fields.push(("nguid", json!(hex(&id.nguid.0))));
    fields.push(("eui64", json!(hex(&id.eui64))));
    let formats = id.lbaf.iter().take(usize::from(id.nlbaf) + 1);
    fields.push(("lbafs", formats.map(|f| json!({"ms": f.ms, "ds": f.ds, "rp": f.rp})).collect()));
    fields
}

/// The discovery log.
pub fn discovery(log: &DiscoveryResult) -> Value {
    json!({"genctr": log.generation, "records": log.entries.iter().map(record).collect::<Vec<_>>()})
}

/// TREQ in words.
pub fn requirements(entry: &DiscoveryEntry) -> String {
    let flow = if entry.treq & TREQ_FLOW_CONTROL_OFF != 0 {
        ", sq flow control disable supported"
    } else {
        ""
    };
    format!("{}{flow}", entry.secure_channel())
}

fn record(entry: &DiscoveryEntry) -> Value {
    json!({
        "trtype": entry.trtype.to_string(),
        "adrfam": entry.adrfam.to_string(),
        "subtype": entry.subtype.to_string(),
        "treq": requirements(entry),
        "portid": entry.portid,
        "cntlid": entry.cntlid.0,
        "trsvcid": entry.trsvcid.text(),
        "subnqn": entry.subnqn.nqn().map(|nqn| nqn.as_str().to_owned()).unwrap_or_default(),
        "traddr": entry.traddr.text(),
        "eflags": entry.eflags,
        "sectype": match entry.tsas[0] { 1 => "tls", 2 => "tls13", _ => "none" },
    })
}

/// Fields as a JSON object.
pub fn object(fields: Fields) -> Value {
    Value::Object(
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>(),
    )
}

/// Prints fields as text: `name : value`, bit fields in hexadecimal; with `explained`, also the
/// meaning of each bit.
pub fn print_fields(fields: &Fields, explained: Option<Structure>) -> std::io::Result<()> {
    const BITS: [&str; 20] = [
        "vid", "ssvid", "ver", "oaes", "ctratt", "oacs", "frmw", "lpa", "sqes", "cqes", "oncs",
        "fuses", "fna", "vwc", "sgls", "cmic", "ieee", "nsfeat", "nmic", "dlfeat",
    ];
    let mut out = std::io::stdout().lock();
    for (name, value) in fields {
        match value {
            Value::String(text) => writeln!(out, "{name:<10}: {text}")?,
            Value::Number(number) if BITS.contains(name) => {
                writeln!(out, "{name:<10}: {:#x}", number.as_u64().unwrap_or(0))?
            }
            Value::Array(list) => {
                for (n, item) in list.iter().enumerate() {
                    writeln!(out, "{:<10}: {item}", format!("{name}[{n}]"))?;
                }
            }
            other => writeln!(out, "{name:<10}: {other}")?,
        }
        if let Some(of) = explained {
            nvme_bits::explain(&mut out, of, name, value)?;
        }
    }
    Ok(())
}

/// Prints a JSON value, indented.
pub fn print_json(value: &Value) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{value:#}")
}
