//! The other registrants of a device, by its Reservation Report: each of them may write to it as
//! well.

use super::asking::Answer;
use weft_block::BlockDevice;

/// What a device says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Nobody is registered. weft does not register here, so this is nobody else.
    None,
    /// So many are registered, or more.
    Some(usize),
    /// It answered with something else than a report.
    Unreadable,
}

impl Others {
    pub(super) fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Report(report) if report.registrants.is_empty() && !report.is_cut => Self::None,
            Answer::Report(report) => Self::Some(report.registrants.len()),
            Answer::Done(_) => Self::Unreadable,
        }
    }
}

/// Whether who is registered with a device decides about writing again what it has lost, and it can
/// say so.
pub(super) fn decides(options: &super::PathOptions, device: &dyn BlockDevice) -> bool {
    options.only_writer_if_alone
        && !options.only_writer
        && !options.reserve
        && device.features().reservations
}

/// Says once, when a device was opened, that others may write to it.
pub(super) fn tell(url: &str, others: Others) {
    let why = match others {
        Others::None => return,
        Others::Some(1) => "another host is registered with the disk".to_owned(),
        Others::Some(count) => format!("{count} hosts are registered with the disk"),
        Others::Unreadable => {
            "the disk does not say whether other hosts are registered with it".to_owned()
        }
    };
    tracing::warn!(
        "{url}: {why}, so weft does not take itself for its only writer: if the target restarts and has lost unflushed data, nothing is written again \
         and the next flush fails, as with --shared. Give --only-writer if nobody else writes to it"
    );
}
