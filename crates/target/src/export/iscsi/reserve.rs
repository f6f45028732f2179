//! PERSISTENT RESERVE OUT: an operation on the reservations of a namespace, which others may have,
//! too.

use super::session::Session;
use super::target_state::{Message, Told};
use std::sync::Arc;
use weft_io::Handle;
use weft_proto::iscsi::target::TargetConnection;
use weft_proto::reservation::ReservationRefusal;
use weft_proto::stream::Tag;

impl Session {
    /// Has the operation of a command executed. It counts as one that a device has, until
    /// [`Told::Reserved`].
    pub(super) fn reserve(&mut self, tag: Tag) {
        let unit = self.commands[tag.index()].task.unit();
        let of = self.reservations.get(unit).and_then(Option::as_ref);
        self.side.hold();
        let place = &mut self.commands[tag.index()];
        (place.in_device, place.reserves) = (true, true);
        let mailbox = Arc::clone(&self.mailbox);
        let answer =
            Box::new(move |outcome| mailbox.post(Message::Own(Told::Reserved(tag, outcome))));
        match (self.nexus.take_operation(), of) {
            (Some(operation), Some(of)) => of.execute(operation, answer),
            (None, Some(of)) => of.confirm(answer),
            (_, None) => answer(Err(ReservationRefusal::Conflict)),
        }
    }

    /// The operation of a command has ended.
    pub(super) fn reserved(
        &mut self,
        on: &Handle,
        engine: &mut TargetConnection,
        tag: Tag,
        outcome: Result<(), ReservationRefusal>,
    ) {
        self.side.release();
        let place = &mut self.commands[tag.index()];
        (place.in_device, place.reserves) = (false, false);
        if self.commands[tag.index()].dying {
            return self.bury(engine, tag);
        }
        let step = self.nexus.reserved(&mut self.commands[tag.index()].task, outcome);
        let _ = self.follow(on, engine, tag, step);
    }
}
