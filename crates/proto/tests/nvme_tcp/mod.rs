//! Both ends of an NVMe/TCP connection: bytes on the wire, cuts, broken rules, and the two wired to
//! each other.

mod cuts;
mod data_digest;
mod drop;
mod early_response;
mod golden;
mod pair;
mod properties;
mod violations;

use crate::support::pair::{WRITE, command};
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::types::Cid;

/// A write whose data this SGL describes.
fn write(cid: u16, sgl: Sgl) -> Sqe {
    let mut sqe = command(WRITE, 0);
    sqe.set_cid(Cid(cid));
    sqe.set_sgl(sgl);
    sqe
}
