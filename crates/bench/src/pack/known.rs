//! Names and words that reveal nothing about anybody.

use crate::results::{Lane, Results};
use crate::suite::Suite;
use std::collections::BTreeSet;

/// Words of commands and of configurations of targets, and technical words with marks or digits in
/// them.
const WORDS: &str = "\
weft serve study study-relay bench ceiling agent taskset fio diskspd vdbench tgt tgtd tgtadm \
nbdkit qemu-nbd nbd-server nbdcopy iscsi-perf spdk spdk-perf nvmf_tgt iscsi_tgt spdk_nvme_perf \
rpc.py iscsi nbd nvme nvme+tcp nvme+rdma tcp rdma ram null file memory malloc aio raw none \
writeback direct unmap io_uring libaio new target logicalunit bind all on off true false generic \
listenaddr port exportname size driver null-co read-zeroes portal read write randread randwrite \
randrw rw readwrite trim markdown csv svg png auto local flash disk data system user matrix \
nvme/tcp nvme/rdma tcp/ip i/o io/s and/or x86_64 aarch64 p50 p90 p99 p99.9 p99.99 directory \
memory host nqn iqn lun host/nqn open-loop read-only one-way co-located never DIRECTORY/config \
DIRECTORY/control DIRECTORY/pid RUNTIME_DIRECTORY TGT_IPC_SOCKET bdev nvmf ipv4 ipv6 \
bdev_malloc_create bdev_null_create bdev_aio_create nvmf_create_transport nvmf_create_subsystem \
nvmf_subsystem_add_ns nvmf_subsystem_add_listener vhost-user ublk null_blk";

/// Texts that are known to be harmless.
pub(super) struct Known {
    words: BTreeSet<String>,
    suites: Vec<Suite>,
}

/// Longest name that may be put together of others.
const NAME_BYTES_MAX: usize = 64;

impl Known {
    /// The names of weft and of its suites, and those that the user wants to keep.
    pub(super) fn new(keep: &[String]) -> Self {
        let suites = Suite::shipped();
        let mut words: BTreeSet<String> = WORDS.split_whitespace().map(str::to_owned).collect();
        let usual =
            [Lane::LOCAL, Lane::FLASH, Lane::NVME_TCP, Lane::NVME_RDMA, Lane::ISCSI, Lane::NBD];
        words.extend(usual.map(str::to_owned));
        for suite in &suites {
            words.insert(suite.name.clone());
            words.extend(suite.lanes.iter().map(|lane| lane.name.clone()));
            words.extend(suite.workloads.iter().map(|workload| workload.name.clone()));
        }
        words.extend(keep.iter().cloned());
        Self { words, suites }
    }

    /// Returns whether it is a word that reveals nothing.
    pub(super) fn word(&self, text: &str) -> bool {
        self.words.contains(text) || self.words.contains(&text.to_lowercase())
    }

    /// Returns whether it is a lane name of weft's own: known words with hyphens between them.
    pub(super) fn lane(&self, text: &str) -> bool {
        if self.word(text) {
            return true;
        }
        if text.len() > NAME_BYTES_MAX {
            return false;
        }
        let halves = text.match_indices('-').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let mut halves = halves.filter(|(first, _)| self.word(first));
        halves.any(|(_, second)| self.word(second))
    }

    /// Returns whether it is a workload name of weft's own: `qd1-4k-randread-16jobs`.
    pub(super) fn workload(&self, text: &str) -> bool {
        self.word(text) || text.split('-').all(is_part_of_a_workload)
    }

    /// Returns whether a suite that ships with weft has this name.
    pub(super) fn suite(&self, text: &str) -> bool {
        self.suites.iter().any(|suite| suite.name == text)
    }

    /// Returns whether a suite that ships with weft has this title, of itself, of a workload or of
    /// a lane.
    pub(super) fn title(&self, text: &str) -> bool {
        self.suites.iter().any(|suite| {
            suite.title == text
                || suite.workloads.iter().any(|workload| workload.title == text)
                || suite.lanes.iter().any(|lane| lane.title() == text)
        })
    }

    /// Leaves out what others have published, unless a suite that ships with weft has the same.
    /// Returns how many there were.
    pub(super) fn keep_published(&self, results: &mut Results) -> usize {
        let all = results.published.len();
        results.published.retain(|it| self.suites.iter().any(|suite| suite.published.contains(it)));
        all - results.published.len()
    }
}

fn is_part_of_a_workload(part: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let behind = |start: &str| part.strip_prefix(start).is_some_and(number);
    let before = |end: &str| part.strip_suffix(end).is_some_and(number);
    let orders = ["randread", "randwrite", "seqread", "seqwrite"];
    orders.contains(&part)
        || number(part)
        || behind("qd")
        || behind("load")
        || behind("randrw")
        || behind("seqrw")
        || before("k")
        || before("m")
        || before("jobs")
}

/// Returns whether it is a number, with or without a unit: `4096`, `1.5`, `80us`, `256MiB`, `±2`,
/// `3.4×`.
pub(super) fn is_number(text: &str) -> bool {
    let text = text.trim_start_matches(['+', '-', '−', '±', '~', '<', '>', '×']);
    let digits =
        text.trim_end_matches(|letter: char| letter.is_alphabetic() || "%µ×".contains(letter));
    let unit = text[digits.len()..].chars().count();
    let mut parts = digits.split(['–', '.']);
    let is_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    unit <= 6 && !digits.is_empty() && parts.clone().count() <= 3 && parts.all(is_digits)
}
