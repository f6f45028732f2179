//! The device behind the kernel's targets where the study has memory or a null device: a disk of
//! null_blk, which can be made and removed at any time, unlike those of brd.

use super::super::device::PeerDevice;
use super::super::peer::DeviceWish;
use super::steps::{CONFIGFS, KernelSteps};

pub const MODULE: &str = "null_blk";

/// Bytes of the unit of its size.
const UNIT_BYTES: u64 = 1 << 20;

/// Returns the path of the disk and how it is made; none for a file or disk of the user's.
///
/// # Errors
/// It cannot have the size of the device.
pub fn disk(wish: &DeviceWish<'_>) -> Result<Option<(String, KernelSteps)>, String> {
    let (bytes, keeps) = match wish.device {
        PeerDevice::Ram(bytes) => (*bytes, "1"),
        PeerDevice::Null(bytes) => (*bytes, "0"),
        PeerDevice::File { .. } => return Ok(None),
    };
    if bytes % UNIT_BYTES != 0 {
        return Err(format!(
            "{MODULE} has disks of whole MiB, and the device has {bytes} bytes: give such a size"
        ));
    }
    // The kernel takes 31 bytes.
    let name = format!("weft-{}", wish.address.port());
    let place = format!("{CONFIGFS}/nullb/{name}");
    let (size, queues) = ((bytes / UNIT_BYTES).to_string(), wish.cpus.len().max(1).to_string());
    let steps = KernelSteps::default()
        .load(MODULE, &["nr_devices=0"])
        .make(&place)
        // It completes operations at once, without an interrupt.
        .set(
            &place,
            &[
                ("size", &size),
                ("blocksize", "512"),
                ("irqmode", "0"),
                ("submit_queues", &queues),
                ("hw_queue_depth", "1024"),
                ("memory_backed", keeps),
            ],
        )
        .switch_on(&format!("{place}/power"));
    Ok(Some((format!("/dev/{name}"), steps)))
}
