//! From a URL to a device, whatever its scheme.

use crate::source::nvme_tcp::{self, ConnectOptions};
use crate::url::{NVME_TCP, NVME_TCP_PORT, NvmeTcpUrl};
use std::sync::Arc;
use weft_block::{BlockDevice, Error, OpenOptions};

/// Opens any source: `ram:`, `null:`, `file:`, `nvme+tcp://`, and filters over them. `options` are for the network sources among
/// them. May wait for the network, as long as the options say.
pub fn open(url: &str, options: &ConnectOptions) -> Result<Arc<dyn BlockDevice>, Error> {
    let network = |url: &str| url.starts_with(NVME_TCP).then(|| open_nvme_tcp(url, options));
    weft_block::open(url, &OpenOptions::with_resolver(&network))
}

fn open_nvme_tcp(url: &str, options: &ConnectOptions) -> Result<Arc<dyn BlockDevice>, Error> {
    let url = NvmeTcpUrl::parse(url, NVME_TCP_PORT)?;
    let device = nvme_tcp::open(&url, options)?;
    Ok(device)
}
