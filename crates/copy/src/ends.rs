//! The two devices of a copy, and why they cannot be copied.

use weft_block::units::format_size;
use weft_block::{Device, Error, ErrorKind, grammar};

/// The two devices of a copy.
#[derive(Clone)]
pub struct CopyEnds {
    /// The source.
    pub from: Device,
    /// The destination.
    pub to: Device,
}

impl CopyEnds {
    /// Both ends, if the one can be copied to the other.
    ///
    /// # Errors
    /// They are the same, TO cannot be written to, or is too small, or its blocks do not fit.
    pub fn new(from: Device, to: Device) -> Result<Self, Error> {
        let ends = Self { from, to };
        let (from, to) = (shown(&ends.from), shown(&ends.to));
        let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
        if ends.are_same() {
            return usage(format!("{from} and {to} are the same device: give another one"));
        }
        if !ends.to.features().write {
            let text = format!("{to} is read-only: give a device that can be written to");
            return Err(Error::new(ErrorKind::PermissionDenied, text));
        }
        let (bytes, room) = (ends.bytes(), ends.to.geometry().bytes());
        if bytes > room {
            let text = format!(
                "{to} has {}, and {from} has {}: give a device that is as large",
                format_size(room),
                format_size(bytes)
            );
            return Err(Error::new(ErrorKind::NoResources, text));
        }
        let block = ends.to.geometry().block_bytes;
        if !bytes.is_multiple_of(block.into()) {
            return usage(format!(
                "the blocks of {from} have {bytes} bytes, which is not a multiple of the blocks of {to}, {block} bytes: give a device with smaller blocks (a file with block=512)"
            ));
        }
        Ok(ends)
    }

    /// Bytes that are copied: all blocks of FROM, so that nothing of it is left out.
    pub fn bytes(&self) -> u64 {
        self.from.geometry().bytes()
    }

    /// Bytes that FROM has, without the zeroes that follow them in its last block.
    pub fn source_bytes(&self) -> u64 {
        self.from.geometry().data_bytes()
    }

    /// Returns the unit of positions and lengths, in bytes.
    pub fn unit(&self) -> u64 {
        self.from.geometry().block_bytes.max(self.to.geometry().block_bytes).into()
    }

    /// The largest transfer that both do at once, in bytes.
    pub fn transfer_max(&self) -> u32 {
        self.from.geometry().max_transfer_bytes.min(self.to.geometry().max_transfer_bytes)
    }

    fn are_same(&self) -> bool {
        let is_memory = grammar::is_memory(self.from.url());
        let of = |device: &Device| device.identity().uuid;
        let same_uuid = of(&self.from).is_some() && of(&self.from) == of(&self.to);
        same_uuid || (!is_memory && self.from.url() == self.to.url())
    }
}

/// The URL of a device without what a copy puts before it: it is only read, and at a rate.
pub fn shown(device: &Device) -> &str {
    let url = device.url();
    let rest = url.strip_prefix("limit:bw=").and_then(|rest| rest.split_once(','));
    let url = rest.map_or(url, |(_, rest)| rest);
    url.strip_prefix("readonly:").unwrap_or(url)
}

/// Refuses a copy to a file where its file system has less room than the copy may need. A device
/// that is not a file, and a system that does not report the room, are not refused.
///
/// # Errors
/// How much room there is and how much is needed.
#[cfg(unix)]
pub fn room(ends: &CopyEnds) -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt;
    let sources = grammar::sources(ends.to.url());
    let [source] = &sources[..] else { return Ok(()) };
    let Some(path) = grammar::path(source.url) else { return Ok(()) };
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    let Ok(system) = rustix::fs::statvfs(path) else { return Ok(()) };
    if !metadata.is_file() {
        return Ok(());
    }
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    // What the file has already is written over.
    let needed = data_bytes(ends).saturating_sub(metadata.blocks() * 512);
    if needed <= free {
        return Ok(());
    }
    let text = format!(
        "{}: its file system has {} left, and the copy may need {}: make room, or give --overcommit if much of {} is zeroes",
        shown(&ends.to),
        format_size(free),
        format_size(needed),
        shown(&ends.from)
    );
    Err(Error::new(ErrorKind::NoResources, text))
}

/// Refuses a copy to a file where its file system has less room than the copy may need; not on this
/// system, which is not asked.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn room(_: &CopyEnds) -> Result<(), Error> {
    Ok(())
}

/// Bytes of FROM that may hold data. Devices with very many holes count as a whole.
#[cfg(unix)]
fn data_bytes(ends: &CopyEnds) -> u64 {
    const RUNS_MAX: usize = 100_000;
    let map = crate::map::Map::of(&ends.from);
    let (mut at, mut data) = (0, 0);
    for _ in 0..RUNS_MAX {
        match map.next(at) {
            Some(run) if run.is_empty() => return data,
            Some(run) => (at, data) = (run.end, data + (run.end - run.start.max(at))),
            None => break,
        }
        if at >= ends.bytes() {
            return data;
        }
    }
    ends.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::OpenOptions;

    fn open(url: &str) -> Device {
        weft_block::open(url, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    fn refused(from: &str, to: &str) -> ErrorKind {
        CopyEnds::new(open(from), open(to)).err().expect("it is refused").kind()
    }

    #[test]
    fn what_cannot_hold_the_copy_is_refused() {
        assert_eq!(refused("ram:2MiB", "ram:1MiB"), ErrorKind::NoResources);
        assert_eq!(refused("ram:1MiB", "readonly:ram:1MiB"), ErrorKind::PermissionDenied);
        assert_eq!(refused("ram:1536,block=512", "ram:1MiB,block=4096"), ErrorKind::Usage);
        let uuid = "uuid=6c1f3a52-7d0e-4b7b-9c55-2f6f1e80a9d4";
        let same = format!("ram:1MiB,volatile=on,{uuid}");
        assert_eq!(refused(&same, &same), ErrorKind::Usage);
        let ends = CopyEnds::new(open("ram:1MiB,block=512"), open("ram:2MiB,block=4096")).unwrap();
        assert_eq!((ends.bytes(), ends.unit()), (1 << 20, 4096));
    }
}
