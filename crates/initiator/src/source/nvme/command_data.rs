//! Data of commands that a user gives: which way they go, and how many there may be.

use weft_block::{Error, ErrorKind};
use weft_connection::limits::{ADMIN_DATA_BYTES_MAX, PASSTHROUGH_BYTES_MAX};
use weft_proto::nvme::host::HostData;

/// Data of a command that a user gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandData {
    /// None.
    None,
    /// So many bytes from the controller.
    In(u32),
    /// These bytes to the controller.
    Out(Vec<u8>),
}

impl CommandData {
    /// Checks that there is no more of it than an admin command takes.
    pub(super) fn for_admin(self) -> Result<Self, Error> {
        self.within(ADMIN_DATA_BYTES_MAX)
    }

    /// The same of an I/O command.
    pub(super) fn for_io(self) -> Result<Self, Error> {
        self.within(PASSTHROUGH_BYTES_MAX)
    }

    fn within(self, most: u32) -> Result<Self, Error> {
        let bytes = match &self {
            Self::None => 0,
            Self::In(bytes) => u64::from(*bytes),
            Self::Out(data) => data.len() as u64,
        };
        if bytes <= u64::from(most) {
            return Ok(self);
        }
        let text = format!("a command has at most {most} bytes of data here, not {bytes}");
        Err(Error::new(ErrorKind::Usage, text))
    }

    /// Its direction and length, and its memory.
    pub(super) fn into_memory(self) -> (HostData, Vec<u8>) {
        match self {
            Self::None | Self::In(0) => (HostData::None, Vec::new()),
            Self::In(bytes) => (HostData::In(bytes), vec![0; bytes as usize]),
            Self::Out(data) if data.is_empty() => (HostData::None, data),
            Self::Out(data) => (HostData::Out(data.len() as u32), data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_bounded_and_none_is_no_transfer() {
        let most = ADMIN_DATA_BYTES_MAX;
        assert_eq!(CommandData::In(most).for_admin().unwrap(), CommandData::In(most));
        let refused = CommandData::In(most + 1).for_admin().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage);
        assert!(CommandData::Out(vec![0; PASSTHROUGH_BYTES_MAX as usize + 1]).for_io().is_err());
        assert_eq!(CommandData::In(0).into_memory(), (HostData::None, vec![]));
        assert_eq!(CommandData::Out(vec![]).into_memory(), (HostData::None, vec![]));
        assert_eq!(CommandData::Out(vec![7]).into_memory(), (HostData::Out(1), vec![7]));
        assert_eq!(CommandData::In(2).into_memory(), (HostData::In(2), vec![0; 2]));
    }
}
