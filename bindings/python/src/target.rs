//! A target in this process.

use crate::calls::{blocking, quick};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_capi::failure::{CallFailure, Code};
use weft_capi::fork;
use weft_capi::target::{COUNTERS, Target as Inner};

/// A running target.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct Target(Mutex<Option<Arc<Inner>>>);

impl Target {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Inner>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, py: Python<'_>) -> PyResult<Arc<Inner>> {
        let stopped = || CallFailure::usage("the target is stopped");
        quick(py, || self.lock().clone().ok_or_else(stopped))
    }
}

#[pymethods]
impl Target {
    /// Starts a target by the text of a configuration.
    #[new]
    fn new(py: Python<'_>, configuration: &str) -> PyResult<Self> {
        let started = blocking(py, || Inner::start(configuration))?;
        Ok(Self(Mutex::new(Some(Arc::new(started)))))
    }

    /// The URLs by which hosts reach it.
    #[getter]
    fn urls(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let target = self.get(py)?;
        quick(py, || Ok((0..).map_while(|number| target.url(number)).collect()))
    }

    #[pyo3(signature = (filters, *, nsid=1, subsystem=None))]
    fn set_filters(
        &self,
        py: Python<'_>,
        filters: &str,
        nsid: u32,
        subsystem: Option<&str>,
    ) -> PyResult<()> {
        let target = self.get(py)?;
        blocking(py, || target.set_filters(subsystem, nsid, filters))
    }

    fn apply(&self, py: Python<'_>, configuration: &str) -> PyResult<()> {
        let target = self.get(py)?;
        blocking(py, || target.apply(configuration))
    }

    fn disconnect(&self, py: Python<'_>) -> PyResult<()> {
        let target = self.get(py)?;
        blocking(py, || {
            target.disconnect();
            Ok(())
        })
    }

    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let target = self.get(py)?;
        blocking(py, || target.leave())
    }

    fn come_back(&self, py: Python<'_>) -> PyResult<()> {
        let target = self.get(py)?;
        blocking(py, || target.come_back())
    }

    /// All counters.
    fn counters(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64)>> {
        let target = self.get(py)?;
        let count = |name| Ok((name, target.counter(name)?));
        blocking(py, || COUNTERS.iter().map(|(name, _)| count(*name)).collect())
    }

    /// The state as JSON.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let target = self.get(py)?;
        blocking(py, || target.report())
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, || {
            let mut place = self.lock();
            let Some(target) = place.take() else { return Ok(()) };
            let target = Arc::try_unwrap(target).map_err(|target| {
                *place = Some(target);
                CallFailure::new(Code::InUse, "another thread uses the target")
            })?;
            drop(place);
            target.stop()
        })
    }

    #[getter]
    fn stopped(&self) -> bool {
        self.lock().is_none()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let inner = self.lock().take();
        if fork::check().is_err() {
            // Its threads exist in the parent only.
            core::mem::forget(inner);
        }
    }
}
