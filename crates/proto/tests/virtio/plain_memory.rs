//! Memory of a guest, as simple as can be: bytes from address 0 on.

use core::cell::RefCell;
use weft_proto::virtio::{Outside, SharedMemory};

/// See the module.
pub struct PlainMemory(pub RefCell<Vec<u8>>);

impl PlainMemory {
    pub fn new(len: usize) -> Self {
        Self(RefCell::new(vec![0; len]))
    }
}

impl SharedMemory for PlainMemory {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Outside> {
        let (bytes, at) = (self.0.borrow(), usize::try_from(at).map_err(|_| Outside)?);
        let end = at.checked_add(into.len()).ok_or(Outside)?;
        into.copy_from_slice(bytes.get(at..end).ok_or(Outside)?);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Outside> {
        let (mut bytes, at) = (self.0.borrow_mut(), usize::try_from(at).map_err(|_| Outside)?);
        let end = at.checked_add(from.len()).ok_or(Outside)?;
        bytes.get_mut(at..end).ok_or(Outside)?.copy_from_slice(from);
        Ok(())
    }

    fn load(&self, at: u64) -> Result<u16, Outside> {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes)?;
        if at.is_multiple_of(2) { Ok(u16::from_le_bytes(bytes)) } else { Err(Outside) }
    }

    fn store(&self, at: u64, value: u16) -> Result<(), Outside> {
        if at.is_multiple_of(2) { self.write(at, &value.to_le_bytes()) } else { Err(Outside) }
    }
}
