//! librados and librbd, behind an interface of safe code.
//!
//! * [`library`]: their functions, loaded when they are first asked for; [`types`]: their types and
//!   constants.
//! * [`rados`]: a client of a cluster, and its pools.
//! * [`image`]: an image: opening, properties, its watch, closing.
//! * [`objects`]: objects of a pool, and keeping clients out; [`watch`]: what clients tell each
//!   other of an object.
//! * [`flight`]: operations on images, each with its memory, and how their ends get to the loop
//!   that began them.

mod flight;
mod image;
mod library;
mod objects;
mod rados;
mod types;
mod watch;

pub(crate) use flight::{Arrivals, ImageRequest, Landed, RefusedRequest};
pub(crate) use image::{Image, ImageNews, Keeper, OpenedImage};
pub(crate) use library::library;
pub use library::{Unavailable, is_loaded};
pub(crate) use objects::{GENERATION, ObjectRead};
pub(crate) use rados::{RadosClient, RadosPool};
pub use watch::NotifyMessage;
pub(crate) use watch::RadosWatch;

use core::ffi::CStr;
use std::ffi::CString;

/// A name for the libraries. A zero byte ends it; none of ours has one.
fn c_string(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes = text.into();
    bytes.retain(|byte| *byte != 0);
    CString::new(bytes).unwrap_or_default()
}

/// The text in a buffer that a library has filled, up to its zero byte.
fn text(buffer: &[u8]) -> String {
    CStr::from_bytes_until_nul(buffer)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The positive error number of a negative result.
fn check(result: i32) -> Result<i32, i32> {
    if result < 0 { Err(-result) } else { Ok(result) }
}
