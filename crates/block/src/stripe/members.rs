//! The devices of a stripe, and what the stripe is like because of them.

use super::layout::Layout;
use crate::device::{Atomicity, Device, Features, Geometry, SizeAnswer};
use crate::limits::MAX_TRANSFER_BYTES;
use crate::outcome::error::Error;
use crate::path::AccessState;
use crate::url::naming::Passing;
use uuid::Uuid;

/// The members of a stripe, and what follows from all of them.
pub(super) struct Members {
    pub(super) url: String,
    /// Each takes [`MAX_TRANSFER_BYTES`] at once.
    pub(super) members: Vec<Device>,
    pub(super) layout: Layout,
    pub(super) block_bytes: u32,
    pub(super) uuid: Option<Uuid>,
    /// Set if another process has another UUID.
    pub(super) passing: Option<Passing>,
}

impl Members {
    pub(super) fn blocks(&self) -> u64 {
        self.layout.blocks(
            self.members.iter().map(|member| member.geometry().whole_blocks()).min().unwrap_or(0),
        )
    }

    pub(super) fn geometry(&self) -> Geometry {
        let optimal = self.members.iter().map(|member| member.geometry().optimal_blocks).max();
        Geometry {
            block_bytes: self.block_bytes,
            blocks: self.blocks(),
            padding_bytes: 0,
            optimal_blocks: optimal.unwrap_or(1),
            max_transfer_bytes: MAX_TRANSFER_BYTES,
            atomic: Atomicity::ONE_BLOCK,
        }
    }

    /// Asks each member for its size. One that has to be opened again decides for all.
    pub(super) fn renew_size(&self) -> Result<SizeAnswer, Error> {
        let answers: Vec<SizeAnswer> =
            self.members.iter().map(|member| member.renew_size()).collect::<Result<_, _>>()?;
        Ok(answers.into_iter().max().unwrap_or(SizeAnswer::Fixed))
    }

    pub(super) fn features(&self) -> Features {
        let each = || self.members.iter().map(|member| member.features());
        Features {
            write: each().all(|of| of.write),
            volatile_cache: each().any(|of| of.volatile_cache),
            cache_unknown: each().any(|of| of.cache_unknown),
            discard: each().any(|of| of.discard),
            discard_zeroes: each().all(|of| of.discard && of.discard_zeroes),
            write_zeroes: each().all(|of| of.write_zeroes),
            compare: each().all(|of| of.compare),
            reservations: false,
        }
    }

    pub(super) fn access_state(&self) -> AccessState {
        let badness = |state: &AccessState| match state {
            AccessState::Optimized => 0,
            AccessState::NonOptimized => 1,
            AccessState::Transition => 2,
            AccessState::Inaccessible => 3,
            AccessState::PersistentLoss => 4,
        };
        self.members
            .iter()
            .map(|member| member.access_state())
            .max_by_key(badness)
            .unwrap_or_default()
    }
}
