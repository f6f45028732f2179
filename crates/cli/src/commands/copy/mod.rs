//! `weft copy`: copies one device to another.

mod told;

use crate::args::filename;
use crate::connection::ConnectArgs;
use crate::output::figures;
use crate::output::progress::Bar;
use crate::process::exit::{Failure, tell};
use crate::process::signals::{end_soon, has_result};
use clap::{Args, ValueEnum};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;
use weft_block::file::{CreatedFiles, is_windows_device};
use weft_block::{Device, ErrorKind, grammar, units};
use weft_copy::journal::{JournalRecord, Known};
use weft_copy::{CopyEnd, CopyEnds, CopyOptions, CopyStart, Journal, Summary, shown};
use weft_endpoint::source::discovered;
use weft_endpoint::{Control, existing_data, identity};

/// The namespace of names of journals.
const COPIES: Uuid = Uuid::from_u128(0x1d0a_61f7_9c2e_4c0d_8e3b_5a94_c7f2_6b18);

/// Options of `weft copy`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft copy nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk /srv/backup.img
  weft copy /srv/golden.img nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --destroy-data --verify
  weft copy iscsi://192.0.2.10/iqn.2026-01.org.example:disk/0 rbd:rbd/disk --limit 200MB
  weft copy ram:64MiB ./copy.img --sha256 -o json
  weft copy /dev/sdb nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --resume
  weft copy /dev/sdb ./rescued.img --skip-unreadable")]
pub struct CopyArgs {
    /// Device to copy: a URL, or the path of a file or disk
    from: String,
    /// Device to copy to; a file that does not exist is created
    to: String,
    /// Read both devices after the copy, and compare
    #[arg(long)]
    verify: bool,
    /// Copy zeroes where a block cannot be read, and continue; report those places, and end with
    /// status 1
    #[arg(long, conflicts_with = "sha256")]
    skip_unreadable: bool,
    /// Print the SHA-256 of what is copied
    #[arg(long)]
    sha256: bool,
    /// Maximum number of bytes to copy per second
    #[arg(long, value_name = "BYTES", value_parser = units::parse_size)]
    limit: Option<u64>,
    /// Resume a copy that was interrupted
    #[arg(long, conflicts_with_all = ["restart", "no_journal"])]
    resume: bool,
    /// Copy everything again, even if an interrupted copy could be resumed
    #[arg(long)]
    restart: bool,
    /// File that records the progress of the copy [default: one for these two devices in the state
    /// directory]
    #[arg(long, value_name = "FILE", conflicts_with = "no_journal")]
    journal: Option<PathBuf>,
    /// Do not keep a journal: an interrupted copy cannot be resumed
    #[arg(long)]
    no_journal: bool,
    /// Overwrite a device where a partition table, a file system or the like is recognised
    #[arg(long)]
    destroy_data: bool,
    /// Begin also where the file system may not have room for the copy
    #[arg(long)]
    overcommit: bool,
    /// Bytes of a transfer [default: found by trying]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_size)]
    bs: Option<u64>,
    /// Transfers in flight on each event loop [default: found by trying]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(weft_copy::limits::DEPTH_MAX)))]
    depth: Option<u32>,
    /// Event loops; each has queues of both devices [default: 2, or 1 on a single CPU]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output_format: Format,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Readable text.
    #[default]
    Normal,
    /// JSON.
    Json,
}

/// The URL of the device to copy to; a file that does not exist gets the size of the copy.
fn url_of_to(given: &str, from: &Device) -> String {
    let url = filename::of_filename(given, None);
    let sources = grammar::sources(&url);
    let path = match &sources[..] {
        [source] => grammar::path(source.url).filter(|path| !is_windows_device(path)),
        _ => None,
    };
    if path.is_none_or(|path| Path::new(path).exists()) {
        return url;
    }
    let has_size =
        sources.iter().any(|of| grammar::options(of.url).1.iter().any(|it| it.0 == "size"));
    let size = format!("size={}", from.geometry().bytes());
    if has_size { url } else { grammar::with_option(&url, &size, |_| true) }
}

/// Copies, and says what was copied.
pub fn run(args: &CopyArgs, control: &Control) -> Result<(), Failure> {
    if args.copies_nothing() {
        return args.copy_nothing();
    }
    let created = Arc::new(CreatedFiles::default());
    // Nothing was written to a file that was created for nothing.
    let opened = args.open(control, &created).inspect_err(|_| created.remove())?;
    let Opened { ends, options, journal, record, follows } = opened;
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let then = if journal.is_some() { "; --resume goes on with it" } else { "" };
    let end = move || {
        tell(&format!(
            "weft: the copy ends when what is under way is written and flushed, or after a second{then}"
        ));
        stopping.store(true, Ordering::Relaxed);
    };
    end_soon(end)?;
    let mut bar = Bar::new();
    let start = CopyStart { record, journal: journal.as_ref(), follows };
    let show = &mut |progress| told::show(&mut bar, &progress);
    let copied = weft_copy::copy(&ends, &options, start, &stop, show);
    bar.finish();
    has_result();
    let (ended, summary) = copied.map_err(|e| args.can_go_on(e, journal.as_ref()))?;
    let printed = args.print(ended, &summary);
    // What became of the copy does not depend on who reads that.
    args.finish(ended, &summary, journal).and(printed)
}

/// What is copied, and how.
struct Opened {
    ends: CopyEnds,
    options: CopyOptions,
    journal: Option<Journal>,
    record: JournalRecord,
    /// Another process began it.
    follows: bool,
}

impl CopyArgs {
    /// Whether FROM is a file of no bytes, which no device can be.
    fn copies_nothing(&self) -> bool {
        let url = filename::of_filename(&self.from, None);
        let is_empty = |path: &str| {
            let file = fs::metadata(path);
            !is_windows_device(path) && file.is_ok_and(|file| file.is_file() && file.len() == 0)
        };
        let has_size = grammar::options(&url).1.iter().any(|(name, _)| *name == "size");
        !has_size && grammar::path(&url).is_some_and(is_empty)
    }

    /// The copy of an empty file: TO is made where it is a file that does not exist, and stays as
    /// it is otherwise.
    fn copy_nothing(&self) -> Result<(), Failure> {
        let url = filename::of_filename(&self.to, None);
        let sources = grammar::sources(&url);
        let to = match &sources[..] {
            [source] => grammar::path(source.url).filter(|path| !is_windows_device(path)),
            _ => None,
        };
        if let Some(path) = to.filter(|path| !Path::new(path).exists()) {
            fs::File::create_new(path)
                .map_err(|e| Failure::new(1, format!("cannot create {path}: {e}")))?;
        }
        tell(&format!("weft: {} is empty: there is nothing to copy", self.from));
        self.print(CopyEnd::Done, &Summary::of_nothing(self.sha256))
    }

    /// Opens both devices, and checks everything before the first write.
    fn open(&self, control: &Control, created: &Arc<CreatedFiles>) -> Result<Opened, Failure> {
        let threads = match self.limit {
            Some(_) => 1,
            None => weft_io::cpu::allowed().len().clamp(1, 2),
        };
        let threads = self.threads.unwrap_or(threads);
        if filename::of_filename(&self.from, None) == filename::of_filename(&self.to, None) {
            let text = format!("{} is both what is copied and what is copied to", self.from);
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        let from = self.device(&self.url_of_from()?, threads, control, None)?;
        let to = url_of_to(&self.to, &from);
        let to = self.device(&to, threads, control, Some(Arc::clone(created)))?;
        let ends = CopyEnds::new(from, to)?;
        // Whoever made it meanwhile has put something into it.
        let is_new = !created.is_empty();
        let journal = self.journal_of(&ends)?;
        let (record, follows) = self.record(&ends, is_new, journal.as_ref())?;
        let chunk = self.bs.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        let options = CopyOptions {
            threads,
            chunk,
            depth: self.depth,
            limit: self.limit,
            verify: self.verify,
            sha256: self.sha256,
            blank: record.blank,
            skip_unreadable: self.skip_unreadable,
        };
        options.check(&ends)?;
        if let Some(journal) = &journal {
            journal.write(&record)?;
        }
        Ok(Opened { ends, options, journal, record, follows })
    }

    /// Where the copy begins, and whether another process has begun it.
    fn record(
        &self,
        ends: &CopyEnds,
        is_new: bool,
        journal: Option<&Journal>,
    ) -> Result<(JournalRecord, bool), Failure> {
        let earlier = journal.map_or(Ok(None), Journal::read)?;
        if let Some(record) = earlier.as_ref().filter(|record| !record.is_of(ends)) {
            let text = format!(
                "the journal is of another copy, from {} to {}: give another --journal",
                record.from.url, record.to.url
            );
            return Err(Failure::of(ErrorKind::InUse, text));
        }
        let (follows, late) = earlier.as_ref().map_or((false, 0), |it| (true, it.late_writes_ms));
        let mut record = match earlier {
            Some(_) if self.resume && is_new => {
                let text = format!("{} is gone: give --restart to copy everything again", self.to);
                return Err(Failure::of(ErrorKind::NotFound, text));
            }
            Some(record) if self.resume => {
                record.check(ends)?;
                self.check_named(&record)?;
                record
            }
            Some(record) if !self.restart => return Err(interrupted(&record)),
            None if self.resume => {
                let text =
                    "there is no interrupted copy of these two devices: copy without --resume";
                return Err(Failure::of(ErrorKind::NotFound, text));
            }
            _ => self.begin(ends, is_new)?,
        };
        record.late_writes_ms = record.late_writes_ms.max(late);
        Ok((record, follows))
    }

    /// Refuses to go on where another disk may have the path of the one before: nothing would ask
    /// what is on it.
    fn check_named(&self, record: &JournalRecord) -> Result<(), Failure> {
        if self.destroy_data || !record.to.is_path_alone() {
            return Ok(());
        }
        let text = format!(
            "nothing but its path tells {} from another disk: see that it is still the same, and give --destroy-data with --resume",
            record.to.url
        );
        Err(Failure::of(ErrorKind::InUse, text))
    }

    /// What is known of a copy that begins, if TO may be overwritten.
    fn begin(&self, ends: &CopyEnds, is_new: bool) -> Result<JournalRecord, Failure> {
        if !self.destroy_data && !is_new {
            existing_data::refuse_data(&ends.to)?;
        }
        if !self.overcommit {
            weft_copy::room(ends)?;
        }
        let (bytes, room) = (ends.bytes(), ends.to.geometry().bytes());
        let padding = bytes - ends.source_bytes();
        if padding > 0 {
            tell(&format!(
                "weft: {} has {} bytes; in {} they are followed by {padding} zeroes, to the end of the block",
                shown(&ends.from),
                ends.source_bytes(),
                shown(&ends.to)
            ));
        }
        if bytes < room {
            tell(&format!(
                "weft: {} is larger than {}: what is behind the first {} stays as it is",
                shown(&ends.to),
                shown(&ends.from),
                units::format_size(bytes)
            ));
        }
        Ok(JournalRecord::new(ends, is_new))
    }

    /// FROM, which is only read, and as fast as the limit allows.
    fn url_of_from(&self) -> Result<String, Failure> {
        let url = from_cache(&filename::of_filename(&self.from, None));
        match self.limit {
            Some(0) => {
                let text = "--limit 0: give a number of bytes per second above 0, as in 100MB";
                Err(Failure::of(ErrorKind::Usage, text))
            }
            Some(limit) => Ok(format!("limit:bw={limit},readonly:{url}")),
            None => Ok(format!("readonly:{url}")),
        }
    }

    fn device(
        &self,
        url: &str,
        queues: usize,
        control: &Control,
        created: Option<Arc<CreatedFiles>>,
    ) -> Result<Device, Failure> {
        let mut options = self.connect.options(queues.try_into().unwrap_or(u16::MAX), control)?;
        options.created = created;
        discovered::look_up(url, &mut options)?;
        Ok(weft_endpoint::open(url, &options)?)
    }

    /// The journal, if one is kept: nothing goes on with memory of a process that has ended.
    fn journal_of(&self, ends: &CopyEnds) -> Result<Option<Journal>, Failure> {
        let is_memory = |device: &Device| {
            let sources = grammar::sources(device.url());
            sources.iter().any(|of| grammar::is_memory(of.url))
        };
        if self.no_journal
            || (self.journal.is_none() && [&ends.from, &ends.to].into_iter().any(is_memory))
        {
            return Ok(None);
        }
        let known = [&ends.from, &ends.to].map(|end| Known::of(end, false).name());
        let name = || known.join("\0");
        let path = match &self.journal {
            Some(path) => path.clone(),
            None => identity::state_dir()
                .ok_or_else(|| {
                    let text = "there is no state directory for the journal: give --journal FILE or --no-journal";
                    Failure::of(ErrorKind::Usage, text)
                })?
                .join("copies")
                .join(format!("{}.json", Uuid::new_v5(&COPIES, name().as_bytes()))),
        };
        Ok(Some(Journal::take(&path)?))
    }

    /// An error of the copy, and how it can go on.
    fn can_go_on(&self, error: weft_block::Error, journal: Option<&Journal>) -> Failure {
        match journal {
            None => error.into(),
            Some(_) => {
                let text = format!("{error}; the copy can go on: repeat the command with --resume");
                Failure::of(error.kind(), text)
            }
        }
    }

    /// What is wrong with a copy that has zeroes where FROM could not be read.
    fn incomplete(&self, summary: &Summary) -> Option<Failure> {
        let bytes = summary.unreadable.bytes();
        let text = format!(
            "could not read {} of {}; these bytes are zeroes in {}",
            figures::bytes(bytes as f64),
            self.from,
            self.to
        );
        (bytes > 0).then(|| Failure::of(ErrorKind::Io, text))
    }

    fn print(&self, ended: CopyEnd, summary: &Summary) -> Result<(), Failure> {
        match self.output_format {
            Format::Normal => told::text(ended, summary),
            Format::Json => told::json(ended, summary),
        }
    }

    /// Removes the journal of a copy that is complete; the exit status of another one.
    fn finish(
        &self,
        ended: CopyEnd,
        summary: &Summary,
        journal: Option<Journal>,
    ) -> Result<(), Failure> {
        let failure = match ended {
            CopyEnd::Done => self.incomplete(summary),
            CopyEnd::Stopped => {
                let then = match &journal {
                    Some(_) => "repeat the command with --resume to go on",
                    None => "it cannot go on, as there is no journal",
                };
                Some(Failure::new(Failure::INTERRUPTED, format!("interrupted; {then}")))
            }
            CopyEnd::Differs { at } => Some(Failure::new(
                Failure::VERIFICATION,
                format!("verification found other data in {} at byte {at}", self.to),
            )),
        };
        if let Some(journal) = journal.filter(|_| ended != CopyEnd::Stopped) {
            journal.remove()?;
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The URL with files read through the page cache, unless it says otherwise: an image that somebody
/// wants to copy is often there, and the system reads ahead.
fn from_cache(url: &str) -> String {
    let suits = |source: &str| {
        let is_file = grammar::path(source).is_some_and(|path| Path::new(path).is_file());
        is_file && !grammar::options(source).1.iter().any(|(name, _)| *name == "direct")
    };
    grammar::with_option(url, "direct=off", suits)
}

fn interrupted(record: &JournalRecord) -> Failure {
    let text = format!(
        "an earlier copy was interrupted after {} of {}: give --resume to continue it, or --restart to copy everything again",
        units::format_size(record.copied),
        units::format_size(record.from.bytes)
    );
    Failure::of(ErrorKind::InUse, text)
}
