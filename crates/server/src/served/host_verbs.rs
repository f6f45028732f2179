//! Methods of administrators about hosts: `host.allow`, `host.deny` and `host.forget`.

use super::{ChangeMode, Changed, Served, ServedState, ShownDifference};
use crate::management::protocol::{FaultCode, RequestFault};
use crate::values::parse_nqn;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use weft_endpoint::inventory::{Access, Forgotten};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::Id128;

/// Parameters of `host.allow` and `host.deny`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeHost {
    /// NQN; `None`: the only subsystem.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// NQN of an NVMe host, or name of an iSCSI initiator.
    pub host: String,
    /// See [`ChangeMode`].
    #[serde(default)]
    pub force: bool,
}

/// Parameters of `host.forget`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetHost {
    /// NQN of an NVMe host, or its identifier, a UUID.
    pub host: String,
}

fn invalid(why: impl ToString) -> RequestFault {
    RequestFault::new(FaultCode::Invalid, why.to_string())
}

/// Lets a host in or out, with a note where nothing changes.
pub(super) fn change_access(
    served: &Served,
    params: &ChangeHost,
    allow: bool,
) -> Result<Changed, RequestFault> {
    let mut note = None;
    let how = ChangeMode { force: params.force, dry_run: false };
    let mut changed = served.change(how, |state| {
        note = change_host(served, state, params, allow)?;
        Ok(())
    })?;
    changed.notes.extend(note);
    Ok(changed)
}

/// Forgets which name a host has proved with its identifier.
pub(super) fn forget_host(
    served: &Served,
    ForgetHost { host }: &ForgetHost,
) -> Result<Changed, RequestFault> {
    let whom = match Uuid::parse_str(host) {
        Ok(id) => Forgotten::Identifier(Id128(*id.as_bytes())),
        Err(_) => Forgotten::Name(parse_nqn(host)?),
    };
    let forgotten = served
        .inventory
        .forget_host(&whom)
        .map_err(|e| RequestFault::new(FaultCode::Refused, e.to_string()))?;
    let shown = |(id, name)| {
        ShownDifference::new(
            "remove",
            format!("the identifier {id} is no longer that of host {name}"),
        )
    };
    let notes = match forgotten.is_empty() {
        true => vec![format!("nothing is known of {host} that could be forgotten")],
        false => Vec::new(),
    };
    let changes = forgotten.into_iter().map(shown).collect();
    Ok(Changed { generation: served.inventory.now().generation(), changes, notes })
}

fn change_host(
    served: &Served,
    state: &mut ServedState,
    params: &ChangeHost,
    allow: bool,
) -> Result<Option<String>, RequestFault> {
    let nqn = params.subsystem.as_deref().map(parse_nqn).transpose()?;
    let subsystem = state.named_or_only(nqn.as_ref())?;
    let is_initiator = ["iqn.", "eui.", "naa."].iter().any(|start| params.host.starts_with(start));
    if is_initiator {
        let name = Name::new(&params.host)
            .map_err(|e| invalid(format!("\"{}\" is not an iSCSI name: {e}", params.host)))?;
        let everybody = match served.fixed.users.is_empty() {
            true => "every initiator",
            false => "every initiator that logs in with CHAP",
        };
        return change(&mut subsystem.initiators, name, allow, everybody);
    }
    let name = parse_nqn(&params.host)?;
    let demanded = subsystem.authentication.as_ref();
    let is_known = demanded.is_none_or(|of| !of.others.is_empty() || of.hosts.contains_key(&name));
    let everybody = match (demanded, &served.psk) {
        (Some(_), _) => "every host that authenticates with DH-HMAC-CHAP",
        (None, Some(_)) => "every host that has a key for TLS",
        (None, None) => "every host",
    };
    let note = change(&mut subsystem.hosts, name, allow, everybody)?;
    if is_known || !allow {
        return Ok(note);
    }
    let text = format!(
        "{} cannot authenticate: this server has no secret for it, which the configuration or --dhchap-secret-file gives",
        params.host
    );
    Ok(Some(note.map_or_else(|| text.clone(), |note| format!("{note}; {text}"))))
}

/// Changes access; returns a note where nothing changes. `everybody` says who may connect without a
/// list.
fn change<T: Ord + Clone + ToString>(
    access: &mut Access<T>,
    name: T,
    allow: bool,
    everybody: &str,
) -> Result<Option<String>, RequestFault> {
    let text = name.to_string();
    match (allow, &*access) {
        (true, Access::Any) => {
            return Ok(Some(format!(
                "{everybody} may connect already, so {text} needs no leave; to let only some in, list them in a configuration and use weft apply, \
                 or start with weft serve --allow-host or --allow-initiator"
            )));
        }
        (true, Access::Only(names)) if names.contains(&name) => {
            return Ok(Some(format!("{text} may connect already")));
        }
        (true, _) => access.allow(name),
        (false, Access::Only(_)) => {
            if !access.deny(&name) {
                return Ok(Some(format!("{text} is not among the hosts that may connect")));
            }
        }
        (false, Access::Any) => {
            let text = format!(
                "{everybody} may connect, so {} cannot be denied alone: list the hosts that may, with weft apply",
                name.to_string()
            );
            return Err(invalid(text));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_nothing_is_told() {
        let mut all = Access::<String>::Any;
        assert!(
            change(&mut all, "a".into(), true, "every host")
                .unwrap()
                .unwrap()
                .contains("every host may connect already")
        );
        let said = change(&mut all, "a".into(), false, "every host with a key").unwrap_err();
        assert!(said.to_string().starts_with("every host with a key may connect, so a cannot"));
        let mut some = Access::Only(["a".to_owned()].into());
        assert!(
            change(&mut some, "a".into(), true, "every host")
                .unwrap()
                .unwrap()
                .contains("may connect already")
        );
        assert!(
            change(&mut some, "b".into(), false, "every host")
                .unwrap()
                .unwrap()
                .contains("not among")
        );
        assert_eq!(change(&mut some, "b".into(), true, "every host").unwrap(), None);
        assert_eq!(change(&mut some, "b".into(), false, "every host").unwrap(), None);
    }
}
