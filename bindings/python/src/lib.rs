//! `weft._weft`: the functions of libweft for the package `weft` of Python.
//!
//! The package in `python/weft` is what programs import; it makes exceptions, asyncio and the
//! targets of tests out of this. Each function releases the interpreter while it waits.
//!
//! * `disk`: open devices; `queue`: operations in flight; `target`: a target in this process.
//! * `buffer`: memory of Python objects; `region`: memory that devices use without a copy.
//! * `calls`: what all functions do: no panic leaves them, and Ctrl-C ends their waiting.
#![deny(unsafe_code)]

mod buffer;
mod calls;
mod disk;
mod queue;
mod region;
mod target;

use pyo3::prelude::*;
use weft_capi::failure::Code;

/// The module.
#[pymodule]
fn _weft(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<disk::Disk>()?;
    module.add_class::<queue::Queue>()?;
    module.add_class::<region::Region>()?;
    module.add_class::<target::Target>()?;
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(calls::panics, module)?)?;
    module.add("KINDS", kinds())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

/// Names of the codes of errors, in order: those of `weft.h` in lower case.
fn kinds() -> Vec<String> {
    Code::ALL.iter().map(|&code| name(code)).collect()
}

/// Name of a code: `not_found`.
fn name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}
