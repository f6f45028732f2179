//! The part of an imported configuration that a group of gateways shares. Each gateway has the rest
//! on its command line; access that the rest protects is closed here.

use super::imported::{AdmittedHosts, Imported};

/// Directory of the files that each gateway has for itself.
const FILES: &str = "/etc/weft";

/// Takes out what each gateway has on its command line.
pub fn leave(imported: &mut Imported) {
    for url in core::mem::take(&mut imported.listen) {
        imported
            .leave(format!("{url} is an address of one gateway: give each its own with --listen"));
    }
    if let Some(name) = imported.iscsi_name.take() {
        imported
            .leave(format!("the iSCSI target is called {name}: give all gateways --iqn {name}"));
    }
    if let Some((first, last)) = imported.cntlids.take() {
        imported.leave(format!(
            "controllers have the identifiers {first} to {last}: a group gives each gateway its own"
        ));
    }
    if !core::mem::take(&mut imported.connect).is_empty() {
        imported.leave("options of connections to sources are left out".into());
    }
    close_initiators(imported);
    close_hosts(imported);
    hide_groups(imported);
    let all = imported.subsystems.iter_mut().filter_map(|of| of.authentication.as_mut());
    for of in all {
        let files = of.hosts.iter_mut().map(|(_, file)| file).chain(&mut of.controller);
        for file in files.filter(|file| !file.starts_with('/')) {
            imported.left.push(format!("{file} is {FILES}/{file} on each gateway"));
            *file = format!("{FILES}/{file}");
        }
    }
}

/// Admits nobody. Returns who was admitted, or nothing if nobody was.
fn close(admitted: &mut AdmittedHosts) -> Option<String> {
    match core::mem::take(admitted) {
        AdmittedHosts::Any => Some("all".to_owned()),
        AdmittedHosts::Only(names) if names.is_empty() => None,
        AdmittedHosts::Only(names) => Some(names.join(", ")),
    }
}

/// Lets no initiator log in where the gateways have the passwords.
fn close_initiators(imported: &mut Imported) {
    imported.target_user = None;
    let users = core::mem::take(&mut imported.users);
    if users.is_empty() {
        return;
    }
    let users = users.iter().map(|user| user.name.as_str()).collect::<Vec<_>>().join(", ");
    for subsystem in &mut imported.subsystems {
        let Some(names) = close(&mut subsystem.initiators) else { continue };
        imported.left.push(format!(
            "nobody may log in to {} (initiators = []): start all gateways with --login-user and --login-secret-file for {users}, and then admit {names}",
            subsystem.nqn
        ));
    }
}

/// Lets no host connect where the gateways have the keys for TLS.
fn close_hosts(imported: &mut Imported) {
    if imported.psk_file.take().is_none() {
        return;
    }
    for subsystem in &mut imported.subsystems {
        let Some(names) = close(&mut subsystem.hosts) else { continue };
        imported.left.push(format!(
            "nobody may connect to {} (hosts = []): start all gateways with --tls and --tls-key-file, and then admit {names}",
            subsystem.nqn
        ));
    }
}

/// Shows namespaces to nobody whose ANA group has a state, which a group of gateways sets itself.
fn hide_groups(imported: &mut Imported) {
    if core::mem::take(&mut imported.states).is_empty() {
        return;
    }
    for subsystem in &mut imported.subsystems {
        let grouped = subsystem.namespaces.iter_mut().filter(|of| of.ana_group.is_some());
        for namespace in grouped {
            (namespace.hosts, namespace.initiators) =
                (AdmittedHosts::default(), AdmittedHosts::default());
            namespace.ana_group = None;
            imported.left.push(format!(
                "{}, namespace {}, is shown to nobody: a group of gateways sets the ANA states itself",
                subsystem.nqn, namespace.nsid
            ));
        }
    }
}
