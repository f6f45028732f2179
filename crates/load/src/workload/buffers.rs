//! Options for the payload of writes, with fio's names and meanings.
//!
//! **Unlike fio**, every write carries new random bytes unless an option says otherwise. fio fills
//! its buffers once, and changes a few bytes in each 512 before each write (`scramble_buffers`).

use crate::error::Error;
use core::fmt;
use core::str::FromStr;
use std::io::Read;

/// Bytes of a pattern, at most (fio's limit).
const PATTERN_BYTES_MAX: usize = 512;

/// The payload of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// `zero_buffers`: zeroes.
    pub zero: bool,
    /// `refill_buffers`: new bytes for each write.
    pub refill: Option<bool>,
    /// `scramble_buffers`: each buffer keeps its bytes, and a few of them change with each write; if
    /// 0, none.
    pub scramble: Option<bool>,
    /// `buffer_pattern`: these bytes, repeated.
    pub pattern: Option<BufferPattern>,
    /// `buffer_compress_percentage`: the part of each chunk that is zeroes or the pattern; 0: no
    /// chunks.
    pub compress_percent: u8,
    /// `buffer_compress_chunk`: bytes of a chunk, at most those of the smallest write; 0: the same as
    /// the smallest write.
    pub compress_chunk: u32,
    /// `dedupe_percentage`: percentage of writes that repeat an earlier payload.
    pub dedupe_percent: u8,
    /// `dedupe_working_set_percentage`, with `dedupe_mode=working_set`: these repeat any of the first
    /// new payloads, as many as fill this percentage of the region. None: the last new payload.
    pub working_set_percent: Option<u8>,
}

/// The time at which a buffer gets new bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// Before each write.
    Fresh,
    /// Never again after the first.
    Kept {
        /// A few bytes change before each write.
        scrambled: bool,
    },
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            zero: false,
            refill: None,
            scramble: None,
            pattern: None,
            compress_percent: 0,
            compress_chunk: 512,
            dedupe_percent: 0,
            working_set_percent: None,
        }
    }
}

impl Buffers {
    /// Returns whether all of a buffer is random.
    pub(super) fn is_random(&self) -> bool {
        let is_fixed = self.zero || self.pattern.is_some();
        self.compress_percent == 0 && (self.dedupe_percent > 0 || !is_fixed)
    }

    /// Returns when buffers get new bytes; `verifies` is whether the job does. As in fio, jobs that
    /// verify, compressible chunks and deduplication need new bytes for each write, and nothing of
    /// them is scrambled.
    pub(super) fn renewal(&self, verifies: bool) -> Renewal {
        let is_varied = matches!(self.compress_percent, 1..=99) || self.dedupe_percent > 0;
        match (self.refill, self.scramble) {
            (Some(true), _) => Renewal::Fresh,
            _ if verifies => Renewal::Fresh,
            (None, _) if is_varied => Renewal::Fresh,
            (None, None) if self.is_random() => Renewal::Fresh,
            (_, scramble) => {
                Renewal::Kept { scrambled: !is_varied && scramble.unwrap_or(self.is_random()) }
            }
        }
    }

    /// Checks the options against one another.
    pub(super) fn check(&self) -> Result<(), Error> {
        let percent = |option, value: u8| match value {
            0..=100 => Ok(()),
            _ => Err(Error::option(option, format!("it is {value} but must be 0 to 100"))),
        };
        percent("buffer_compress_percentage", self.compress_percent)?;
        percent("dedupe_percentage", self.dedupe_percent)?;
        let set = self.working_set_percent.unwrap_or(0);
        if self.dedupe_percent > 0 && u32::from(set) + u32::from(self.dedupe_percent) > 100 {
            let problem = format!(
                "{set} % of the writes are new for the working set, so {} % cannot repeat: lower \
                 one of them",
                self.dedupe_percent
            );
            return Err(Error::option("dedupe_working_set_percentage", problem));
        }
        percent("dedupe_working_set_percentage", set)
    }

    /// fio's names and values of the options that were set.
    pub(super) fn options(&self) -> Vec<(&'static str, String)> {
        let default = Self::default();
        let flag = |value: bool| u8::from(value).to_string();
        let mut options = Vec::new();
        let mut more =
            |name, value: Option<String>| options.extend(value.map(|value| (name, value)));
        more("zero_buffers", self.zero.then(|| flag(true)));
        more("refill_buffers", self.refill.map(flag));
        more("scramble_buffers", self.scramble.map(flag));
        more("buffer_pattern", self.pattern.as_ref().map(ToString::to_string));
        let percent = |value: u8| (value > 0).then(|| value.to_string());
        more("buffer_compress_percentage", percent(self.compress_percent));
        let chunk = self.compress_chunk;
        more("buffer_compress_chunk", (chunk != default.compress_chunk).then(|| chunk.to_string()));
        more("dedupe_percentage", percent(self.dedupe_percent));
        more("dedupe_mode", self.working_set_percent.map(|_| "working_set".into()));
        more("dedupe_working_set_percentage", self.working_set_percent.map(|set| set.to_string()));
        options
    }
}

/// The bytes of `buffer_pattern`: at least one, and at most 512.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPattern(Vec<u8>);

impl BufferPattern {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BufferPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// fio's form: `0x` with hexadecimal digits, a decimal number of 32 bits (its bytes from the lowest
/// to the last that is not 0), `"text"`, `'file'`, or several of these in a row. A file that is
/// longer than the remaining room is cut off.
impl FromStr for BufferPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let mut rest = text;
        loop {
            let (part, behind) = match rest.chars().next() {
                Some('\'') => quoted(rest, '\'').and_then(|(name, behind)| {
                    Ok((from_file(name, PATTERN_BYTES_MAX - bytes.len())?, behind))
                })?,
                Some('"') => {
                    quoted(rest, '"').map(|(text, behind)| (text.as_bytes().to_vec(), behind))?
                }
                _ => number(rest)?,
            };
            if part.is_empty() {
                return Err(format!("{text}: a part of the pattern is empty"));
            }
            bytes.extend(part);
            if bytes.len() > PATTERN_BYTES_MAX {
                return Err(format!("a pattern has at most {PATTERN_BYTES_MAX} bytes"));
            }
            if behind.is_empty() {
                return Ok(Self(bytes));
            }
            rest = behind;
        }
    }
}

/// Splits a text behind its first quote into the quoted part and the rest.
fn quoted(text: &str, quote: char) -> Result<(&str, &str), String> {
    text[1..].split_once(quote).ok_or_else(|| format!("{text}: the closing {quote} is missing"))
}

fn from_file(name: &str, room: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    std::fs::File::open(name)
        .and_then(|file| file.take(room as u64).read_to_end(&mut bytes))
        .map_err(|e| format!("{name} cannot be read: {e}"))?;
    Ok(bytes)
}

/// Returns the bytes of the number at the beginning, and the rest.
fn number(text: &str) -> Result<(Vec<u8>, &str), String> {
    let wrong = || {
        format!(
            "{text:?} is not a pattern: use 0x and hexadecimal digits, a decimal number, \"text\" or 'file'"
        )
    };
    // A second hexadecimal number may follow at once; its 0 is not a digit of this one.
    let next_hex = |from: usize| {
        text.as_bytes()[from..].windows(2).position(|pair| pair[0] == b'0' && pair[1] | 32 == b'x')
    };
    if next_hex(0) == Some(0) {
        let digits = text[2..].find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len() - 2);
        let digits = next_hex(2).map_or(digits, |next| digits.min(next));
        if digits == 0 {
            return Err(wrong());
        }
        let (hex, behind) = text[2..].split_at(digits);
        // If the number of digits is odd, the first is a byte by itself.
        let (first, pairs) = hex.split_at(digits % 2);
        let bytes = [first]
            .into_iter()
            .filter(|first| !first.is_empty())
            .chain((0..pairs.len() / 2).map(|pair| &pairs[2 * pair..][..2]))
            .map(|digits| u8::from_str_radix(digits, 16).map_err(|_| wrong()));
        return Ok((bytes.collect::<Result<_, _>>()?, behind));
    }
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].find(|c: char| !c.is_ascii_digit());
    let end = digits.map_or(text.len(), |digits| sign + digits);
    let end = next_hex(0).map_or(end, |next| end.min(next));
    let (digits, behind) = text.split_at(end);
    let mut value = digits.parse::<i32>().map_err(|_| wrong())? as u32;
    let mut bytes = vec![value as u8];
    loop {
        value >>= 8;
        if value == 0 {
            return Ok((bytes, behind));
        }
        bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        text.parse::<BufferPattern>().unwrap_or_else(|e| panic!("{text}: {e}")).0
    }

    /// The examples of fio's sources, `lib/pattern.c`, and its manual.
    #[test]
    fn patterns_have_fios_form() {
        assert_eq!(bytes("\"abcd\""), b"abcd");
        assert_eq!(bytes("-1024"), [0, 0xfc, 0xff, 0xff]);
        assert_eq!((bytes("66"), bytes("0"), bytes("256")), (vec![0x42], vec![0], vec![0, 1]));
        assert_eq!(bytes("0xFF0X1"), [0xff, 1]);
        assert_eq!(bytes("\"123\"0xFFeeCC"), [0x31, 0x32, 0x33, 0xff, 0xee, 0xcc]);
        assert_eq!(bytes("12-1"), [12, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(bytes("-100xab\"1\""), [0xf6, 0xff, 0xff, 0xff, 0xab, 0x31]);
        assert_eq!(
            (bytes("0xdea"), bytes("0xdeadface")),
            (vec![0xd, 0xea], vec![0xde, 0xad, 0xfa, 0xce])
        );
        assert_eq!(bytes(&format!("0x{}", "fe".repeat(512))), [0xfe; 512]);
        let shown = "-12\"a\"".parse::<BufferPattern>().unwrap().to_string();
        assert_eq!((&*shown, bytes(&shown)), ("0xf4ffffff61", bytes("-12\"a\"")));
    }

    #[test]
    fn patterns_come_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pattern");
        std::fs::write(&file, [7; 600]).unwrap();
        let name = format!("'{}'", file.display());
        assert_eq!(bytes(&format!("0x01{name}")), [&[1][..], &[7; 511]].concat());
        assert!(format!("0x01{name}0x02").parse::<BufferPattern>().is_err(), "there is no room");
        std::fs::write(&file, []).unwrap();
        assert!(name.parse::<BufferPattern>().is_err(), "it is empty");
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let long = format!("0x{}", "fe".repeat(513));
        for wrong in [
            "",
            "0x",
            "abc",
            "\"abc",
            "\"\"",
            "'/no/such/file'",
            "%o",
            "4294967296",
            "--1",
            "0x1g",
            &long,
        ] {
            assert!(wrong.parse::<BufferPattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn buffers_are_renewed_as_in_fio_except_by_default() {
        let renewal = |change: fn(&mut Buffers)| {
            let mut buffers = Buffers::default();
            change(&mut buffers);
            buffers.renewal(false)
        };
        let kept = |scrambled| Renewal::Kept { scrambled };
        assert_eq!(renewal(|_| ()), Renewal::Fresh);
        assert_eq!(renewal(|b| b.refill = Some(true)), Renewal::Fresh);
        assert_eq!(renewal(|b| b.refill = Some(false)), kept(true), "fio's default");
        assert_eq!(renewal(|b| b.scramble = Some(true)), kept(true), "fio's default");
        assert_eq!(renewal(|b| b.scramble = Some(false)), kept(false));
        assert_eq!(renewal(|b| (b.refill, b.scramble) = (Some(true), Some(true))), Renewal::Fresh);
        assert_eq!(renewal(|b| b.zero = true), kept(false));
        assert_eq!(renewal(|b| (b.zero, b.scramble) = (true, Some(true))), kept(true));
        assert_eq!(renewal(|b| b.pattern = "0x1".parse().ok()), kept(false));
        assert_eq!(
            renewal(|b| (b.compress_percent, b.scramble) = (50, Some(true))),
            Renewal::Fresh
        );
        assert_eq!(renewal(|b| (b.dedupe_percent, b.refill) = (50, Some(false))), kept(false));
        assert_eq!(Buffers { zero: true, ..Buffers::default() }.renewal(true), Renewal::Fresh);
    }

    #[test]
    fn options_are_those_that_were_set() {
        assert!(Buffers::default().options().is_empty());
        let all = Buffers {
            zero: true,
            refill: Some(false),
            scramble: Some(true),
            pattern: "0xab".parse().ok(),
            compress_percent: 30,
            compress_chunk: 0,
            dedupe_percent: 40,
            working_set_percent: Some(7),
        };
        let shown: Vec<String> =
            all.options().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = "zero_buffers=1 refill_buffers=0 scramble_buffers=1 buffer_pattern=0xab \
            buffer_compress_percentage=30 buffer_compress_chunk=0 dedupe_percentage=40 \
            dedupe_mode=working_set dedupe_working_set_percentage=7";
        assert_eq!(shown.join(" "), expected);
        assert!(all.check().is_ok());
        for wrong in [
            Buffers { compress_percent: 101, ..Buffers::default() },
            Buffers { dedupe_percent: 101, ..Buffers::default() },
            Buffers { dedupe_percent: 60, working_set_percent: Some(41), ..Buffers::default() },
        ] {
            assert!(matches!(wrong.check(), Err(Error::Option { .. })), "{wrong:?}");
        }
    }
}
