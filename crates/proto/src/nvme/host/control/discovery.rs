//! Reading the discovery log (Base §5.16.1.23): header, entries, and the header again, because the
//! log may change in between.

use core::time::Duration;

use super::{DiscoveryReading, HostControl};
use crate::limits::{DISCOVERY_ATTEMPTS_MAX, DISCOVERY_ENTRIES_MAX};
use crate::nvme::host::HostAction;
use crate::nvme::host::config::{AdminData, DiscoveryResult};
use crate::nvme::host::error::{HostError, Incompatibility, Violation};
use crate::nvme::host::request::{self, AssociationStep};
use crate::nvme::log_page::{DiscoveryEntry, DiscoveryHeader, LogPageId};
use crate::nvme::wire::DecodeError;

/// Entries in one command: what fits 4 KiB, the smallest limit that a controller may set.
const ENTRIES_PER_COMMAND: usize = 4;

impl HostControl {
    /// Reads the log from its beginning.
    pub(super) fn read_discovery(&mut self, now: Duration) {
        self.reading = DiscoveryReading::default();
        self.ask_discovery_header(now, true);
    }

    fn ask_discovery_header(&mut self, now: Duration, retain: bool) {
        let len = DiscoveryHeader::BYTES as u32;
        let sqe = request::log_page(LogPageId::DISCOVERY, 0, len, retain);
        self.line(now, AssociationStep::ReadDiscoveryLog, sqe, AdminData::In { len });
    }

    /// Reads the next entries, or the header again behind the last one.
    fn ask_discovery_entries(&mut self, now: Duration) {
        let have = self.reading.result.entries.len();
        let count = (self.reading.records - have).min(ENTRIES_PER_COMMAND);
        if count == 0 {
            self.reading.check = true;
            return self.ask_discovery_header(now, false);
        }
        let offset = DiscoveryHeader::BYTES + have * DiscoveryEntry::BYTES;
        let len = (count * DiscoveryEntry::BYTES) as u32;
        let sqe = request::log_page(LogPageId::DISCOVERY, offset as u64, len, true);
        self.line(now, AssociationStep::ReadDiscoveryLog, sqe, AdminData::In { len });
    }

    /// A part of the log has arrived.
    pub(super) fn discovery_read(&mut self, now: Duration, data: &[u8]) -> Result<(), HostError> {
        let malformed =
            |source| HostError::Malformed { step: AssociationStep::ReadDiscoveryLog, source };
        if self.reading.records == self.reading.result.entries.len() {
            let header = DiscoveryHeader::decode(data).map_err(malformed)?;
            return self.discovery_header(now, &header);
        }
        self.take_discovery_entries(data).map_err(malformed)?;
        self.ask_discovery_entries(now);
        Ok(())
    }

    fn take_discovery_entries(&mut self, data: &[u8]) -> Result<(), DecodeError> {
        let reading = &mut self.reading;
        let count = (reading.records - reading.result.entries.len()).min(ENTRIES_PER_COMMAND);
        for n in 0..count {
            let bytes = data.get(n * DiscoveryEntry::BYTES..).unwrap_or_default();
            reading.result.entries.push(DiscoveryEntry::decode(bytes)?);
        }
        Ok(())
    }

    /// The header has arrived, at the beginning or at the end.
    fn discovery_header(
        &mut self,
        now: Duration,
        header: &DiscoveryHeader,
    ) -> Result<(), HostError> {
        let reading = &mut self.reading;
        if reading.check && header.genctr == reading.result.generation {
            let result = core::mem::take(reading).result;
            self.push(HostAction::Discovered(result));
            self.discovery_done(now);
            return Ok(());
        }
        if header.recfmt != 0 {
            return Err(HostError::Incompatible(Incompatibility::DiscoveryFormat(header.recfmt)));
        }
        if header.numrec > DISCOVERY_ENTRIES_MAX as u64 {
            return Err(HostError::DiscoveryRecords {
                records: header.numrec,
                limit: DISCOVERY_ENTRIES_MAX,
            });
        }
        if reading.attempts == DISCOVERY_ATTEMPTS_MAX {
            return Err(HostError::Violation(Violation::Unsettled(reading.attempts)));
        }
        *reading = DiscoveryReading {
            attempts: reading.attempts + 1,
            result: DiscoveryResult { generation: header.genctr, entries: Vec::new() },
            records: header.numrec as usize,
            check: false,
        };
        self.ask_discovery_entries(now);
        Ok(())
    }
}
