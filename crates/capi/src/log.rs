//! Passes the log to a function of the program.
#![allow(unsafe_code, reason = "a function of the program is called")]

use crate::failure::{CallFailure, Code};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::{Debug, Write};
use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};
use weft_base::lock::SharedLock;

/// The function: its argument, the level, and a sentence.
pub type Function = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

/// A function of the program with its argument.
struct Sink {
    function: Function,
    argument: *mut c_void,
}

// SAFETY: the program has promised that any thread may call the function with its argument.
unsafe impl Send for Sink {}
// SAFETY: as above, also several threads at the same time.
unsafe impl Sync for Sink {}

static SINK: SharedLock<Option<Sink>> = SharedLock::new(None);

/// The most detailed level that is told, as a number of [`number`]; 0: none.
static MOST: AtomicI32 = AtomicI32::new(0);

/// Levels, the gravest first.
pub(crate) const LEVELS: i32 = 4;

/// Calls `function` with `argument` for what is as grave as `most`, or graver; `None` ends that.
/// When this returns, the function before is not running.
///
/// # Errors
/// `most` is not a level, or the process keeps events of `tracing` by itself.
///
/// # Safety
/// Any thread may call the function with the argument, until another one is set.
pub unsafe fn set(
    function: Option<Function>,
    argument: *mut c_void,
    most: i32,
) -> Result<(), CallFailure> {
    static IS_OURS: OnceLock<bool> = OnceLock::new();
    if !(1..=LEVELS).contains(&most) {
        return Err(CallFailure::usage(format!("{most} is not a level: there are 1 to {LEVELS}")));
    }
    if !IS_OURS.get_or_init(|| set_global_default(Log).is_ok()) {
        return Err(CallFailure::new(Code::InUse, "this process keeps the log of weft by itself"));
    }
    let mut sink = SINK.write();
    MOST.store(if function.is_some() { most } else { 0 }, Relaxed);
    *sink = function.map(|function| Sink { function, argument });
    Ok(())
}

/// The number of a level.
fn number(level: Level) -> i32 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        _ => LEVELS,
    }
}

/// Takes the events of weft.
struct Log;

impl Subscriber for Log {
    /// The level may change at any time.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, of: &Metadata<'_>) -> bool {
        number(*of.level()) <= MOST.load(Relaxed)
            && of.is_event()
            && of.target().starts_with("weft")
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let level = number(*event.metadata().level());
        let Ok(text) = CString::new(text.0.replace('\0', "?")) else { return };
        let sink = SINK.read();
        if let Some(Sink { function, argument }) = &*sink {
            // SAFETY: the program's promise; the text lives until the function returns.
            unsafe { function(*argument, level, text.as_ptr()) };
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event as a sentence, with its fields behind it.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a text cannot fail.
        let _ = match field.name() {
            "message" => {
                let rest = core::mem::take(&mut self.0);
                write!(self.0, "{value:?}{rest}")
            }
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
