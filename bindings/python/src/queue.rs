//! Operations in flight.

use crate::buffer::{self, Buffer};
use crate::calls::{LOOK, blocking, exception, look_at_signals, quick};
use crate::disk::Disk;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weft_block::OpKind;
use weft_capi::disk::{DiskInner, pair};
use weft_capi::failure::{CallFailure, Code, Completion};
use weft_capi::fork;
use weft_capi::queue::Queue as Inner;
use weft_capi::worker::Data;

/// Objects whose memory an operation uses.
enum Held {
    Nothing,
    Buffer {
        _buffer: Buffer,
    },
    Pair {
        _expected: Buffer,
        _data: Buffer,
    },
    /// What a read fills.
    Bytes(Py<PyBytes>),
}

/// An operation: its kind, offset and bytes.
type Operation = (OpKind, u64, u64);

/// Operations that were submitted and are not reaped, by their numbers.
#[derive(Default)]
struct Flights {
    last: u64,
    all: HashMap<u64, (Held, Operation)>,
}

/// A queue of a device.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct Queue {
    inner: Mutex<Option<Arc<Inner>>>,
    flights: Mutex<Flights>,
    /// What was reaped for a call that a signal has interrupted.
    kept: Mutex<Vec<Completion>>,
}

/// What an operation does, for errors.
fn described((kind, offset, bytes): Operation) -> String {
    let what = match kind {
        OpKind::Read | OpKind::Compare => "reading",
        OpKind::Write { .. } => "writing",
        OpKind::Discard => "discarding",
        OpKind::WriteZeroes { .. } => "writing zeroes to",
        OpKind::CompareAndWrite { .. } => "comparing and writing",
        OpKind::Flush | OpKind::Reserve(_) | OpKind::ReservationReport => {
            return "the flush".into();
        }
    };
    format!("{what} {bytes} bytes at {offset}")
}

impl Queue {
    fn get(&self, py: Python<'_>) -> PyResult<Arc<Inner>> {
        quick(py, || self.inner().clone().ok_or_else(|| CallFailure::usage("the queue is closed")))
    }

    fn inner(&self) -> MutexGuard<'_, Option<Arc<Inner>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Completion>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits an operation whose data `held` keeps; its number.
    fn submit(
        &self,
        py: Python<'_>,
        operation: Operation,
        held: Held,
        data: impl FnOnce(&DiskInner) -> Result<Data, CallFailure>,
    ) -> PyResult<u64> {
        let queue = self.get(py)?;
        let (kind, offset, bytes) = operation;
        // Held until the operation is listed: another thread may reap it at once.
        let mut flights = self.flights();
        let number = flights.last + 1;
        let submitted = quick(py, || {
            let disk = queue.disk();
            queue.submit(disk.check(kind, (offset, bytes), data(disk)?)?, number)
        });
        if submitted.is_ok() {
            flights.last = number;
            flights.all.insert(number, (held, operation));
        }
        drop(flights);
        submitted.map(|()| number)
    }

    /// What operations have ended with: their numbers, and the data, an exception or nothing.
    fn ended<'py>(
        &self,
        py: Python<'py>,
        completions: &[Completion],
    ) -> PyResult<Vec<(u64, Bound<'py, PyAny>)>> {
        let mut flights = self.flights();
        let taken = completions.iter().map(|completion| {
            let found = flights.all.remove(&completion.user);
            (completion, found.unwrap_or((Held::Nothing, (OpKind::Flush, 0, 0))))
        });
        let taken: Vec<_> = taken.collect();
        // Releasing a buffer may run code of the program.
        drop(flights);
        let result = |(completion, (held, operation)): (&Completion, (Held, Operation))| {
            let value = match held {
                _ if !completion.is_success() => {
                    let failure = CallFailure::of(completion, &described(operation));
                    exception(py, &failure).into_value(py).into_bound_py_any(py)?
                }
                Held::Bytes(bytes) => bytes.into_bound_py_any(py)?,
                _ => py.None().into_bound(py),
            };
            Ok((completion.user, value))
        };
        taken.into_iter().map(result).collect()
    }
}

#[pymethods]
impl Queue {
    #[new]
    fn new(py: Python<'_>, disk: &Disk, depth: u32) -> PyResult<Self> {
        let disk = disk.get(py)?;
        let inner = blocking(py, || Inner::new(&disk, depth))?;
        let inner = Mutex::new(Some(Arc::new(inner)));
        Ok(Self { inner, flights: Mutex::default(), kept: Mutex::default() })
    }

    fn pread(&self, py: Python<'_>, bytes: usize, offset: u64) -> PyResult<u64> {
        let queue = self.get(py)?;
        let operation = (OpKind::Read, offset, bytes as u64);
        let place = (offset, bytes as u64);
        quick(py, || queue.disk().check(OpKind::Read, place, Data::None).map(drop))?;
        let (read, to) = buffer::to_fill(py, bytes)?;
        self.submit(py, operation, Held::Bytes(read.unbind()), |_| Ok(Data::Bytes(to)))
    }

    fn pread_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<u64> {
        let buffer = Buffer::of(buffer, true)?;
        let operation = (OpKind::Read, offset, buffer.len() as u64);
        let data = quick(py, || buffer.data())?;
        self.submit(py, operation, Held::Buffer { _buffer: buffer }, |_| Ok(data))
    }

    #[pyo3(signature = (data, offset, *, fua=false))]
    fn pwrite(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        fua: bool,
    ) -> PyResult<u64> {
        let buffer = Buffer::of(data, false)?;
        let operation = (OpKind::Write { fua }, offset, buffer.len() as u64);
        let data = quick(py, || buffer.data())?;
        self.submit(py, operation, Held::Buffer { _buffer: buffer }, |_| Ok(data))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        self.submit(py, (OpKind::Flush, 0, 0), Held::Nothing, |_| Ok(Data::None))
    }

    fn trim(&self, py: Python<'_>, bytes: u64, offset: u64) -> PyResult<u64> {
        self.submit(py, (OpKind::Discard, offset, bytes), Held::Nothing, |_| Ok(Data::None))
    }

    #[pyo3(signature = (bytes, offset, *, may_unmap=false, fua=false))]
    fn write_zeroes(
        &self,
        py: Python<'_>,
        bytes: u64,
        offset: u64,
        may_unmap: bool,
        fua: bool,
    ) -> PyResult<u64> {
        let kind = OpKind::WriteZeroes { deallocate: may_unmap, fua };
        self.submit(py, (kind, offset, bytes), Held::Nothing, |_| Ok(Data::None))
    }

    #[pyo3(signature = (expected, data, offset, *, fua=false))]
    fn compare_and_write(
        &self,
        py: Python<'_>,
        expected: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        fua: bool,
    ) -> PyResult<u64> {
        let (expected, data) = (Buffer::of(expected, false)?, Buffer::of(data, false)?);
        let operation = (OpKind::CompareAndWrite { fua }, offset, data.len() as u64);
        let both = quick(py, || pair(expected.bytes()?, data.bytes()?))?;
        self.submit(py, operation, Held::Pair { _expected: expected, _data: data }, |_| Ok(both))
    }

    /// Asks for an early end of an operation.
    fn cancel(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        let queue = self.get(py)?;
        quick(py, || queue.cancel(number))
    }

    /// What has ended, after `least` operations have, or `timeout` seconds.
    #[pyo3(signature = (least=1, timeout=None))]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        least: u32,
        timeout: Option<f64>,
    ) -> PyResult<Vec<(u64, Bound<'py, PyAny>)>> {
        let queue = self.get(py)?;
        let limit = timeout.and_then(|limit| Duration::try_from_secs_f64(limit.max(0.0)).ok());
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let (mut done, mut interrupted) = (core::mem::take(&mut *self.kept()), None);
        blocking(py, || {
            loop {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                let pause = left.map_or(LOOK, |left| left.min(LOOK));
                let missing = (least as usize).saturating_sub(done.len());
                queue.reap((missing, Some(pause)), usize::MAX, |_, it| done.push(it))?;
                let is_enough = done.len() >= least as usize || queue.in_flight() == 0;
                if is_enough || left == Some(Duration::ZERO) {
                    return Ok(());
                }
                interrupted = look_at_signals().err();
                if interrupted.is_some() {
                    return Ok(());
                }
            }
        })?;
        match interrupted {
            Some(e) => {
                self.kept().append(&mut done);
                Err(e)
            }
            None => self.ended(py, &done),
        }
    }

    /// A descriptor that is readable while operations have ended that were not reaped.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        let queue = self.get(py)?;
        quick(py, || queue.descriptor())
    }

    /// Operations that were submitted and not reaped.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<u32> {
        let queue = self.get(py)?;
        quick(py, || Ok(queue.in_flight()))
    }

    /// Ends the queue; what is in flight is given up.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, || {
            let mut place = self.inner();
            let Some(inner) = place.take() else { return Ok(()) };
            let inner = Arc::try_unwrap(inner).map_err(|inner| {
                *place = Some(inner);
                CallFailure::new(Code::InUse, "another thread uses the queue")
            })?;
            drop(inner);
            Ok(())
        })?;
        // Nothing uses the memory any longer.
        let over = core::mem::take(&mut self.flights().all);
        drop(over);
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let inner = self.inner().take();
        if fork::check().is_err() {
            // Its event loop exists in the parent only.
            core::mem::forget(inner);
        }
    }
}
