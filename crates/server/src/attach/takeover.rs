//! The taking over of a disk whose server was killed: by iSCSI, the system's initiator keeps it,
//! and connects again to the port at which it was served. By FUSE the file is made again, once no
//! write of the killed server can be executed.

use super::entries::{Entry, ServerLock};
use super::plan::AttachProtocol;
use super::run;
use std::sync::Arc;
use weft_block::{Device, Error};
use weft_endpoint::disk_record::RecordedDevice;
use weft_endpoint::identity::{namespace_uuid, subsystem_nqn};
use weft_endpoint::settle::LateWriters;

/// The device to be served, and the disk of a killed server that it continues.
pub(super) struct Serving {
    pub device: Device,
    pub kept: Option<Arc<RecordedDevice>>,
    pub continues: Option<Entry>,
}

impl Serving {
    /// Continues the disk that a killed server has left, or begins one.
    pub fn begin(
        (protocol, port): (AttachProtocol, u16),
        device: Device,
        held: &ServerLock,
        late: &LateWriters,
    ) -> Result<Self, Error> {
        let (runtime, name) = (held.runtime(), held.name());
        let uuid = namespace_uuid(&subsystem_nqn()?, 1);
        let place = runtime.kept(name);
        let is_same = |entry: &Entry| {
            entry.protocol == protocol.to_string()
                && (port == 0 || port == entry.port)
                && RecordedDevice::is_of(&place, &*device, uuid)
        };
        let left = held.left();
        let continues = left.clone().filter(is_same);
        if let (Some(other), None) = (left, &continues) {
            let device = &other.device;
            tracing::warn!(
                "\"{name}\": {device} is another disk, whose server was killed; it ends"
            );
            match other.is_by_fuse() {
                true => run::clear_dead(&runtime.served(&other)),
                false => run::detach(&runtime.served(&other))?,
            }
        }
        let disk = (format!("\"{name}\""), place);
        match protocol {
            AttachProtocol::Iscsi => {
                let kept = RecordedDevice::begin(device, uuid, disk, late, continues.is_some());
                Ok(Self { device: Arc::clone(&kept) as Device, kept: Some(kept), continues })
            }
            #[cfg(target_os = "linux")]
            AttachProtocol::Fuse | AttachProtocol::Loop => {
                let kept = match continues {
                    Some(before) => {
                        run::clear_dead(&runtime.served(&before));
                        RecordedDevice::begin_again(device, uuid, disk, late)
                    }
                    None => RecordedDevice::begin(device, uuid, disk, late, false),
                };
                Ok(Self { device: Arc::clone(&kept) as Device, kept: Some(kept), continues: None })
            }
            _ => Ok(Self { device, kept: None, continues: None }),
        }
    }
}
