//! Operation codes (SPC-4 annex F.3, SBC-3 §5.1) and their service actions.

use crate::nvme::wire::codes;

codes! {
    /// Operation code: byte 0 of a CDB.
    pub struct OpCode(u8) {
        0x00 TEST_UNIT_READY "TEST UNIT READY";
        0x03 REQUEST_SENSE "REQUEST SENSE";
        0x08 READ_6 "READ(6)";
        0x0a WRITE_6 "WRITE(6)";
        0x12 INQUIRY "INQUIRY";
        0x15 MODE_SELECT_6 "MODE SELECT(6)";
        0x16 RESERVE_6 "RESERVE(6)";
        0x17 RELEASE_6 "RELEASE(6)";
        0x1a MODE_SENSE_6 "MODE SENSE(6)";
        0x1b START_STOP_UNIT "START STOP UNIT";
        0x1e PREVENT_ALLOW_MEDIUM_REMOVAL "PREVENT ALLOW MEDIUM REMOVAL";
        0x25 READ_CAPACITY_10 "READ CAPACITY(10)";
        0x28 READ_10 "READ(10)";
        0x2a WRITE_10 "WRITE(10)";
        0x2e WRITE_AND_VERIFY_10 "WRITE AND VERIFY(10)";
        0x2f VERIFY_10 "VERIFY(10)";
        0x34 PRE_FETCH_10 "PRE-FETCH(10)";
        0x35 SYNCHRONIZE_CACHE_10 "SYNCHRONIZE CACHE(10)";
        0x41 WRITE_SAME_10 "WRITE SAME(10)";
        0x42 UNMAP "UNMAP";
        0x4d LOG_SENSE "LOG SENSE";
        0x55 MODE_SELECT_10 "MODE SELECT(10)";
        0x56 RESERVE_10 "RESERVE(10)";
        0x57 RELEASE_10 "RELEASE(10)";
        0x5a MODE_SENSE_10 "MODE SENSE(10)";
        0x5e PERSISTENT_RESERVE_IN "PERSISTENT RESERVE IN";
        0x5f PERSISTENT_RESERVE_OUT "PERSISTENT RESERVE OUT";
        0x7f VARIABLE_LENGTH "variable-length CDB";
        0x83 THIRD_PARTY_COPY_OUT "THIRD-PARTY COPY OUT";
        0x84 THIRD_PARTY_COPY_IN "THIRD-PARTY COPY IN";
        0x88 READ_16 "READ(16)";
        0x89 COMPARE_AND_WRITE "COMPARE AND WRITE";
        0x8a WRITE_16 "WRITE(16)";
        0x8b ORWRITE_16 "ORWRITE(16)";
        0x8e WRITE_AND_VERIFY_16 "WRITE AND VERIFY(16)";
        0x8f VERIFY_16 "VERIFY(16)";
        0x90 PRE_FETCH_16 "PRE-FETCH(16)";
        0x91 SYNCHRONIZE_CACHE_16 "SYNCHRONIZE CACHE(16)";
        0x93 WRITE_SAME_16 "WRITE SAME(16)";
        0x9e SERVICE_ACTION_IN_16 "SERVICE ACTION IN(16)";
        0xa0 REPORT_LUNS "REPORT LUNS";
        0xa3 MAINTENANCE_IN "MAINTENANCE IN";
        0xa8 READ_12 "READ(12)";
        0xaa WRITE_12 "WRITE(12)";
        0xae WRITE_AND_VERIFY_12 "WRITE AND VERIFY(12)";
        0xaf VERIFY_12 "VERIFY(12)";
    }
}

codes! {
    /// Service action of PERSISTENT RESERVE IN (SPC-4 §6.15.1).
    pub struct ReserveIn(u8) {
        0x00 READ_KEYS "READ KEYS";
        0x01 READ_RESERVATION "READ RESERVATION";
        0x02 REPORT_CAPABILITIES "REPORT CAPABILITIES";
        0x03 READ_FULL_STATUS "READ FULL STATUS";
    }
}

codes! {
    /// Service action of PERSISTENT RESERVE OUT (SPC-4 §6.16.2).
    pub struct ReserveOut(u8) {
        0x00 REGISTER "REGISTER";
        0x01 RESERVE "RESERVE";
        0x02 RELEASE "RELEASE";
        0x03 CLEAR "CLEAR";
        0x04 PREEMPT "PREEMPT";
        0x05 PREEMPT_AND_ABORT "PREEMPT AND ABORT";
        0x06 REGISTER_AND_IGNORE "REGISTER AND IGNORE EXISTING KEY";
        0x07 REGISTER_AND_MOVE "REGISTER AND MOVE";
    }
}

codes! {
    /// Type of a persistent reservation (SPC-4 §6.15.3.3). Four bits.
    pub struct ReservationType(u8) {
        0x1 WRITE_EXCLUSIVE "Write Exclusive";
        0x3 EXCLUSIVE_ACCESS "Exclusive Access";
        0x5 WRITE_EXCLUSIVE_REGISTRANTS_ONLY "Write Exclusive - Registrants Only";
        0x6 EXCLUSIVE_ACCESS_REGISTRANTS_ONLY "Exclusive Access - Registrants Only";
        0x7 WRITE_EXCLUSIVE_ALL_REGISTRANTS "Write Exclusive - All Registrants";
        0x8 EXCLUSIVE_ACCESS_ALL_REGISTRANTS "Exclusive Access - All Registrants";
    }
}
