//! What nvmetcli saves of the Linux kernel's target: `hosts`, `ports` and `subsystems`.

use super::imported::{Imported, ImportedNamespace, ImportedSubsystem};
use super::json::{is_set, list, listener, text};
use serde_json::Value;

/// The model number of Linux, where none was set.
const MODEL: &str = "Linux";

/// Whether it is such a configuration.
pub fn is_of(json: &Value) -> bool {
    json["subsystems"].is_array()
        && list(json, "subsystems").iter().all(|subsystem| subsystem["nqn"].is_string())
}

/// Takes over what can be taken over.
pub fn import(json: &Value) -> Imported {
    let mut imported = Imported::default();
    let subsystems = list(json, "subsystems");
    for host in list(json, "hosts")
        .iter()
        .filter(|host| host.get("dhchap").is_some() || text(host, "dhchap_key").is_some())
    {
        let nqn = text(host, "nqn").unwrap_or_default();
        imported.left.push(format!(
            "host {nqn} has a DH-HMAC-CHAP key: write it into a file, and name that in [subsystem.authentication]"
        ));
    }
    for of in subsystems {
        let subsystem = subsystem(of, &mut imported.left);
        imported.subsystems.push(subsystem);
    }
    list(json, "ports").iter().for_each(|of| port(of, subsystems.len(), &mut imported));
    imported
}

fn port(of: &Value, subsystems: usize, imported: &mut Imported) {
    let (id, address) = (text(of, "portid").unwrap_or_default(), &of["addr"]);
    let word = |name| text(address, name).unwrap_or_default();
    match listener(&word("trtype"), &word("traddr"), &word("trsvcid")) {
        Some(url) if !imported.listen.contains(&url) => imported.listen.push(url),
        Some(_) => {}
        None => imported
            .left
            .push(format!("port {id} has the transport {}: weft has tcp only", word("trtype"))),
    }
    let served = list(of, "subsystems").len();
    if served != subsystems {
        imported.left.push(format!(
            "port {id} serves {served} of {subsystems} subsystems: in weft every port serves all"
        ));
    }
    if !list(of, "referrals").is_empty() {
        imported.left.push(format!("port {id} has referrals: give them to weft by hand"));
    }
    let states = list(of, "ana_groups").iter().filter_map(|group| text(&group["ana"], "state"));
    if states.clone().any(|state| state != "optimized") {
        imported.left.push(format!(
            "port {id} has ANA groups that are not optimized: set their states with weft by hand"
        ));
    }
    if word("tsas").contains("tls") || word("treq") == "required" {
        imported
            .left
            .push(format!("port {id} demands TLS: write the keys of its hosts into a file, and name that as psk_file in [tls]"));
    }
}

fn subsystem(of: &Value, left: &mut Vec<String>) -> ImportedSubsystem {
    let (nqn, attributes) = (text(of, "nqn").unwrap_or_default(), &of["attr"]);
    let any = text(attributes, "allow_any_host").is_some_and(|word| word == "1");
    let named =
        |hosts: &[Value]| hosts.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let hosts = (!any).then(|| named(list(of, "allowed_hosts")));
    if let Some(value) = text(attributes, "firmware") {
        left.push(format!("{nqn} has the firmware revision {value}: weft gives its own"));
    }
    if text(attributes, "pi_enable").is_some_and(|word| word != "0") {
        left.push(format!("{nqn} has protection information: weft has none"));
    }
    if of["passthru"].get("device").is_some_and(|device| text(device, "path").is_some()) {
        left.push(format!("{nqn} passes a controller through: weft serves namespaces only"));
    }
    let namespaces =
        list(of, "namespaces").iter().filter_map(|of| namespace(of, &nqn, left)).collect();
    let mut subsystem =
        ImportedSubsystem { nqn, hosts, namespaces, ..ImportedSubsystem::default() };
    let model = text(attributes, "model").unwrap_or_else(|| MODEL.to_owned());
    subsystem.number(text(attributes, "serial"), Some(model), left);
    subsystem
}

fn namespace(of: &Value, nqn: &str, left: &mut Vec<String>) -> Option<ImportedNamespace> {
    let device = &of["device"];
    let Some(nsid) = text(of, "nsid").and_then(|nsid| nsid.parse::<u64>().ok()) else {
        left.push(format!("{nqn} has a namespace whose nsid is not a number: {}", of["nsid"]));
        return None;
    };
    let Some(source) = text(device, "path").filter(|path| !path.is_empty() && path != "(null)")
    else {
        left.push(format!("{nqn}, namespace {nsid}, has no path"));
        return None;
    };
    if of["enable"].as_u64() == Some(0) {
        left.push(format!("{nqn}, namespace {nsid}, is disabled: it is left out"));
        return None;
    }
    let group = text(&of["ana"], "grpid").or_else(|| text(of, "ana_grpid"));
    if let Some(group) = group.filter(|group| group != "1") {
        left.push(format!("{nqn}, namespace {nsid}, is in ANA group {group}: set it by hand"));
    }
    let identity = |name| text(device, name).filter(|identity| is_set(identity));
    Some(ImportedNamespace {
        nsid,
        source,
        uuid: identity("uuid"),
        nguid: identity("nguid"),
        ..Default::default()
    })
}
