//! From a URL to a device, whatever its scheme.

use crate::source::{ConnectOptions, iscsi, nbd, nvme_tcp};
use crate::url::nbd::NBD_SCHEMES;
use crate::url::{ISCSI, NVME_TCP};
use weft_block::{Device, Error, OpenOptions, Opening};

/// Begins to open URLs of one protocol.
type Begin = fn(&str, &ConnectOptions) -> Result<Opening, Error>;

/// What the URLs of each network source start with, and what opens them.
const SOURCES: [(&[&str], Begin); 3] =
    [(&[NVME_TCP], nvme_tcp::begin_url), (&[ISCSI], iscsi::begin_url), (&NBD_SCHEMES, nbd::begin_url)];

/// Begins to open any source: `ram:`, `null:`, `file:`, `nvme+tcp://`, `iscsi://`, `nbd://`, and filters over them. `options` are for
/// the network sources among them, which take at most the connect timeout, and which open side by side when several are begun with.
///
/// # Errors
/// What is wrong with the URL or the options; what a local source says.
pub fn begin(url: &str, options: &ConnectOptions) -> Result<Opening, Error> {
    let network = |url: &str| {
        let (_, begin) = SOURCES.iter().find(|(schemes, _)| schemes.iter().any(|scheme| url.starts_with(scheme)))?;
        Some(begin(url, options).unwrap_or_else(|e| Opening::ready(Err(e))))
    };
    weft_block::begin(url, &OpenOptions::with_resolver(&network))
}

/// As [`begin`], and waits: not for threads of event loops.
pub fn open(url: &str, options: &ConnectOptions) -> Result<Device, Error> {
    begin(url, options)?.wait()
}
