//! The write of a session whose data goes from where it is received to the device, without memory of
//! its own.

use weft_block::Outcome;
use weft_proto::stream::Tag;

/// See the module. One at a time: the data comes right behind its command.
#[derive(Default)]
pub(crate) struct DirectWrite(Option<(Tag, Option<Outcome>)>);

impl DirectWrite {
    /// The data of this write, which is to come, goes so.
    #[inline]
    pub(crate) fn expect(&mut self, tag: Tag) {
        self.0 = Some((tag, None));
    }

    /// Whether the payload of this command is to be shown as a whole.
    #[inline]
    pub(crate) fn wants_whole(&self, tag: Tag) -> bool {
        self.0 == Some((tag, None))
    }

    /// The device has the data of this write, and has said so of it.
    #[inline]
    pub(crate) fn has_gone(&mut self, tag: Tag, outcome: Outcome) {
        self.0 = Some((tag, Some(outcome)));
    }

    /// What the device has said of the data of this command, if that went so; `None` within: nobody
    /// gave it the data.
    #[inline]
    pub(crate) fn take(&mut self, tag: Tag) -> Option<Option<Outcome>> {
        self.0.take_if(|(of, _)| *of == tag).map(|(_, outcome)| outcome)
    }
}
