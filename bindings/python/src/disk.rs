//! Open devices, and blocking calls.

use crate::buffer::{self, Buffer};
use crate::calls::{blocking, complete, exception, quick, run};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_block::OpKind;
use weft_capi::disk::{DiskInner, close, pair};
use weft_capi::failure::{CallFailure, Code};
use weft_capi::fork;
use weft_capi::options::LibraryOptions;
use weft_capi::properties::{PROPERTIES, PropertyValue, property};
use weft_capi::worker::Data;

/// An open device.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct Disk(Mutex<Option<Arc<DiskInner>>>);

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<DiskInner>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device, for the length of a call.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<DiskInner>> {
        let closed = || CallFailure::usage("the disk is closed");
        quick(py, || self.lock().clone().ok_or_else(closed))
    }
}

/// The value of a property as Python has it.
fn value(py: Python<'_>, property: PropertyValue) -> PyResult<Bound<'_, PyAny>> {
    Ok(match property {
        PropertyValue::Number(number) => number.into_pyobject(py)?.into_any(),
        PropertyValue::Text(text) => text.into_pyobject(py)?.into_any(),
    })
}

#[pymethods]
impl Disk {
    /// Opens a device; options by name, as texts.
    #[new]
    fn new(py: Python<'_>, url: &str, options: Vec<(String, String)>) -> PyResult<Self> {
        let opened = blocking(py, || {
            let mut all = LibraryOptions::default();
            options.iter().try_for_each(|(name, value)| all.set(name, value))?;
            DiskInner::open(url, &all)
        })?;
        Ok(Self(Mutex::new(Some(Arc::new(opened)))))
    }

    /// Closes the device.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, || {
            let mut place = self.lock();
            let Some(disk) = place.take() else { return Ok(()) };
            match Arc::try_unwrap(disk) {
                Ok(disk) => {
                    drop(place);
                    close(disk);
                    Ok(())
                }
                Err(disk) => {
                    *place = Some(disk);
                    let text = "the disk has queues, or calls in other threads: end them first";
                    Err(CallFailure::new(Code::InUse, text))
                }
            }
        })
    }

    #[getter]
    fn closed(&self) -> bool {
        self.lock().is_none()
    }

    /// A property by its name.
    fn property<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let disk = self.get(py)?;
        value(py, quick(py, || property(&disk, name))?)
    }

    /// All properties.
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (disk, all) = (self.get(py)?, PyDict::new(py));
        for (name, read) in PROPERTIES {
            all.set_item(name, value(py, quick(py, || Ok(read(&disk)))?)?)?;
        }
        Ok(all)
    }

    fn pread<'py>(
        &self,
        py: Python<'py>,
        bytes: usize,
        offset: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let disk = self.get(py)?;
        let place = (offset, bytes as u64);
        // Before memory is allocated for a mistake.
        quick(py, || disk.check(OpKind::Read, place, Data::None).map(drop))?;
        let (read, to) = buffer::to_fill(py, bytes)?;
        let checked = quick(py, || disk.check(OpKind::Read, place, Data::Bytes(to)))?;
        run(py, &disk, checked, || format!("reading {bytes} bytes at {offset}"))?;
        Ok(read)
    }

    fn pread_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        offset: u64,
    ) -> PyResult<usize> {
        let (disk, buffer) = (self.get(py)?, Buffer::of(buffer, true)?);
        let bytes = buffer.len();
        let place = (offset, bytes as u64);
        let checked = quick(py, || disk.check(OpKind::Read, place, buffer.data()?))?;
        run(py, &disk, checked, || format!("reading {bytes} bytes at {offset}"))?;
        Ok(bytes)
    }

    #[pyo3(signature = (data, offset, *, fua=false))]
    fn pwrite(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        fua: bool,
    ) -> PyResult<usize> {
        let (disk, data) = (self.get(py)?, Buffer::of(data, false)?);
        let bytes = data.len();
        let place = (offset, bytes as u64);
        let checked = quick(py, || disk.check(OpKind::Write { fua }, place, data.data()?))?;
        run(py, &disk, checked, || format!("writing {bytes} bytes at {offset}"))?;
        Ok(bytes)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let disk = self.get(py)?;
        let checked = quick(py, || disk.check(OpKind::Flush, (0, 0), Data::None))?;
        run(py, &disk, checked, || "the flush".into())
    }

    fn trim(&self, py: Python<'_>, bytes: u64, offset: u64) -> PyResult<()> {
        let disk = self.get(py)?;
        let checked = quick(py, || disk.check(OpKind::Discard, (offset, bytes), Data::None))?;
        run(py, &disk, checked, || format!("discarding {bytes} bytes at {offset}"))
    }

    #[pyo3(signature = (bytes, offset, *, may_unmap=false, fua=false))]
    fn write_zeroes(
        &self,
        py: Python<'_>,
        bytes: u64,
        offset: u64,
        may_unmap: bool,
        fua: bool,
    ) -> PyResult<()> {
        let disk = self.get(py)?;
        let kind = OpKind::WriteZeroes { deallocate: may_unmap, fua };
        let checked = quick(py, || disk.check(kind, (offset, bytes), Data::None))?;
        run(py, &disk, checked, || format!("writing {bytes} zeroes at {offset}"))
    }

    #[pyo3(signature = (expected, data, offset, *, fua=false))]
    fn compare_and_write(
        &self,
        py: Python<'_>,
        expected: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        fua: bool,
    ) -> PyResult<bool> {
        let disk = self.get(py)?;
        let (expected, data) = (Buffer::of(expected, false)?, Buffer::of(data, false)?);
        let bytes = data.len();
        let checked = quick(py, || {
            let both = pair(expected.bytes()?, data.bytes()?)?;
            disk.check(OpKind::CompareAndWrite { fua }, (offset, bytes as u64), both)
        })?;
        let ended = complete(py, &disk, checked)?;
        if ended.is_success() || ended.result == Code::Differs.negative() {
            return Ok(ended.is_success());
        }
        let what = format!("comparing and writing {bytes} bytes at {offset}");
        Err(exception(py, &CallFailure::of(&ended, &what)))
    }

    fn next_data(&self, py: Python<'_>, offset: u64) -> PyResult<Option<(u64, u64)>> {
        let disk = self.get(py)?;
        let found = blocking(py, || disk.next_data(offset))?;
        Ok(found.map(|range| (range.start, range.end - range.start)))
    }

    fn renew_size(&self, py: Python<'_>) -> PyResult<()> {
        let disk = self.get(py)?;
        blocking(py, || disk.renew_size())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let inner = self.lock().take();
        if fork::check().is_err() {
            // Its threads exist in the parent only.
            core::mem::forget(inner);
        }
    }
}
