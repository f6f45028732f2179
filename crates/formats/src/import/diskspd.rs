//! DISKSPD's command lines (its wiki, "Command line and parameters").

use super::{ImportError, Imported, ImportedJob, words};

/// Options that change what is printed or how it is measured only. Latencies are always measured
/// here.
const OUTPUT: [char; 5] = ['L', 'D', 'R', 'v', 'P'];

/// Reads a command line, with or without the name of the program.
///
/// # Errors
/// An option that DISKSPD does not have, or has not in this form.
pub fn import(line: &str) -> Result<Imported, ImportError> {
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
            Some(option) => reader.option(word, option)?,
            None => reader.targets.push(target(word)),
        }
    }
    Ok(reader.imported())
}

/// Whether a word that begins with `/` is an option rather than a path: one letter, and a number or
/// nothing.
fn is_option(word: &str) -> bool {
    word.len() <= 8 && !word[1..].contains(['/', '.'])
}

/// `#1` is the first physical drive.
fn target(word: &str) -> String {
    word.strip_prefix('#')
        .map_or_else(|| word.to_owned(), |number| format!(r"\\.\PhysicalDrive{number}"))
}

/// A size: blocks without a unit count bytes; `b` means blocks.
fn size(word: &str, text: &str, block: u64) -> Result<u64, ImportError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        "B" => block,
        _ => 0,
    };
    let bytes =
        digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|_| unit > 0);
    bytes.ok_or_else(|| {
        ImportError::wrong(word, "a size is a number, perhaps with K, M, G, T, or b for blocks")
    })
}

fn number(word: &str, text: &str) -> Result<u64, ImportError> {
    text.parse().map_err(|_| ImportError::wrong(word, "a number belongs behind this option"))
}

/// A command line as it was read; sizes in blocks count once the size of a block is known.
#[derive(Default)]
struct Reader {
    imported: Imported,
    targets: Vec<String>,
    block: Option<u64>,
    writes: u64,
    is_random: bool,
    threads: Option<u64>,
    /// `-F`: threads that all targets share.
    threads_of_all: Option<u64>,
    depth: Option<u64>,
    duration: Option<u64>,
    warm_up: Option<u64>,
    direct: bool,
    seed: Option<Option<u64>>,
    rate: Option<(u64, bool)>,
    /// Whether zeroes are written, or fresh data each time.
    buffers: Option<&'static str>,
    /// Word and text of sizes, which may count blocks.
    stride: Option<(String, String)>,
    thread_stride: Option<(String, String)>,
    base: Option<(String, String)>,
    created: Option<(String, String)>,
    end: Option<(String, String)>,
    length: Option<(String, String)>,
}

impl Reader {
    fn option(&mut self, word: &str, option: &str) -> Result<(), ImportError> {
        let mut letters = option.chars();
        let Some(letter) = letters.next() else {
            return Err(ImportError::wrong(word, "there is no such option"));
        };
        let value = letters.as_str();
        let sized = || Some((word.to_owned(), value.to_owned()));
        match letter {
            'b' => self.block = Some(size(word, value, 1)?),
            'w' if value.is_empty() => self.writes = 50,
            'w' => self.writes = number(word, value)?.min(100),
            'r' | 's' => self.order(word, letter, value),
            't' => self.threads = Some(number(word, value)?),
            'F' => self.threads_of_all = Some(number(word, value)?),
            'o' | 'O' => self.depth = Some(number(word, value)?),
            'd' => self.duration = Some(number(word, value)?),
            'W' => self.warm_up = Some(number(word, value)?),
            'C' => {}
            'S' => self.caching(word, value),
            'h' if value.is_empty() => self.direct = true,
            'c' => self.created = sized(),
            'f' if value.chars().all(|c| c.is_ascii_digit() || "KMGTbkmgt".contains(c))
                && !value.is_empty() =>
            {
                self.end = sized()
            }
            'B' => {
                let (base, length) = value
                    .split_once(':')
                    .map_or((value, None), |(base, length)| (base, Some(length)));
                self.base = Some((word.to_owned(), base.to_owned()));
                self.length = length.map(|length| (word.to_owned(), length.to_owned()));
            }
            'T' => self.thread_stride = sized(),
            'g' => {
                let (text, counts) =
                    value.strip_suffix('i').map_or((value, false), |text| (text, true));
                self.rate = Some((number(word, text)?, counts));
            }
            'z' if value.is_empty() => self.seed = Some(None),
            'z' => self.seed = Some(Some(number(word, value)?)),
            'Z' if value.is_empty() => self.buffers = Some("zero_buffers"),
            'Z' if value == "r" => self.buffers = Some("refill_buffers"),
            'X' => {
                return Err(ImportError::wrong(
                    word,
                    "profiles are not read; give the options that DISKSPD prints for it",
                ));
            }
            'A' | 'I' | 'N' | 'Z' | 'a' | 'e' | 'f' | 'i' | 'j' | 'k' | 'l' | 'n' | 'p' | 'x'
            | 'y' => {
                self.imported.lack(format!("{word}: {}", what_is_missing(letter)));
            }
            letter if OUTPUT.contains(&letter) => {}
            _ => return Err(ImportError::wrong(word, "DISKSPD has no such option")),
        }
        Ok(())
    }

    /// `-r` and `-s`: random or sequential.
    fn order(&mut self, word: &str, letter: char, value: &str) {
        self.is_random = letter == 'r';
        let value = match (letter, value.chars().next()) {
            ('r', Some('s')) => {
                self.imported
                    .lack(format!("{word}: all operations are random, as there is no mix of random and sequential ones"));
                ""
            }
            ('r', Some('d')) => {
                self.imported
                    .lack(format!("{word}: random operations are spread evenly over the region"));
                ""
            }
            ('s', Some('i')) => {
                self.imported.lack("-si: each thread has a position of its own in the region");
                &value[1..]
            }
            _ => value,
        };
        self.stride = (!value.is_empty()).then(|| (word.to_owned(), value.to_owned()));
    }

    /// `-S`: which caches are bypassed.
    fn caching(&mut self, word: &str, value: &str) {
        for letter in value.chars() {
            match letter {
                'h' | 'u' => self.direct = true,
                'b' => self.direct = false,
                _ => {
                    self.imported.lack(format!("{word}: writes are not written through one by one"))
                }
            }
        }
        if value.is_empty() {
            self.direct = true;
        }
    }

    /// The jobs: one for each target.
    fn imported(mut self) -> Imported {
        let mut jobs = Vec::new();
        // Whoever runs it may give the target.
        let targets: Vec<_> = if self.targets.is_empty() {
            vec![None]
        } else {
            self.targets.iter().cloned().map(Some).collect()
        };
        for (n, target) in targets.into_iter().enumerate() {
            let mut job = self.job();
            job.set("name", format!("target-{n}"));
            job.target = target;
            jobs.push(job);
        }
        self.imported.groups = vec![jobs];
        self.imported
    }

    fn job(&mut self) -> ImportedJob {
        let mut job = ImportedJob::default();
        let block = self.block.unwrap_or(64 << 10);
        let pattern = match (self.is_random, self.writes) {
            (false, 0) => "read",
            (false, 100) => "write",
            (false, _) => "rw",
            (true, 0) => "randread",
            (true, 100) => "randwrite",
            (true, _) => "randrw",
        };
        job.set("rw", pattern);
        if !matches!(self.writes, 0 | 100) {
            job.set("rwmixwrite", self.writes.to_string());
        }
        job.set("bs", block.to_string());
        let shared =
            self.threads_of_all.map(|threads| threads.div_ceil(self.targets.len().max(1) as u64));
        job.set("numjobs", shared.or(self.threads).unwrap_or(1).max(1).to_string());
        job.set("iodepth", self.depth.unwrap_or(2).max(1).to_string());
        job.set("runtime", self.duration.unwrap_or(10).to_string());
        job.set("ramp_time", self.warm_up.unwrap_or(5).to_string());
        job.set("time_based", "1");
        job.set("direct", u8::from(self.direct).to_string());
        if self.is_random {
            // DISKSPD chooses each block by itself.
            job.set("norandommap", "1");
        }
        if let Some(stride) = bytes(&self.stride, block).filter(|stride| *stride != block) {
            let what = if self.is_random {
                "random operations are aligned to"
            } else {
                "sequential operations follow each other at"
            };
            self.imported
                .lack(format!("a stride of {stride} bytes: {what} the size of an operation"));
        }
        self.place(&mut job, block);
        match self.rate {
            Some((rate, true)) => job.set("rate_iops", rate.to_string()),
            Some((rate, false)) => job.set("rate", (rate * 1000).to_string()),
            None => {}
        }
        if let Some(buffers) = self.buffers {
            job.set(buffers, "1");
        }
        match self.seed {
            Some(Some(seed)) => job.set("randseed", seed.to_string()),
            Some(None) => job.set("randrepeat", "0"),
            None => {}
        }
        job
    }

    /// Which part of the target is read and written.
    fn place(&self, job: &mut ImportedJob, block: u64) {
        let base = bytes(&self.base, block);
        if let Some(base) = base {
            job.set("offset", base.to_string());
        }
        if let Some(stride) = bytes(&self.thread_stride, block) {
            job.set("offset_increment", stride.to_string());
        }
        let to_end = |end: u64| end.saturating_sub(base.unwrap_or(0));
        if let Some(size) = bytes(&self.length, block)
            .or(bytes(&self.end, block).map(to_end))
            .or(bytes(&self.created, block))
        {
            job.set("size", size.to_string());
        }
    }
}

/// A size that may count blocks of this many bytes.
fn bytes(of: &Option<(String, String)>, block: u64) -> Option<u64> {
    of.as_ref().and_then(|(word, text)| size(word, text, block).ok())
}

fn what_is_missing(letter: char) -> &'static str {
    match letter {
        'a' | 'n' => "cores are chosen with --cpus_allowed",
        'Z' => "the payload is random data, fresh for each write",
        'A' | 'I' => "operations have no priority",
        'N' => "memory is not mapped",
        'i' | 'j' => "operations do not come in bursts with pauses",
        'l' => "large pages are not used",
        'p' => "operations of different threads are not started together",
        'f' => "files get no access hints",
        'x' => "completion routines are not used",
        'y' | 'e' => "events of Windows are not used",
        _ => "there is no such option here",
    }
}
