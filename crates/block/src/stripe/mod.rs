//! `stripe:[CHUNK,]URL,URL,…`: several devices as one (RAID 0), which is as fast as all of them
//! together and lost with any of them.
//!
//! Chunk `n` of the stripe is on member `n % members`. `CHUNK` is a size, [`STRIPE_CHUNK_BYTES`] by
//! default: a multiple of the block size, at least [`STRIPE_CHUNK_BYTES_MIN`]. A stripe opened with
//! another chunk or order of members has other contents. `uuid=…` before the first member sets the
//! UUID; by default it follows from those of the members, if they all have one.
//!
//! The members have one block size. The smallest determines the size; what others have in addition
//! is unused.
//!
//! * An operation becomes at most one operation of each member, because the chunks that it has on a
//!   member follow each other there. Their memory is cut from that of the original. It completes
//!   with the last of them; its outcome combines theirs, so that it is not sent if none was, and
//!   may have been executed if one may.
//! * A flush goes to all members. Force unit access, discard and write-zeroes are passed on.
//! * Nothing is atomic across chunks, so the atomic sizes are one block. A longer compare-and-write
//!   is passed on if it is within one chunk, and refused otherwise.
//! * The stripe is away while any member is, and gone with the first. Its access state is the
//!   worst.
//! * Reservations are not passed to the members, and it lends no memory.
//!
//! [`STRIPE_CHUNK_BYTES`]: crate::limits::STRIPE_CHUNK_BYTES
//! [`STRIPE_CHUNK_BYTES_MIN`]: crate::limits::STRIPE_CHUNK_BYTES_MIN

mod layout;
mod members;
mod queue;

use crate::device::{
    BlockDevice, BlockQueue, Device, Features, Geometry, Identity, Presence, SizeAnswer,
};
use crate::limits::{MAX_TRANSFER_BYTES, STRIPE_CHUNK_BYTES, STRIPE_CHUNK_BYTES_MIN};
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use crate::path::{AccessState, PathStatus};
use crate::queue::split;
use crate::stats::Totals;
use crate::units::{format_size, parse_size};
use crate::url::grammar;
use crate::url::grammar::LISTS;
use crate::url::naming::Passing;
use crate::url::opening::{Opening, Pending};
use crate::url::parts::UrlParts;
use layout::Layout;
use members::Members;
use std::sync::Arc;
use uuid::Uuid;
use weft_io::{DriverId, Handle};

/// The namespace of UUIDs that are derived from those of the members.
const STRIPES: Uuid = Uuid::from_u128(0x1f4b_7c02_93d8_4e61_8a30_5d2e_c7b9_0641);

/// Several devices as one.
pub struct StripeDevice(Arc<Members>);

impl StripeDevice {
    /// Begins to open the list after `stripe:`; `begin` opens a member.
    pub(crate) fn begin(
        url: &str,
        rest: &str,
        begin: impl Fn(&str) -> Result<Opening, Error>,
    ) -> Result<Opening, Error> {
        let list = grammar::list(rest, LISTS)?;
        let (chunk, mut spec) = UrlParts::list(url, list.head);
        let chunk_bytes = match chunk {
            "" => STRIPE_CHUNK_BYTES,
            text => parse_size(text).map_err(|e| spec.wrong(e.into()))?,
        };
        let uuid = spec.uuid()?;
        if !chunk_bytes.is_multiple_of(512) || chunk_bytes < STRIPE_CHUNK_BYTES_MIN {
            return Err(spec.wrong(Refusal::Chunk { bytes: chunk_bytes, multiple: 512 }));
        }
        spec.finish()?;
        let members =
            list.sources.iter().map(|member| begin(member)).collect::<Result<Vec<_>, _>>()?;
        let url = url.to_owned();
        Ok(Pending::all(members).and_then(move |members| {
            Ok(Arc::new(Self::of(url, members, chunk_bytes, uuid)?) as Device)
        }))
    }

    fn of(
        url: String,
        members: Vec<Device>,
        chunk_bytes: u64,
        uuid: Option<Uuid>,
    ) -> Result<Self, Error> {
        let wrong = |refusal| Error::refused(&url, refusal);
        let block_bytes = members.first().map_or(512, |first| first.geometry().block_bytes);
        if !chunk_bytes.is_multiple_of(block_bytes.into()) {
            return Err(wrong(Refusal::Chunk { bytes: chunk_bytes, multiple: block_bytes }));
        }
        let layout = Layout {
            chunk_blocks: chunk_bytes / u64::from(block_bytes),
            members: members.len() as u64,
        };
        for (nth, member) in members.iter().enumerate() {
            let at_fault = |why| wrong(Refusal::Member { url: member.url().into(), why });
            let geometry = member.geometry();
            if geometry.block_bytes != block_bytes {
                return Err(at_fault(format!(
                    "it has blocks of {} bytes, and the first one has blocks of {block_bytes}; all need the same",
                    geometry.block_bytes
                )));
            }
            if layout.blocks(geometry.whole_blocks()) == 0 {
                let (has, chunk) = (format_size(geometry.bytes()), format_size(chunk_bytes));
                return Err(at_fault(format!(
                    "it has {has}, which is less than a chunk of {chunk}"
                )));
            }
            let uuid = member.identity().uuid;
            if uuid.is_some() && members[..nth].iter().any(|other| other.identity().uuid == uuid) {
                return Err(at_fault("the same disk is a member already; name each once".into()));
            }
        }
        let passing = uuid.is_none().then(|| passing(&members, chunk_bytes)).flatten();
        let uuid = uuid.or_else(|| derived(&members, chunk_bytes));
        let members =
            members.into_iter().map(|member| split::up_to(member, MAX_TRANSFER_BYTES)).collect();
        Ok(Self(Arc::new(Members { url, members, layout, block_bytes, uuid, passing })))
    }
}

/// A UUID that is the same for the same members in the same order.
fn derived(members: &[Device], chunk_bytes: u64) -> Option<Uuid> {
    of_names(members.iter().map(|member| member.identity().uuid), chunk_bytes)
}

/// Returns the state of that UUID if a member has another name in each process.
fn passing(members: &[Device], chunk_bytes: u64) -> Option<Passing> {
    let why = members.iter().find_map(|member| Some(member.identity().passing?.why))?;
    let names = members.iter().map(|member| {
        let identity = member.identity();
        identity.passing.map_or(identity.uuid, |passing| Some(passing.here))
    });
    Some(Passing { why, here: of_names(names, chunk_bytes)? })
}

fn of_names(names: impl Iterator<Item = Option<Uuid>>, chunk_bytes: u64) -> Option<Uuid> {
    let mut all = chunk_bytes.to_le_bytes().to_vec();
    for name in names {
        all.extend_from_slice(name?.as_bytes());
    }
    Some(Uuid::new_v5(&STRIPES, &all))
}

impl BlockDevice for StripeDevice {
    fn url(&self) -> &str {
        &self.0.url
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        self.0.renew_size()
    }

    fn features(&self) -> Features {
        self.0.features()
    }

    fn members(&self) -> Vec<Device> {
        self.0.members.clone()
    }

    fn identity(&self) -> Identity {
        Identity {
            uuid: self.0.uuid,
            passing: self.0.passing.clone(),
            model: Some("weft stripe".into()),
            ..Identity::default()
        }
    }

    fn presence(&self) -> Presence {
        let is = |wanted| self.0.members.iter().any(|member| member.presence() == wanted);
        match () {
            () if is(Presence::Gone) => Presence::Gone,
            () if is(Presence::Away) => Presence::Away,
            () => Presence::Here,
        }
    }

    fn access_state(&self) -> AccessState {
        self.0.access_state()
    }

    /// Another one when any member has another one.
    fn cache_epoch(&self) -> Option<u64> {
        let mix =
            |all: u64, one: u64| (all ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        self.0.members.iter().try_fold(0, |all, member| Some(mix(all, member.cache_epoch()?)))
    }

    fn paths(&self) -> Vec<PathStatus> {
        self.0.members.iter().flat_map(|member| member.paths()).collect()
    }

    fn counted(&self) -> Vec<(String, Totals)> {
        self.0.members.iter().flat_map(|member| member.counted()).collect()
    }

    fn max_queues(&self) -> usize {
        self.0.members.iter().map(|member| member.max_queues()).min().unwrap_or(usize::MAX)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(queue::StripeQueue::open(Arc::clone(&self.0), on, owner)?))
    }
}

#[cfg(test)]
mod tests;
