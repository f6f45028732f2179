//! What SPDK's `save_config` prints: for each of its parts the calls that make it again. The part
//! `bdev` makes devices, and `nvmf` serves them.

use super::imported::{Imported, ImportedNamespace, ImportedSubsystem};
use super::json::{is_set, list, listener, text};
use crate::config::subsystems::{forgets, from_digits};
use serde_json::Value;
use std::collections::BTreeMap;
use weft_block::units;

/// Whether it is such a configuration.
pub fn is_of(json: &Value) -> bool {
    list(json, "subsystems").iter().any(|part| part["subsystem"].is_string())
}

/// Takes over what can be taken over.
pub fn import(json: &Value) -> Imported {
    let calls = |part: &'static str| {
        let parts = list(json, "subsystems").iter().filter(move |of| of["subsystem"] == part);
        parts
            .flat_map(|of| list(of, "config"))
            .filter_map(|call| Some((call["method"].as_str()?, &call["params"])))
    };
    let mut reader = Reader::default();
    calls("bdev").for_each(|(method, params)| reader.device(method, params));
    // A set may be named before what it is made of.
    let is_raid = |(method, _): &(&str, &Value)| *method == RAID;
    calls("bdev").filter(is_raid).for_each(|(_, params)| reader.raid(params));
    calls("nvmf").for_each(|(method, params)| reader.serve(method, params));
    let others = list(json, "subsystems").iter().filter(|of| !list(of, "config").is_empty());
    for part in others
        .filter_map(|of| of["subsystem"].as_str())
        .filter(|part| ["iscsi", "vhost_blk", "vhost_scsi", "nbd"].contains(part))
    {
        reader
            .imported
            .left
            .push(format!("the part \"{part}\" is not read: only bdev and nvmf are"));
    }
    reader.imported
}

/// A device of SPDK's.
struct Device {
    /// URL without options.
    source: String,
    uuid: Option<String>,
    read_only: bool,
}

#[derive(Default)]
struct Reader {
    devices: BTreeMap<String, Device>,
    imported: Imported,
}

/// Serial and model number of SPDK's subsystems, where none was set.
const SERIAL: &str = "00000000000000000000";
const MODEL: &str = "SPDK bdev Controller";

/// The call that makes one device of several.
const RAID: &str = "bdev_raid_create";

/// Calls that set what weft sets otherwise, or not at all, without a difference to hosts.
const TUNING: [&str; 9] = [
    "bdev_set_options",
    "bdev_nvme_set_options",
    "bdev_nvme_set_hotplug",
    "bdev_iscsi_set_options",
    "bdev_raid_set_options",
    "bdev_wait_for_examine",
    "nvmf_set_config",
    "nvmf_set_max_subsystems",
    "nvmf_set_crdt",
];

impl Reader {
    fn leave(&mut self, sentence: String) {
        self.imported.left.push(sentence);
    }

    fn device(&mut self, method: &str, params: &Value) {
        let name = text(params, "name").unwrap_or_default();
        let block = params["block_size"].as_u64().filter(|bytes| [512, 4096].contains(bytes));
        let with_block = |url: String| {
            block
                .filter(|bytes| *bytes != 512)
                .map_or(url.clone(), |bytes| format!("{url},block={bytes}"))
        };
        let bytes = || {
            Some(units::format_size(
                params["num_blocks"].as_u64()?.checked_mul(params["block_size"].as_u64()?)?,
            ))
        };
        let source = match method {
            "bdev_aio_create" | "bdev_uring_create" => text(params, "filename").map(with_block),
            "bdev_malloc_create" => bytes().map(|size| with_block(format!("ram:{size}"))),
            "bdev_null_create" => bytes().map(|size| with_block(format!("null:{size}"))),
            "bdev_nvme_attach_controller" => return self.controller(&name, params),
            _ if TUNING.contains(&method) || method == RAID => return,
            _ => None,
        };
        match source {
            Some(source) => {
                let uuid = text(params, "uuid").filter(|identity| is_set(identity));
                self.devices
                    .insert(name, Device { source, uuid, read_only: params["readonly"] == true });
            }
            None => {
                self.leave(format!("{method} {name} is not carried over: weft has no such source"))
            }
        }
    }

    /// Several devices as one: chunks in turn are a stripe.
    fn raid(&mut self, params: &Value) {
        let word = |key| text(params, key).unwrap_or_default();
        let (name, level) = (word("name"), word("raid_level"));
        let names: Vec<&str> =
            list(params, "base_bdevs").iter().filter_map(Value::as_str).collect();
        let why = match level.trim_start_matches("raid") {
            "0" if params["superblock"] == true => {
                "its data begins behind a superblock, of which weft knows nothing".to_owned()
            }
            "0" => match self.stripe(&names, params) {
                Ok(device) => return drop(self.devices.insert(name, device)),
                Err(why) => why,
            },
            "1" => "the legs of a mirror need labels in weft: make one of other legs with weft mirror create, and copy the data into it".to_owned(),
            _ => format!("weft has nothing like {level}"),
        };
        self.leave(format!("{RAID} {name} of {} is not carried over: {why}", names.join(", ")));
    }

    fn stripe(&self, names: &[&str], params: &Value) -> Result<Device, String> {
        let member = |name: &&str| match self.source(name) {
            Some((source, _, true)) => Ok(format!("readonly:{source}")),
            Some((source, _, false)) => Ok(source),
            None => Err(format!("{name} is not carried over")),
        };
        let members = names.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        let kib = params["strip_size_kb"].as_u64().ok_or("it has no strip_size_kb")?;
        let source = format!("stripe:{kib}KiB,{}", members.join(","));
        weft_endpoint::check(&source).map_err(|e| e.to_string())?;
        let uuid = text(params, "uuid").filter(|identity| is_set(identity));
        Ok(Device { source, uuid, read_only: false })
    }

    /// A remote controller: its namespaces are the devices NAMEn1, NAMEn2, ….
    fn controller(&mut self, name: &str, params: &Value) {
        let word = |key| text(params, key).unwrap_or_default();
        let Some(url) = listener(&word("trtype"), &word("traddr"), &word("trsvcid")) else {
            let text = format!(
                "{name} is a controller at {} {}: give weft the block device instead",
                word("trtype"),
                word("traddr")
            );
            return self.leave(text);
        };
        let source = format!("{url}/{}", word("subnqn"));
        if self.devices.contains_key(name) {
            return self.leave(format!(
                "{name} has another path by {source}: give it to weft as a path by hand"
            ));
        }
        for (key, what) in [
            ("psk", "write it into a file for --source-tls-key-file"),
            ("dhchap_key", "write it into a file for --source-dhchap-secret-file"),
            ("dhchap_ctrlr_key", "write it into a file for --source-dhchap-ctrl-secret-file"),
            ("hostnqn", "give it as hostnqn in [connect]"),
            ("hostid", "give it as hostid in [connect]"),
            ("hostaddr", "weft connects from whichever address the system takes"),
        ] {
            if let Some(value) = text(params, key) {
                let value =
                    if key.starts_with("host") { format!(" {value}") } else { String::new() };
                self.leave(format!("{name} has the {key}{value}: {what}"));
            }
        }
        self.devices.insert(name.to_owned(), Device { source, uuid: None, read_only: false });
    }

    /// The source with the name of a device, its UUID, and whether it is read-only.
    fn source(&self, name: &str) -> Option<(String, Option<String>, bool)> {
        if let Some(device) = self.devices.get(name) {
            return Some((device.source.clone(), device.uuid.clone(), device.read_only));
        }
        let (controller, nsid) = name.rsplit_once('n')?;
        let nsid: u32 = nsid.parse().ok()?;
        let device = self
            .devices
            .get(controller)
            .filter(|device| device.source.starts_with("nvme+tcp://"))?;
        Some((format!("{}/{nsid}", device.source), None, false))
    }

    fn serve(&mut self, method: &str, params: &Value) {
        let nqn = text(params, "nqn").unwrap_or_default();
        match method {
            "nvmf_create_subsystem" => self.subsystem(nqn, params),
            "nvmf_subsystem_add_ns" => self.namespace(&nqn, params),
            "nvmf_subsystem_add_host" => self.host(&nqn, params),
            "nvmf_ns_add_host" => self.visible(&nqn, params),
            "nvmf_subsystem_add_listener" => self.listener(&nqn, params),
            "nvmf_create_transport" => match text(params, "trtype").unwrap_or_default() {
                kind if kind.eq_ignore_ascii_case("tcp") => {}
                kind => self
                    .leave(format!("the transport {kind} is not carried over: weft has tcp only")),
            },
            _ if TUNING.contains(&method) => {}
            _ => self.leave(format!("{method} is not carried over")),
        }
    }

    fn subsystem(&mut self, nqn: String, params: &Value) {
        let hosts = (params["allow_any_host"] != true).then(Vec::new);
        let mut subsystem = ImportedSubsystem { nqn, hosts, ..ImportedSubsystem::default() };
        let or = |key, default: &str| Some(text(params, key).unwrap_or_else(|| default.to_owned()));
        let serial = or("serial_number", SERIAL);
        subsystem.number(serial, or("model_number", MODEL), &mut self.imported.left);
        self.imported.subsystems.push(subsystem);
    }

    fn named(&mut self, nqn: &str) -> Option<&mut ImportedSubsystem> {
        self.imported.subsystems.iter_mut().find(|subsystem| subsystem.nqn == nqn)
    }

    fn namespace(&mut self, nqn: &str, params: &Value) {
        let of = &params["namespace"];
        let device = text(of, "bdev_name").unwrap_or_default();
        let Some((source, own, read_only)) = self.source(&device) else {
            return self.leave(format!("{nqn} serves {device}, which is not carried over"));
        };
        let used = self.named(nqn).map_or(0, |subsystem| {
            subsystem.namespaces.iter().map(|it| it.nsid).max().unwrap_or(0)
        });
        let identity = |name| text(of, name).filter(|identity| is_set(identity));
        let hidden = of["no_auto_visible"] == true;
        let mut namespace = ImportedNamespace {
            nsid: of["nsid"].as_u64().unwrap_or(used + 1),
            source,
            uuid: identity("uuid").or(own),
            nguid: identity("nguid").filter(|text| from_digits::<16>(text).is_some()),
            eui64: identity("eui64").filter(|text| from_digits::<8>(text).is_some()),
            scsi: Default::default(),
            hosts: hidden.then(Vec::new),
            initiators: None,
            read_only,
        };
        if forgets(&namespace.source) {
            self.leave(format!(
                "{nqn}, namespace {}, keeps no identity: a RAM disk is empty after a restart",
                namespace.nsid
            ));
            (namespace.uuid, namespace.nguid, namespace.eui64) = (None, None, None);
        }
        if let Some(file) = text(of, "ptpl_file") {
            self.leave(format!(
                "{nqn}, namespace {}, keeps reservations in {file}: weft keeps its own",
                namespace.nsid
            ));
        }
        if let Some(group) = of["anagrpid"].as_u64().filter(|group| *group != namespace.nsid) {
            self.leave(format!(
                "{nqn}, namespace {}, is in ANA group {group}: set it by hand",
                namespace.nsid
            ));
        }
        if let Some(subsystem) = self.named(nqn) {
            subsystem.namespaces.push(namespace);
        }
    }

    fn host(&mut self, nqn: &str, params: &Value) {
        let host = text(params, "host").unwrap_or_default();
        for key in ["psk", "dhchap_key", "dhchap_ctrlr_key"] {
            if text(params, key).is_some() {
                self.leave(format!(
                    "host {host} has a {key}: write it into a file, and name that in [tls] or [subsystem.authentication]"
                ));
            }
        }
        let hosts = self.named(nqn).and_then(|subsystem| subsystem.hosts.as_mut());
        hosts.into_iter().for_each(|hosts| hosts.push(host.clone()));
    }

    fn visible(&mut self, nqn: &str, params: &Value) {
        let (nsid, host) =
            (params["nsid"].as_u64().unwrap_or_default(), text(params, "host").unwrap_or_default());
        let namespaces =
            self.named(nqn).into_iter().flat_map(|subsystem| &mut subsystem.namespaces);
        namespaces
            .filter(|it| it.nsid == nsid)
            .filter_map(|it| it.hosts.as_mut())
            .for_each(|hosts| hosts.push(host.clone()));
    }

    fn listener(&mut self, nqn: &str, params: &Value) {
        let word = |key| text(&params["listen_address"], key).unwrap_or_default();
        match listener(&word("trtype"), &word("traddr"), &word("trsvcid")) {
            Some(url) if !self.imported.listen.contains(&url) => self.imported.listen.push(url),
            Some(_) => {}
            None => self.leave(format!(
                "{nqn} listens at {} {}: weft has tcp only",
                word("trtype"),
                word("traddr")
            )),
        }
        if params["secure_channel"] == true {
            self.leave(format!(
                "{nqn} demands a secure channel: write the keys of its hosts into a file, and name that as psk_file in [tls]"
            ));
        }
        if let Some(state) = text(params, "ana_state").filter(|state| state != "optimized") {
            self.leave(format!(
                "{nqn} has the ANA state {state} at {}: set it by hand",
                word("traddr")
            ));
        }
    }
}
