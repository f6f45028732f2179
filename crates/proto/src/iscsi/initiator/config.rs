//! Configuration of an initiator.

use crate::iscsi::chap::{Algorithm, Credentials};
use crate::iscsi::digest::Digests;
use crate::iscsi::pdu::Isid;
use crate::iscsi::text::{Name, OfferedParameters};
use crate::limits::{
    ISCSI_BURST_BYTES, ISCSI_FIRST_BURST_BYTES, ISCSI_RECEIVE_BYTES, R2T_OUTSTANDING_MAX,
};
use core::time::Duration;

/// Proof that the target has to give (mutual CHAP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetProof {
    /// Its name and secret. An empty name: whatever it calls itself.
    pub credentials: Credentials,
    /// CHAP_I of our challenge.
    pub identifier: u8,
    /// CHAP_C: bytes at random, 1 to
    /// [`CHALLENGE_BYTES_MAX`](crate::iscsi::chap::CHALLENGE_BYTES_MAX), used for one login only.
    pub challenge: Vec<u8>,
}

/// Configuration of an [`Initiator`](super::Initiator). Values out of range are brought into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitiatorConfig {
    /// Our name.
    pub name: Name,
    /// Our part of the session's name; with the same name, a new session takes the place of the old
    /// one.
    pub isid: Isid,
    /// Name of the target; `None`: a discovery session.
    pub target: Option<Name>,
    /// Our name and secret, for targets that want proof.
    pub credentials: Option<Credentials>,
    /// Algorithms of CHAP that are offered, the preferred first: [`Algorithm::OFFERED`], or others
    /// of [`Algorithm::SUPPORTED`].
    pub algorithms: &'static [Algorithm],
    /// Proof that the target has to give; without it, no session. Needs `credentials` too.
    pub target_proof: Option<TargetProof>,
    /// Parameters that we offer.
    pub offer: OfferedParameters,
    /// Commands outstanding, at most [`QUEUE_ENTRIES_MAX`](crate::limits::QUEUE_ENTRIES_MAX).
    pub commands: u16,
    /// Time limit of a command before it is aborted, and (but at most 10 s) of each attempt at
    /// that. Zero: for ever.
    pub command_timeout: Duration,
    /// After how long without a word from the target it is pinged. Zero: never.
    pub ping_interval: Duration,
    /// Time for which it may then keep silent.
    pub ping_timeout: Duration,
}

impl InitiatorConfig {
    /// Large bursts and as few round trips as the target lets us have; no digests, no proof.
    pub fn new(name: Name, isid: Isid, target: Option<Name>) -> Self {
        Self {
            name,
            isid,
            target,
            credentials: None,
            algorithms: &Algorithm::OFFERED,
            target_proof: None,
            offer: fast(),
            commands: 128,
            command_timeout: Duration::from_secs(30),
            ping_interval: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(5),
        }
    }

    /// Asks for digests: for `wanted` first, but also taking none if the target knows none, except
    /// for those that are `required` as well.
    #[must_use]
    pub fn with_digests(mut self, wanted: Digests, required: Digests) -> Self {
        self.offer.digests = wanted;
        self.offer.require_digests = required;
        self
    }
}

fn fast() -> OfferedParameters {
    OfferedParameters {
        initial_r2t: false,
        immediate_data: true,
        max_recv_bytes: ISCSI_RECEIVE_BYTES,
        max_burst_bytes: ISCSI_BURST_BYTES,
        first_burst_bytes: ISCSI_FIRST_BURST_BYTES,
        max_outstanding_r2t: R2T_OUTSTANDING_MAX.into(),
        time2retain_s: 0,
        ..OfferedParameters::default()
    }
}
