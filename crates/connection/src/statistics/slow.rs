//! Commands that take longer than they should, with their stages: `weft serve --slow`.
//!
//! Where it is off a connection has nothing of this, and each stage of a command costs a branch.
//! Where it is on times are those of the turns of the loop, as in the histograms; only when answers
//! have left the clock is read.

use super::names::{ConnectionName, NamespaceName};
use crate::refusals::Refusals;
use core::fmt;
use core::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::printable::{Printable, PrintableLine};
use weft_proto::scsi::opcode::OpCode;
use weft_proto::stream::Tag;

/// When a command is slow, and the log of those that were, of all connections.
pub(super) struct SlowLog {
    limit_ns: u64,
    lines: Refusals,
}

impl SlowLog {
    pub(super) fn new(limit: Duration) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self { limit_ns, lines: Refusals::default() }
    }
}

/// Name of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandName {
    /// The opcode and the command identifier.
    Nvme(NvmOpcode, u16),
    /// The operation code, and the task tag of the initiator.
    Scsi(OpCode, u32),
    /// The type in words, and the cookie.
    Nbd(&'static str, u64),
}

impl CommandName {
    fn opcode(&self) -> String {
        match self {
            Self::Nvme(opcode, _) => opcode.to_string(),
            Self::Scsi(opcode, _) => opcode.to_string(),
            Self::Nbd(word, _) => (*word).to_owned(),
        }
    }
}

impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvme(_, id) => write!(f, "command {id}"),
            Self::Scsi(_, task) => write!(f, "task {task:#x}"),
            Self::Nbd(_, cookie) => write!(f, "cookie {cookie:#x}"),
        }
    }
}

/// What is known of a command. Times are those of the loop, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Stages {
    name: CommandName,
    received_ns: u64,
    memory_ns: Option<u64>,
    submitted_ns: Option<u64>,
    completed_ns: Option<u64>,
    answered_ns: Option<u64>,
    failed: bool,
    /// The namespace by its number, and what of it.
    on: Option<(usize, u64, u64)>,
}

/// The commands of one connection.
pub(super) struct Slow {
    log: Arc<SlowLog>,
    connection: ConnectionName,
    /// By number.
    namespaces: Vec<Option<NamespaceName>>,
    /// Those that are not answered, by tag.
    commands: Vec<Option<Stages>>,
    /// Those that are answered, and whose answers have not left.
    unsent: Vec<(Tag, Stages)>,
}

impl Slow {
    pub(super) fn new(log: Arc<SlowLog>, connection: ConnectionName) -> Self {
        let (namespaces, commands, unsent) = Default::default();
        Self { log, connection, namespaces, commands, unsent }
    }

    /// The namespaces are others. Which one commands under way are on is not known any more.
    pub(super) fn follow(&mut self, names: Vec<Option<NamespaceName>>) {
        self.commands.iter_mut().flatten().for_each(|command| command.on = None);
        self.unsent.iter_mut().for_each(|(_, command)| command.on = None);
        self.namespaces = names;
    }

    #[cold]
    pub(super) fn begin(&mut self, tag: Tag, name: CommandName, now_ns: u64) {
        // The tag is free again: its answer has left.
        self.sent(tag, now_ns);
        if tag.index() >= self.commands.len() {
            self.commands.resize(tag.index() + 1, None);
        }
        self.commands[tag.index()] = Some(Stages {
            name,
            received_ns: now_ns,
            memory_ns: None,
            submitted_ns: None,
            completed_ns: None,
            answered_ns: None,
            failed: false,
            on: None,
        });
    }

    fn command(&mut self, tag: Tag) -> Option<&mut Stages> {
        self.commands.get_mut(tag.index())?.as_mut()
    }

    #[cold]
    pub(super) fn has_memory(&mut self, tag: Tag, now_ns: u64) {
        self.command(tag).into_iter().for_each(|it| _ = it.memory_ns.get_or_insert(now_ns));
    }

    /// A command may be submitted in several parts; the first one's blocks are told.
    #[cold]
    pub(super) fn submitted(
        &mut self,
        tag: Tag,
        (number, lba, blocks): (usize, u64, u64),
        now_ns: u64,
    ) {
        let Some(command) = self.command(tag) else { return };
        command.submitted_ns.get_or_insert(now_ns);
        command.on.get_or_insert((number, lba, blocks));
    }

    #[cold]
    pub(super) fn completed(&mut self, tag: Tag, now_ns: u64) {
        self.command(tag).into_iter().for_each(|it| it.completed_ns = Some(now_ns));
    }

    #[cold]
    pub(super) fn answered(&mut self, tag: Tag, failed: bool, now_ns: u64) {
        if let Some(mut command) = self.commands.get_mut(tag.index()).and_then(Option::take) {
            (command.failed, command.answered_ns) = (failed, Some(now_ns));
            self.unsent.push((tag, command));
        }
    }

    /// A command ends without an answer, as its host wants.
    pub(super) fn forget(&mut self, tag: Tag) {
        self.commands.get_mut(tag.index()).into_iter().for_each(|it| *it = None);
    }

    /// Whether answers have not left.
    #[inline]
    pub(super) fn awaits_sending(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The answer with this tag has left.
    #[cold]
    pub(super) fn sent(&mut self, tag: Tag, now_ns: u64) {
        if let Some(at) = self.unsent.iter().position(|(of, _)| *of == tag) {
            let (_, command) = self.unsent.swap_remove(at);
            self.tell(&command, now_ns, "sent");
        }
    }

    /// All answers have left.
    #[cold]
    pub(super) fn all_sent(&mut self, now_ns: u64) {
        for at in 0..self.unsent.len() {
            self.tell(&self.unsent[at].1, now_ns, "sent");
        }
        self.unsent.clear();
    }

    /// The connection has ended, and with it what is under way: hosts that have waited for long
    /// enough give up so.
    #[cold]
    pub(super) fn end(&mut self, now_ns: u64) {
        let unsent = self.unsent.iter().map(|(_, command)| command);
        for command in self.commands.iter().flatten().chain(unsent) {
            self.tell(command, now_ns, "connection ended");
        }
    }

    /// Logs a command, if it was slow.
    fn tell(&self, command: &Stages, end_ns: u64, end: &str) {
        let took_ns = end_ns.saturating_sub(command.received_ns);
        if took_ns >= self.log.limit_ns {
            let text = || self.line(command, took_ns, (end_ns, end));
            self.log.lines.log(Duration::from_nanos(end_ns), text);
        }
    }

    fn line(&self, command: &Stages, took_ns: u64, (end_ns, end): (u64, &str)) -> String {
        let ConnectionName { protocol, host, peer, queue, .. } = &self.connection;
        let mut text = format!(
            "slow command: {} took {}: {} at {} by {protocol}",
            command.name.opcode(),
            ms(took_ns),
            Printable(host),
            PrintableLine(peer),
        );
        // A string takes everything.
        let _ = queue.iter().try_for_each(|queue| write!(text, ", queue {queue}"));
        let _ = write!(text, ", {}", command.name);
        if let Some((number, lba, blocks)) = command.on {
            if let Some(Some((nqn, nsid))) = self.namespaces.get(number) {
                let _ = write!(text, ", namespace {nsid} of {nqn}");
            }
            let _ = match blocks {
                0 => Ok(()),
                _ => write!(text, ", LBA {lba}, blocks {blocks}"),
            };
        }
        text.push_str(if command.failed { "; failed; received" } else { "; received" });
        let mut last_ns = command.received_ns;
        let reached = [
            ("had memory", command.memory_ns),
            ("submitted", command.submitted_ns),
            ("completed", command.completed_ns),
            ("answered", command.answered_ns),
            (end, Some(end_ns)),
        ];
        for (stage, at_ns) in reached {
            let Some(at_ns) = at_ns else { continue };
            let _ = write!(text, ", {stage} +{}", ms(at_ns.saturating_sub(last_ns)));
            last_ns = at_ns;
        }
        text
    }
}

/// A time, in the unit of all times of these lines.
fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::nvme::types::{Nqn, Nsid};

    fn slow() -> Slow {
        let connection = ConnectionName {
            protocol: "nvme+tcp",
            host: "nqn.a".into(),
            peer: "192.0.2.1:5".into(),
            queue: Some(2),
            tls: None,
        };
        let mut slow = Slow::new(Arc::new(SlowLog::new(Duration::from_millis(1))), connection);
        slow.follow(vec![Some((Nqn::new("nqn.2026-01.example:x").unwrap(), Nsid(7)))]);
        slow
    }

    #[test]
    fn a_line_has_all_stages_with_the_times_between_them() {
        let mut slow = slow();
        slow.begin(Tag(3), CommandName::Nvme(NvmOpcode::READ, 17), 1_000_000);
        slow.has_memory(Tag(3), 2_000_000);
        slow.submitted(Tag(3), (0, 64, 8), 2_500_000);
        slow.submitted(Tag(3), (0, 72, 8), 2_600_000);
        slow.completed(Tag(3), 12_500_000);
        slow.answered(Tag(3), false, 12_500_000);
        assert!(slow.awaits_sending());
        let (_, command) = slow.unsent[0];
        assert_eq!(
            slow.line(&command, 11_600_000, (12_600_000, "sent")),
            "slow command: Read took 11.600 ms: nqn.a at 192.0.2.1:5 by nvme+tcp, queue 2, \
             command 17, namespace 7 of nqn.2026-01.example:x, LBA 64, blocks 8; received, \
             had memory +1.000 ms, submitted +0.500 ms, completed +10.000 ms, \
             answered +0.000 ms, sent +0.100 ms"
        );
        slow.all_sent(12_600_000);
        assert!(!slow.awaits_sending());
    }

    #[test]
    fn a_command_that_got_nowhere_has_the_stages_that_it_reached() {
        let mut slow = slow();
        slow.begin(Tag(0), CommandName::Nbd("read", 0x1f), 0);
        slow.answered(Tag(0), true, 5_000_000);
        let line = slow.line(&slow.unsent[0].1, 5_000_000, (5_000_000, "connection ended"));
        assert!(line.ends_with(
            "cookie 0x1f; failed; received, answered +5.000 ms, connection ended +0.000 ms"
        ));
        // A tag that is used again has been answered; one that is given up is not told of.
        slow.begin(Tag(0), CommandName::Nbd("read", 0x20), 6_000_000);
        assert!(!slow.awaits_sending());
        slow.forget(Tag(0));
        slow.answered(Tag(0), false, 7_000_000);
        assert!(!slow.awaits_sending());
    }
}
