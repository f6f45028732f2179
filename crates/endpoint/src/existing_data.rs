//! Nothing is overwritten by accident: what a program asks before it writes to a device on its own
//! account.
//!
//! A program that generates writes (a benchmark) calls [`refuse_data`] before the first one, unless
//! its user has consented. What serves a device to others does not: there the host decides what it
//! writes.

use crate::disk::Disk;
use weft_block::signature::{self, Content, DiskEnds, END_BYTES, START_BYTES};
use weft_block::{BlockDevice, Device, Error, ErrorKind, grammar};

/// Refuses a device that holds data, as far as the signatures of [`signature`] tell. It reads the
/// start and the end of the device, and of each member of a stripe; not of memory, which holds
/// nothing. Waits for the reads: not for threads of event loops.
///
/// # Errors
/// What the device holds, and the option that consents; that it cannot be read.
pub fn refuse_data(device: &Device) -> Result<(), Error> {
    let parts = device.members();
    core::iter::once(device)
        .chain(&parts)
        .filter(|part| keeps_data(part.as_ref()))
        .try_for_each(refuse)
}

/// As [`refuse_data`], for a device that a [`Disk`] has the only queue of.
///
/// # Errors
/// As those of [`refuse_data`].
pub fn refuse_data_of(disk: &Disk, device: &Device) -> Result<(), Error> {
    if keeps_data(device.as_ref()) {
        refuse_content(device.url(), content(disk))?;
    }
    device.members().iter().filter(|part| keeps_data(part.as_ref())).try_for_each(refuse)
}

/// Whether the device is more than memory of this process.
fn keeps_data(device: &dyn BlockDevice) -> bool {
    !grammar::sources(device.url()).iter().all(|source| grammar::is_memory(source.url))
}

fn refuse(device: &Device) -> Result<(), Error> {
    refuse_content(
        device.url(),
        Disk::on(std::sync::Arc::clone(device)).and_then(|disk| content(&disk)),
    )
}

fn refuse_content(url: &str, content: Result<Option<Content>, Error>) -> Result<(), Error> {
    match content {
        Ok(None) => Ok(()),
        Ok(Some(content)) => {
            let text = format!("{url} holds {content}; give --destroy-data to overwrite it");
            Err(Error::new(ErrorKind::InUse, text))
        }
        Err(e) => {
            let text = format!(
                "{url} cannot be searched for data: {e}; give --destroy-data to write to it all the same"
            );
            Err(Error::new(e.kind(), text))
        }
    }
}

fn content(disk: &Disk) -> Result<Option<Content>, Error> {
    let geometry = disk.geometry();
    let block = u64::from(geometry.block_bytes);
    let blocks = |bytes: u64| bytes.div_ceil(block).min(geometry.blocks);
    let mut start = vec![0; (blocks(START_BYTES) * block) as usize];
    let mut end = vec![0; (blocks(END_BYTES) * block) as usize];
    disk.read(0, &mut start)?;
    disk.read(geometry.blocks - blocks(END_BYTES), &mut end)?;
    Ok(signature::find(&DiskEnds { start: &start, end: &end, bytes: geometry.bytes() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;
    use weft_initiator::ConnectOptions;

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn with(name: &str, at: usize, bytes: &[u8]) -> Self {
            let path =
                std::env::temp_dir().join(format!("weft-overwrite-{}-{name}", std::process::id()));
            let mut image = vec![0; 4 << 20];
            image[at..at + bytes.len()].copy_from_slice(bytes);
            std::fs::write(&path, image).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn refused(url: &str) -> Option<String> {
        let device = open(url, &ConnectOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        refuse_data(&device).err().map(|error| error.to_string())
    }

    #[test]
    fn data_is_refused_by_name_wherever_it_is() {
        let (file_system, array) = (
            Scratch::with("xfs", 0, b"XFSB"),
            Scratch::with("ddf", (4 << 20) - 512, &[0xde, 0x11, 0xde, 0x11]),
        );
        let empty = Scratch::with("empty", 0, &[]);
        let path = |scratch: &Scratch| format!("file:{}", scratch.0.display());
        let expected = format!(
            "{} holds an XFS file system; give --destroy-data to overwrite it",
            path(&file_system)
        );
        assert_eq!(refused(&path(&file_system)), Some(expected));
        assert!(
            refused(&format!("delay:read=1us,{}", path(&array)))
                .unwrap()
                .contains("a member of a RAID (DDF)")
        );
        assert_eq!(refused(&path(&empty)), None);
        // The member's last bytes are in the middle of the stripe.
        let stripe = refused(&format!(
            "error:rate=0,stripe:4KiB,ram:4MiB,{},{}",
            path(&array),
            path(&empty)
        ))
        .unwrap();
        assert!(stripe.starts_with(&path(&array)), "{stripe}");
        assert_eq!(refused(&format!("stripe:{},ram:4MiB", path(&empty))), None);
    }

    #[test]
    fn memory_is_not_read_and_what_cannot_be_read_is_refused() {
        assert_eq!(refused("error:rate=1,ops=read,ram:4MiB"), None);
        let empty = Scratch::with("unreadable", 0, &[]);
        let unreadable =
            refused(&format!("error:rate=1,ops=read,file:{}", empty.0.display())).unwrap();
        assert!(unreadable.contains("cannot be searched"), "{unreadable}");
    }
}
