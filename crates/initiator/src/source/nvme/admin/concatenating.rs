//! Secure channel concatenation (TCP transport 1.1 §3.6.1): the host authenticates on a connection
//! of its own, which yields a key for TLS, and connects again with that key. The first association
//! has no other use, and ends at once. Each reconnect makes another key, as Linux's host does.

use super::super::association::Association;
use super::super::fault::explain;
use super::super::transport::{
    ConcatenationState, ConnectResult, ControllerLink, IoPlan, LinkPlan,
};
use super::{ControllerTarget, Then, connect};
use crate::source::opening::TimeLimit;
use std::sync::Arc;
use weft_block::{Error, ErrorKind};
use weft_connection::psk::TlsPsk;
use weft_io::Handle;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{HostAction, HostConfig, HostControl};
use weft_proto::nvme::types::Qid;
use weft_proto::nvme_tcp::pdu::FABRICS_CAPSULE_DATA_BYTES;

/// Authenticates, and then connects with the key.
pub(super) fn authenticate<L: ControllerLink>(
    on: &Handle,
    target: ControllerTarget<L::Place>,
    limit: TimeLimit,
    association: Arc<Association<L>>,
    then: Then,
) {
    let connect_command = HostControl::new(target.host.clone()).io_connect(Qid(0));
    let plan = LinkPlan {
        name: target.name.clone(),
        place: target.place.clone(),
        options: association.options.clone(),
        commands: HostConfig::ADMIN_COMMANDS,
        io: Some(IoPlan { connect: connect_command, in_capsule_bytes: FABRICS_CAPSULE_DATA_BYTES }),
        channel: ConcatenationState::Making,
        limit,
    };
    let in_user_space = association.options.tls.concat_in_user_space;
    L::open(on, plan, move |on, opened| {
        match opened.and_then(|(link, result)| key(&target, link, result, in_user_space)) {
            Err(e) => then(Err(e)),
            Ok(psk) => {
                psk.into_iter().for_each(|psk| association.set_key(psk));
                connect(on, target, limit, association, then);
            }
        }
    });
}

/// The key that came of the authentication, whose connection ends; none where there is no need for
/// one.
fn key<L, P>(
    target: &ControllerTarget<P>,
    link: L,
    result: ConnectResult,
    in_user_space: bool,
) -> Result<Option<TlsPsk>, Error> {
    drop(link);
    let (name, host) = (&target.name, &target.host);
    match (result.psk, result.answer) {
        (Some(psk), _) => {
            TlsPsk::of_generated(&psk, (&host.host_nqn, &host.subsystem), in_user_space).map(Some)
        }
        (None, Some(answer)) if !answer.status.is_success() => Err(refused(target, &answer)),
        (None, Some(_)) if host.discovery => Ok(None),
        (None, _) => Err(Error::new(
            ErrorKind::Protocol,
            format!("{name}: no key for TLS came of the authentication"),
        )),
    }
}

/// Why Connect was refused.
fn refused<P>(target: &ControllerTarget<P>, answer: &Cqe) -> Error {
    let mut control = HostControl::new(target.host.clone());
    let now = core::time::Duration::ZERO;
    while let Some(action) = control.poll(now) {
        match action {
            HostAction::Admin { id, .. } => control.admin_completed(now, id, answer, &[]),
            HostAction::Failed { error, .. } => return explain(&target.name, &error),
            _ => {}
        }
    }
    Error::new(
        ErrorKind::Refused,
        format!("{}: Connect was refused: {}", target.name, answer.status),
    )
}
