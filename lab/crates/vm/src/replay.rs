//! `cargo xtask lab replay`: what a disk held at each point of a log of the kernel's dm-log-writes.
//! Cases run it in the guest.
//!
//! The target logs a write when a flush that began after the write's end has ended, or at once if
//! it has FUA. So the disk after a flush in the log is the least that a loss of power right after
//! that flush may leave. The format (Linux, `drivers/md/dm-log-writes.c`): a superblock in the
//! first sector, then entries, each one sector and the data behind it; numbers are little-endian,
//! and sectors have the size that the superblock says.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// The superblock's first number.
const MAGIC: u64 = 0x006a_7366_7773_6872;
/// The superblock's second number.
const VERSION: u64 = 1;
/// Bytes of an entry before the text of a mark.
const HEADER_BYTES: usize = 32;
/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;
/// The entry's flags, from bit 0 on, in the words of this tool's output.
const FLAGS: [&str; 5] = ["flush", "fua", "discard", "mark", "metadata"];
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;

/// Arguments of `cargo xtask lab replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// The log, a file or a device; without more arguments it is listed: number, flags, sector,
    /// sectors, mark
    log: PathBuf,
    /// Carry out entries on this disk or file
    #[arg(long, value_name = "DISK")]
    onto: Option<PathBuf>,
    /// The first entry to carry out
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The entry before which to stop
    #[arg(long, default_value_t = u64::MAX)]
    to: u64,
}

/// Lists the log, or carries it out.
pub(super) fn run(args: &ReplayArgs) -> Result<()> {
    let mut log = Log::open(&args.log)?;
    let Some(disk) = &args.onto else {
        while let Some(entry) = log.next()? {
            println!("{}", entry.line());
        }
        return Ok(());
    };
    let mut disk = OpenOptions::new()
        .write(true)
        .open(disk)
        .with_context(|| format!("cannot open {}", disk.display()))?;
    log.replay(args.from..args.to, &mut disk)
}

/// A log, and the place in it.
struct Log {
    file: File,
    sector_bytes: u64,
    entries: u64,
    /// Number of the next entry, and where it begins.
    at: (u64, u64),
}

/// An entry. Sectors are those of the log.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    number: u64,
    sector: u64,
    sectors: u64,
    flags: u64,
    mark: String,
    /// Where its data begins in the log.
    data_at: u64,
}

impl Log {
    fn open(path: &Path) -> Result<Self> {
        let mut file =
            File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut start = [0; 28];
        file.read_exact(&mut start).context("the log has no superblock")?;
        ensure!(
            number(&start, 0) == MAGIC && number(&start, 1) == VERSION,
            "{} is not a log of dm-log-writes",
            path.display()
        );
        let sector_bytes =
            u64::from(u32::from_le_bytes([start[24], start[25], start[26], start[27]]));
        ensure!(
            (512..=65536).contains(&sector_bytes) && sector_bytes.is_power_of_two(),
            "sectors of {sector_bytes} bytes"
        );
        Ok(Self { file, sector_bytes, entries: number(&start, 2), at: (0, sector_bytes) })
    }

    fn next(&mut self) -> Result<Option<Entry>> {
        let (nth, at) = self.at;
        if nth == self.entries {
            return Ok(None);
        }
        let mut sector = vec![0; self.sector_bytes as usize];
        self.file.seek(SeekFrom::Start(at))?;
        self.file
            .read_exact(&mut sector)
            .with_context(|| format!("the log ends before entry {nth}"))?;
        let [place, sectors, flags, text_bytes] = [0, 1, 2, 3].map(|index| number(&sector, index));
        let text = sector
            .get(HEADER_BYTES..HEADER_BYTES + text_bytes.min(self.sector_bytes) as usize)
            .unwrap_or_default();
        let mark = if flags & MARK == 0 {
            String::new()
        } else {
            String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
        };
        let data_at = at + self.sector_bytes;
        let entry = Entry { number: nth, sector: place, sectors, flags, mark, data_at };
        let next = entry
            .data_sectors()
            .checked_mul(self.sector_bytes)
            .and_then(|bytes| bytes.checked_add(data_at));
        self.at =
            (nth + 1, next.with_context(|| format!("entry {nth} has a length that cannot be"))?);
        Ok(Some(entry))
    }

    fn replay(&mut self, which: Range<u64>, disk: &mut File) -> Result<()> {
        while let Some(entry) = self.next()? {
            if which.contains(&entry.number) && entry.sectors > 0 {
                self.carry_out(&entry, disk).with_context(|| format!("entry {}", entry.number))?;
            }
        }
        Ok(())
    }

    /// What was discarded reads as zeroes: that is what the disks of cases do.
    fn carry_out(&mut self, entry: &Entry, disk: &mut File) -> Result<()> {
        let place =
            entry.sector.checked_mul(self.sector_bytes).context("a sector that cannot be")?;
        disk.seek(SeekFrom::Start(place))?;
        self.file.seek(SeekFrom::Start(entry.data_at))?;
        let mut left = entry.sectors * self.sector_bytes;
        let mut chunk = vec![0; CHUNK_BYTES];
        while left > 0 {
            let part = &mut chunk[..left.min(CHUNK_BYTES as u64) as usize];
            if entry.flags & DISCARD == 0 {
                self.file.read_exact(part)?;
            }
            disk.write_all(part)?;
            left -= part.len() as u64;
        }
        Ok(())
    }
}

impl Entry {
    fn data_sectors(&self) -> u64 {
        if self.flags & (DISCARD | MARK) == 0 { self.sectors } else { 0 }
    }

    fn line(&self) -> String {
        let flags: Vec<&str> = (0..)
            .zip(FLAGS)
            .filter(|(bit, _)| self.flags >> bit & 1 == 1)
            .map(|(_, name)| name)
            .collect();
        let flags = if flags.is_empty() { "write".to_owned() } else { flags.join(",") };
        format!("{} {flags} {} {} {}", self.number, self.sector, self.sectors, self.mark)
            .trim_end()
            .to_owned()
    }
}

/// The `index`th number of 64 bits.
fn number(bytes: &[u8], index: usize) -> u64 {
    bytes.chunks_exact(8).nth(index).and_then(|it| it.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: usize = 512;

    fn sector(numbers: &[u64], text: &str) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            numbers.iter().flat_map(|it| it.to_le_bytes()).chain(text.bytes()).collect();
        bytes.resize(SECTOR, 0);
        bytes
    }

    /// A write of two sectors, a mark, a flush, a discard, and a write with FUA.
    fn log() -> Vec<u8> {
        [
            sector(&[MAGIC, VERSION, 5, SECTOR as u64], ""),
            sector(&[1, 2, 0, 0], ""),
            vec![7; 2 * SECTOR],
            sector(&[0, 0, MARK, 5], "first"),
            sector(&[0, 0, 1, 0], ""),
            sector(&[2, 1, DISCARD, 0], ""),
            sector(&[0, 1, 2, 0], ""),
            vec![9; SECTOR],
        ]
        .concat()
    }

    #[test]
    fn lists_entries_and_skips_their_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, log()).unwrap();
        let mut log = Log::open(&path).unwrap();
        let lines = std::iter::from_fn(|| log.next().unwrap()).map(|entry| entry.line());
        assert_eq!(
            lines.collect::<Vec<_>>(),
            ["0 write 1 2", "1 mark 0 0 first", "2 flush 0 0", "3 discard 2 1", "4 fua 0 1"]
        );
    }

    #[test]
    fn carries_out_what_it_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let (path, onto) = (dir.path().join("log"), dir.path().join("disk"));
        std::fs::write(&path, log()).unwrap();
        std::fs::write(&onto, vec![1; 4 * SECTOR]).unwrap();
        let sectors = |range: Range<u64>| {
            run(&ReplayArgs {
                log: path.clone(),
                onto: Some(onto.clone()),
                from: range.start,
                to: range.end,
            })
            .unwrap();
            let disk = std::fs::read(&onto).unwrap();
            disk.chunks_exact(SECTOR).map(|sector| sector[SECTOR - 1]).collect::<Vec<_>>()
        };
        assert_eq!(sectors(0..2), [1, 7, 7, 1]);
        assert_eq!(sectors(2..4), [1, 7, 0, 1]);
        assert_eq!(sectors(4..u64::MAX), [9, 7, 0, 1]);
    }

    #[test]
    fn refuses_what_is_no_log_and_one_that_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, vec![0; SECTOR]).unwrap();
        assert!(Log::open(&path).is_err());
        std::fs::write(&path, &log()[..3 * SECTOR]).unwrap();
        let mut log = Log::open(&path).unwrap();
        assert!(log.next().is_ok() && log.next().is_err());
        let endless =
            [sector(&[MAGIC, VERSION, 9, SECTOR as u64], ""), sector(&[0, u64::MAX, 0, 0], "")]
                .concat();
        std::fs::write(&path, endless).unwrap();
        assert!(Log::open(&path).unwrap().next().is_err());
    }
}
