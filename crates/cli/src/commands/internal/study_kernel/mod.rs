//! `weft study-kernel`: changes objects of the kernel for a study, and undoes the changes as soon
//! as standard input closes. The study may be killed at any time, so this process, which is in a
//! process group of its own, cleans up after it.
//!
//! Requests come on standard input and replies go to standard output, as JSON, one for each.

mod calls;
pub mod modules;
pub mod step;
mod work;

use crate::process::exit::{Failure, printed, tell};
use crate::process::signals::on_interrupt;
use calls::LocalKernel;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::sync::mpsc::{self, Sender};
use step::{KernelStep, Undo};
use weft_block::ErrorKind;
use work::KernelWork;

/// A request of the study.
#[derive(Debug, Serialize, Deserialize)]
pub enum KernelRequest {
    /// Make changes, as a part of a group.
    Perform(u32, Vec<KernelStep>),
    /// Undo a group.
    Undo(u32),
    /// Undo a change of another supervisor at the end.
    Adopt(u32, Undo),
}

/// The reply to a request: the ways back of the changes, or the reason of a failure without a full
/// stop.
pub type Reply = Result<Vec<Undo>, String>;

/// Reasons to stop waiting.
enum Event {
    Asked(KernelRequest),
    /// Standard input closed, or a signal arrived.
    End,
}

/// Makes changes until standard input closes, and undoes them.
pub fn run() -> Result<(), Failure> {
    let (give, events) = mpsc::channel();
    let asked = give.clone();
    on_interrupt(move || drop(asked.send(Event::End)))?;
    std::thread::spawn(move || read(&give));
    let mut work = KernelWork::new(LocalKernel);
    let mut outcome = Ok(());
    while let Ok(Event::Asked(request)) = events.recv() {
        outcome = reply(&answer(&mut work, request));
        if outcome.is_err() {
            // The study is gone.
            break;
        }
    }
    work.undo_all().map_err(|left| {
        tell(&format!(
            "weft: the study leaves objects of the kernel behind; remove them by {left}"
        ));
        Failure::of(ErrorKind::InUse, "objects of the kernel are left")
    })?;
    outcome
}

fn answer(work: &mut KernelWork<LocalKernel>, request: KernelRequest) -> Reply {
    match request {
        KernelRequest::Perform(group, steps) => work.perform(group, &steps),
        KernelRequest::Undo(group) => work.undo(group).map(|()| Vec::new()),
        KernelRequest::Adopt(group, undo) => {
            work.adopt(group, undo);
            Ok(Vec::new())
        }
    }
}

fn reply(reply: &Reply) -> Result<(), Failure> {
    let text = serde_json::to_string(reply)
        .map_err(|e| Failure::of(ErrorKind::Io, format!("a reply cannot be written: {e}")))?;
    let mut out = std::io::stdout();
    printed(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// Passes requests on, and then the end of standard input.
fn read(give: &Sender<Event>) {
    let requests = serde_json::Deserializer::from_reader(std::io::stdin().lock()).into_iter();
    for request in requests.map_while(Result::ok) {
        let _ = give.send(Event::Asked(request));
    }
    let _ = give.send(Event::End);
}
