//! `weft id-ctrl`, `id-ns`, `list-ns`.

use crate::args::pcap::PcapArgs;
use crate::connection::{Address, ConnectArgs, parse_nsid};
use crate::output::nvme_bits::Structure;
use crate::output::nvme_json;
use crate::process::exit::Failure;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::Write;
use std::ops::Range;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::source::nvme::{self, AdminSession};
use weft_endpoint::url::NvmeUrl;
use weft_proto::nvme::identify::{Cns, IdentifyController, IdentifyNamespace, NamespaceList};
use weft_proto::nvme::types::Nsid;

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NvmeOutputFormat {
    /// Readable text.
    #[default]
    Normal,
    /// JSON with nvme-cli's field names.
    Json,
    /// The structure as the controller sent it.
    Binary,
}

/// Options of all three commands.
#[derive(Args, Debug)]
pub struct Common {
    #[command(flatten)]
    address: Address,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output_format: NvmeOutputFormat,
    /// Print the structure as the controller sent it, like -o binary
    #[arg(short = 'b', long)]
    raw_binary: bool,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    pcap: PcapArgs,
}

/// Options of the two commands that print fields.
#[derive(Args, Debug)]
pub struct Details {
    /// Explain the bits of each field
    #[arg(short = 'H', long)]
    human_readable: bool,
    /// Also print the vendor-specific bytes, like -v
    #[arg(long)]
    vendor_specific: bool,
}

/// Options of `weft id-ctrl`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft id-ctrl nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk
  weft id-ctrl -t tcp -a 127.0.0.1 -s 4420 -n nqn.2014-08.org.example:disk -o json")]
pub struct IdCtrlArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    details: Details,
}

/// Options of `weft id-ns`.
#[derive(Args, Debug)]
#[command(mut_arg("nqn", |nqn| nqn.short(None::<char>)))]
#[command(after_help = "\
Examples:
  weft id-ns nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1
  weft id-ns -t tcp -a 127.0.0.1 -s 4420 --nqn nqn.2014-08.org.example:disk -n 1 -o json")]
pub struct IdNsArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    details: Details,
    // As in nvme-cli, -n is the namespace ID here; the subsystem is --nqn.
    /// Namespace ID [default: the one in the URL, or the first active one]
    #[arg(short = 'n', long, value_parser = parse_nsid)]
    namespace_id: Option<Nsid>,
}

/// Options of `weft list-ns`.
#[derive(Args, Debug)]
#[command(mut_arg("nqn", |nqn| nqn.short(None::<char>)))]
#[command(after_help = "\
Example:
  weft list-ns nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -o json")]
pub struct ListNsArgs {
    #[command(flatten)]
    common: Common,
    /// First namespace ID to list
    #[arg(short = 'n', long, value_parser = parse_nsid)]
    namespace_id: Option<Nsid>,
}

impl Common {
    fn connect(&self, control: &Control) -> Result<(Box<dyn AdminSession>, NvmeUrl), Failure> {
        let url = self.address.url()?;
        self.pcap.begin(control)?;
        Ok((
            nvme::connect(
                &NvmeUrl { nsid: None, ..url.clone() },
                &self.connect.options(1, control)?,
            )?,
            url,
        ))
    }

    fn output(&self) -> NvmeOutputFormat {
        if self.raw_binary { NvmeOutputFormat::Binary } else { self.output_format }
    }

    /// Prints a structure; `raw` is the structure as sent, `vendor` its vendor-specific part.
    fn print(&self, details: &Shown, raw: &[u8], fields: nvme_json::Fields) -> Result<(), Failure> {
        match self.output() {
            NvmeOutputFormat::Binary => std::io::stdout().lock().write_all(raw)?,
            NvmeOutputFormat::Json => nvme_json::print_json(&nvme_json::object(fields))?,
            NvmeOutputFormat::Normal => {
                nvme_json::print_fields(&fields, details.explained)?;
                if let Some(bytes) = details.vendor.clone().and_then(|range| raw.get(range)) {
                    print_vendor(bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// What to show of a structure in addition to its fields.
struct Shown {
    /// The structure, if its bits are to be explained.
    explained: Option<Structure>,
    /// The range of the vendor-specific bytes, if they are to be shown.
    vendor: Option<Range<usize>>,
}

impl Details {
    fn shown(&self, verbose: bool, of: Structure, vendor: Range<usize>) -> Shown {
        Shown {
            explained: self.human_readable.then_some(of),
            vendor: (self.vendor_specific || verbose).then_some(vendor),
        }
    }
}

/// Prints bytes in the format of `nvme id-ctrl -v`: sixteen per line, in hexadecimal and as text.
fn print_vendor(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "vs[]:")?;
    for (n, line) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = line
            .iter()
            .map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '.' })
            .collect();
        writeln!(out, "{:04x}: {} \"{text}\"", n * 16, hex.join(" "))?;
    }
    Ok(())
}

/// Prints Identify Controller.
pub fn id_ctrl(args: &IdCtrlArgs, verbose: bool, control: &Control) -> Result<(), Failure> {
    let (session, _) = args.common.connect(control)?;
    let raw = session.identify(Cns::CONTROLLER.0, Nsid(0))?;
    let id = decoded(IdentifyController::decode(&raw))?;
    args.common.print(
        &args.details.shown(verbose, Structure::Controller, 3072..4096),
        &raw,
        nvme_json::controller(&id),
    )
}

/// Prints Identify Namespace.
pub fn id_ns(args: &IdNsArgs, verbose: bool, control: &Control) -> Result<(), Failure> {
    let (session, url) = args.common.connect(control)?;
    let first = || active(&*session).map(|(_, list)| list.first().copied());
    let nsid = match args.namespace_id.or(url.nsid) {
        Some(nsid) => nsid,
        None => first()?.ok_or_else(|| {
            Failure::of(ErrorKind::NotFound, "the subsystem has no active namespace")
        })?,
    };
    let raw = session.identify(Cns::NAMESPACE.0, nsid)?;
    let id = decoded(IdentifyNamespace::decode(&raw))?;
    if id.nsze == 0 {
        let text =
            format!("there is no active namespace {nsid}; `weft list-ns` lists the active ones");
        return Err(Failure::of(ErrorKind::NotFound, text));
    }
    args.common.print(
        &args.details.shown(verbose, Structure::Namespace, 384..4096),
        &raw,
        nvme_json::namespace(&id),
    )
}

/// Lists the active namespaces.
pub fn list_ns(args: &ListNsArgs, control: &Control) -> Result<(), Failure> {
    let (session, _) = args.common.connect(control)?;
    let (raw, mut list) = active(&*session)?;
    if args.common.output() == NvmeOutputFormat::Binary {
        return Ok(std::io::stdout().lock().write_all(&raw)?);
    }
    list.retain(|nsid| args.namespace_id.is_none_or(|first| *nsid >= first));
    if args.common.output() == NvmeOutputFormat::Json {
        let ids: Vec<_> = list.iter().map(|nsid| json!({"nsid": nsid.0})).collect();
        return Ok(nvme_json::print_json(&json!({"nsid_list": ids}))?);
    }
    let mut out = std::io::stdout().lock();
    for (n, nsid) in list.iter().enumerate() {
        writeln!(out, "[{n:4}]:{:#x}", nsid.0)?;
    }
    Ok(())
}

/// The list of active namespaces, raw and decoded.
fn active(session: &dyn AdminSession) -> Result<(Vec<u8>, Vec<Nsid>), Failure> {
    let raw = session.identify(Cns::ACTIVE_NAMESPACES.0, Nsid(0))?;
    let list = decoded(NamespaceList::decode(&raw))?;
    Ok((raw, list.0))
}

/// The active namespaces that the host may use.
pub fn active_namespaces(session: &dyn AdminSession) -> Result<Vec<Nsid>, Failure> {
    Ok(active(session)?.1)
}

fn decoded<T>(result: Result<T, weft_proto::nvme::wire::DecodeError>) -> Result<T, Failure> {
    result.map_err(|e| {
        Failure::of(ErrorKind::Protocol, format!("the controller sent a malformed structure: {e}"))
    })
}
