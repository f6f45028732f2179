//! The file of a capture, within its limits.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::secret_file;
use weft_proto::capture::pcapng::{self, END_BYTES, InterfaceStatistics};

/// Bytes that are collected before they are written.
const WRITTEN_BYTES: usize = 256 * 1024;

/// Bytes of a file that has room for a packet.
const FILE_BYTES_MIN: u64 = 64 * 1024;

const COMMENT: &str = "Captured by weft above TCP and TLS: the headers of IP and TCP are made up, \
                       and secrets are replaced by zeroes";

/// The file.
pub(super) struct CaptureFile {
    file: File,
    /// What is not written yet.
    pending: Vec<u8>,
    bytes: u64,
    max: u64,
}

impl CaptureFile {
    pub(super) fn create(path: &Path, max: u64) -> Result<Self, Error> {
        if max < FILE_BYTES_MIN {
            let text = format!("a capture needs at least {FILE_BYTES_MIN} bytes: give more");
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let file = secret_file::create(path, &pcapng::MAGIC).map_err(|e| {
            Error::io(format!("cannot write the capture {}: {e}", path.display()), e)
        })?;
        let mut pending = Vec::with_capacity(WRITTEN_BYTES);
        pcapng::begin(concat!("weft ", env!("CARGO_PKG_VERSION")), COMMENT, &mut pending);
        let mut file = Self { file, pending, bytes: 0, max };
        // Whoever looks finds a file that is well formed.
        file.flush()?;
        Ok(file)
    }

    /// Adds blocks, if there is room for them.
    pub(super) fn add(&mut self, blocks: &[u8]) -> Result<bool, Error> {
        let after = self.bytes() + blocks.len() as u64 + END_BYTES as u64;
        if after > self.max {
            return Ok(false);
        }
        self.pending.extend_from_slice(blocks);
        if self.pending.len() >= WRITTEN_BYTES {
            self.flush()?;
        }
        Ok(true)
    }

    /// Writes what was added.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.file
            .write_all(&self.pending)
            .map_err(|e| Error::io(format!("cannot write the capture: {e}"), e))?;
        self.bytes += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Writes the end.
    pub(super) fn finish(
        &mut self,
        [start, end]: [Duration; 2],
        received: u64,
        dropped: u64,
    ) -> Result<(), Error> {
        pcapng::end(&InterfaceStatistics { start, end, received, dropped }, &mut self.pending);
        self.flush()
    }

    /// Bytes of it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.pending.len() as u64
    }
}
