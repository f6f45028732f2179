//! Labels of the legs of a mirror and its state file, as targets and disks might return them: each
//! is read or refused, whatever is started from them is possible, and a leg that comes back with
//! any label is taken or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| weft_block::mirror::fuzzing::start(bytes));
