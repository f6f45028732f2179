//! Objects of a pool: small ones that several clients change by compare-and-set. And keeping a
//! client out of the cluster.

use super::library::CephLibrary;
use super::rados::{RadosClient, RadosPool};
use super::types::{ATTRIBUTE_EQUALS, AttributesHandle, CREATE_EXCLUSIVE, ReadHandle, WriteHandle};
use super::{c_string, check};
use crate::limits::RADOS_FENCE_S;
use core::ffi::{CStr, c_int};
use core::ptr::{null, null_mut};
use std::collections::BTreeMap;

/// The attribute of an object that counts its changes, as decimal digits. An object without it was
/// not made by [`RadosPool::replace`].
pub(crate) const GENERATION: &str = "generation";
const GENERATION_C: &CStr = c"generation";

/// Bytes of a generation, at most, with room to see that one is longer.
const DIGITS: usize = 24;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENODATA: i32 = 61;
const ECANCELED: i32 = 125;

/// What a read of a whole object finds.
pub(crate) enum ObjectRead {
    /// There is none, or none that has a generation.
    Nothing,
    /// It is longer than what was asked for.
    TooLong,
    /// Its generation, and its bytes.
    Bytes(u64, Vec<u8>),
}

impl RadosClient {
    /// By what the cluster keeps this client out: its address.
    pub(crate) fn address(&self) -> Result<String, i32> {
        let mut text = null_mut();
        // SAFETY: the client is connected; `text` is written to.
        check(unsafe { (self.library.rados_getaddrs)(self.raw(), &mut text) })?;
        // SAFETY: the library has put a string there, which is given back behind this.
        let address = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: it is given back once, and not used any more.
        unsafe { (self.library.rados_buffer_free)(text) };
        Ok(address)
    }

    /// Keeps a client out for [`RADOS_FENCE_S`]. Waits for the cluster.
    pub(crate) fn keep_out(&self, address: &str) -> Result<(), i32> {
        let mut address = c_string(address).into_bytes_with_nul();
        // SAFETY: the client is connected; the string lives until the call returns.
        check(unsafe {
            (self.library.rados_blocklist_add)(
                self.raw(),
                address.as_mut_ptr().cast(),
                RADOS_FENCE_S,
            )
        })
        .map(drop)
    }

    /// Waits until this client knows all that the cluster has decided so far.
    pub(crate) fn catch_up(&self) -> Result<(), i32> {
        // SAFETY: the client is connected.
        check(unsafe { (self.library.rados_wait_for_latest_osdmap)(self.raw()) }).map(drop)
    }
}

/// Attributes of an object, as the library has them.
struct Attributes {
    library: &'static CephLibrary,
    handle: AttributesHandle,
}

impl Attributes {
    /// All of them; those whose name is no text have their odd bytes replaced.
    fn all(&self) -> Result<BTreeMap<String, Vec<u8>>, i32> {
        let mut all = BTreeMap::new();
        loop {
            let (mut name, mut value, mut len) = (null(), null(), 0);
            // SAFETY: the iterator was made by the library and is not ended; the rest is written
            // to.
            check(unsafe {
                (self.library.rados_getxattrs_next)(self.handle, &mut name, &mut value, &mut len)
            })?;
            if name.is_null() {
                return Ok(all);
            }
            // SAFETY: the library has put a string there, which lives until the iterator is ended.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            let bytes = match len {
                0 => Vec::new(),
                // SAFETY: there are `len` bytes, which live until the iterator is ended.
                _ => unsafe { core::slice::from_raw_parts(value.cast::<u8>(), len) }.to_vec(),
            };
            all.insert(name, bytes);
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the iterator was made by the library, and nobody else has it.
            unsafe { (self.library.rados_getxattrs_end)(self.handle) }
        }
    }
}

/// Several reads of one object, at one instant.
struct Reading {
    library: &'static CephLibrary,
    handle: ReadHandle,
}

impl Drop for Reading {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nobody else has it.
        unsafe { (self.library.rados_release_read_op)(self.handle) }
    }
}

/// A change of one object: all of it or nothing.
struct Change {
    library: &'static CephLibrary,
    handle: WriteHandle,
}

impl Drop for Change {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nobody else has it.
        unsafe { (self.library.rados_release_write_op)(self.handle) }
    }
}

/// What has to hold for a change to be made.
#[derive(Clone, Copy)]
enum Unless<'a> {
    /// There is no such object.
    Exists,
    /// It has this generation, in digits; none: it has no generation.
    Differs(&'a str),
}

impl Change {
    fn new(library: &'static CephLibrary, unless: Unless<'_>) -> Self {
        // SAFETY: the function has no requirements.
        let change = Self { library, handle: unsafe { (library.rados_create_write_op)() } };
        // SAFETY: the operation was made just now; the library copies the strings.
        unsafe {
            match unless {
                Unless::Exists => {
                    (library.rados_write_op_create)(change.handle, CREATE_EXCLUSIVE, null())
                }
                Unless::Differs(digits) => {
                    let (value, len) = (digits.as_ptr().cast(), digits.len());
                    (library.rados_write_op_cmpxattr)(
                        change.handle,
                        GENERATION_C.as_ptr(),
                        ATTRIBUTE_EQUALS,
                        value,
                        len,
                    );
                }
            }
        }
        change
    }

    fn write(&self, after: &str, bytes: &[u8]) {
        // SAFETY: the operation exists; the library copies the bytes and the strings.
        unsafe {
            (self.library.rados_write_op_write_full)(
                self.handle,
                bytes.as_ptr().cast(),
                bytes.len(),
            );
            (self.library.rados_write_op_setxattr)(
                self.handle,
                GENERATION_C.as_ptr(),
                after.as_ptr().cast(),
                after.len(),
            );
        }
    }

    fn remove(&self) {
        // SAFETY: the operation exists.
        unsafe { (self.library.rados_write_op_remove)(self.handle) }
    }

    /// Makes the change; whether what has to hold did. Waits for the cluster.
    fn make(self, pool: &RadosPool, object: &CStr) -> Result<bool, i32> {
        // SAFETY: operation and context exist; the string lives until the call returns; null stands
        // for the present time.
        let made = unsafe {
            (self.library.rados_write_op_operate)(
                self.handle,
                pool.handle,
                object.as_ptr(),
                null_mut(),
                0,
            )
        };
        match check(made) {
            Ok(_) => Ok(true),
            Err(ECANCELED | EEXIST | ENODATA | ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn number(digits: &[u8]) -> Result<u64, i32> {
    core::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).ok_or(EINVAL)
}

impl RadosPool {
    /// An object of at most `most` bytes, and the generation that these bytes have. Waits for the
    /// cluster.
    pub(crate) fn read(&self, object: &str, most: usize) -> Result<ObjectRead, i32> {
        let library = self.cluster.library;
        let (object, mut bytes) = (c_string(object), vec![0u8; most.saturating_add(1)]);
        let (mut count, mut read, mut listed): (usize, c_int, c_int) = (0, 0, 0);
        let mut attributes = Attributes { library, handle: null_mut() };
        // SAFETY: the function has no requirements.
        let reading = Reading { library, handle: unsafe { (library.rados_create_read_op)() } };
        // SAFETY: operation and context exist; `bytes` has as many bytes as are stated; that, all
        // else that is written to, and the string live until the last call returns, which is when
        // the library has done with them.
        let done = unsafe {
            (library.rados_read_op_getxattrs)(reading.handle, &mut attributes.handle, &mut listed);
            (library.rados_read_op_read)(
                reading.handle,
                0,
                bytes.len(),
                bytes.as_mut_ptr().cast(),
                &mut count,
                &mut read,
            );
            (library.rados_read_op_operate)(reading.handle, self.handle, object.as_ptr(), 0)
        };
        drop(reading);
        match check(done) {
            Err(ENOENT) => return Ok(ObjectRead::Nothing),
            other => other?,
        };
        check(listed)?;
        check(read)?;
        let Some(generation) = attributes.all()?.remove(GENERATION) else {
            return Ok(ObjectRead::Nothing);
        };
        if count > most {
            return Ok(ObjectRead::TooLong);
        }
        bytes.truncate(count);
        Ok(ObjectRead::Bytes(number(&generation)?, bytes))
    }

    /// How often an object was replaced; 0: there is none, or it has no generation. Waits for the
    /// cluster.
    pub(crate) fn generation(&self, object: &str) -> Result<u64, i32> {
        let (object, mut digits) = (c_string(object), [0u8; DIGITS]);
        let (name, into) = (GENERATION_C.as_ptr(), digits.as_mut_ptr().cast());
        // SAFETY: the context exists; `digits` has as many bytes as are stated; the strings live
        // until the call returns.
        let read = unsafe {
            (self.cluster.library.rados_getxattr)(self.handle, object.as_ptr(), name, into, DIGITS)
        };
        match check(read) {
            Err(ENOENT | ENODATA) => Ok(0),
            Err(error) => Err(error),
            Ok(count) => number(&digits[..count as usize]),
        }
    }

    /// Replaces what an object holds, if it has the generation `before` (0: see
    /// [`RadosPool::generation`]); whether it had. Waits for the cluster.
    pub(crate) fn replace(
        &self,
        object: &str,
        (before, after): (u64, u64),
        bytes: &[u8],
    ) -> Result<bool, i32> {
        let (object, library) = (c_string(object), self.cluster.library);
        let (before, after) = (digits(before), after.to_string());
        let made = |unless| {
            let change = Change::new(library, unless);
            change.write(&after, bytes);
            change.make(self, &object)
        };
        // An object that does not exist has no attributes to compare. One that only has attributes
        // of its users has an empty generation.
        Ok(before.is_empty() && made(Unless::Exists)? || made(Unless::Differs(&before))?)
    }

    /// Removes an object, if it has the generation `before`; whether it had. Waits for the cluster.
    pub(crate) fn remove(&self, object: &str, before: u64) -> Result<bool, i32> {
        let change = Change::new(self.cluster.library, Unless::Differs(&digits(before)));
        change.remove();
        change.make(self, &c_string(object))
    }

    /// Sets an attribute of an object, which comes to be. Waits for the cluster.
    pub(crate) fn set_attribute(&self, object: &str, name: &str, value: &[u8]) -> Result<(), i32> {
        let (object, name) = (c_string(object), c_string(name));
        let (from, count) = (value.as_ptr().cast(), value.len());
        // SAFETY: the context exists; `value` has as many bytes as are stated; the strings live
        // until the call returns.
        check(unsafe {
            (self.cluster.library.rados_setxattr)(
                self.handle,
                object.as_ptr(),
                name.as_ptr(),
                from,
                count,
            )
        })
        .map(drop)
    }

    /// All attributes of an object; none if there is no such object. Waits for the cluster.
    pub(crate) fn attributes(&self, object: &str) -> Result<BTreeMap<String, Vec<u8>>, i32> {
        let library = self.cluster.library;
        let object = c_string(object);
        let mut handle = null_mut();
        // SAFETY: the context exists; `handle` is written to; the string lives until the call
        // returns.
        match check(unsafe { (library.rados_getxattrs)(self.handle, object.as_ptr(), &mut handle) })
        {
            Err(ENOENT) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
            Ok(_) => Attributes { library, handle }.all(),
        }
    }
}

/// A generation as it is stored; 0 is none at all.
fn digits(generation: u64) -> String {
    if generation == 0 { String::new() } else { generation.to_string() }
}
