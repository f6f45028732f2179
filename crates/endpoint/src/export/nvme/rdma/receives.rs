//! Memory for the receives of queue pairs, which a host asks for with the connection, before it is
//! known who it is. Hosts share it as they do connections ([`shares`](crate::export::shares)).

use crate::export::shares::{Bounds, NewShare, Refused, Share, Shares};
use crate::limits::{
    RDMA_RECEIVES_BYTES_MAX, RDMA_RECEIVES_GUARANTEED_BYTES, RDMA_RECEIVES_NEWCOMERS_BYTES,
};
use std::sync::Arc;

/// What all receives of a target have.
#[derive(Debug)]
pub(crate) struct ReceiveMemory(Arc<Shares>);

impl Default for ReceiveMemory {
    fn default() -> Self {
        let (all, new) = (RDMA_RECEIVES_BYTES_MAX, RDMA_RECEIVES_NEWCOMERS_BYTES);
        Self(Shares::new(Bounds { all, new, guaranteed: RDMA_RECEIVES_GUARANTEED_BYTES }))
    }
}

impl ReceiveMemory {
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
                        "of {all} bytes for receives of {who}, {own} are held from this address; the rest is reserved for others"
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
        assert!(memory.take("192.0.2.1:2", BYTES).unwrap_err().contains("from this address"));
        memory.take("192.0.2.2:1", BYTES).unwrap();
    }
}
