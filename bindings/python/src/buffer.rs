//! Memory of Python objects: what supports the buffer protocol, and new `bytes`.
//!
//! The limited API has the buffer protocol since Python 3.11. Its functions and its structure were
//! the same in 3.9 already, so they are declared here, and one wheel serves all versions.
#![allow(unsafe_code, reason = "functions of the interpreter take pointers")]

use crate::region;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weft_capi::failure::CallFailure;
use weft_capi::memory::CallerBytes;
use weft_capi::worker::Data;

/// `Py_buffer`.
#[repr(C)]
struct View {
    start: *mut c_void,
    object: *mut ffi::PyObject,
    bytes: ffi::Py_ssize_t,
    item_bytes: ffi::Py_ssize_t,
    is_read_only: c_int,
    dimensions: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

/// `PyBUF_SIMPLE`: contiguous bytes.
const SIMPLE: c_int = 0;

/// `PyBUF_WRITABLE`.
const WRITABLE: c_int = 1;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
}

/// Contiguous bytes of an object, which neither moves nor frees them while this exists.
pub(crate) struct Buffer {
    /// Boxed, as objects may keep its address.
    view: Box<View>,
    is_writable: bool,
}

// SAFETY: it may be released by any thread that has the interpreter, and `drop` gets it.
unsafe impl Send for Buffer {}
// SAFETY: it is not changed.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The bytes of an object.
    ///
    /// # Errors
    /// It has none, not in one piece, or, with `is_writable`, none that may be written to.
    pub(crate) fn of(object: &Bound<'_, PyAny>, is_writable: bool) -> PyResult<Self> {
        let mut view = Box::new(View {
            start: ptr::null_mut(),
            object: ptr::null_mut(),
            bytes: 0,
            item_bytes: 0,
            is_read_only: 0,
            dimensions: 0,
            format: ptr::null_mut(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            suboffsets: ptr::null_mut(),
            internal: ptr::null_mut(),
        });
        let flags = if is_writable { WRITABLE } else { SIMPLE };
        // SAFETY: the object is one of the interpreter, which this thread has; the structure is
        // that of the interpreter, and is released once, by `drop`.
        if unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } < 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Self { view, is_writable })
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.view.bytes).unwrap_or(0)
    }

    /// The bytes, to be copied by an operation that ends before this is dropped.
    ///
    /// # Errors
    /// There are more than a process can have.
    pub(crate) fn bytes(&self) -> Result<CallerBytes, CallFailure> {
        // SAFETY: the object keeps them until this is dropped. As with any buffer of Python, other
        // threads of the program leave them alone meanwhile, or get mixed data.
        unsafe { CallerBytes::new(self.view.start.cast(), self.len(), self.is_writable) }
    }

    /// The data of an operation that ends before this is dropped: not copied if they are part of a
    /// region.
    ///
    /// # Errors
    /// As those of [`Buffer::bytes`].
    pub(crate) fn data(&self) -> Result<Data, CallFailure> {
        match region::part(self.view.start.addr(), self.len())? {
            Some(part) => Ok(Data::Region(part)),
            None => Ok(Data::Bytes(self.bytes()?)),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // At the end of the interpreter the object stays.
        let _ = Python::try_attach(|_| {
            // SAFETY: made by `PyObject_GetBuffer`, and released once.
            unsafe { PyBuffer_Release(&raw mut *self.view) }
        });
    }
}

/// New `bytes` with any content, and their memory for a read that ends before anybody else gets to
/// know them.
///
/// # Errors
/// There is not that much memory.
pub(crate) fn to_fill(py: Python<'_>, bytes: usize) -> PyResult<(Bound<'_, PyBytes>, CallerBytes)> {
    let many = || PyMemoryError::new_err(format!("{bytes} bytes"));
    let size = ffi::Py_ssize_t::try_from(bytes).map_err(|_| many())?;
    // SAFETY: without a text the function makes an object of this size, whose content is to be
    // written by who has asked for it. Nobody else has the object yet.
    let (object, memory) = unsafe {
        let made = ffi::PyBytes_FromStringAndSize(ptr::null(), size);
        let object = Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked::<PyBytes>();
        let start = ffi::PyBytes_AsString(object.as_ptr());
        (object, CallerBytes::new(start.cast(), bytes, true))
    };
    Ok((object, memory.map_err(|failure| crate::calls::exception(py, &failure))?))
}
