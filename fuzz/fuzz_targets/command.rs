//! A submission queue entry of a peer's making: every accessor holds on any 64 bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_proto::nvme::sqe::Sqe;

fuzz_target!(|bytes: [u8; 64]| {
    let sqe = Sqe(bytes);
    let _ = format!("{sqe:?}");
    let mut copy = sqe;
    copy.set_cid(sqe.cid());
    copy.set_fuse(sqe.fuse());
    assert!(copy == sqe);
});
