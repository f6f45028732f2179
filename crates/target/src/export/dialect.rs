//! The loops of a session, for every protocol: completed operations, and commands that wait for
//! memory.

use super::device_side::DeviceSide;
use weft_block::Completion;
use weft_io::Handle;
use weft_proto::stream::Tag;

/// A session, by the part that its protocol plays in it. Its commands come and are answered through
/// an engine `E`. The low 16 bits of the name of each operation are the tag of its command.
pub(crate) trait Dialect<E> {
    /// A command that waits for memory.
    type Waiting;

    fn side(&mut self) -> &mut DeviceSide<Self::Waiting>;

    /// An operation of a command has completed: takes its memory. It is `overdue` if it came without
    /// that, which its device will give back.
    fn completed(
        &mut self,
        on: &Handle,
        engine: &mut E,
        tag: Tag,
        completion: &mut Completion,
        overdue: bool,
    );

    /// Serves a command that waited for memory. Without memory it waits again.
    fn retry(&mut self, on: &Handle, engine: &mut E, command: Self::Waiting);

    /// All operations that have completed are dealt with: looks at overdue ones, and ends what
    /// waited for either.
    #[inline]
    fn settle(&mut self, _: &mut E) {
        let _ = self.side().holds_overdue();
    }

    /// Submits, reaps and answers; returns whether something happened.
    #[inline]
    fn work(&mut self, on: &Handle, engine: &mut E) -> bool {
        self.side().meter.turn(on.now());
        let done = self.side().reap();
        let busy = done.is_some();
        if let Some(mut done) = done {
            for completion in &mut done {
                let tag = Tag(completion.op.user as u16);
                let overdue = self.side().completed(completion);
                self.side().meter.completed(tag);
                self.completed(on, engine, tag, completion, overdue);
            }
            self.side().reaped(done);
        }
        self.settle(engine);
        busy
    }

    /// Serves commands that wait for memory, in order, as long as there is some.
    fn feed(&mut self, on: &Handle, engine: &mut E) {
        for _ in 0..self.side().waiting().len() {
            let Some(command) = self.side().next_waiting() else { break };
            self.retry(on, engine, command);
        }
    }
}

/// A command that waits for memory, of a protocol whose requests for devices are `R`.
#[derive(Clone, Copy)]
pub(crate) enum Starved<R> {
    /// To bring in the peer's data. It is `urgent` if nothing behind that data can be received.
    Fetch { tag: Tag, bytes: u32, urgent: bool },
    /// To read, or to repeat data.
    Submit { tag: Tag, request: R },
    /// To be answered in.
    Respond { tag: Tag, bytes: u32 },
}

impl<R> Starved<R> {
    pub(crate) fn tag(&self) -> Tag {
        match *self {
            Self::Fetch { tag, .. } | Self::Submit { tag, .. } | Self::Respond { tag, .. } => tag,
        }
    }
}

impl<R> DeviceSide<Starved<R>> {
    /// Returns whether a command waits for memory and its data stops the connection.
    pub(crate) fn is_stuck(&self) -> bool {
        self.waiting().iter().any(|starved| matches!(starved, Starved::Fetch { urgent: true, .. }))
    }

    /// Takes commands out whose requests wait for memory and are revoked.
    pub(crate) fn take_revoked(&mut self, is_revoked: impl Fn(Tag, &R) -> bool) -> Vec<Tag> {
        let mut taken = Vec::new();
        self.forget_waiting(|starved| match starved {
            Starved::Submit { tag, request } if is_revoked(*tag, request) => {
                taken.push(*tag);
                true
            }
            _ => false,
        });
        taken
    }
}
