//! The options of DISKSPD 2.2, and their support.

use crate::import::OptionSupport::{Honoured, LeftOut, Refused};
use crate::import::Options;

/// The options. A letter stands for all of its forms that are not named.
pub const OPTIONS: &Options = &[
    ("-b", Honoured, ""),
    ("-B", Honoured, ""),
    ("-f<size>", Honoured, ""),
    ("-c", Honoured, "a file that does not exist is created, sparse"),
    ("-w", Honoured, "without a percentage it is refused, as by DISKSPD"),
    ("-r", Honoured, ""),
    ("-rs", Honoured, ""),
    ("-rdpct -rdabs", Honoured, "-rdabs only with shares that add up to 100"),
    ("-s", Honoured, ""),
    ("-si", Honoured, "with one thread; refused with several"),
    ("-t", Honoured, ""),
    ("-T", Honoured, ""),
    ("-F", Honoured, ""),
    ("-o", Honoured, ""),
    ("-O", Honoured, "with one target; refused with several"),
    ("-d", Honoured, ""),
    ("-W", Honoured, ""),
    ("-g", Honoured, "the rate of reads and writes together"),
    ("-i -j", Honoured, ""),
    ("-S -Sb -Su -Sw -Sh -h", Honoured, "write-through is force unit access"),
    ("-z", Honoured, ""),
    ("-a -ag", Honoured, "cores of processor group 0"),
    ("-n", Honoured, ""),
    ("-Z", Honoured, "without it every write has new random bytes, unlike with DISKSPD"),
    ("-Zr", Honoured, "the default"),
    ("-C", LeftOut, "the load ends with the measurement"),
    ("-Z<size>", LeftOut, "every write has new random bytes"),
    ("-f<rst>", LeftOut, "the system gets no hints"),
    ("-l", LeftOut, "memory comes from the event loop's pool"),
    ("-x", LeftOut, "weft has its own I/O engine"),
    ("-e -:", LeftOut, "events of Windows are not traced"),
    ("-D -L -P -R -v", LeftOut, "the report has the distribution of latencies"),
    ("-I", Refused, "operations have no priority; -I3 is the default"),
    ("-N -Sm", Refused, "memory is not mapped"),
    ("-Sr", Refused, "a device has no caches of a remote file system"),
    ("-Z<size>,<file>", Refused, "the bytes of a file are not written"),
    ("-p", Refused, "operations do not share an offset"),
    ("-Rp", Refused, "it only prints a profile"),
    ("-X", Refused, "profiles are not read; give the options that DISKSPD prints for it"),
    ("-y", Refused, "events of Windows neither start nor stop a run"),
    ("-?", Refused, "it only prints help"),
];

/// The options as a table of `docs/bench.md`.
pub fn table() -> String {
    crate::import::answer::table("DISKSPD", OPTIONS)
}

/// Why an option is refused.
pub(super) fn refusal(name: &str) -> String {
    note(name).unwrap_or("it is not supported").to_owned()
}

/// The note about an option of one letter.
pub(super) fn note_of(letter: char) -> &'static str {
    note(&format!("-{letter}")).unwrap_or_default()
}

/// The note about an option.
pub(super) fn note(name: &str) -> Option<&'static str> {
    let has = |names: &str| names.split(' ').any(|other| other == name);
    OPTIONS.iter().find(|(names, ..)| has(names)).map(|(.., note)| *note)
}
