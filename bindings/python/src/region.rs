//! Memory that devices use without a copy, as a part of which any buffer is recognised.

use crate::calls::quick;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weft_capi::failure::CallFailure;
use weft_capi::memory::{LentRegion as Memory, RegionBytes};

/// All regions of the process, by their first address.
static ALL: Mutex<BTreeMap<usize, Weak<Memory>>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<usize, Weak<Memory>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of the library. `weft.memory` makes a `memoryview` of it.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct Region(Arc<Memory>);

#[pymethods]
impl Region {
    #[new]
    fn new(py: Python<'_>, bytes: usize) -> PyResult<Self> {
        let memory = quick(py, || Memory::allocate(bytes))?;
        all().insert(memory.start().addr(), Arc::downgrade(&memory));
        Ok(Self(memory))
    }

    /// Its first address.
    #[getter]
    fn address(&self) -> usize {
        self.0.start().expose_provenance()
    }

    fn __len__(&self) -> usize {
        self.0.size()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        all().remove(&self.0.start().addr());
    }
}

/// `bytes` bytes from an address on as a part of a region; `None`: they are not in one.
pub(crate) fn part(start: usize, bytes: usize) -> Result<Option<RegionBytes>, CallFailure> {
    let found = {
        let all = all();
        let before = all.range(..=start).next_back();
        before.and_then(|(first, memory)| Some((*first, memory.upgrade()?)))
    };
    let Some((first, memory)) = found else { return Ok(None) };
    let at = start - first;
    if at >= memory.size() {
        return Ok(None);
    }
    RegionBytes::new(&memory, at, bytes).map(Some)
}
