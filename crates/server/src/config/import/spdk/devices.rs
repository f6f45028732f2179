//! SPDK's devices as sources: their block sizes, limits, and remote controllers.

use crate::config::import::imported::Imported;
use crate::config::import::json::{is_set, list, listener, number, report_unknown, text, word};
use crate::config::import::sources::{SourceKind, memory, place, with_path};
use crate::config::import::writer::quoted;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use weft_block::grammar;
use weft_endpoint::url::{NVME_SCHEMES, NvmeUrl};
use weft_proto::nvme::types::Nqn;

/// The call that makes one device of several.
const RAID: &str = "bdev_raid_create";

/// The call that limits a device.
const LIMIT: &str = "bdev_set_qos_limit";

/// Calls that set what weft sets otherwise, or not at all, without a difference to hosts.
const TUNING: [&str; 8] = [
    "bdev_examine",
    "bdev_iscsi_set_options",
    "bdev_nvme_set_hotplug",
    "bdev_nvme_set_options",
    "bdev_raid_set_options",
    "bdev_set_options",
    "bdev_set_qd_sampling_period",
    "bdev_wait_for_examine",
];

/// Limits of a device: SPDK's name, weft's option, and the unit behind the number.
const LIMITS: [(&str, &str, &str); 4] = [
    ("rw_ios_per_sec", "iops", ""),
    ("rw_mbytes_per_sec", "bw", "MiB"),
    ("r_mbytes_per_sec", "read-bw", "MiB"),
    ("w_mbytes_per_sec", "write-bw", "MiB"),
];

/// A device.
#[derive(Clone)]
pub struct SpdkDevice {
    /// URL with its limits.
    pub source: String,
    /// URLs of further paths to it.
    pub paths: Vec<String>,
    /// UUID that hosts see.
    pub uuid: Option<String>,
    /// Refuses writes.
    pub read_only: bool,
}

/// All devices by their names.
#[derive(Default)]
pub struct Devices {
    known: BTreeMap<String, SpdkDevice>,
    /// Options of `limit:` by the name of the device.
    limits: HashMap<String, String>,
}

/// The files of keys by their names in the keyring.
pub fn keys(calls: &[(&str, &Value)]) -> HashMap<String, String> {
    let added = calls.iter().filter(|call| call.0 == "keyring_file_add_key").map(|call| call.1);
    added.filter_map(|of| Some((text(of, "name")?, text(of, "path")?))).collect()
}

impl Devices {
    /// Reads the devices.
    pub fn read(
        calls: &[(&str, &Value)],
        keys: &HashMap<String, String>,
        imported: &mut Imported,
    ) -> Self {
        let mut devices = Self::default();
        let of = |method: &'static str| {
            calls.iter().filter(move |call| call.0 == method).map(|call| call.1)
        };
        of(LIMIT).for_each(|params| devices.limit(params, imported));
        for (method, params) in calls.iter().filter(|call| ![RAID, LIMIT].contains(&call.0)) {
            devices.device(method, params, keys, imported);
        }
        // A set may be named before its members.
        of(RAID).for_each(|params| devices.raid(params, imported));
        devices
    }

    /// The device with a name. A remote controller NAME has the devices NAMEn1, NAMEn2, ….
    pub fn named(&self, name: &str) -> Option<SpdkDevice> {
        let of_controller = || {
            let (controller, nsid) = name.rsplit_once('n')?;
            let nsid: u32 = nsid.parse().ok()?;
            let device = self.known.get(controller)?;
            let is_remote = NVME_SCHEMES.iter().any(|scheme| device.source.starts_with(scheme));
            let of = |url: &String| format!("{url}/{nsid}");
            let paths = device.paths.iter().map(of).collect();
            is_remote.then(|| SpdkDevice { source: of(&device.source), paths, ..device.clone() })
        };
        let mut device = self.known.get(name).cloned().or_else(of_controller)?;
        if let Some(limits) = self.limits.get(name) {
            device.source = format!("limit:{limits}{}", device.source);
        }
        Some(device)
    }

    fn limit(&mut self, params: &Value, imported: &mut Imported) {
        let name = text(params, "name").unwrap_or_default();
        let whose = format!("{LIMIT} of {name}");
        let known: Vec<&str> = LIMITS.iter().map(|(key, ..)| *key).chain(["name"]).collect();
        report_unknown(&whose, params, &known, &mut imported.left);
        let given = |(key, option, unit): &(&str, &str, &str)| {
            let value = number(params, key).filter(|value| *value > 0)?;
            Some(format!("{option}={value}{unit},"))
        };
        let options: String = LIMITS.iter().filter_map(given).collect();
        if !options.is_empty() {
            self.limits.insert(name, options);
        }
    }

    fn device(
        &mut self,
        method: &str,
        params: &Value,
        keys: &HashMap<String, String>,
        imported: &mut Imported,
    ) {
        let name = text(params, "name").unwrap_or_default();
        let source = match method {
            "bdev_aio_create" | "bdev_uring_create" => file(params),
            "bdev_malloc_create" => of_memory("ram", params),
            "bdev_null_create" => of_memory("null", params),
            "bdev_nvme_attach_controller" => {
                return self.controller(&name, params, keys, imported);
            }
            _ if TUNING.contains(&method) => return,
            _ => Err("weft has no such source".into()),
        };
        match source {
            Ok(source) => {
                let uuid = text(params, "uuid").filter(|identity| is_set(identity));
                let read_only = params["readonly"] == true;
                self.known.insert(name, SpdkDevice { source, paths: Vec::new(), uuid, read_only });
            }
            Err(why) => imported.leave(format!("{method} {name} is not carried over: {why}")),
        }
    }

    /// Several devices as one: chunks in turn are a stripe.
    fn raid(&mut self, params: &Value, imported: &mut Imported) {
        let field = |key| text(params, key).unwrap_or_default();
        let (name, level) = (field("name"), field("raid_level"));
        let names: Vec<&str> =
            list(params, "base_bdevs").iter().filter_map(Value::as_str).collect();
        let why = match level.trim_start_matches("raid") {
            "0" if params["superblock"] == true => {
                "its data begins behind a superblock, of which weft knows nothing".to_owned()
            }
            "0" => match self.stripe(&names, params) {
                Ok(device) => return drop(self.known.insert(name, device)),
                Err(why) => why,
            },
            "1" => "the legs of a mirror need labels in weft: make one of other legs with weft mirror create, and copy the data into it".to_owned(),
            _ => format!("weft has nothing like {level}"),
        };
        imported.leave(format!("{RAID} {name} of {} is not carried over: {why}", names.join(", ")));
    }

    fn stripe(&self, names: &[&str], params: &Value) -> Result<SpdkDevice, String> {
        let member = |name: &&str| match self.named(name) {
            None => Err(format!("{name} is not carried over")),
            Some(of) if !of.paths.is_empty() => {
                Err(format!("{name} has several paths, and a member of a stripe has one"))
            }
            Some(of) if of.read_only => Ok(format!("readonly:{}", of.source)),
            Some(of) => Ok(of.source),
        };
        let members = names.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        let kib = number(params, "strip_size_kb").ok_or("it has no strip_size_kb")?;
        let source = format!("stripe:{kib}KiB,{}", members.join(","));
        weft_endpoint::check(&source).map_err(|e| e.to_string())?;
        if grammar::sources(&source).len() != members.len() {
            return Err("a comma in the path of a member would divide it".into());
        }
        let uuid = text(params, "uuid").filter(|identity| is_set(identity));
        Ok(SpdkDevice { source, paths: Vec::new(), uuid, read_only: false })
    }

    /// A remote controller, or another path to one that is known.
    fn controller(
        &mut self,
        name: &str,
        params: &Value,
        keys: &HashMap<String, String>,
        imported: &mut Imported,
    ) {
        let field = |key| text(params, key).unwrap_or_default();
        let Some(url) = listener(&field("trtype"), &field("traddr"), &field("trsvcid")) else {
            let text = format!(
                "{name} is a controller at {} {}: give weft the block device instead",
                field("trtype"),
                field("traddr")
            );
            return imported.leave(text);
        };
        let source = match subsystem_at(&url, &field("subnqn")) {
            Ok(source) => source,
            Err(why) => {
                return imported.leave(format!("{name} by {url} is not carried over: {why}"));
            }
        };
        let known = self.known.get_mut(name);
        let subsystem = |url: &str| url.rsplit_once('/').map(|(_, of)| of.to_owned());
        let leads = |known: &SpdkDevice| subsystem(&known.source) == subsystem(&source);
        if known.as_deref().is_some_and(|known| !leads(known)) {
            return imported
                .leave(format!("{name} has another path to another subsystem: {source}"));
        }
        if let Err(why) = connect(name, params, keys, imported) {
            return imported.leave(format!("{name} by {source} is not carried over: {why}"));
        }
        match known {
            Some(known) if known.source == source || known.paths.contains(&source) => {}
            Some(known) => known.paths.push(source),
            None => {
                let device = SpdkDevice { source, paths: Vec::new(), uuid: None, read_only: false };
                self.known.insert(name.to_owned(), device);
            }
        }
    }
}

/// The URL of a subsystem at a listener. A / in its name is encoded.
fn subsystem_at(listener: &str, nqn: &str) -> Result<String, String> {
    let subsystem = Some(Nqn::new(nqn).map_err(|e| format!("its name \"{nqn}\": {e}"))?);
    let url = NvmeUrl::parse(listener).map_err(|e| e.to_string())?;
    Ok(NvmeUrl { subsystem, ..url }.to_string())
}

/// A file or disk: its blocks are as given, or the disk's own.
fn file(params: &Value) -> Result<String, String> {
    let path = word(params, "filename").ok_or("it has no filename")?;
    match number(params, "block_size").filter(|bytes| *bytes > 0) {
        Some(bytes) => with_path(&path, Some(bytes)),
        None if place(&path) == SourceKind::Disk => with_path(&path, None),
        None => Err("it has no block_size".into()),
    }
}

fn of_memory(scheme: &str, params: &Value) -> Result<String, String> {
    if ["md_size", "dif_type"].iter().any(|key| number(params, key).unwrap_or(0) > 0) {
        return Err("its blocks have metadata: weft has none".into());
    }
    let block = number(params, "block_size").ok_or("it has no block_size")?;
    let blocks = number(params, "num_blocks").ok_or("it has no num_blocks")?;
    memory(scheme, blocks.checked_mul(block).ok_or("it is too large")?, block)
}

/// How weft connects to a controller. All sources have the same options, so a controller with
/// another key or host name than the one before is left out.
fn connect(
    name: &str,
    params: &Value,
    keys: &HashMap<String, String>,
    imported: &mut Imported,
) -> Result<(), String> {
    let mut wanted: BTreeMap<&'static str, String> = BTreeMap::new();
    for (key, option, ending) in [
        ("psk", "tls-key-file", "source.keys"),
        ("dhchap_key", "dhchap-secret-file", "source.dhchap"),
        ("dhchap_ctrlr_key", "dhchap-ctrl-secret-file", "source.ctrl.dhchap"),
    ] {
        let Some(value) = word(params, key) else { continue };
        let file = keys.get(&value).cloned().unwrap_or_else(|| imported.files.of(name, ending));
        imported.leave(format!("{name} has a {key}: {file} must hold it (chmod 600)"));
        wanted.insert(option, quoted(&file));
    }
    if wanted.contains_key("tls-key-file") {
        wanted.insert("tls", "true".to_owned());
    }
    for key in ["hostnqn", "hostid"] {
        wanted.extend(word(params, key).map(|value| (key, quoted(&value))));
    }
    if let Some(address) = word(params, "hostaddr") {
        imported.leave(format!(
            "{name} connects from {address}: weft connects from whichever address the system takes"
        ));
    }
    for (option, value) in &wanted {
        if imported.connect.get(option).is_some_and(|other| other != value) {
            return Err(format!("another controller has another {option}: weft has one for all"));
        }
    }
    imported.connect.append(&mut wanted);
    Ok(())
}
