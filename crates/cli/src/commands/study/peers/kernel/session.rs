//! The changes of a study in the kernel, by the supervisor `weft study-kernel`, which undoes them
//! when the study ends.

use super::super::installed::path;
use crate::commands::internal::study_kernel::step::{KernelStep, Undo};
use crate::commands::internal::study_kernel::{KernelRequest, Reply};
use crate::limits::{KERNEL_END_S, KERNEL_REPLY_S};
use std::cell::RefCell;
use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use weft_bench::study::ForeignTarget;
use weft_server::programs;

/// Time between two looks whether the supervisor has ended.
const LOOK: Duration = Duration::from_millis(10);

/// The supervisor, for all changes of a block. They are undone when this is dropped.
pub struct KernelSession(RefCell<Supervisor>);

struct Supervisor {
    child: Child,
    replies: Receiver<Reply>,
    /// The ways back, as far as they are known here.
    made: Vec<(u32, Undo)>,
    groups: u32,
    /// It owes a reply that did not come in time.
    is_late: bool,
}

/// Changes that belong together. They are undone when this is dropped.
pub struct KernelGroup {
    session: Rc<KernelSession>,
    number: u32,
    /// The target that they use, which must last longer.
    behind: Option<Rc<dyn ForeignTarget>>,
}

impl KernelSession {
    /// Starts the supervisor.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start() -> std::io::Result<Rc<Self>> {
        Ok(Rc::new(Self(RefCell::new(Supervisor::start()?))))
    }
}

impl Supervisor {
    fn start() -> std::io::Result<Self> {
        let mut command = programs::this_program()?;
        command
            .arg("study-kernel")
            .env("PATH", path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Ctrl-C is for the study, which undoes the changes after its report.
        let mut child = command.process_group(0).spawn()?;
        let (give, replies) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                let all = serde_json::Deserializer::from_reader(out).into_iter();
                all.map_while(Result::ok).for_each(|reply: Reply| drop(give.send(reply)));
            });
        }
        Ok(Self { child, replies, made: Vec::new(), groups: 0, is_late: false })
    }

    fn ask(&mut self, request: &KernelRequest) -> Reply {
        let gone = || "the supervisor of the kernel's objects has ended".to_owned();
        if self.is_late {
            return Err("the kernel does not answer".to_owned());
        }
        let text = serde_json::to_string(request).map_err(|e| e.to_string())?;
        let mut pipe = self.child.stdin.as_ref().ok_or_else(gone)?;
        writeln!(pipe, "{text}").map_err(|_| gone())?;
        match self.replies.recv_timeout(Duration::from_secs(KERNEL_REPLY_S)) {
            Ok(reply) => reply,
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(gone()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.is_late = true;
                Err(format!("the kernel did not answer within {KERNEL_REPLY_S} s"))
            }
        }
    }

    /// Closes its input, and waits until it has undone all changes; none if it takes too long.
    fn end(&mut self) -> Option<ExitStatus> {
        drop(self.child.stdin.take());
        let until = Instant::now() + Duration::from_secs(KERNEL_END_S);
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(LOOK);
        }
        None
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let is_killed = self.end().is_some_and(|status| status.signal().is_some());
        if !is_killed || self.made.is_empty() {
            return;
        }
        // Another one undoes what is known here.
        let Ok(mut next) = Self::start() else { return };
        for (group, undo) in std::mem::take(&mut self.made) {
            let _ = next.ask(&KernelRequest::Adopt(group, undo));
        }
    }
}

impl KernelGroup {
    /// A new group, without changes, which uses what is `behind` it.
    pub fn new(session: &Rc<KernelSession>, behind: Option<Rc<dyn ForeignTarget>>) -> Self {
        let mut supervisor = session.0.borrow_mut();
        supervisor.groups += 1;
        Self { session: Rc::clone(session), number: supervisor.groups, behind }
    }

    /// Makes changes.
    ///
    /// # Errors
    /// The reason, without a full stop. Nothing of these changes is left.
    pub fn perform(&self, steps: Vec<KernelStep>) -> Result<(), String> {
        let mut supervisor = self.session.0.borrow_mut();
        let made = supervisor.ask(&KernelRequest::Perform(self.number, steps))?;
        supervisor.made.extend(made.into_iter().map(|undo| (self.number, undo)));
        Ok(())
    }
}

impl Drop for KernelGroup {
    fn drop(&mut self) {
        // The kernel says goodbye to a target.
        self.wake();
        self.undo();
        self.rest();
    }
}

impl KernelGroup {
    fn undo(&self) {
        let mut supervisor = self.session.0.borrow_mut();
        // What cannot be undone is tried again, and reported, at the end.
        if supervisor.ask(&KernelRequest::Undo(self.number)).is_ok() {
            let number = self.number;
            supervisor.made.retain(|(group, undo)| *group != number || undo.is_common());
        }
    }
}

impl ForeignTarget for KernelGroup {
    fn wake(&self) {
        if let Some(behind) = &self.behind {
            behind.wake();
        }
    }

    fn rest(&self) {
        if let Some(behind) = &self.behind {
            behind.rest();
        }
    }
}
