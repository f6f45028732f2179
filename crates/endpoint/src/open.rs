//! From a URL to a device, whatever its scheme.

use crate::source::{ConnectOptions, iscsi, nbd, nvme_tcp};
use crate::url::nbd::NBD_SCHEMES;
use crate::url::{ISCSI, NVME_TCP};
use std::sync::Arc;
use weft_block::{BlockDevice, Error, OpenOptions};

/// Opens URLs of one protocol.
type Opener = fn(&str, &ConnectOptions) -> Result<Arc<dyn BlockDevice>, Error>;

/// What the URLs of each network source start with, and what opens them.
const SOURCES: [(&[&str], Opener); 3] =
    [(&[NVME_TCP], nvme_tcp::open_url), (&[ISCSI], iscsi::open_url), (&NBD_SCHEMES, nbd::open_url)];

/// Opens any source: `ram:`, `null:`, `file:`, `nvme+tcp://`, `iscsi://`, `nbd://`, and filters over them. `options` are
/// for the network sources among them. May wait for the network, as long as the options say.
pub fn open(url: &str, options: &ConnectOptions) -> Result<Arc<dyn BlockDevice>, Error> {
    let network = |url: &str| {
        let (_, open) = SOURCES.iter().find(|(schemes, _)| schemes.iter().any(|scheme| url.starts_with(scheme)))?;
        Some(open(url, options))
    };
    weft_block::open(url, &OpenOptions::with_resolver(&network))
}
