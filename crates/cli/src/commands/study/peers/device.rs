//! The kind of device that targets of other projects serve, for a lane of weft's.

use weft_block::{Geometry, grammar};

/// Bytes of a logical block; the targets have no other size in common.
const BLOCK_BYTES: u32 = 512;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerDevice {
    /// Memory, of this many bytes.
    Ram(u64),
    /// A device that stores nothing, of this many bytes.
    Null(u64),
    /// A file or disk, with I/O past the page cache or through it.
    File { path: String, direct: bool },
}

impl PeerDevice {
    /// The device of a URL.
    ///
    /// # Errors
    /// Only weft serves such a device: the reason, without a full stop.
    pub fn of(url: &str, geometry: Geometry) -> Result<Self, String> {
        let plain = matches!(&grammar::sources(url)[..], [one] if one.url == url);
        let (main, options) = grammar::options(url);
        let bytes = geometry.bytes();
        if !plain {
            return Err("other targets serve a RAM disk, a null device or a file, without filters"
                .to_owned());
        }
        if geometry.block_bytes != BLOCK_BYTES {
            return Err(format!(
                "other targets have blocks of {BLOCK_BYTES} bytes, and the device has {} bytes",
                geometry.block_bytes
            ));
        }
        match grammar::path(url) {
            Some(path) => {
                let absolute = std::path::absolute(path)
                    .ok()
                    .and_then(|path| path.into_os_string().into_string().ok());
                let path = absolute.ok_or_else(|| format!("{path} has no absolute path"))?;
                let direct = !options.contains(&("direct", "off"));
                Ok(Self::File { path, direct })
            }
            None if main.starts_with("ram:") => Ok(Self::Ram(bytes)),
            None if main.starts_with("null:") => Ok(Self::Null(bytes)),
            None => Err("other targets serve a RAM disk, a null device or a file".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::Atomicity;

    fn of(url: &str, block_bytes: u32) -> Result<PeerDevice, String> {
        let geometry = Geometry {
            block_bytes,
            blocks: 8,
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes: 4096,
            atomic: Atomicity::ONE_BLOCK,
        };
        PeerDevice::of(url, geometry)
    }

    #[test]
    fn memory_and_files_are_served_and_nothing_else() {
        assert_eq!(of("ram:4096", 512), Ok(PeerDevice::Ram(4096)));
        assert_eq!(of("null:4KiB,uuid=x", 512), Ok(PeerDevice::Null(4096)));
        let file = |direct| Ok(PeerDevice::File { path: "/d/x".into(), direct });
        assert_eq!(of("file:/d/x,lock=off", 512), file(true));
        assert_eq!(of("/d/x,direct=off,lock=off", 512), file(false));
        assert!(of("ram:4096,block=4096", 4096).unwrap_err().contains("blocks of 512 bytes"));
        for url in ["delay:read=1us,ram:4096", "mirror:ram:1MiB,ram:1MiB"] {
            assert!(of(url, 512).unwrap_err().contains("without filters"), "{url}");
        }
        assert!(of("nbd://h/x", 512).is_err());
    }
}
