//! A host and a controller wired back to back, with a clock that jumps to the next deadline.

use std::collections::VecDeque;
use std::time::Duration;

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::Connect;
use weft_proto::nvme::host::{AdminData, HostAction, HostConfig, HostControl, RequestId};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Id128, Nqn, Qid};

use super::fake::{Fake, HOST, Reply, SUBSYSTEM};

/// Decides over a command before the controller sees it: by its number, counted from zero, and its
/// content.
pub type Script = Box<dyn FnMut(usize, &Sqe, &AdminData, &mut Fake) -> Option<Reply>>;

pub struct World {
    pub host: HostControl,
    pub fake: Fake,
    pub now: Duration,
    /// Actions of the host, except commands.
    pub said: VecDeque<HostAction>,
    /// Commands without an answer.
    pub unanswered: Vec<(RequestId, Sqe)>,
    pub script: Script,
    commands: usize,
    ended: bool,
}

pub fn config() -> HostConfig {
    let nqn = |name| Nqn::new(name).unwrap();
    HostConfig { io_queues: 2, ..HostConfig::new(nqn(HOST), Id128([5; 16]), nqn(SUBSYSTEM)) }
}

pub fn discovery_config() -> HostConfig {
    HostConfig::discovery(Nqn::new(HOST).unwrap(), Id128([5; 16]))
}

impl World {
    pub fn new(config: HostConfig, fake: Fake) -> Self {
        Self {
            host: HostControl::new(config),
            fake,
            now: Duration::from_secs(1000),
            said: VecDeque::new(),
            unanswered: Vec::new(),
            script: Box::new(|_, _, _, _| None),
            commands: 0,
            ended: false,
        }
    }

    pub fn scripted(
        config: HostConfig,
        fake: Fake,
        script: impl FnMut(usize, &Sqe, &AdminData, &mut Fake) -> Option<Reply> + 'static,
    ) -> Self {
        Self { script: Box::new(script), ..Self::new(config, fake) }
    }

    /// An association with two I/O queues that is ready.
    pub fn ready() -> Self {
        Self::ready_with(|_| ())
    }

    /// The same with a controller that differs from the usual one.
    pub fn ready_with(change: impl FnOnce(&mut Fake)) -> Self {
        let mut fake = Fake::default();
        change(&mut fake);
        let mut world = Self::new(config(), fake);
        world.run();
        assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
        world
    }

    /// Commands that the controller has been sent, those of I/O queues included.
    pub fn commands(&self) -> usize {
        self.commands
    }

    fn answer(&mut self, sqe: &Sqe, data: &AdminData) -> Reply {
        let number = self.commands;
        self.commands += 1;
        match (self.script)(number, sqe, data, &mut self.fake) {
            Some(reply) => reply,
            None => match data {
                AdminData::Out(bytes) => self.fake.connect(sqe, &bytes[..]),
                _ => self.fake.admin(sqe, data),
            },
        }
    }

    /// Does what the host says until it is silent.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            let Some(action) = self.host.poll(self.now) else { return };
            assert!(!self.ended, "{action:?} after the end");
            match action {
                HostAction::Admin { id, sqe, data } => match self.answer(&sqe, &data) {
                    Reply::Done(cqe, bytes) => {
                        self.host.admin_completed(self.now, id, &cqe, &bytes)
                    }
                    Reply::Silence => self.unanswered.push((id, sqe)),
                },
                HostAction::OpenQueue { qid, entries } => self.open(qid, entries),
                other => {
                    self.ended =
                        matches!(other, HostAction::Failed { .. } | HostAction::Closed { .. });
                    self.said.push_back(other);
                }
            }
        }
        panic!("the host never falls silent");
    }

    fn open(&mut self, qid: Qid, entries: u16) {
        let (sqe, data) = self.host.io_connect(qid);
        assert_eq!(
            (sqe.dword(10) >> 16, sqe.dword(11) & 0xffff),
            (qid.0.into(), u32::from(entries) - 1)
        );
        assert_eq!(
            sqe.dword(11) >> 16 & 0xff,
            u32::from(Connect::DISABLE_FLOW_CONTROL),
            "the host wants no SQ flow control"
        );
        match self.answer(&sqe, &AdminData::Out(data)) {
            Reply::Done(cqe, _) => self.host.queue_opened(self.now, qid, &cqe),
            Reply::Silence => {}
        }
    }

    /// Goes to the next deadline; says whether there was one.
    pub fn step(&mut self) -> bool {
        let Some(deadline) = self.host.deadline() else { return false };
        self.now = self.now.max(deadline);
        self.run();
        true
    }

    /// Goes on for `time`.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.run();
        while self.host.deadline().is_some_and(|deadline| deadline <= end) {
            self.step();
        }
        self.now = end;
        self.run();
    }

    /// Goes on until the host has said its last word, or `time` is over; gives what it said last.
    pub fn last_word(&mut self, time: Duration) -> Option<HostAction> {
        self.run();
        let end = self.now + time;
        while !self.ended && self.host.deadline().is_some_and(|deadline| deadline <= end) {
            self.step();
        }
        self.said.back().cloned()
    }

    /// Answers the oldest unanswered command like `matches`.
    pub fn complete(&mut self, matches: impl Fn(&Sqe) -> bool, status: Status, result: u64) {
        let at = self
            .unanswered
            .iter()
            .position(|(_, sqe)| matches(sqe))
            .expect("such a command is outstanding");
        let (id, _) = self.unanswered.remove(at);
        let cqe = Cqe { result, ..Cqe::new(Cid(0), status) };
        self.host.admin_completed(self.now, id, &cqe, &[]);
        self.run();
    }

    /// Answers the outstanding Asynchronous Event Request.
    pub fn event(&mut self, dword0: u32) {
        self.complete(|sqe| sqe.opcode() == 0x0c, Status::SUCCESS, dword0.into());
    }

    /// Returns the number of unanswered commands with this opcode.
    pub fn outstanding(&self, opcode: u8) -> usize {
        self.unanswered.iter().filter(|(_, sqe)| sqe.opcode() == opcode).count()
    }
}
