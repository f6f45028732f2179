//! The parameters of vdbench 5.04 for block devices, and their support.

use crate::import::OptionSupport::{self, Honoured, LeftOut, Refused};
use crate::import::Options;

const REMOTE: &str = "one weft makes the load; use `weft agent` for several machines";
const PAYLOAD: &str = "every write has new random bytes";
const REPORT: &str = "the report has the distribution of latencies";
const VALIDATE: &str = "use verify=crc32c in a fio job file";
const CACHE: &str = "there is no part of a device that is hit on purpose";

/// Parameters that stand before the definitions.
pub const GENERAL: &Options = &[
    (
        "compratio dedupratio dedupunit dedupsets deduphotsets dedupflipflop pattern",
        Refused,
        PAYLOAD,
    ),
    ("validate data_errors", Refused, VALIDATE),
    ("journal", Refused, VALIDATE),
    ("formatsds formatxfersize", Refused, "fill the disk with a run of its own"),
    ("startcmd start_cmd endcmd end_cmd", Refused, "weft runs no commands of parameter files"),
    ("include", Refused, "put all lines into one file"),
    ("loop", Refused, "repeat the runs"),
    ("concatenatesds", Refused, "name a `stripe:` of the disks"),
    ("abort_failed_skew", LeftOut, "shares are kept by rates"),
    ("create_anchors fwd_thread_adjust", LeftOut, "there are no file systems"),
    ("debug ios_per_jvm jvms monitor port timeout", LeftOut, "weft is one process"),
    ("messagescan", LeftOut, "the system log is not read"),
    ("histogram report report_run_totals showlba swat", LeftOut, REPORT),
    ("rg", Refused, "traces are not replayed"),
    (
        "fsd fwd",
        Refused,
        "workloads on file systems have no equivalent; only sd, wd and rd have one",
    ),
];

/// Parameters of hosts.
pub const HD: &Options = &[
    ("clients system", Refused, REMOTE),
    ("jvms shell user vdbench mount", LeftOut, "weft is one process"),
];

/// Parameters of storage.
pub const SD: &Options = &[
    ("lun size offset range threads openflags", Honoured, ""),
    ("align", Honoured, "of random operations"),
    ("host", LeftOut, "weft runs on this host"),
    ("hitarea", LeftOut, CACHE),
    ("compratio dedupratio dedupunit dedupsets deduphotsets dedupflipflop", Refused, PAYLOAD),
    ("count", Refused, "write a line for each disk"),
    ("data_errors journal inquiry", Refused, VALIDATE),
    ("replay", Refused, "traces are not replayed"),
    ("resetbus resetlun", Refused, "disks are not reset"),
    ("streams", Refused, "threads do not share a position"),
];

/// Parameters of workloads.
pub const WD: &Options = &[
    ("sd xfersize rdpct seekpct threads range openflags iorate", Honoured, ""),
    ("skew", Honoured, "with a number for `iorate`; refused with iorate=max"),
    ("host", LeftOut, "weft runs on this host"),
    ("hotband stride streams", Refused, "the order is random, sequential, or a mix of both"),
    ("priority", Refused, "workloads have no priority"),
    ("rhpct whpct", Refused, CACHE),
];

/// Parameters of runs.
pub const RD: &Options = &[
    ("wd sd iorate elapsed warmup threads xfersize rdpct seekpct openflags", Honoured, ""),
    ("forxfersize forrdpct forseekpct forthreads foriorate", Honoured, ""),
    ("distribution", Honoured, "exponential or deterministic"),
    ("maxdata", Honoured, "of one workload on one disk"),
    ("interval pause", LeftOut, REPORT),
    ("curve stopcurve", Refused, "give the rates as a list"),
    ("hitarea rhpct whpct forhitarea forrhpct forwhpct", Refused, CACHE),
    ("forcompratio compratio", Refused, PAYLOAD),
    ("startcmd start_cmd endcmd end_cmd", Refused, "weft runs no commands of parameter files"),
    ("replay", Refused, "traces are not replayed"),
    (
        "fwd fwdrate format operations foroperations",
        Refused,
        "workloads on file systems have no equivalent",
    ),
    ("timeout", LeftOut, "weft is one process"),
];

/// Values with which parameters ask for nothing, or for what weft does anyway.
const HARMLESS: [(&str, &str); 11] = [
    ("rhpct", "0"),
    ("whpct", "0"),
    ("compratio", "1"),
    ("dedupratio", "1"),
    ("skew", "0"),
    ("validate", "no"),
    ("journal", "no"),
    ("formatsds", "no"),
    ("concatenatesds", "no"),
    ("system", "localhost"),
    ("clients", "1"),
];

/// The treatment of a parameter, with a note: honoured without one if the value asks for nothing.
/// `None`: vdbench does not have it.
pub(super) fn answer(
    of: &Options,
    name: &str,
    values: &[String],
) -> Option<(OptionSupport, &'static str)> {
    if let [value] = values
        && HARMLESS.contains(&(name, value.as_str()))
    {
        return Some((Honoured, ""));
    }
    let has = |names: &str| names.split(' ').any(|other| other == name);
    of.iter().find(|(names, ..)| has(names)).map(|(_, answer, note)| (*answer, *note))
}

/// The parameters as tables of `docs/bench.md`.
pub fn tables() -> String {
    let all = [
        ("vdbench", GENERAL),
        ("vdbench, `hd`", HD),
        ("vdbench, `sd`", SD),
        ("vdbench, `wd`", WD),
        ("vdbench, `rd`", RD),
    ];
    all.map(|(title, of)| crate::import::answer::table(title, of)).join("\n")
}
