//! The methods of the control socket that change what is served.

use super::host_verbs::{change_access, forget_host};
use super::scsi_names::ScsiNames;
use super::size::AskedSize;
use super::{ChangeMode, Changed, Served, ServedState};
use crate::config::check::listen_place as address;
use crate::config::check::parse_state;
use crate::config::desired::{DesiredAnaState, DesiredNamespace};
use crate::config::subsystems::{FORGETS, forgets, from_digits};
use crate::group::verbs::check_source;
use crate::management::methods::Methods;
use crate::management::protocol::{FaultCode, RequestFault};
use crate::values::parse_nqn;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::units;
use weft_endpoint::inventory::DEFAULT_GROUP;
use weft_group::placement::default_ana_group;
use weft_proto::nvme::types::Nsid;

/// Parameters of `namespace.add`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AddNamespace {
    /// NQN; `None`: the only subsystem.
    pub subsystem: Option<String>,
    /// Identifier; `None`: the lowest free one.
    pub nsid: Option<u32>,
    /// Source URL.
    pub source: String,
    /// Name for NBD clients.
    pub name: Option<String>,
    /// UUID.
    pub uuid: Option<String>,
    /// NGUID.
    pub nguid: Option<String>,
    /// EUI-64.
    pub eui64: Option<String>,
    /// Names of the logical unit.
    #[serde(skip_serializing_if = "ScsiNames::is_empty")]
    pub scsi: ScsiNames,
    /// Size to serve at most.
    pub size: Option<String>,
    /// Refuse writes.
    pub read_only: bool,
    /// ANA group.
    pub ana_group: Option<u32>,
}

/// Parameters of `namespace.remove`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveNamespace {
    /// NQN; `None`: the only subsystem.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// Identifier.
    pub nsid: u32,
    /// See [`ChangeMode`].
    #[serde(default)]
    pub force: bool,
}

/// Parameters of `namespace.resize`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeNamespace {
    /// NQN; `None`: the only subsystem.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// Identifier.
    pub nsid: u32,
    /// Size to serve at most; `None`: all of the source, which is asked for its size.
    #[serde(default)]
    pub size: Option<String>,
    /// See [`ChangeMode`].
    #[serde(default)]
    pub force: bool,
}

/// Parameters of `ana.set`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetState {
    /// ANA group.
    pub group: u32,
    /// ServedState.
    pub state: String,
    /// For hosts that come by this listener only, as ADDR:PORT.
    #[serde(default)]
    pub listener: Option<String>,
}

/// Parameters of `config.apply`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// The path of the file, for messages; paths in it begin at its directory.
    pub file: PathBuf,
    /// Its text.
    pub text: String,
    /// See [`ChangeMode`].
    #[serde(default)]
    pub force: bool,
    /// See [`ChangeMode`].
    #[serde(default)]
    pub dry_run: bool,
}

/// Adds the methods.
pub fn add(methods: &mut Methods, served: &Arc<Served>) {
    let of = Arc::downgrade(served);
    methods.add_of(&of, "namespace.add", |served, params: AddNamespace| {
        let in_group = served.group.is_some();
        served.change(ChangeMode::default(), |state| add_namespace(state, &params, in_group))
    });
    methods.add_of(&of, "namespace.remove", |served, params: RemoveNamespace| {
        let RemoveNamespace { subsystem, nsid, force } = params;
        served.change(ChangeMode { force, dry_run: false }, |state| {
            let subsystem = named_or_only(state, subsystem.as_deref())?;
            subsystem.namespace_mut(Nsid(nsid))?;
            subsystem.namespaces.retain(|namespace| namespace.nsid != Nsid(nsid));
            Ok(())
        })
    });
    methods
        .add_of(&of, "namespace.resize", |served, params: ResizeNamespace| resize(served, &params));
    methods.add_of(&of, "host.allow", |served, params| change_access(served, &params, true));
    methods.add_of(&of, "host.deny", |served, params| change_access(served, &params, false));
    methods.add_of(&of, "host.forget", |served, params| forget_host(served, &params));
    methods.add_of(&of, "ana.set", |served, params: SetState| {
        if let Some(group) = &served.group {
            group.set_state(params.group, &params.state, params.listener.as_deref())?;
            let generation = served.inventory.now().generation();
            return Ok(Changed { generation, changes: Vec::new(), notes: Vec::new() });
        }
        let urls = served.exports.urls();
        served.change(ChangeMode::default(), |state| set_state(state, &params, &urls))
    });
    methods.add_of(&of, "config.apply", |served, params| apply(served, &params));
}

/// Serves another part of a source. What the source has is asked again, unless what is known is
/// enough.
fn resize(served: &Served, params: &ResizeNamespace) -> Result<Changed, RequestFault> {
    let bytes = params.size.as_deref().map(bytes).transpose()?;
    let nqn = named_or_only(&mut served.turn()?.clone(), params.subsystem.as_deref())?.nqn.clone();
    let asked = AskedSize::of(served, &nqn, Nsid(params.nsid), bytes)?;
    let how = ChangeMode { force: params.force, dry_run: false };
    let mut changed = served.change(how, |state| {
        named_or_only(state, Some(nqn.as_str()))?.namespace_mut(Nsid(params.nsid))?.bytes = bytes;
        Ok(())
    })?;
    if let Some(asked) = asked {
        asked.tell(served, &mut changed);
    }
    Ok(changed)
}

/// Applies the text of a file.
fn apply(
    served: &Served,
    Apply { file, text, force, dry_run }: &Apply,
) -> Result<Changed, RequestFault> {
    served.apply_text(ChangeMode { force: *force, dry_run: *dry_run }, (text, file))
}

fn invalid(why: impl ToString) -> RequestFault {
    RequestFault::new(FaultCode::Invalid, why.to_string())
}

fn named_or_only<'a>(
    state: &'a mut ServedState,
    nqn: Option<&str>,
) -> Result<&'a mut crate::config::desired::DesiredSubsystem, RequestFault> {
    let nqn = nqn.map(parse_nqn).transpose()?;
    state.named_or_only(nqn.as_ref())
}

fn bytes(size: &str) -> Result<u64, RequestFault> {
    units::parse_size(size).map_err(invalid)
}

/// The identifiers that a namespace is given; the rest is derived.
struct Identifiers {
    uuid: Option<Uuid>,
    nguid: Option<[u8; 16]>,
    eui64: Option<[u8; 8]>,
}

impl Identifiers {
    fn read(params: &AddNamespace) -> Result<Self, RequestFault> {
        let uuid = params.uuid.as_deref().map(|text| {
            Uuid::parse_str(text)
                .map_err(|_| invalid(format!("\"{text}\" is not a UUID: `uuidgen` makes one")))
        });
        Ok(Self {
            uuid: uuid.transpose()?,
            nguid: digits("NGUID", params.nguid.as_deref())?,
            eui64: digits("EUI-64", params.eui64.as_deref())?,
        })
    }
}

fn digits<const N: usize>(what: &str, text: Option<&str>) -> Result<Option<[u8; N]>, RequestFault> {
    let wrong = || invalid(format!("the {what} is not {} hexadecimal digits", 2 * N));
    text.map(|text| from_digits(text).ok_or_else(wrong)).transpose()
}

fn add_namespace(
    state: &mut ServedState,
    params: &AddNamespace,
    in_group: bool,
) -> Result<(), RequestFault> {
    if params.source.is_empty() {
        return Err(invalid("source is missing: give the URL of the device to serve"));
    }
    weft_endpoint::check(&params.source)?;
    if in_group {
        check_source(&params.source, params.ana_group)?;
    }
    let identities = [&params.uuid, &params.nguid, &params.eui64];
    let scsi = params.scsi.read().map_err(invalid)?;
    let is_named = identities.into_iter().any(Option::is_some) || scsi.names_a_disk();
    if is_named && forgets(&params.source) {
        return Err(invalid(FORGETS));
    }
    let subsystem = named_or_only(state, params.subsystem.as_deref())?;
    let taken = |nsid: &u32| subsystem.namespaces.iter().any(|namespace| namespace.nsid.0 == *nsid);
    let nsid = params.nsid.or_else(|| (1..).find(|nsid| !taken(nsid))).unwrap_or(1);
    if taken(&nsid) {
        let text = format!(
            "the subsystem {} already has a namespace {nsid}: remove it, or choose another nsid",
            subsystem.nqn
        );
        return Err(invalid(text));
    }
    let Identifiers { uuid, nguid, eui64 } = Identifiers::read(params)?;
    let source = if params.read_only {
        format!("readonly:{}", params.source)
    } else {
        params.source.clone()
    };
    subsystem.namespaces.push(DesiredNamespace {
        name: params.name.clone(),
        uuid,
        nguid,
        eui64,
        scsi,
        bytes: params.size.as_deref().map(bytes).transpose()?,
        group: params.ana_group.unwrap_or(if in_group {
            default_ana_group(&subsystem.nqn, nsid)
        } else {
            DEFAULT_GROUP
        }),
        ..DesiredNamespace::new(Nsid(nsid), source)
    });
    Ok(())
}

/// Returns whether a server that listens at `listen`, and is reached at `urls`, has a listener; an
/// address of all means each of the machine.
fn is_listener(at: SocketAddr, listen: &[String], urls: &[String]) -> bool {
    let ports = || urls.iter().chain(listen).filter_map(|url| address(url));
    let any = listen.iter().filter_map(|url| address(url)).any(|of| of.ip().is_unspecified());
    ports().any(|of| of == at || (any && of.port() == at.port()))
}

fn set_state(
    state: &mut ServedState,
    params: &SetState,
    urls: &[String],
) -> Result<(), RequestFault> {
    let not_an_address = |text: &str| invalid(format!("\"{text}\" is not an ADDR:PORT"));
    let listener = params
        .listener
        .as_deref()
        .map(|text| text.parse::<SocketAddr>().map_err(|_| not_an_address(text)));
    let (group, listener) = (params.group, listener.transpose()?);
    if let Some(at) = listener.filter(|at| !is_listener(*at, &state.listen, urls)) {
        // Each namespace has a URL.
        let known: BTreeSet<SocketAddr> = urls.iter().filter_map(|url| address(url)).collect();
        let known: Vec<String> = known.iter().map(SocketAddr::to_string).collect();
        return Err(invalid(format!(
            "this server has no listener {at}: it has {}",
            known.join(", ")
        )));
    }
    // A state for all listeners holds for single ones, too.
    state.states.retain(|of| of.group != group || (listener.is_some() && of.listener != listener));
    state.states.push(DesiredAnaState {
        group,
        listener,
        state: parse_state(&params.state).map_err(invalid)?,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_known_by_address_or_port() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let urls = texts(&[
            "nvme+tcp://192.0.2.1:4420/nqn.2026-01.example:a",
            "nbd+unix:///?socket=/run/x",
        ]);
        let is =
            |at: &str, listen: &str| is_listener(at.parse().unwrap(), &texts(&[listen]), &urls);
        assert!(
            is("192.0.2.1:4420", "nvme+tcp://192.0.2.1:4420")
                && !is("192.0.2.2:4420", "nvme+tcp://192.0.2.1:4420")
        );
        assert!(
            is("192.0.2.2:4420", "nvme+tcp://0.0.0.0:4420")
                && is("192.0.2.2:4420", "nvme+tcp://[::]:0")
        );
        assert!(!is("192.0.2.2:4421", "nvme+tcp://0.0.0.0:4420"));
    }
}
