//! The planted bugs of this build. The sources have none: `cargo xtask sim --planted` builds a copy
//! in which the edits of `crates/sim/planted` are made, and fills the two lists below.

use core::cell::Cell;

/// A bug.
#[derive(Debug)]
pub struct Bug {
    /// Its name.
    pub name: &'static str,
    /// The only scene in which it can be found.
    pub scene: Option<&'static str>,
}

/// All of them.
pub const ALL: &[Bug] = &[];

/// What plants a bug in each crate that has any, for the calling thread.
const CRATES: &[fn(Option<usize>)] = &[];

thread_local! {
    static PRESENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Has this thread's code have the bug at this place of [`ALL`] from now on, and no other.
pub fn plant(bug: Option<usize>) {
    PRESENT.set(bug);
    CRATES.iter().for_each(|plant| plant(bug));
}

/// The bug that this thread's code has, for another thread to have, too.
pub fn planted() -> Option<usize> {
    PRESENT.get()
}
