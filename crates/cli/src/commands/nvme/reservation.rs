//! `weft resv-report`.

use super::target::{OutputOptions, VerbTarget, letters, number};
use crate::commands::identify::NvmeOutputFormat;
use crate::output::hex::hex;
use crate::output::nvme_json::print_json;
use crate::process::exit::Failure;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use weft_endpoint::Control;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::reservation::{RegisteredController, RegisteredHost, ReservationStatus};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;
use weft_proto::nvme::wire::DecodeError;

/// Dwords of a report, at most and unless another number is given.
const DWORDS_MAX: u32 = 1024;

/// The least: the fields of the header.
const DWORDS_MIN: u32 = 4;

/// Options of `weft resv-report`.
#[derive(Args, Debug)]
#[command(mut_args(letters("ndeob")))]
#[command(after_help = "\
The namespace is that of the URL, or the first active one.

Example:
  weft resv-report nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 --eds -o json")]
pub struct ResvReportArgs {
    /// Namespace ID
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// Dwords to read, counted from 0 [default: 1023]
    #[arg(short = 'd', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    numd: u32,
    /// Extended data structure, with 128-bit host identifiers, which hosts over a network have
    #[arg(short = 'e', long)]
    eds: bool,
    #[command(flatten)]
    format: OutputOptions,
    #[command(flatten)]
    target: VerbTarget,
}

/// Prints a reservation report.
pub fn resv_report(args: &ResvReportArgs, control: &Control) -> Result<(), Failure> {
    let connected = args.target.connect(control)?;
    let nsid = connected.namespace(args.namespace_id)?;
    let dwords = if args.numd == 0 { DWORDS_MAX } else { args.numd.saturating_add(1) };
    let dwords = dwords.clamp(DWORDS_MIN, DWORDS_MAX);
    let (_, page) = connected.io(
        "Reservation Report",
        command(nsid, dwords, args.eds),
        CommandData::In(dwords * 4),
    )?;
    let mut out = std::io::stdout().lock();
    if args.format.output() == NvmeOutputFormat::Binary {
        return Ok(out.write_all(&page)?);
    }
    let report = Report::decode(&page, args.eds).map_err(|e| connected.malformed(&e))?;
    match args.format.output() {
        NvmeOutputFormat::Json => print_json(&report.as_json())?,
        _ => report.text(&mut out)?,
    }
    Ok(())
}

/// Reservation Report (Base 2.1 §7.7).
fn command(nsid: Nsid, dwords: u32, extended: bool) -> Sqe {
    let mut sqe = Sqe::new(NvmOpcode::RESERVATION_REPORT.0, nsid);
    sqe.set_dword(10, dwords - 1);
    sqe.set_dword(11, extended.into());
    sqe
}

/// The registrants, in one of their two forms.
enum Registrants {
    Extended(Vec<RegisteredController>),
    Short(Vec<RegisteredHost>),
}

/// A report: its header, and the registrants that have room in what was read.
struct Report {
    status: ReservationStatus,
    registrants: Registrants,
}

impl Report {
    fn decode(page: &[u8], extended: bool) -> Result<Self, DecodeError> {
        let mut header = [0; ReservationStatus::BYTES];
        let told = page.len().min(header.len());
        header[..told].copy_from_slice(&page[..told]);
        if told < DWORDS_MIN as usize * 4 {
            ReservationStatus::decode(page)?;
        }
        let status = ReservationStatus::decode(&header)?;
        // In the short form the header is as long as a registrant; so it is in the extended one.
        let bytes = if extended { RegisteredController::BYTES } else { RegisteredHost::BYTES };
        let list = page.chunks_exact(bytes).skip(1).take(status.regctl.into());
        let registrants = match extended {
            true => Registrants::Extended(
                list.map(RegisteredController::decode).collect::<Result<_, _>>()?,
            ),
            false => {
                Registrants::Short(list.map(RegisteredHost::decode).collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { status, registrants })
    }

    fn as_json(&self) -> Value {
        let (key, list): (_, Vec<Value>) = match &self.registrants {
            Registrants::Extended(list) => {
                let one = |r: &RegisteredController| {
                    json!({
                        "cntlid": r.cntlid.0, "rcsts": r.rcsts, "rkey": r.rkey,
                        "hostid": hex(&r.hostid.0),
                    })
                };
                ("regctlext", list.iter().map(one).collect())
            }
            Registrants::Short(list) => {
                let one = |r: &RegisteredHost| {
                    json!({
                        "cntlid": r.cntlid.0, "rcsts": r.rcsts, "hostid": r.hostid, "rkey": r.rkey,
                    })
                };
                ("regctls", list.iter().map(one).collect())
            }
        };
        let status = &self.status;
        json!({
            "gen": status.generation,
            "rtype": status.rtype,
            "regctl": status.regctl,
            "ptpls": status.ptpls,
            key: list,
        })
    }

    fn text(&self, out: &mut impl Write) -> std::io::Result<()> {
        let status = &self.status;
        writeln!(out, "\nNVME Reservation status:\n")?;
        writeln!(out, "gen       : {}\nrtype     : {}", status.generation, status.rtype)?;
        writeln!(out, "regctl    : {}\nptpls     : {}", status.regctl, status.ptpls)?;
        match &self.registrants {
            Registrants::Extended(list) => {
                for (n, r) in list.iter().enumerate() {
                    writeln!(out, "regctlext[{n}] :\n  cntlid     : {:x}", r.cntlid.0)?;
                    writeln!(out, "  rcsts      : {:x}\n  rkey       : {:x}", r.rcsts, r.rkey)?;
                    writeln!(out, "  hostid     : {}", hex(&r.hostid.0))?;
                }
            }
            Registrants::Short(list) => {
                for (n, r) in list.iter().enumerate() {
                    writeln!(out, "regctl[{n}] :\n  cntlid  : {:x}", r.cntlid.0)?;
                    writeln!(out, "  rcsts   : {:x}\n  hostid  : {:x}", r.rcsts, r.hostid)?;
                    writeln!(out, "  rkey    : {:x}", r.rkey)?;
                }
            }
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::nvme::types::{Cntlid, Id128};

    fn shown(report: &Report) -> String {
        let mut out = Vec::new();
        report.text(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_extended_form() {
        let mut page = ReservationStatus { generation: 5, rtype: 1, regctl: 2, ptpls: 1 }.encode();
        let (cntlid, hostid) = (Cntlid(0xffff), Id128([0x1a; 16]));
        page.extend(RegisteredController { cntlid, rcsts: 1, rkey: 10, hostid }.encode());
        // The second registrant has no room in what was read.
        page.extend([0; 63]);
        let report = Report::decode(&page, true).unwrap();
        let json = report.as_json();
        assert_eq!(
            (&json["gen"], &json["regctl"], &json["ptpls"]),
            (&json!(5), &json!(2), &json!(1))
        );
        let host = "1a".repeat(16);
        let expected = json!([{"cntlid": 65535, "rcsts": 1, "rkey": 10, "hostid": host}]);
        assert_eq!(json["regctlext"], expected);
        let expected = format!(
            "\nNVME Reservation status:\n\ngen       : 5\nrtype     : 1\nregctl    : 2\nptpls     : 1\n\
             regctlext[0] :\n  cntlid     : ffff\n  rcsts      : 1\n  rkey       : a\n  hostid     : {host}\n\n"
        );
        assert_eq!(shown(&report), expected);
    }

    #[test]
    fn the_short_form() {
        let mut page = vec![0; 24];
        page[..6].copy_from_slice(&[7, 0, 0, 0, 3, 1]);
        page.extend(RegisteredHost { cntlid: Cntlid(2), rcsts: 0, hostid: 18, rkey: 11 }.encode());
        let report = Report::decode(&page, false).unwrap();
        let expected = json!([{"cntlid": 2, "rcsts": 0, "hostid": 18, "rkey": 11}]);
        assert_eq!(report.as_json()["regctls"], expected);
        assert!(shown(&report).ends_with(
            "regctl[0] :\n  cntlid  : 2\n  rcsts   : 0\n  hostid  : 12\n  rkey    : b\n\n"
        ));
        assert!(Report::decode(&page[..15], false).is_err());
        assert!(Report::decode(&page[..16], false).is_ok());
    }

    #[test]
    fn the_command() {
        let sqe = command(Nsid(2), 1024, true);
        assert_eq!((sqe.opcode(), sqe.nsid()), (0x0e, Nsid(2)));
        assert_eq!((sqe.dword(10), sqe.dword(11)), (1023, 1));
    }
}
