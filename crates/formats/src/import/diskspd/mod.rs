//! DISKSPD's command lines (its wiki, "Command line and parameters").

pub mod options;
#[cfg(test)]
mod tests;

use options::{note, note_of, refusal};

use super::{ImportError, ImportedJob, ImportedJobs, words};

/// Options that change what is printed or how it is measured only. Latencies are always measured
/// here.
const OUTPUT: [char; 4] = ['L', 'D', 'v', 'P'];

/// Reads a command line, with or without the name of the program.
///
/// # Errors
/// An option that DISKSPD does not have, or has not in this form, or that is refused.
pub fn import(line: &str) -> Result<ImportedJobs, ImportError> {
    let mut words = words(line);
    let is_program = |word: &String| {
        let name = word.rsplit(['\\', '/']).next().unwrap_or_default().to_ascii_lowercase();
        name == "diskspd" || name == "diskspd.exe"
    };
    if words.first().is_some_and(is_program) {
        words.remove(0);
    }
    let mut reader = Reader::default();
    for word in &words {
        match word.strip_prefix(['-', '/']).filter(|_| !word.starts_with('/') || is_option(word)) {
            Some(option) => reader
                .option(word, option)
                .map_err(|problem| ImportError::wrong(word.as_str(), problem))?,
            None => reader.targets.push(target(word)),
        }
    }
    reader.imported()
}

/// Returns whether a word that begins with `/` is an option rather than a path: one letter, and a
/// number or nothing.
fn is_option(word: &str) -> bool {
    word.len() <= 8 && !word[1..].contains(['/', '.'])
}

/// `#1` is the first physical drive.
fn target(word: &str) -> String {
    word.strip_prefix('#')
        .map_or_else(|| word.to_owned(), |number| format!(r"\\.\PhysicalDrive{number}"))
}

/// A size that may count blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Size {
    #[default]
    None,
    Bytes(u64),
    Blocks(u64),
}

impl Size {
    /// A size without a unit counts bytes; `b` means blocks.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text:?} is not a size: a number, perhaps with K, M, G, T, or b for blocks")
        };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            "B" => return Ok(Self::Blocks(number)),
            _ => return Err(wrong()),
        };
        number.checked_mul(1 << shift).map(Self::Bytes).ok_or_else(wrong)
    }

    /// Returns bytes, with blocks of `block` bytes.
    fn bytes(self, block: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::Blocks(blocks) => Some(blocks.saturating_mul(block)),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a number belongs behind this option".to_owned())
}

fn within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = number(text)?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(format!("{number} is not {least} to {most}")),
    }
}

/// A command line as it was read; sizes in blocks count once the size of a block is known.
#[derive(Default)]
struct Reader {
    imported: ImportedJobs,
    targets: Vec<String>,
    block: Option<u64>,
    writes: u64,
    is_random: bool,
    /// `-rs`: percentage of random operations.
    random_percent: Option<u64>,
    /// `-rd`: fio's name of the distribution.
    distribution: Option<String>,
    is_interlocked: bool,
    threads: Option<u64>,
    /// `-F`: threads that all targets share.
    threads_of_all: Option<u64>,
    depth: Option<u64>,
    /// `-O`: operations of a thread, on all targets together.
    depth_of_all: Option<u64>,
    duration: Option<u64>,
    warm_up: Option<u64>,
    caching: Caching,
    seed: Option<Option<u64>>,
    /// fio's option for zeroes, or new bytes with each write.
    buffers: Option<&'static str>,
    rate: Option<(u64, bool)>,
    burst: Option<u64>,
    pause_ms: Option<u64>,
    cores: Vec<u64>,
    stride: Size,
    thread_stride: Size,
    base: Size,
    created: Size,
    end: Size,
    length: Size,
}

impl Reader {
    fn option(&mut self, word: &str, option: &str) -> Result<(), String> {
        let mut letters = option.chars();
        let letter = letters.next().ok_or("there is no such option")?;
        let value = letters.as_str();
        match letter {
            'b' => {
                let bytes = Size::parse(value)?.bytes(1).filter(|bytes| *bytes > 0);
                self.block = Some(bytes.ok_or("a block has at least 1 byte")?);
            }
            'w' if value.is_empty() => return Err("give the percentage of writes".into()),
            'w' => self.writes = within(value, 0, 100)?,
            'r' => self.random(value)?,
            's' => self.sequential(value)?,
            't' => self.threads = Some(number(value)?),
            'F' => self.threads_of_all = Some(number(value)?),
            'o' => self.depth = Some(number(value)?),
            'O' => self.depth_of_all = Some(number(value)?),
            'd' => self.duration = Some(number(value)?),
            'W' => self.warm_up = Some(number(value)?),
            'C' if number(value)? > 0 => {
                self.imported.lack(format!("{word} (the load ends with the measurement)"));
            }
            'C' => {}
            'S' => self.caching.add(value)?,
            'h' if value.is_empty() => self.caching.add("h")?,
            'c' => self.created = Size::parse(value)?,
            'f' if !value.is_empty() && value.chars().all(|c| "rst".contains(c)) => {
                self.imported.lack(format!("{word} (the system gets no hints)"));
            }
            'f' => self.limit(Size::parse(value)?, false)?,
            'B' => self.bounds(value)?,
            'T' => self.thread_stride = Size::parse(value)?,
            'g' => {
                let (text, counts) = value.strip_suffix('i').map_or((value, false), |t| (t, true));
                self.rate = Some((within(text, 1, u64::MAX / 1000)?, counts));
            }
            'i' => self.burst = Some(within(value, 1, u32::MAX.into())?),
            'j' => self.pause_ms = Some(number(value)?),
            'z' if value.is_empty() => self.seed = Some(None),
            'z' => self.seed = Some(Some(number(value)?)),
            'Z' if value.is_empty() => self.buffers = Some("zero_buffers"),
            'Z' if value == "r" => self.buffers = Some("refill_buffers"),
            'a' => self.affinity(value)?,
            _ => return self.other(word, letter, value),
        }
        Ok(())
    }

    /// Options that are refused or left out.
    fn other(&mut self, word: &str, letter: char, value: &str) -> Result<(), String> {
        let left_out = match (letter, value) {
            ('I', "3") | ('n' | 'L', "") => return Ok(()),
            ('R', value) if value.starts_with('p') => return Err(refusal("-Rp")),
            ('R', _) => return Ok(()),
            (letter, _) if OUTPUT.contains(&letter) => return Ok(()),
            ('Z', size) if Size::parse(size).is_ok() => note("-Z<size>").unwrap_or_default(),
            ('Z', _) => return Err(refusal("-Z<size>,<file>")),
            ('l' | 'x', "") | ('e' | ':', _) => note_of(letter),
            ('I' | 'N' | 'X' | 'y' | '?', _) | ('p', "") => {
                return Err(refusal(&format!("-{letter}")));
            }
            _ => return Err("DISKSPD has no such option".into()),
        };
        self.imported.lack(format!("{word} ({left_out})"));
        Ok(())
    }

    /// `-r`: random operations.
    fn random(&mut self, value: &str) -> Result<(), String> {
        self.is_random = true;
        if let Some(percent) = value.strip_prefix('s') {
            self.random_percent = Some(within(percent, 1, 100)?);
        } else if let Some(parts) = value.strip_prefix("dpct") {
            self.distribution = Some(distribution("zoned", parts, number)?);
        } else if let Some(parts) = value.strip_prefix("dabs") {
            let size = |part: &str| match Size::parse(part)? {
                Size::Bytes(bytes) => Ok(bytes),
                _ => Err(format!("{part}: use bytes, or K, M, G, T")),
            };
            self.distribution = Some(distribution("zoned_abs", parts, size)?);
        } else if !value.is_empty() {
            self.stride = Size::parse(value)?;
        }
        Ok(())
    }

    /// `-s`: sequential operations. `-r` is stronger.
    fn sequential(&mut self, value: &str) -> Result<(), String> {
        let stride = value.strip_prefix('i');
        self.is_interlocked = stride.is_some();
        let stride = stride.unwrap_or(value);
        if !stride.is_empty() && !self.is_random {
            self.stride = Size::parse(stride)?;
        }
        Ok(())
    }

    /// `-B`: base and length.
    fn bounds(&mut self, value: &str) -> Result<(), String> {
        if self.base != Size::None {
            return Err("-B can be given once".into());
        }
        let (base, length) = value.split_once(':').map_or((value, None), |(b, l)| (b, Some(l)));
        self.base = Size::parse(base)?;
        length.map_or(Ok(()), |length| self.limit(Size::parse(length)?, true))
    }

    /// The length of the region, or where it ends.
    fn limit(&mut self, size: Size, is_length: bool) -> Result<(), String> {
        if self.end != Size::None || self.length != Size::None {
            return Err("the end of the region can be given once".into());
        }
        *(if is_length { &mut self.length } else { &mut self.end }) = size;
        Ok(())
    }

    /// `-a0,1`, `-ag0,0,1`: cores.
    fn affinity(&mut self, value: &str) -> Result<(), String> {
        // Alone, it is what DISKSPD does by default.
        for part in value.split(',').filter(|part| !matches!(*part, "" | "g")) {
            match part.strip_prefix('g') {
                Some(group) if number(group)? > 0 => {
                    return Err("only processor group 0 is supported".into());
                }
                Some(_) => {}
                None => self.cores.push(number(part)?),
            }
        }
        Ok(())
    }

    /// The jobs: one for each target.
    fn imported(mut self) -> Result<ImportedJobs, ImportError> {
        let wrong = |at: &str, problem: &str| Err(ImportError::wrong(at, problem));
        let several = self.targets.len() > 1;
        if self.threads.is_some() && self.threads_of_all.is_some() {
            return wrong("-F", "it conflicts with -t");
        }
        if self.depth_of_all.is_some() && (self.threads_of_all.is_none() || several) {
            return wrong("-O", "it needs -F and one target; use -o");
        }
        if self.burst.is_some() != self.pause_ms.is_some() {
            return wrong("-i", "-i and -j belong together");
        }
        if self.thread_stride != Size::None && self.is_random {
            return wrong("-T", "it conflicts with -r");
        }
        let threads = self.threads.or(self.threads_of_all).unwrap_or(1);
        if self.is_interlocked && !self.is_random && threads > 1 {
            return wrong("-si", "threads do not share a position; use -T or one thread");
        }
        if !self.is_random && !matches!(self.writes, 0 | 100) {
            self.imported.lack("-s (reads and writes have a position each)");
        }
        // Whoever runs it may give the target.
        let targets: Vec<_> = match self.targets.is_empty() {
            true => vec![None],
            false => self.targets.iter().cloned().map(Some).collect(),
        };
        let job = |(n, target): (usize, Option<String>)| {
            let mut job = self.job();
            job.set("name", format!("target-{n}"));
            ImportedJob { target, ..job }
        };
        let jobs = targets.into_iter().enumerate().map(job).collect();
        self.imported.groups = vec![jobs];
        Ok(self.imported)
    }

    fn job(&self) -> ImportedJob {
        let mut job = ImportedJob::default();
        let block = self.block.unwrap_or(64 << 10);
        let stride = self.stride.bytes(block).filter(|stride| *stride != block);
        let pattern = match (self.is_random, self.writes) {
            (false, 0) => "read",
            (false, 100) => "write",
            (false, _) => "rw",
            (true, 0) => "randread",
            (true, 100) => "randwrite",
            (true, _) => "randrw",
        };
        // The distance between the end of an operation and the next one.
        let skip = stride.filter(|_| !self.is_random).map(|it| i128::from(it) - i128::from(block));
        job.set("rw", skip.map_or(pattern.to_owned(), |skip| format!("{pattern}:{skip}")));
        if !matches!(self.writes, 0 | 100) {
            job.set("rwmixwrite", self.writes.to_string());
        }
        job.set("bs", block.to_string());
        let threads = self.threads.or(self.threads_of_all).unwrap_or(1).max(1);
        job.set("numjobs", threads.to_string());
        let depth = self.depth_of_all.or(self.depth).unwrap_or(2).max(1);
        job.set("iodepth", depth.to_string());
        job.set("runtime", self.duration.unwrap_or(10).to_string());
        job.set("ramp_time", self.warm_up.unwrap_or(5).to_string());
        job.set("time_based", "1");
        self.caching.set(&mut job);
        if self.is_random {
            // DISKSPD chooses each block by itself.
            job.set("norandommap", "1");
            let align = stride.map(|bytes| ("blockalign", bytes.to_string()));
            let percent = self.random_percent.map(|it| ("percentage_random", it.to_string()));
            let spread = self.distribution.clone().map(|it| ("random_distribution", it));
            [align, percent, spread].into_iter().flatten().for_each(|(name, it)| job.set(name, it));
        }
        self.place(&mut job, block);
        self.pace(&mut job);
        job
    }

    /// Rates, pauses, the payload, the seed and the cores.
    fn pace(&self, job: &mut ImportedJob) {
        match self.rate {
            Some((rate, true)) => job.set("rate_total_iops", rate.to_string()),
            Some((rate, false)) => job.set("rate_total", (rate * 1000).to_string()),
            None => {}
        }
        if let (Some(burst), Some(pause_ms)) = (self.burst, self.pause_ms) {
            job.set("thinktime", format!("{pause_ms}ms"));
            job.set("thinktime_blocks", burst.to_string());
            job.set("thinktime_blocks_type", "issue");
        }
        if let Some(buffers) = self.buffers {
            job.set(buffers, "1");
        }
        match self.seed {
            Some(Some(seed)) => job.set("randseed", seed.to_string()),
            Some(None) => job.set("randrepeat", "0"),
            None => {}
        }
        if !self.cores.is_empty() {
            let cores = self.cores.iter().map(u64::to_string);
            job.set("cpus_allowed", cores.collect::<Vec<_>>().join(","));
        }
    }

    /// Sets the part of the target that is read and written.
    fn place(&self, job: &mut ImportedJob, block: u64) {
        let base = self.base.bytes(block);
        if let Some(base) = base {
            job.set("offset", base.to_string());
        }
        if let Some(stride) = self.thread_stride.bytes(block) {
            job.set("offset_increment", stride.to_string());
        }
        let to_end = |end: u64| end.saturating_sub(base.unwrap_or(0));
        let ends = [self.end, self.created].map(|end| end.bytes(block).map(to_end));
        if let Some(size) = self.length.bytes(block).or(ends[0]).or(ends[1]) {
            job.set("size", size.to_string());
        }
    }
}

/// fio's form of `IO%/part:…`; what is left of the operations goes to what is left of the target.
fn distribution(
    name: &str,
    parts: &str,
    size: impl Fn(&str) -> Result<u64, String>,
) -> Result<String, String> {
    let (mut shares, mut used, mut texts) = (0, 0, Vec::new());
    for part in parts.split(':') {
        let (share, part) = part.split_once('/').ok_or("write IO%/part, as in 90/10:10/90")?;
        let (share, part) = (within(share, 0, 100)?, size(part)?);
        (shares, used) = (shares + share, used + part);
        texts.push(format!("{share}/{part}"));
    }
    match (shares, name) {
        (100, _) => {}
        (0..100, "zoned") if used < 100 => {
            texts.push(format!("{}/{}", 100 - shares, 100 - used));
        }
        _ => return Err("the shares of the operations do not add up to 100".into()),
    }
    Ok(format!("{name}:{}", texts.join(":")))
}

/// The caches that a command line asks for.
#[derive(Debug, Default)]
struct Caching {
    /// `-Su`: bypass the cache of the system.
    unbuffered: bool,
    /// `-Sw`: bypass that of the disk, too.
    write_through: bool,
}

impl Caching {
    /// The letters behind `-S`; none is the same as `u`.
    pub fn add(&mut self, letters: &str) -> Result<(), String> {
        self.unbuffered |= letters.is_empty();
        for letter in letters.chars() {
            match letter {
                'b' => self.unbuffered = false,
                'u' => self.unbuffered = true,
                'w' => self.write_through = true,
                'h' => (self.unbuffered, self.write_through) = (true, true),
                'm' => return Err(refusal("-Sm")),
                'r' => return Err(refusal("-Sr")),
                _ => return Err("use letters of bhmruw".into()),
            }
        }
        Ok(())
    }

    /// The options of a job.
    pub fn set(&self, job: &mut ImportedJob) {
        job.set("direct", u8::from(self.unbuffered).to_string());
        if self.write_through {
            job.set("sync", "dsync");
        }
    }
}
