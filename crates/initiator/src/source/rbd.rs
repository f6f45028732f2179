//! Images of Ceph: `weft-ceph` with the control's time limits. They need no paths: librbd itself
//! connects again, and knows all monitors and daemons.

use super::ConnectOptions;
use weft_block::{Error, ErrorKind, Opening};
use weft_ceph::{CephAccess, RbdUrl};

/// Begins to open a URL of an image. Takes at most the connect timeout.
///
/// # Errors
/// What is wrong with the URL or the options.
#[doc(hidden)]
pub fn begin_url(url: &str, options: &ConnectOptions) -> Result<Opening, Error> {
    let mut url = RbdUrl::parse(url)?;
    if url.access == CephAccess::default() {
        url.access = options.ceph.clone();
    }
    url.needs_lock = options.ceph_in_group;
    if !options.paths.further.is_empty() {
        let text = format!("{url}: an image of Ceph needs no further paths; open it without them");
        return Err(Error::new(ErrorKind::Usage, text));
    }
    // The end of a program waits a moment until the image is closed.
    weft_ceph::begin(&url, options.connect_timeout, options.control.task())
}
