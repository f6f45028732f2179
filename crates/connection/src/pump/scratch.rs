//! Memory that a pump needs only while it runs, shared by all pumps of a thread, so that an idle
//! connection holds none of it.

use crate::limits::{GATHER_PARTS, STAGING_BYTES};
use std::cell::RefCell;
use weft_proto::stream::Transmit;

thread_local! {
    static STAGING: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
    static TRANSMITS: RefCell<Vec<Transmit>> = const { RefCell::new(Vec::new()) };
}

/// Runs `use_it` with a staging buffer of [`STAGING_BYTES`] with unspecified content.
pub(super) fn with_staging<R>(use_it: impl FnOnce(&mut [u8]) -> R) -> R {
    let spare = STAGING.with_borrow_mut(Vec::pop);
    let mut staging = spare.unwrap_or_else(|| vec![0; STAGING_BYTES].into_boxed_slice());
    let result = use_it(&mut staging);
    STAGING.with_borrow_mut(|spares| spares.push(staging));
    result
}

/// An empty gather list.
pub(super) fn take_transmit() -> Transmit {
    TRANSMITS.with_borrow_mut(Vec::pop).unwrap_or_else(|| Transmit::new(GATHER_PARTS))
}

/// Gives a gather list back.
pub(super) fn give_transmit(mut transmit: Transmit) {
    transmit.clear();
    TRANSMITS.with_borrow_mut(|spares| spares.push(transmit));
}
