//! SPDK's subsystems: hosts, namespaces and listeners.
//!
//! A call that is not known may be about access. If it names a subsystem, nobody is admitted to
//! that.

use super::devices::Devices;
use crate::config::import::imported::{
    AdmittedHosts, Imported, ImportedAuthentication, ImportedNamespace, ImportedSubsystem,
};
use crate::config::import::json::{is_set, list, listener, number, report_unknown, text, word};
use crate::config::import::ports::{self, ImportedPort};
use crate::config::subsystems::{forgets, from_digits};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use weft_block::AccessState;
use weft_proto::nvme::auth::{Group, Hash};

/// Serial and model number, where none was set.
const SERIAL: &str = "00000000000000000000";
const MODEL: &str = "SPDK bdev Controller";

/// Identifiers of controllers, where nothing is said.
const CNTLIDS: (u16, u16) = (1, 0xffef);

/// Calls that make no difference to hosts.
const TUNING: [&str; 3] = ["nvmf_set_crdt", "nvmf_set_max_subsystems", "nvmf_stop_mdns_prr"];

/// Takes over what is served.
pub fn serve(
    calls: &[(&str, &Value)],
    (devices, keys): (&Devices, &HashMap<String, String>),
    imported: &mut Imported,
) {
    let mut reader = Reader {
        devices,
        keys,
        imported: &mut *imported,
        ports: BTreeMap::new(),
        states: HashMap::new(),
        queues: None,
    };
    let mut closed = HashSet::new();
    let mut demanded = (Vec::new(), Vec::new());
    for (method, params) in calls {
        if *method == "nvmf_set_config" {
            demanded = reader.config(params);
        } else if !reader.call(method, params) {
            let nqn = word(params, "nqn");
            reader.imported.leave(match &nqn {
                Some(nqn) => format!(
                    "{method} is not carried over: nobody may connect to {nqn} (hosts = [])"
                ),
                None => format!("{method} is not carried over"),
            });
            closed.extend(nqn);
        }
    }
    let (ports, states) = (reader.ports.into_values().collect::<Vec<_>>(), reader.states);
    let queues = reader.queues;
    for subsystem in &mut imported.subsystems {
        // The transport may be made behind the subsystems.
        subsystem.limit_queues(queues, &mut imported.left);
        if closed.contains(&subsystem.nqn) {
            subsystem.hosts = AdmittedHosts::default();
        }
        if let Some(of) = &mut subsystem.authentication {
            (of.hashes, of.groups) = demanded.clone();
        }
    }
    refuse_unproven(imported);
    ports::expose(imported, &ports, &|port, nqn, namespace| {
        let at = |group| states.get(&(port.url.clone(), nqn.to_owned(), group)).copied();
        // A group is one of its subsystem, by default that with the number of the namespace.
        let group = namespace.ana_group.unwrap_or(namespace.nsid as u32);
        at(Some(group)).or_else(|| at(None)).unwrap_or_default()
    });
}

/// In weft all hosts of a subsystem prove who they are, or none does.
fn refuse_unproven(imported: &mut Imported) {
    for subsystem in &imported.subsystems {
        let Some(of) = &subsystem.authentication else { continue };
        let is_proven = |name: &String| of.hosts.iter().any(|(host, _)| host == name);
        for name in subsystem.hosts.names().iter().filter(|name| !is_proven(name)) {
            imported.left.push(format!(
                "host {name} proves nothing to {}: in weft all hosts of a subsystem do, so it is refused until it has a secret",
                subsystem.nqn
            ));
        }
        if subsystem.hosts == AdmittedHosts::Any {
            imported.left.push(format!(
                "{} admits any host, and some of them by DH-HMAC-CHAP: in weft all hosts of a subsystem authenticate, so others are refused",
                subsystem.nqn
            ));
        }
    }
}

/// State of a listener: its URL, the subsystem, and the ANA group; `None`: all groups.
type States = HashMap<(String, String, Option<u32>), AccessState>;

struct Reader<'a> {
    devices: &'a Devices,
    keys: &'a HashMap<String, String>,
    imported: &'a mut Imported,
    /// By URL.
    ports: BTreeMap<String, ImportedPort>,
    states: States,
    /// I/O queues that each transport allows a controller.
    queues: Option<u64>,
}

/// I/O queues that a transport allows a controller. Older versions count the admin queue among
/// them.
fn queues(transport: &Value) -> Option<u64> {
    let all = || number(transport, "max_qpairs_per_ctrlr")?.checked_sub(1);
    number(transport, "max_io_qpairs_per_ctrlr").or_else(all)
}

impl Reader<'_> {
    /// Takes over a call. Returns whether it is known.
    fn call(&mut self, method: &str, params: &Value) -> bool {
        let nqn = text(params, "nqn").unwrap_or_default();
        match method {
            "nvmf_create_subsystem" => self.subsystem(nqn, params),
            "nvmf_subsystem_allow_any_host" => self.allow_any(&nqn, params["disable"] != true),
            "nvmf_subsystem_add_ns" => self.namespace(&nqn, params),
            "nvmf_subsystem_add_host" => self.host(&nqn, params),
            "nvmf_ns_add_host" => self.visible(&nqn, params),
            "nvmf_subsystem_add_listener" => self.listener(&nqn, params),
            "nvmf_subsystem_listener_set_ana_state" => self.state(&nqn, params),
            "nvmf_create_transport" => match text(params, "trtype").unwrap_or_default() {
                kind if ["tcp", "rdma"].contains(&kind.to_ascii_lowercase().as_str()) => {
                    self.queues = self.queues.into_iter().chain(queues(params)).min();
                }
                kind => self.imported.leave(format!(
                    "the transport {kind} is not carried over: weft has tcp and rdma"
                )),
            },
            _ => return TUNING.contains(&method),
        }
        true
    }

    /// The hash functions and groups of DH-HMAC-CHAP, where not all are accepted.
    fn config(&mut self, params: &Value) -> (Vec<String>, Vec<String>) {
        let words = |key| {
            list(params, key)
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let some = |words: Vec<String>, all: usize| {
            if words.len() < all { words } else { Vec::new() }
        };
        let mut passed = params["admin_cmd_passthru"].as_object().into_iter().flatten();
        if passed.any(|(_, value)| *value == true) {
            self.imported.leave("admin commands are passed through: weft answers them".into());
        }
        (
            some(words("dhchap_digests"), Hash::ALL.len()),
            some(words("dhchap_dhgroups"), Group::ALL.len()),
        )
    }

    fn subsystem(&mut self, nqn: String, params: &Value) {
        let known = [
            "admin_label",
            "allow_any_host",
            "ana_reporting",
            "dmrsl",
            "enable_nssr",
            "max_cntlid",
            "max_discard_size_kib",
            "max_namespaces",
            "max_write_zeroes_size_kib",
            "min_cntlid",
            "model_number",
            "nqn",
            "passthrough",
            "serial_number",
            "wzsl",
        ];
        report_unknown(&nqn, params, &known, &mut self.imported.left);
        let mut subsystem = ImportedSubsystem { nqn, ..ImportedSubsystem::default() };
        if params["allow_any_host"] == true {
            subsystem.hosts = AdmittedHosts::Any;
        }
        if params["passthrough"] == true {
            let nqn = &subsystem.nqn;
            self.imported.leave(format!("{nqn} passes commands through: weft executes them"));
        }
        let bound = |key, usual: u16| match number(params, key) {
            Some(value) => u16::try_from(value).unwrap_or(usual),
            None => usual,
        };
        let range = (bound("min_cntlid", CNTLIDS.0), bound("max_cntlid", CNTLIDS.1));
        subsystem.cntlids = (range != CNTLIDS).then_some(range);
        let or = |key, default: &str| Some(text(params, key).unwrap_or_else(|| default.to_owned()));
        let serial = or("serial_number", SERIAL);
        subsystem.number(serial, or("model_number", MODEL), &mut self.imported.left);
        self.imported.subsystems.push(subsystem);
    }

    fn named(&mut self, nqn: &str) -> Option<&mut ImportedSubsystem> {
        self.imported.subsystems.iter_mut().find(|subsystem| subsystem.nqn == nqn)
    }

    fn allow_any(&mut self, nqn: &str, is_any: bool) {
        let Some(subsystem) = self.named(nqn) else { return };
        if is_any {
            subsystem.hosts = AdmittedHosts::Any;
        } else if subsystem.hosts == AdmittedHosts::Any {
            subsystem.hosts = AdmittedHosts::default();
        }
    }

    fn namespace(&mut self, nqn: &str, params: &Value) {
        let of = &params["namespace"];
        let name = text(of, "bdev_name").unwrap_or_default();
        let Some(device) = self.devices.named(&name) else {
            return self.imported.leave(format!("{nqn} serves {name}, which is not carried over"));
        };
        let Some(subsystem) = self.named(nqn) else { return };
        let used = subsystem.namespaces.iter().map(|it| it.nsid).max().unwrap_or(0);
        let nsid = number(of, "nsid").filter(|nsid| *nsid > 0).unwrap_or(used.saturating_add(1));
        let identity = |name| text(of, name).filter(|identity| is_set(identity));
        let is_hidden = of["no_auto_visible"] == true;
        let mut namespace = ImportedNamespace {
            nsid,
            source: device.source,
            paths: device.paths,
            uuid: identity("uuid").or(device.uuid),
            nguid: identity("nguid").filter(|text| from_digits::<16>(text).is_some()),
            eui64: identity("eui64").filter(|text| from_digits::<8>(text).is_some()),
            hosts: if is_hidden { AdmittedHosts::default() } else { AdmittedHosts::Any },
            initiators: AdmittedHosts::Any,
            is_writable: !device.read_only,
            ana_group: number(of, "anagrpid").and_then(|group| u32::try_from(group).ok()),
            ..ImportedNamespace::default()
        };
        let is_forgetful = forgets(&namespace.source);
        if is_forgetful {
            (namespace.uuid, namespace.nguid, namespace.eui64) = (None, None, None);
        }
        subsystem.namespaces.push(namespace);
        self.report(of, &format!("{nqn}, namespace {nsid},"), is_forgetful);
    }

    /// Reports what a namespace loses.
    fn report(&mut self, of: &Value, whose: &str, is_forgetful: bool) {
        let known = [
            "anagrpid",
            "bdev_name",
            "eui64",
            "hide_metadata",
            "nguid",
            "no_auto_visible",
            "nsid",
            "ptpl_file",
            "uuid",
        ];
        report_unknown(whose, of, &known, &mut self.imported.left);
        if is_forgetful {
            let text = "keeps no identity: a RAM disk is empty after a restart";
            self.imported.leave(format!("{whose} {text}"));
        }
        if let Some(file) = word(of, "ptpl_file") {
            self.imported
                .leave(format!("{whose} keeps reservations in {file}: weft keeps its own"));
        }
    }

    fn host(&mut self, nqn: &str, params: &Value) {
        let host = text(params, "host").unwrap_or_default();
        let known = ["dhchap_ctrlr_key", "dhchap_key", "host", "nqn", "psk"];
        report_unknown(&format!("host {host}"), params, &known, &mut self.imported.left);
        if word(params, "psk").is_some() {
            self.imported.leave(format!(
                "host {host} has a key for TLS: it counts if a listener demands TLS"
            ));
        }
        let key = word(params, "dhchap_key").map(|key| self.key(&key, &host, "dhchap"));
        let own = word(params, "dhchap_ctrlr_key").map(|key| self.key(&key, nqn, "ctrl.dhchap"));
        let mut refused = None;
        if let Some(subsystem) = self.named(nqn) {
            subsystem.hosts.add(host.clone());
            if let Some(file) = key {
                let of =
                    subsystem.authentication.get_or_insert_with(ImportedAuthentication::default);
                of.hosts.push((host.clone(), file));
                match (&of.controller, own) {
                    (Some(known), Some(own)) if *known != own => refused = Some(own),
                    (None, Some(own)) => of.controller = Some(own),
                    _ => {}
                }
            }
        }
        if let Some(other) = refused {
            self.imported.leave(format!(
                "host {host} expects {nqn} to prove itself by {other}: in weft a subsystem has one secret"
            ));
        }
    }

    /// The file of a key: that of the keyring, or one to be written.
    fn key(&mut self, name: &str, owner: &str, ending: &str) -> String {
        let known = self.keys.get(name).cloned();
        let file = known.unwrap_or_else(|| self.imported.files.of(owner, ending));
        self.imported.leave(format!("{owner} has the key {name}: {file} must hold it (chmod 600)"));
        file
    }

    /// A namespace becomes visible to a host.
    fn visible(&mut self, nqn: &str, params: &Value) {
        let (nsid, host) = (number(params, "nsid"), text(params, "host").unwrap_or_default());
        let namespaces =
            self.named(nqn).into_iter().flat_map(|subsystem| &mut subsystem.namespaces);
        namespaces.filter(|it| Some(it.nsid) == nsid).for_each(|it| it.hosts.add(host.clone()));
    }

    fn listener(&mut self, nqn: &str, params: &Value) {
        let field = |key| text(&params["listen_address"], key).unwrap_or_default();
        let Some(url) = listener(&field("trtype"), &field("traddr"), &field("trsvcid")) else {
            return self.imported.leave(format!(
                "{nqn} listens at {} {}: weft has tcp and rdma",
                field("trtype"),
                field("traddr")
            ));
        };
        let demands_tls = params["secure_channel"] == true || params["sock_impl"] == "ssl";
        if let Some(word) = word(params, "ana_state") {
            let key = (url.clone(), nqn.to_owned(), None);
            self.states.insert(key, ports::state_of(&word));
        }
        let port = self.ports.entry(url.clone()).or_insert_with(|| ImportedPort {
            name: "the listener".to_owned(),
            url,
            subsystems: Default::default(),
            demands_tls: false,
        });
        port.subsystems.insert(nqn.to_owned());
        port.demands_tls |= demands_tls;
    }

    fn state(&mut self, nqn: &str, params: &Value) {
        let field = |key| text(&params["listen_address"], key).unwrap_or_default();
        let url = listener(&field("trtype"), &field("traddr"), &field("trsvcid"));
        let group = number(params, "anagrpid").and_then(|group| u32::try_from(group).ok());
        let state = ports::state_of(&text(params, "ana_state").unwrap_or_default());
        if let Some(url) = url {
            self.states.insert((url, nqn.to_owned(), group), state);
        }
    }
}
