//! The configuration that tgt-admin reads and dumps (`/etc/tgt/targets.conf`): targets with their
//! stores, as a text of lines and of parts in angle brackets.
//!
//! An initiator is admitted if its address and its name are among those of the target, as far as it
//! names some, and it knows the password of one of the target's users, if there are any. weft does
//! not know initiators by their addresses, so a target with addresses admits nobody, unless all of
//! them are of this machine.

use super::imported::{
    AdmittedHosts, Imported, ImportedNamespace, ImportedScsi, ImportedSubsystem,
};
use super::iscsi_access::{
    Chap, ImportedInitiator, ImportedLogin, OtherInitiators, Right, Rules, admit,
};
use super::json::report_unknown_names;
use super::sources::with_path;
use super::tgt_text::{TgtPart, parts};
use crate::config::exposure::is_loopback;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

/// Where it listens by itself.
const LISTEN: &str = "iscsi://0.0.0.0:3260";

/// Block size of a disk, where nothing is said.
const BLOCK_BYTES: u64 = 512;

/// Largest LUN that is carried over.
const LUN_MAX: u64 = 255;

/// Options for all targets that are read, or make no difference to access.
const OF_ALL: [&str; 10] = [
    "control-port",
    "default-driver",
    "iSNS",
    "iSNSAccessControl",
    "iSNSServerIP",
    "iSNSServerPort",
    "ignore-errors",
    "include",
    "incomingdiscoveryuser",
    "outgoingdiscoveryuser",
];

/// Options of a target that are read, or make no difference to access. Those of disks may stand
/// there, too.
const OF_TARGETS: [&str; 28] = [
    "DataDigest",
    "DataPDUInOrder",
    "DataSequenceInOrder",
    "DefaultTime2Retain",
    "DefaultTime2Wait",
    "ErrorRecoveryLevel",
    "FirstBurstLength",
    "HeaderDigest",
    "IFMarkInt",
    "IFMarker",
    "ImmediateData",
    "InitialR2T",
    "MaxBurstLength",
    "MaxConnections",
    "MaxOutstandingR2T",
    "MaxRecvDataSegmentLength",
    "MaxXmitDataSegmentLength",
    "OFMarkInt",
    "OFMarker",
    "RDMAExtensions",
    "backing-store",
    "controller_tid",
    "direct-store",
    "driver",
    "incominguser",
    "initiator-address",
    "initiator-name",
    "outgoinguser",
];

/// Options of a disk.
const OF_DISKS: [&str; 24] = [
    "allow-in-use",
    "block-size",
    "bs-type",
    "bsoflags",
    "bsopts",
    "device-type",
    "la_lba",
    "lbppbe",
    "lun",
    "mode_page",
    "online",
    "optimal_xfer_gran",
    "optimal_xfer_len",
    "params",
    "path",
    "product_id",
    "product_rev",
    "readonly",
    "removable",
    "scsi_id",
    "scsi_sn",
    "sense_format",
    "vendor_id",
    "write-cache",
];

/// Returns whether it is such a configuration.
pub fn is_of(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("<target "))
}

/// Takes over what can be taken over.
///
/// # Errors
/// The text has not the form.
pub fn import(text: &str) -> Result<Imported, String> {
    let root = parts(text)?;
    let mut imported = Imported::default();
    unknown("the file", &root, &OF_ALL, &mut imported.left);
    for (key, value) in root.options.iter().filter(|(key, _)| is_include(key)) {
        imported.leave(format!("{key} {value} is not followed: import those files, too"));
    }
    // tgt-admin numbers targets in the order of their names, from 1, unless they have a number.
    let targets: BTreeMap<&str, &TgtPart> = root.named("target").collect();
    for (n, (iqn, target)) in (1..).zip(targets) {
        let given = target.option("controller_tid").and_then(|text| text.parse::<u32>().ok());
        let number = given.unwrap_or(n);
        if given.is_none() {
            imported.leave(format!(
                "{iqn} is taken for target {number}, of which names of its disks are made: compare with tgtadm --mode target --op show"
            ));
        }
        serve(iqn, (target, number), &root, &mut imported);
    }
    Ok(imported)
}

/// A target; the first is the one that is served by iSCSI.
fn serve(iqn: &str, (target, number): (&TgtPart, u32), root: &TgtPart, imported: &mut Imported) {
    let driver = target.option("driver").or(root.option("default-driver")).unwrap_or("iscsi");
    if driver != "iscsi" {
        return imported
            .leave(format!("the target {iqn} is one of {driver}: only those of iscsi are read"));
    }
    let is_served = imported.serve_first(iqn);
    if is_served {
        imported.listen = vec![LISTEN.to_owned()];
        imported.leave(format!(
            "{LISTEN} is where tgtd listens unless --iscsi portal= tells it otherwise"
        ));
    }
    unknown(iqn, target, &[&OF_TARGETS[..], &OF_DISKS[..]].concat(), &mut imported.left);
    let mut subsystem = ImportedSubsystem::of_target(iqn, &mut imported.left);
    for (lun, store) in numbered(&stores(target)) {
        let place = Place { iqn, number, lun, target };
        subsystem.namespaces.extend(namespace(&place, store, &mut imported.left));
    }
    let names: Vec<&str> = target.all("initiator-name").collect();
    if target.option("outgoinguser").is_some() && target.option("incominguser").is_none() {
        imported.leave(format!(
            "{iqn} has an outgoinguser and no incominguser: in weft a target proves itself only to initiators that do"
        ));
    }
    let rules = rules(target, root, &subsystem);
    admit(rules, iqn, &mut subsystem, is_served, imported);
    if let Some(why) = closed(target, root, is_served, imported) {
        subsystem.initiators = AdmittedHosts::default();
        let named =
            if names.is_empty() { String::new() } else { format!(" among {}", names.join(", ")) };
        imported.leave(format!(
            "{iqn} {why}: nobody may log in (initiators = []); name those that may{named} in initiators"
        ));
    }
    imported.subsystems.push(subsystem);
}

/// Whether an option includes files. tgt-admin takes it however it is written.
fn is_include(key: &str) -> bool {
    key.get(.."include".len()).is_some_and(|start| start.eq_ignore_ascii_case("include"))
}

/// Reports options that are not known.
fn unknown(whose: &str, of: &TgtPart, known: &[&str], left: &mut Vec<String>) {
    let names = of.options.iter().map(|(key, _)| key.as_str());
    report_unknown_names(whose, names, known, left);
}

/// Why nobody may log in to a target, whoever is named: weft does not know the rule.
fn closed(
    target: &TgtPart,
    root: &TgtPart,
    is_served: bool,
    imported: &mut Imported,
) -> Option<String> {
    if target.options.iter().any(|(key, _)| is_include(key)) {
        return Some("includes a file, which may have rules of access".to_owned());
    }
    let isns = root.option("iSNSAccessControl").filter(|value| !value.eq_ignore_ascii_case("off"));
    if isns.is_some() {
        return Some("asks an iSNS server for the initiators that it admits".to_owned());
    }
    let addresses: Vec<&str> = target.all("initiator-address").collect();
    if addresses.is_empty() || addresses.contains(&"ALL") {
        return None;
    }
    let local: Option<Vec<IpAddr>> = addresses.iter().map(|text| text.parse().ok()).collect();
    if let Some(local) = local.filter(|all| all.iter().all(|ip| is_loopback(*ip))) {
        if !is_served {
            return Some(
                "admits only this machine, and is not served by this configuration".into(),
            );
        }
        let has = |is_it: fn(&IpAddr) -> bool| local.iter().any(is_it);
        let urls = [
            ("iscsi://127.0.0.1:3260", has(IpAddr::is_ipv4)),
            ("iscsi://[::1]:3260", has(IpAddr::is_ipv6)),
        ];
        let urls = urls.into_iter().filter(|(_, is_used)| *is_used);
        imported.listen = urls.map(|(url, _)| url.to_owned()).collect();
        return None;
    }
    Some(format!("admits only {}, and weft knows initiators by their names", addresses.join(", ")))
}

/// Who logs in, and how. All that log in may do the same, each as any of the users.
fn rules(target: &TgtPart, root: &TgtPart, subsystem: &ImportedSubsystem) -> Rules {
    let account = |text: &str| {
        let (user, password) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        (user.to_owned(), password.trim().to_owned())
    };
    let mutual = target.option("outgoinguser").map(account);
    let chap = |text| {
        let (user, password) = account(text);
        Chap { user, password, mutual: mutual.clone() }
    };
    let users: Vec<Chap> = target.all("incominguser").map(chap).collect();
    let login = || if users.is_empty() { ImportedLogin::Free } else { ImportedLogin::Shared };
    let rights = || subsystem.namespaces.iter().map(|of| (of.nsid, Right::Write)).collect();
    let initiator =
        |name: &str| ImportedInitiator { name: name.to_owned(), login: login(), rights: rights() };
    let initiators: Vec<ImportedInitiator> = target.all("initiator-name").map(initiator).collect();
    let others =
        initiators.is_empty().then(|| OtherInitiators { login: login(), right: Right::Write });
    let discovery = root.option("incomingdiscoveryuser").map(chap);
    Rules { initiators, others, users, discovery }
}

/// The disks of a target, in the order in which tgt-admin adds them: a kind after the other, by
/// their paths.
fn stores(target: &TgtPart) -> Vec<Store> {
    let plain = target.options.iter().map(|(kind, path)| (kind, path, &[][..]));
    let parts = target.parts.iter().map(|part| (&part.kind, &part.name, &part.options[..]));
    let store = |(kind, path, options): (&String, &String, &[(String, String)])| {
        let is_direct = match kind.as_str() {
            "backing-store" => false,
            "direct-store" => true,
            _ => return None,
        };
        let options = TgtPart { options: options.to_vec(), ..TgtPart::default() };
        Some(Store { is_direct, path: path.clone(), options })
    };
    let mut stores: Vec<Store> = plain.chain(parts).filter_map(store).collect();
    stores.sort_by(|a, b| (a.is_direct, &a.path).cmp(&(b.is_direct, &b.path)));
    stores
}

/// Them with their LUNs: those that are said, and the lowest free ones from 1.
fn numbered(stores: &[Store]) -> Vec<(u64, &Store)> {
    let said = |store: &Store| store.options.option("lun").and_then(|text| text.parse().ok());
    let mut used: HashSet<u64> = stores.iter().filter_map(said).collect();
    let mut number = |store: &Store| {
        said(store).unwrap_or_else(|| {
            let free = (1..).find(|lun| !used.contains(lun)).unwrap_or(u64::MAX);
            used.insert(free);
            free
        })
    };
    stores.iter().map(|store| (number(store), store)).collect()
}

/// A disk of a target.
struct Store {
    /// It is a SCSI device that is passed on.
    is_direct: bool,
    path: String,
    options: TgtPart,
}

/// Where a disk is.
struct Place<'a> {
    iqn: &'a str,
    /// Number of the target.
    number: u32,
    lun: u64,
    /// What is said of all its disks.
    target: &'a TgtPart,
}

fn namespace(
    place: &Place<'_>,
    store: &Store,
    left: &mut Vec<String>,
) -> Option<ImportedNamespace> {
    let Place { iqn, lun, target, .. } = place;
    let Store { is_direct, path, options } = store;
    let option = |key: &str| options.option(key).or(target.option(key));
    let whose = format!("{iqn}, LUN {lun},");
    unknown(&whose, options, &OF_DISKS, left);
    let source = match source(store, option) {
        Ok(source) if *lun <= LUN_MAX => source,
        Ok(_) => {
            left.push(format!("{whose} is left out: weft has LUNs up to {LUN_MAX}"));
            return None;
        }
        Err(why) => {
            left.push(format!("{whose} is left out: {path}: {why}"));
            return None;
        }
    };
    if *is_direct {
        left.push(format!(
            "{whose} has the serial number, vendor and product of {path}: set them by hand"
        ));
    }
    let is_protected = is_protected(&[options, target]);
    if is_protected == Protected::Perhaps {
        left.push(format!("{whose} has mode_page or params: it is read-only"));
    }
    let scsi = names(place, option).checked(&whose, left);
    Some(ImportedNamespace {
        nsid: lun + 1,
        source,
        scsi,
        hosts: AdmittedHosts::Any,
        is_writable: is_protected == Protected::No,
        ..ImportedNamespace::default()
    })
}

/// The source of a disk that is online.
fn source<'a>(
    Store { is_direct, path, .. }: &Store,
    option: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, String> {
    let other = |key: &str, known: &[&str]| option(key).filter(|value| !known.contains(value));
    if let Some(kind) = other("device-type", &["disk"]).or(other("bs-type", &["rdwr", "aio"])) {
        return Err(format!("it is of the kind {kind}"));
    }
    if other("online", &["1"]).is_some() {
        return Err("it is not online".into());
    }
    if option("path").is_some() {
        return Err("its option path names another file".into());
    }
    let block = option("block-size").map(|text| text.parse::<u64>().map_err(|_| text)).transpose();
    let block = block.map_err(|text| format!("its block-size is {text}"))?;
    // A device that is passed on has its own.
    with_path(path, block.or((!is_direct).then_some(BLOCK_BYTES)))
}

/// Whether a disk refuses writes.
#[derive(Clone, Copy, PartialEq)]
enum Protected {
    No,
    Yes,
    /// It has parameters that may say so.
    Perhaps,
}

/// Whether a disk refuses writes, by the options of the disk and the target.
fn is_protected(options: &[&TgtPart]) -> Protected {
    let readonly = options.iter().find_map(|of| of.option("readonly"));
    if readonly.is_some_and(|value| !["0", "off", "no"].contains(&value)) {
        return Protected::Yes;
    }
    let all = |key: &'static str| options.iter().flat_map(move |of| of.all(key));
    // The control mode page has a bit for it (SWP).
    let is_control = |page: &str| {
        ["10:", "0xa:", "0x0a:", "0xA:", "0x0A:"].iter().any(|at| page.starts_with(at))
    };
    if all("mode_page").any(is_control) || all("params").next().is_some() {
        return Protected::Perhaps;
    }
    Protected::No
}

/// What tgt tells of a disk: what is set, or what it makes of the numbers of target and disk.
fn names<'a>(place: &Place<'_>, option: impl Fn(&str) -> Option<&'a str>) -> ImportedScsi {
    let Place { number, lun, .. } = place;
    let or = |key, own: String| option(key).map_or(own, str::to_owned);
    let t10_id = or("scsi_id", format!("IET     {number:04x}{lun:04x}"));
    ImportedScsi {
        serial: Some(or("scsi_sn", format!("beaf{number}{lun}"))),
        vendor: Some(or("vendor_id", "IET".into())),
        product: Some(or("product_id", "VIRTUAL-DISK".into())),
        naa: Some(naa(&t10_id)),
        t10_id: Some(t10_id),
    }
}

/// NAA 6h: each character of the designator as a digit, zero where it is none, flush right.
fn naa(t10_id: &str) -> String {
    let digit = |c: char| if c.is_ascii_hexdigit() { c.to_ascii_lowercase() } else { '0' };
    let digits: Vec<char> = t10_id.chars().map(digit).collect();
    let last: String = digits[digits.len().saturating_sub(31)..].iter().collect();
    format!("6{last:0>31}")
}
