//! `weft ana-log`.

use super::log::{self, LogPageRequest};
use super::target::{OutputOptions, VerbTarget, letters};
use crate::commands::identify::NvmeOutputFormat;
use crate::output::nvme_json::print_json;
use crate::process::exit::Failure;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use weft_endpoint::Control;
use weft_proto::nvme::identify::IdentifyController;
use weft_proto::nvme::log_page::{AnaGroupDescriptor, AnaGroups, AnaHeader, AnaState, LogPageId};
use weft_proto::nvme::types::Nsid;
use weft_proto::nvme::wire::DecodeError;

/// Most of the log page that is read: more than 16,000 groups with 200,000 namespaces.
const BYTES_MAX: u64 = 2 << 20;

/// ANACAP bit 6: the group of a namespace does not change while it is attached, so that the log
/// page need not be read again; nvme-cli takes it for a log page without namespaces.
const FIXED_GROUPS: u8 = 1 << 6;

/// Options of `weft ana-log`.
#[derive(Args, Debug)]
#[command(mut_args(letters("gob")))]
#[command(after_help = "\
Example:
  weft ana-log nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -o json")]
pub struct AnaLogArgs {
    /// Groups without their namespaces
    #[arg(short = 'g', long)]
    groups: bool,
    #[command(flatten)]
    format: OutputOptions,
    #[command(flatten)]
    target: VerbTarget,
}

/// A group, and its namespaces.
type Group = (AnaGroupDescriptor, Vec<Nsid>);

/// Prints Asymmetric Namespace Access.
pub fn ana_log(args: &AnaLogArgs, control: &Control) -> Result<(), Failure> {
    let connected = args.target.connect(control)?;
    let request = LogPageRequest {
        specific: if args.groups { AnaHeader::GROUPS_ONLY } else { 0 },
        retain: true,
        ..LogPageRequest::of(LogPageId::ANA, page_bytes(&connected.session.controller().identify))
    };
    let page = log::read(&connected, &request)?;
    let mut out = std::io::stdout().lock();
    if args.format.output() == NvmeOutputFormat::Binary {
        return Ok(out.write_all(&page)?);
    }
    let (header, groups) = decoded(&page).map_err(|e| connected.malformed(&e))?;
    match args.format.output() {
        NvmeOutputFormat::Json => print_json(&as_json(&connected.name, &header, &groups))?,
        _ => text(&mut out, &connected.name, &header, &groups)?,
    }
    Ok(())
}

/// Bytes of the log page, as Identify Controller tells them.
fn page_bytes(id: &IdentifyController) -> usize {
    let groups = u64::from(id.nanagrpid) * AnaGroupDescriptor::BYTES as u64;
    let namespaces = if id.anacap & FIXED_GROUPS == 0 { u64::from(id.mnan) * 4 } else { 0 };
    (AnaHeader::BYTES as u64 + groups + namespaces).min(BYTES_MAX) as usize
}

fn decoded(page: &[u8]) -> Result<(AnaHeader, Vec<Group>), DecodeError> {
    let header = AnaHeader::decode(page)?;
    let groups = AnaGroups::new(page)?;
    let groups = groups.map(|group| group.map(|(group, nsids)| (group, nsids.collect())));
    Ok((header, groups.collect::<Result<_, _>>()?))
}

fn state(state: AnaState) -> &'static str {
    match state {
        AnaState::OPTIMIZED => "optimized",
        AnaState::NON_OPTIMIZED => "non-optimized",
        AnaState::INACCESSIBLE => "inaccessible",
        AnaState::PERSISTENT_LOSS => "persistent-loss",
        AnaState::CHANGE => "change",
        _ => "invalid state",
    }
}

fn as_json(name: &str, header: &AnaHeader, groups: &[Group]) -> Value {
    let group = |(group, nsids): &Group| {
        json!({
            "grpid": group.grpid,
            "nnsids": group.nnsids,
            "chgcnt": group.chgcnt,
            "state": state(group.state),
            "NSIDS": nsids.iter().map(|nsid| json!({"nsid": nsid.0})).collect::<Vec<_>>(),
        })
    };
    json!({
        "Asymmetric Namespace Access Log for NVMe device": name,
        "chgcnt": header.chgcnt,
        "ngrps": header.ngrps,
        // With the space at its end, as scripts know it.
        "ANA DESC LIST ": groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn text(
    out: &mut impl Write,
    name: &str,
    header: &AnaHeader,
    groups: &[Group],
) -> std::io::Result<()> {
    writeln!(out, "Asymmetric Namespace Access Log for NVMe device: {name}")?;
    writeln!(out, "ANA LOG HEADER :-")?;
    writeln!(out, "chgcnt\t:\t{}\nngrps\t:\t{}", header.chgcnt, header.ngrps)?;
    writeln!(out, "ANA Log Desc :-")?;
    for (group, nsids) in groups {
        writeln!(out, "grpid\t:\t{}\nnnsids\t:\t{}", group.grpid, group.nnsids)?;
        writeln!(out, "chgcnt\t:\t{}\nstate\t:\t{}", group.chgcnt, state(group.state))?;
        nsids.iter().try_for_each(|nsid| writeln!(out, "\tnsid\t:\t{}", nsid.0))?;
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_printed_as_nvme_cli_does() {
        let mut page = AnaHeader { chgcnt: 7, ngrps: 1 }.encode();
        let state = AnaState::NON_OPTIMIZED;
        page.extend(AnaGroupDescriptor { grpid: 1, nnsids: 2, chgcnt: 5, state }.encode());
        page.extend([1, 0, 0, 0, 3, 0, 0, 0]);
        let (header, groups) = decoded(&page).unwrap();
        let json = as_json("here", &header, &groups);
        assert_eq!(json["ANA DESC LIST "][0]["state"], "non-optimized");
        assert_eq!(json["ANA DESC LIST "][0]["NSIDS"], json!([{"nsid": 1}, {"nsid": 3}]));
        let mut out = Vec::new();
        text(&mut out, "here", &header, &groups).unwrap();
        let expected = "Asymmetric Namespace Access Log for NVMe device: here\nANA LOG HEADER :-\n\
            chgcnt\t:\t7\nngrps\t:\t1\nANA Log Desc :-\ngrpid\t:\t1\nnnsids\t:\t2\nchgcnt\t:\t5\n\
            state\t:\tnon-optimized\n\tnsid\t:\t1\n\tnsid\t:\t3\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        page.truncate(50);
        assert!(decoded(&page).is_err());
    }

    #[test]
    fn a_controller_cannot_ask_for_any_amount_of_memory() {
        let id = |nanagrpid, mnan, anacap| {
            page_bytes(&IdentifyController { nanagrpid, mnan, anacap, ..Default::default() })
        };
        assert_eq!(id(128, 1024, 0), 16 + 128 * 32 + 4096);
        assert_eq!(id(128, 1024, 1 << 6), 16 + 128 * 32);
        assert_eq!(id(u32::MAX, u32::MAX, 0), 2 << 20);
    }
}
