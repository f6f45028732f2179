//! What tgt-admin reads and dumps (`/etc/tgt/targets.conf`): targets with their stores, as a text
//! of lines and of parts in angle brackets.

use super::imported::{Imported, ImportedNamespace, ImportedScsi, ImportedSubsystem};
use super::tgt_text::{Part, parts};
use std::collections::{BTreeMap, HashSet};

/// Where it listens by itself.
const LISTEN: &str = "iscsi://0.0.0.0:3260";

/// Whether it is such a configuration.
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
    for (key, _) in root.options.iter().filter(|(key, _)| key.starts_with("include")) {
        imported.left.push(format!("{key} is not followed: import those files, too"));
    }
    // tgt-admin numbers targets in the order of their names, from 1, unless they have a number.
    let targets: BTreeMap<&str, &Part> = root.named("target").collect();
    for (n, (iqn, target)) in (1..).zip(targets) {
        let given = target.option("controller_tid").and_then(|text| text.parse::<u32>().ok());
        let number = given.unwrap_or(n);
        if given.is_none() {
            imported.left.push(format!(
                "{iqn} is taken for target {number}, of which names of its disks are made: compare with tgtadm --mode target --op show"
            ));
        }
        serve(iqn, (target, number), &root, &mut imported);
    }
    Ok(imported)
}

/// A target; the first is the one that is served by iSCSI.
fn serve(iqn: &str, (target, number): (&Part, u32), root: &Part, imported: &mut Imported) {
    let driver = target.option("driver").or(root.option("default-driver")).unwrap_or("iscsi");
    if driver != "iscsi" {
        imported
            .left
            .push(format!("the target {iqn} is one of {driver}: only those of iscsi are read"));
        return;
    }
    if imported.iscsi_name.is_some() {
        imported.left.push(format!(
            "{iqn} is another target: a weft serves one by iSCSI, the first; start another weft for it"
        ));
    } else {
        imported.iscsi_name = Some(iqn.to_owned());
        imported.listen = vec![LISTEN.to_owned()];
        imported.left.push(format!(
            "{LISTEN} is where tgtd listens unless --iscsi portal= tells it otherwise"
        ));
    }
    let subsystem = subsystem(iqn, (target, number), &mut imported.left);
    imported.subsystems.push(subsystem);
}

fn subsystem(
    iqn: &str,
    (target, number): (&Part, u32),
    left: &mut Vec<String>,
) -> ImportedSubsystem {
    for (key, instead) in [("incominguser", "[[iscsi.user]]"), ("outgoinguser", "[iscsi.target]")] {
        for user in target.all(key).filter_map(|text| text.split_whitespace().next()) {
            left.push(format!(
                "{iqn} has the {key} \"{user}\": write the password into a file, and name both in {instead}"
            ));
        }
    }
    for address in target.all("initiator-address").filter(|address| *address != "ALL") {
        left.push(format!(
            "{iqn} lets in {address}: weft knows initiators by their names, so give those in initiators"
        ));
    }
    left.push(format!("{iqn} has no NVMe hosts: name those that may connect in hosts"));
    let names: Vec<String> = target.all("initiator-name").map(str::to_owned).collect();
    let mut namespaces = Vec::new();
    for (lun, store) in numbered(&stores(target)) {
        namespaces.extend(namespace(&Place { iqn, number, lun, target }, store, left));
    }
    let nqn = iqn.strip_prefix("iqn.").map_or_else(|| iqn.to_owned(), |rest| format!("nqn.{rest}"));
    ImportedSubsystem {
        nqn,
        hosts: Some(Vec::new()),
        initiators: (!names.is_empty()).then_some(names),
        namespaces,
        ..ImportedSubsystem::default()
    }
}

/// The disks of a target, in the order in which tgt-admin adds them: a kind after the other, by
/// their paths.
fn stores(target: &Part) -> Vec<Store> {
    let plain = target.options.iter().map(|(kind, path)| (kind, path, &[][..]));
    let parts = target.parts.iter().map(|part| (&part.kind, &part.name, &part.options[..]));
    let store = |(kind, path, options): (&String, &String, &[(String, String)])| {
        let is_direct = match kind.as_str() {
            "backing-store" => false,
            "direct-store" => true,
            _ => return None,
        };
        let options = Part { options: options.to_vec(), ..Part::default() };
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
    options: Part,
}

/// Where a disk is.
struct Place<'a> {
    iqn: &'a str,
    /// Number of the target.
    number: u32,
    lun: u64,
    /// What is said of all its disks.
    target: &'a Part,
}

fn namespace(
    place: &Place<'_>,
    Store { is_direct, path, options }: &Store,
    left: &mut Vec<String>,
) -> Option<ImportedNamespace> {
    let Place { iqn, lun, target, .. } = place;
    let option = |key: &str| options.option(key).or(target.option(key));
    let whose = format!("{iqn}, LUN {lun},");
    if *lun > 255 || !path.starts_with('/') {
        left.push(format!("{whose} serves {path}: add it by hand"));
        return None;
    }
    let other = |key, known: &[&str]| option(key).filter(|value| !known.contains(value));
    let kind = other("device-type", &["disk"]).or(other("bs-type", &["rdwr", "aio"]));
    if let Some(kind) = kind {
        left.push(format!("{whose} is of the kind {kind}, which is not carried over"));
        return None;
    }
    if *is_direct {
        left.push(format!(
            "{whose} has the serial number, vendor and product of {path}: set them by hand"
        ));
    }
    let mut source = path.clone();
    if option("block-size") == Some("4096") && !path.starts_with("/dev/") {
        source.push_str(",block=4096");
    }
    let scsi = names(place, option).checked(&whose, left);
    let read_only = option("readonly").is_some_and(|value| ["1", "on", "yes"].contains(&value));
    Some(ImportedNamespace { nsid: lun + 1, source, scsi, read_only, ..Default::default() })
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
