//! The log page Error Information of one controller (Base §5.16.1.2).

use std::collections::VecDeque;

use super::super::fault::Fault;
use crate::limits::ERROR_ENTRIES_MAX;
use crate::nvme::log_page::ErrorEntry;
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Nsid, Qid};

/// A command that failed.
#[derive(Clone, Copy, Debug)]
pub(in crate::nvme::controller) struct CommandError {
    pub qid: Qid,
    pub cid: Cid,
    pub opcode: u8,
    pub fault: Fault,
    /// As the completion says.
    pub do_not_retry: bool,
    pub nsid: Nsid,
    pub lba: u64,
}

/// The last errors, newest first.
#[derive(Debug, Default)]
pub(in crate::nvme::controller) struct ErrorLog {
    count: u64,
    entries: VecDeque<(u64, CommandError)>,
}

impl ErrorLog {
    pub fn push(&mut self, error: CommandError) {
        self.count += 1;
        self.entries.truncate(ERROR_ENTRIES_MAX - 1);
        self.entries.push_front((self.count, error));
    }

    /// The log page: all its entries, the unused ones zero.
    pub fn page(&self) -> Vec<u8> {
        let mut page = vec![0; ERROR_ENTRIES_MAX * ErrorEntry::BYTES];
        for (out, (count, error)) in page.chunks_exact_mut(ErrorEntry::BYTES).zip(&self.entries) {
            entry(*count, error).put(out);
        }
        page
    }
}

fn entry(count: u64, error: &CommandError) -> ErrorEntry {
    ErrorEntry {
        error_count: count,
        sq_id: error.qid.0,
        cid: error.cid.0,
        status_field: status_field(error) << 1,
        parameter_location: error.fault.location,
        lba: error.lba,
        nsid: error.nsid,
        opcode: error.opcode,
        version: 1,
        ..ErrorEntry::default()
    }
}

/// The field of the completion, without phase tag.
fn status_field(error: &CommandError) -> u16 {
    let do_not_retry = if error.do_not_retry { Status::DNR } else { 0 };
    error.fault.status.0 | Status::MORE | do_not_retry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entry_comes_first_and_old_ones_are_forgotten() {
        let mut log = ErrorLog::default();
        assert!(log.page().iter().all(|&byte| byte == 0));
        let fault = Fault::at(Status::LBA_OUT_OF_RANGE, 40);
        for n in 0..100 {
            log.push(CommandError {
                qid: Qid(1),
                cid: Cid(n),
                opcode: 2,
                fault,
                do_not_retry: true,
                nsid: Nsid(1),
                lba: u64::from(n),
            });
        }
        let page = log.page();
        assert_eq!(page.len(), 4096);
        let first = ErrorEntry::decode(&page).unwrap();
        assert_eq!(
            (first.error_count, first.cid, first.status_field, first.parameter_location),
            (100, 99, 0xc100, 40)
        );
        let last = ErrorEntry::decode(&page[63 * 64..]).unwrap();
        assert_eq!((last.error_count, last.lba), (37, 36));
    }
}
