//! Start of an association.

use super::super::association::Association;
use super::super::transport::ControllerLink;
use super::{ControllerTarget, Established, concatenating, connect};
use crate::source::opening::TimeLimit;
use std::sync::Arc;
use weft_block::Error;
use weft_io::Handle;

/// Starts to connect on a loop, which the admin connection then lives on; `then` gets the result
/// there.
pub(crate) fn establish<L: ControllerLink>(
    on: &Handle,
    target: ControllerTarget<L::Place>,
    limit: TimeLimit,
    association: Arc<Association<L>>,
    then: impl FnOnce(Result<Established, Error>) + 'static,
) {
    if association.options.tls.concat {
        return concatenating::authenticate(on, target, limit, association, Box::new(then));
    }
    connect(on, target, limit, association, Box::new(then));
}
