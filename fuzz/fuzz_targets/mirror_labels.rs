//! Labels of the legs of a mirror and its state file, as targets and disks might return them: each
//! is read or refused, whatever is started from them is possible, and a leg that comes back with
//! any label is taken or refused.

pub fn run(bytes: &[u8]) {
    weft_block::mirror::fuzzing::start(bytes);
}
