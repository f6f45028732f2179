//! Systems without librbd.

use crate::url::RbdUrl;
use core::time::Duration;
use std::any::Any;
use weft_block::{Error, ErrorKind, Opening};

/// Refuses to open an image.
///
/// # Errors
/// Always: librbd is used on Linux only.
pub fn begin(url: &RbdUrl, _: Duration, _: impl Any + Send) -> Result<Opening, Error> {
    let text = format!("{url}: images of Ceph need Linux; run weft there as a gateway, and attach what it serves here");
    Err(Error::new(ErrorKind::Unsupported, text))
}
