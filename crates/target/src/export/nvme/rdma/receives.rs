//! Memory for the receives of queue pairs, which a host asks for with the connection, before it is
//! known who it is. Hosts share it as they do connections ([`shares`](crate::export::shares)).

use crate::export::shares::{Bounds, NewShare, Refused, Share, Shares, part_of};
use std::sync::Arc;
use weft_connection::limits::{
    RDMA_GRANTED_ENTRIES, RDMA_IN_CAPSULE_BYTES, RDMA_RECEIVES_BYTES_MAX,
    RDMA_RECEIVES_GUARANTEED_BYTES, RDMA_RECEIVES_NEWCOMERS_BYTES,
};
use weft_proto::nvme::sqe::Sqe;

/// What all receives of a target have.
#[derive(Debug)]
pub(crate) struct ReceiveMemory(Arc<Shares>);

impl Default for ReceiveMemory {
    fn default() -> Self {
        let (all, new) = (RDMA_RECEIVES_BYTES_MAX, RDMA_RECEIVES_NEWCOMERS_BYTES);
        Self(Shares::new(Bounds { all, new, guaranteed: RDMA_RECEIVES_GUARANTEED_BYTES }))
    }
}

/// Receives of a queue as hosts connect it by default, bytes.
const QUEUE_BYTES: usize =
    RDMA_GRANTED_ENTRIES * (RDMA_IN_CAPSULE_BYTES as usize + size_of::<Sqe>());

impl ReceiveMemory {
    /// I/O queues that a controller of `peer` can be granted, so that there is memory for some of
    /// others, too. Nothing is kept for them.
    pub(in crate::export::nvme) fn queues_left(&self, peer: &str) -> usize {
        part_of(self.0.left_to(peer) / QUEUE_BYTES)
    }

    /// Memory for a new queue pair of `peer`, an address with its port.
    ///
    /// # Errors
    /// In a sentence why there is too little left.
    pub(super) fn take(&self, peer: &str, bytes: usize) -> Result<Receives, String> {
        match self.0.take(peer, bytes) {
            Ok((share, new)) => Ok(Receives { _share: share, new: Some(new) }),
            Err(Refused { of_newcomers, is_left_to_others, all, own }) => {
                let who = if of_newcomers { "queues without a Connect" } else { "all queues" };
                Err(match is_left_to_others {
                    true => format!(
                        "this address holds {own} of the {all} bytes for receives of {who}; the rest is reserved for others"
                    ),
                    false => format!("the memory for receives of {who} is in use: {all} bytes"),
                })
            }
        }
    }
}

/// The share of one queue pair, which it gives back with its end.
#[derive(Debug)]
pub(super) struct Receives {
    _share: Share,
    new: Option<NewShare>,
}

impl Receives {
    /// Its Connect has been accepted.
    pub(super) fn admitted(&mut self) {
        self.new = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4 << 20;

    /// As much as is had from an address.
    fn all(memory: &ReceiveMemory, peer: &str, admitted: bool) -> Vec<Receives> {
        let one = || {
            let mut one = memory.take(peer, BYTES).ok()?;
            if admitted {
                one.admitted();
            }
            Some(one)
        };
        core::iter::from_fn(one).collect()
    }

    #[test]
    fn strangers_leave_memory_to_others_and_to_those_who_are_known() {
        let memory = ReceiveMemory::default();
        let strangers = all(&memory, "192.0.2.1:1", false);
        assert_eq!(
            strangers.len(),
            RDMA_RECEIVES_NEWCOMERS_BYTES / BYTES / 4 * 3,
            "a quarter is for other addresses"
        );
        let others: Vec<_> =
            (2..40).flat_map(|n| all(&memory, &format!("192.0.2.{n}:1"), false)).collect();
        assert_eq!(
            (strangers.len() + others.len()) * BYTES,
            RDMA_RECEIVES_NEWCOMERS_BYTES,
            "who has little gets the last"
        );
        assert!(memory.take("192.0.2.50:1", BYTES).unwrap_err().contains("without a Connect"));
        drop(others);
        let known = all(&memory, "192.0.2.2:1", true);
        assert!(known.len() * BYTES > RDMA_RECEIVES_BYTES_MAX / 2);
        drop((strangers, known));
        assert!(memory.0.is_empty());
    }

    #[test]
    fn one_address_leaves_a_quarter_of_all() {
        let memory = ReceiveMemory::default();
        let known = all(&memory, "192.0.2.1:1", true);
        assert_eq!(known.len() * BYTES, RDMA_RECEIVES_BYTES_MAX / 4 * 3);
        assert!(memory.take("192.0.2.1:2", BYTES).unwrap_err().contains("this address holds"));
        memory.take("192.0.2.2:1", BYTES).unwrap();
    }

    #[test]
    fn queues_are_granted_as_long_as_there_is_memory_for_them() {
        let memory = ReceiveMemory::default();
        let all = |memory: &ReceiveMemory| memory.queues_left("192.0.2.1:1");
        assert!(all(&memory) >= 128, "{}", all(&memory));
        let (mut held, mut before) = (Vec::new(), usize::MAX);
        while all(&memory) > 0 {
            assert!(all(&memory) <= before);
            before = all(&memory);
            let mut one = memory.take("192.0.2.1:1", QUEUE_BYTES).unwrap();
            one.admitted();
            held.push(one);
        }
        assert_eq!(before, 1, "the last one is granted alone");
        assert!(memory.take("192.0.2.1:1", QUEUE_BYTES).is_err());
    }
}
