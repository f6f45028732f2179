//! `weft id-ctrl`, `id-ns`, `list-ns`.

use super::discover::Output;
use crate::connection::{Address, ConnectArgs, parse_nsid};
use crate::exit::Failure;
use crate::nvme_json;
use clap::Args;
use serde_json::json;
use std::io::Write;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::source::nvme_tcp::Session;
use weft_endpoint::url::{NVME_TCP_PORT, NvmeTcpUrl};
use weft_proto::nvme::identify::{Cns, IdentifyNamespace, NamespaceList};
use weft_proto::nvme::types::Nsid;

/// Options that the three share.
#[derive(Args, Debug)]
pub struct Common {
    #[command(flatten)]
    address: Address,
    /// Form of the output
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output_format: Output,
    #[command(flatten)]
    connect: ConnectArgs,
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
}

/// Options of `weft id-ns`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft id-ns nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1
  weft id-ns -t tcp -a 127.0.0.1 -s 4420 -n nqn.2014-08.org.example:disk --namespace-id 1 -o json")]
pub struct IdNsArgs {
    #[command(flatten)]
    common: Common,
    /// Namespace; by default the one in the URL, or the first
    #[arg(long, value_parser = parse_nsid)]
    namespace_id: Option<Nsid>,
}

/// Options of `weft list-ns`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  weft list-ns nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -o json")]
pub struct ListNsArgs {
    #[command(flatten)]
    common: Common,
}

impl Common {
    fn connect(&self, control: &Control) -> Result<(Session, NvmeTcpUrl), Failure> {
        let url = self.address.url(NVME_TCP_PORT)?;
        Ok((Session::connect(&NvmeTcpUrl { nsid: None, ..url.clone() }, &self.connect.options(1, control)?)?, url))
    }

    fn print(&self, fields: nvme_json::Fields) -> Result<(), Failure> {
        match self.output_format {
            Output::Json => nvme_json::print_json(&nvme_json::object(fields))?,
            Output::Normal => nvme_json::print_fields(&fields)?,
        }
        Ok(())
    }
}

/// Prints Identify Controller.
pub fn id_ctrl(args: &IdCtrlArgs, control: &Control) -> Result<(), Failure> {
    let (session, _) = args.common.connect(control)?;
    args.common.print(nvme_json::controller(&session.controller().identify))
}

/// Prints Identify Namespace.
pub fn id_ns(args: &IdNsArgs, control: &Control) -> Result<(), Failure> {
    let (session, url) = args.common.connect(control)?;
    let first = || active(&session).map(|list| list.first().copied());
    let nsid = match args.namespace_id.or(url.nsid) {
        Some(nsid) => nsid,
        None => first()?.ok_or_else(|| Failure::of(ErrorKind::NotFound, "the subsystem has no active namespace"))?,
    };
    let id = decoded(IdentifyNamespace::decode(&session.identify(Cns::NAMESPACE.0, nsid)?))?;
    if id.nsze == 0 {
        let text = format!("there is no active namespace {nsid}; `weft list-ns` shows those that there are");
        return Err(Failure::of(ErrorKind::NotFound, text));
    }
    args.common.print(nvme_json::namespace(&id))
}

/// Lists the active namespaces.
pub fn list_ns(args: &ListNsArgs, control: &Control) -> Result<(), Failure> {
    let (session, _) = args.common.connect(control)?;
    let list = active(&session)?;
    if args.common.output_format == Output::Json {
        let ids: Vec<_> = list.iter().map(|nsid| json!({"nsid": nsid.0})).collect();
        return Ok(nvme_json::print_json(&json!({"nsid_list": ids}))?);
    }
    let mut out = std::io::stdout().lock();
    for (n, nsid) in list.iter().enumerate() {
        writeln!(out, "[{n:4}]:{:#x}", nsid.0)?;
    }
    Ok(())
}

fn active(session: &Session) -> Result<Vec<Nsid>, Failure> {
    let list = decoded(NamespaceList::decode(&session.identify(Cns::ACTIVE_NAMESPACES.0, Nsid(0))?))?;
    Ok(list.0)
}

fn decoded<T>(result: Result<T, weft_proto::nvme::wire::DecodeError>) -> Result<T, Failure> {
    result.map_err(|e| Failure::of(ErrorKind::Protocol, format!("the controller sent a malformed structure: {e}")))
}
