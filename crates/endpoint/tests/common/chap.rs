//! The host's end of DH-HMAC-CHAP, message by message, over a connection that a test holds.

use crate::wire::{Peer, capsule, capsule_moving, h2c_data, response};
use weft_proto::nvme::auth::{GeneratedPsk, HostAuthentication, HostKeys, HostStep};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::Security;
use weft_proto::nvme::status::Status;
use weft_proto::nvme_tcp::pdu::{PduType, TRANSFER_BYTES};

/// Sends a message; in the capsule, or when it is asked for.
pub fn send(peer: &mut impl Peer, message: &[u8], in_capsule: bool) -> Cqe {
    let sqe = Security::send(message.len() as u32);
    if in_capsule {
        peer.put(&capsule(&sqe, 3, message));
        return response(peer);
    }
    peer.put(&capsule_moving(&sqe, 3, message.len() as u32));
    let r2t = peer.pdu().expect("an R2T").transfer();
    peer.put(&h2c_data(&r2t, message));
    response(peer)
}

/// The message that the controller has, if it has one.
pub fn receive(peer: &mut impl Peer) -> Result<Vec<u8>, Status> {
    peer.put(&capsule_moving(&Security::receive(4096), 4, 4096));
    let first = peer.pdu().expect("an answer");
    if first.kind() == PduType::CAPSULE_RESP {
        return Err(first.cqe().status);
    }
    let message = first.0[TRANSFER_BYTES..].to_vec();
    assert_eq!((response(peer).status, message.len()), (Status::SUCCESS, 4096));
    Ok(message)
}

/// Authenticates, with `change` of each message that is sent; with the key that comes of it.
pub fn authenticate_for_key(
    peer: &mut impl Peer,
    keys: HostKeys,
    in_capsule: bool,
    mut change: impl FnMut(&mut Vec<u8>),
) -> Result<Option<GeneratedPsk>, HostStep> {
    let (mut host, mut step) = HostAuthentication::begin(keys, 77);
    loop {
        step = match step {
            HostStep::Send(mut message) => {
                change(&mut message);
                assert_eq!(send(peer, &message, in_capsule).status, Status::SUCCESS);
                host.sent()
            }
            HostStep::Receive(_) => {
                let message = receive(peer).expect("a message");
                host.received(&message, 5, &mut |bytes| bytes.fill(9))
            }
            HostStep::Done(psk) => return Ok(psk),
            failed @ HostStep::Failed(..) => return Err(failed),
        };
    }
}
