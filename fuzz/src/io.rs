//! An I/O queue of a controller with a device behind it that answers as the fuzzer likes.

use weft_proto::nvme::controller::{
    AbortTarget, DeviceOutcome, IoNext, IoQueue, IoRequest, IoRequestKind,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::stream::Tag;

use crate::{Input, sqe};

/// Where a command stands, as its pump knows it.
#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    Fetching { cid: Cid, bytes: u32 },
    Device { cid: Cid },
    Held { cid: Cid },
}

/// The queue and its pump's memory of it.
pub struct Io {
    /// The queue.
    pub queue: IoQueue,
    states: Vec<State>,
    /// The data of each command, as far as the queue looks at it.
    memory: Vec<Vec<u8>>,
}

impl Io {
    /// A queue on which nothing has been submitted.
    pub fn new(queue: IoQueue) -> Self {
        let states = vec![State::Free; queue.entries() as usize];
        let memory = vec![Vec::new(); states.len()];
        Self { queue, states, memory }
    }

    /// Lets one thing happen, and checks that the queue remembers the same commands as its pump.
    pub fn step(&mut self, input: &mut Input) {
        let tag = Tag(input.below(self.states.len()) as u16);
        let outcome = outcome(input);
        match self.states[tag.index()] {
            State::Free => self.start(input, tag),
            State::Fetching { bytes, .. } if outcome.status.is_success() => {
                self.memory[tag.index()] = data(input, bytes);
                let next = self.queue.data(tag, &self.memory[tag.index()]);
                self.handle(tag, next);
            }
            State::Fetching { .. } => {
                let next = self.queue.data_failed(tag, outcome.status);
                self.handle(tag, next);
            }
            State::Device { .. } => {
                let next = self.queue.finished(tag, outcome, &self.memory[tag.index()]);
                self.handle(tag, next);
            }
            State::Held { .. } => {
                self.abort(Cid(u16::from(input.byte())));
            }
        }
        let remembered = self.states.iter().filter(|state| !matches!(state, State::Free)).count();
        assert_eq!(self.queue.outstanding(), remembered, "{:?}", self.states);
    }

    fn start(&mut self, input: &mut Input, tag: Tag) {
        let sqe = sqe::nvm(input);
        let in_capsule = if sqe.sgl().identifier == 1 { sqe.sgl().length.min(8192) } else { 0 };
        self.states[tag.index()] = State::Held { cid: sqe.cid() };
        let next = self.queue.start(tag, &sqe, in_capsule);
        self.handle(tag, next);
    }

    /// The host wants a command aborted; says whether it was or will be.
    pub fn abort(&mut self, cid: Cid) -> bool {
        let target = self.queue.abort(cid);
        self.take_orphan();
        match target {
            AbortTarget::Unknown => false,
            AbortTarget::Aborted => true,
            AbortTarget::Doomed(tag) => {
                assert!(self.queue.revoked(tag).is_some(), "{tag:?} does not end");
                true
            }
            AbortTarget::InDevice(tag) => {
                assert!(
                    matches!(self.states[tag.index()], State::Device { .. }),
                    "{tag:?} is not with the device"
                );
                false
            }
        }
    }

    fn handle(&mut self, tag: Tag, next: IoNext) {
        let cid = self.cid(tag);
        match next {
            IoNext::Fetch { bytes } => {
                assert!(bytes > 0 && bytes <= 1 << 20, "{bytes} bytes are asked for");
                self.states[tag.index()] = State::Fetching { cid, bytes };
            }
            IoNext::Submit(request) => self.submit(&request),
            IoNext::Reply { cqe, data_bytes } => {
                assert!(data_bytes <= 1 << 20);
                self.complete(tag, cqe);
            }
            IoNext::ReplyPair { first, second } => {
                self.complete(first.0, first.1);
                self.complete(second.0, second.1);
            }
            IoNext::Reserve { namespace } => {
                let namespace =
                    self.queue.namespaces().at(namespace).expect("an operation names a namespace");
                let reservations = namespace.reservations.clone().expect("it can be reserved");
                let operation = self.queue.take_operation().expect("it is there once");
                let outcome = reservations.execute(&operation).map(|_| ());
                let next = self.queue.reserved(tag, outcome);
                return self.handle(tag, next);
            }
            IoNext::Report { bytes } => {
                assert!(bytes > 0 && bytes <= 1 << 20, "{bytes} bytes of a report");
                let next = self.queue.report(tag, &mut vec![0; bytes as usize]);
                return self.handle(tag, next);
            }
            IoNext::Authenticate => unreachable!("nobody asked for such commands"),
            IoNext::Hold => self.states[tag.index()] = State::Held { cid },
        }
        self.take_orphan();
    }

    /// The request is within its namespace and its memory.
    fn submit(&mut self, request: &IoRequest) {
        let namespace =
            self.queue.namespaces().at(request.namespace).expect("a request names a namespace");
        let end = request.lba.0.checked_add(u64::from(request.blocks));
        assert!(end.is_some_and(|end| end <= namespace.blocks), "{request:?}");
        let moves = matches!(
            request.kind,
            IoRequestKind::Read | IoRequestKind::Write | IoRequestKind::Compare
        );
        assert!(
            !moves
                || u64::from(request.bytes)
                    == u64::from(request.blocks) * u64::from(namespace.block_bytes)
        );
        if let IoRequestKind::CompareAndWrite { first } = request.kind {
            assert!(
                matches!(self.states[first.index()], State::Held { .. }),
                "{first:?} has no data"
            );
        }
        let cid = self.cid(request.tag);
        self.states[request.tag.index()] = State::Device { cid };
    }

    fn take_orphan(&mut self) {
        if let Some((tag, cqe)) = self.queue.orphan() {
            self.complete(tag, cqe);
        }
        assert!(self.queue.orphan().is_none());
    }

    /// Each command is answered once, under its own name.
    fn complete(&mut self, tag: Tag, cqe: Cqe) {
        assert_eq!(self.cid(tag), cqe.cid);
        self.states[tag.index()] = State::Free;
    }

    fn cid(&self, tag: Tag) -> Cid {
        match self.states[tag.index()] {
            State::Fetching { cid, .. } | State::Device { cid } | State::Held { cid } => cid,
            State::Free => panic!("{tag:?} names no command"),
        }
    }
}

/// Success most of the time.
fn outcome(input: &mut Input) -> DeviceOutcome {
    match input.below(8) {
        7 => DeviceOutcome { status: Status(input.u16() & 0x7fe | 1), do_not_retry: input.flag() },
        _ => DeviceOutcome::DONE,
    }
}

/// Data of the host: ranges of Dataset Management, small as a rule.
fn data(input: &mut Input, bytes: u32) -> Vec<u8> {
    let mut data = vec![0; bytes.min(4096) as usize];
    for range in data.chunks_exact_mut(16).take(input.below(4)) {
        range[4] = input.byte();
        range[8] = input.byte();
        range[15] = if input.one_in(8) { input.byte() } else { 0 };
    }
    data
}
