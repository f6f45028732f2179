//! What is asked of a running server by signals and, if it was started by another program, by
//! standard input.

use crate::commands::child::for_each_line_of_input;
use crate::exit::Failure;
use crate::signals::watch;
use std::sync::mpsc::{self, Receiver, Sender};

/// A request to a running server.
pub enum Asked {
    /// To end.
    End,
    /// To apply its configuration file again.
    Again,
    /// Its group does not want it any more.
    Out(weft_group::Ending),
    /// To look after the sources.
    Look,
    /// To print counters.
    Counters,
    /// A command of [`weft_server::served::orders`].
    Change(String),
}

/// A channel that receives SIGTERM and SIGINT, SIGHUP and, if requested, what is on standard input,
/// and its end; and its other end. SIGHUP ends a server that has no configuration file.
pub fn signals(
    until_eof: bool,
    has_file: bool,
) -> Result<(Sender<Asked>, Receiver<Asked>), Failure> {
    let (give, take) = mpsc::channel();
    if until_eof {
        let give = give.clone();
        std::thread::spawn(move || {
            // The receiver is gone if a signal came first.
            for_each_line_of_input(|line| {
                if line == "counters" {
                    let _ = give.send(Asked::Counters);
                } else if let Some(order) = line.strip_prefix("inventory ") {
                    let _ = give.send(Asked::Change(order.to_owned()));
                }
            });
            let _ = give.send(Asked::End);
        });
    }
    let (end, again) = (give.clone(), give.clone());
    // The receiver may be gone already.
    watch(
        move || _ = end.send(Asked::End),
        has_file.then_some(move || _ = again.send(Asked::Again)),
    )?;
    Ok((give, take))
}
