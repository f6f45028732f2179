//! Next bytes that a target receives, and their command.

use crate::nvme::sqe::Sgl;
use crate::nvme::status::Status;
use crate::nvme_tcp::link::Body;
use crate::stream::Tag;

/// Next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveStage {
    Header,
    /// The data in the capsule of a command.
    Capsule {
        tag: Tag,
        body: Body,
        fetched: bool,
    },
    /// The digest of the data before.
    Digest,
}

impl ReceiveStage {
    /// Has the data that comes next put into the memory of `tag`, if it is that command's and what
    /// its SGL says.
    pub fn fetch(&mut self, wanted_by: Tag, sgl: Sgl, bytes: u32) -> Result<(), Status> {
        match self {
            Self::Capsule { tag, body: Body { bytes: there, .. }, fetched }
                if *tag == wanted_by && sgl.address == 0 && sgl.length == *there =>
            {
                if bytes != *there {
                    return Err(Status::DATA_SGL_LENGTH_INVALID);
                }
                *fetched = true;
                Ok(())
            }
            _ => Err(Status::SGL_OFFSET_INVALID),
        }
    }

    /// Discards it.
    pub fn ignore(&mut self, unwanted_by: Tag) {
        if let Self::Capsule { tag, fetched, .. } = self
            && *tag == unwanted_by
        {
            *fetched = false;
        }
    }
}

/// Command whose data the pump receives or throws away last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arriving {
    Nothing,
    Capsule(Tag),
    /// The answer to an R2T; whether it is complete with that.
    Window(Tag, u8, bool),
}

impl Arriving {
    pub fn is_for(self, tag: Tag) -> bool {
        match self {
            Self::Nothing => false,
            Self::Capsule(other) | Self::Window(other, ..) => other == tag,
        }
    }
}
