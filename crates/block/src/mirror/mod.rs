//! `mirror:[state=PATH,][force=on,][hot=SIZE,]URL,URL[,URL]`: RAID 1 in this process, one device
//! over two or three others with the same data.
//!
//! Each leg has a label in its last MiB (`record`), which [`create`](admin::create) makes. Writes
//! go to all legs, reads to one of them. A leg that fails is dropped, and comes back with a copy of
//! what it missed. What may differ between legs is known from a bitmap, which is durable before
//! anything is written: in the state file, or without one on the legs.
//!
//! * `engine`: the rules, without I/O. `start`: what a mirror may start from.
//! * `core`: the engine, the queues of legs and state file, and operations, on one loop, the *home*
//!   of the mirror. [`crate::sharing`] brings operations there from other loops.
//! * `direct`: reads and writes that need no decision, on the loop that has them. `alone`: when
//!   they do not go on. `hot`: which regions they may write to.
//! * `counts`: what legs did, for the status.
//! * `gather`: opens legs, and opens them again. `reserve`: the claim as a reservation on the legs
//!   that have them. `ending`: how a mirror ends.
//!
//! One process has a mirror open at a time: its claim is in the labels. There is no cluster here.
//! See `docs/mirror.md`, and decision 26.

pub mod admin;
mod bitmap;
mod claim;
mod core;
mod counts;
mod direct;
mod engine;
#[doc(hidden)]
pub mod fuzzing;
mod labels;
mod layout;
mod options;
mod ranges;
mod record;
mod runs;
mod start;
mod unreadable;
mod user_op;

use crate::outcome::error::{Error, ErrorKind};
use crate::url::opening::{Opening, Pending};
use ::core::cell::RefCell;
use core::Core;
pub use layout::HotLimit;
pub use options::{LegSource, MirrorOptions, MirrorUrl, Opener};
use record::LEGS_MAX;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop};

/// Begins to open a mirror, whose work is done on the loop `home`.
///
/// # Errors
/// A wrong number of legs. Later: why the mirror cannot start, and what to do.
pub fn begin(home: &RemoteLoop, options: MirrorOptions) -> Result<Opening, Error> {
    if !(2..=LEGS_MAX).contains(&options.legs.len()) {
        let text =
            format!("{}: a mirror has two or three legs, not {}", options.url, options.legs.len());
        return Err(Error::new(ErrorKind::Usage, text));
    }
    let (promise, opening) = Pending::promised();
    home.post(move |on| {
        on.spawn(|id| {
            let waker = Waker::from(Arc::new(Bell(on.remote(), id)));
            let core = Rc::new(RefCell::new(Core::new(on, id, options, promise, waker)));
            core::device::enter(&core, on);
            Keeper(core)
        });
    });
    Ok(opening)
}

/// Wakes the keeper when an opening has come to something.
struct Bell(RemoteLoop, DriverId);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.wake(self.1);
    }
}

/// The driver of a mirror.
struct Keeper(Rc<RefCell<Core>>);

impl Driver for Keeper {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::busy_if(self.0.borrow_mut().turn())
    }
}
