//! The frame of every function: the interpreter is released, no panic leaves the function, nothing
//! works in a forked child, and errors are exceptions of the package.

use pyo3::prelude::*;
use std::time::Duration;
use weft_capi::disk::{Checked, DiskInner};
use weft_capi::failure::{CallFailure, Completion};
use weft_capi::guard::caught;

/// Time between two looks at the signals of the process, while an operation is waited for.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// The exception for an error; an error of the package itself if that cannot be made.
pub(crate) fn exception(py: Python<'_>, failure: &CallFailure) -> PyErr {
    let (protocol, status) = failure.status();
    let about = (failure.code() as i32, failure.text(), protocol, status, failure.flags());
    let made = py.import("weft._errors").and_then(|module| module.call_method1("of", about));
    made.map_or_else(|e| e, PyErr::from_value)
}

/// Runs what needs the interpreter, or takes no time.
pub(crate) fn quick<T>(
    py: Python<'_>,
    body: impl FnOnce() -> Result<T, CallFailure>,
) -> PyResult<T> {
    caught(body).map_err(|failure| exception(py, &failure))
}

/// Runs what may wait, without the interpreter.
pub(crate) fn blocking<T: Send>(
    py: Python<'_>,
    body: impl FnOnce() -> Result<T, CallFailure> + Send,
) -> PyResult<T> {
    py.detach(|| caught(body)).map_err(|failure| exception(py, &failure))
}

/// What the interpreter says to signals that have arrived; only its main thread handles them.
pub(crate) fn look_at_signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

/// Executes an operation, and waits for it; returns how it ended. If a handler of a signal raises
/// an exception, as that of Ctrl-C does, the operation is cancelled first.
pub(crate) fn complete(py: Python<'_>, disk: &DiskInner, checked: Checked) -> PyResult<Completion> {
    let mut interrupted = None;
    let ended = blocking(py, || {
        disk.complete_while(checked, Some(LOOK), || {
            interrupted = look_at_signals().err();
            interrupted.is_none()
        })
    });
    interrupted.map_or(ended, Err)
}

/// The same, where all but success is an error; `what` describes the operation.
pub(crate) fn run(
    py: Python<'_>,
    disk: &DiskInner,
    checked: Checked,
    what: impl FnOnce() -> String,
) -> PyResult<()> {
    let ended = complete(py, disk, checked)?;
    if ended.is_success() {
        return Ok(());
    }
    Err(exception(py, &CallFailure::of(&ended, &what())))
}

/// Panics with the text `place`, which is also the frame to panic in. Wheels for users have no such
/// function.
#[cfg(debug_assertions)]
#[pyfunction]
pub(crate) fn panics(py: Python<'_>, place: &str) -> PyResult<()> {
    match place {
        "quick" => quick(py, || panic!("{place}")),
        "blocking" => blocking(py, || panic!("{place}")),
        _ => panic!("{place}"),
    }
}
