//! Start of an association.

use super::super::association::Association;
use super::super::transport::Link;
use super::{Established, Target, concatenating, connect};
use crate::source::opening::TimeLimit;
use std::sync::Arc;
use weft_block::Error;
use weft_io::Handle;

/// Starts to connect on a loop, which the admin connection then lives on; `then` gets the result
/// there.
pub(crate) fn establish<L: Link>(
    on: &Handle,
    target: Target<L::Place>,
    limit: TimeLimit,
    association: Arc<Association<L>>,
    then: impl FnOnce(Result<Established, Error>) + 'static,
) {
    if association.options.tls.concat {
        return concatenating::authenticate(on, target, limit, association, Box::new(then));
    }
    connect(on, target, limit, association, Box::new(then));
}
