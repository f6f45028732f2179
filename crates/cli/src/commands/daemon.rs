//! `weft daemon`: holds connections that last.

use crate::process::exit::{Failure, kind_of, printed};
use crate::process::signals::watch;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use weft_server::attach::entries::Runtime;
use weft_server::connections::attacher::OwnCommands;
use weft_server::connections::daemon::{Daemon, DaemonSettings};
use weft_server::connections::orders::own_place;
use weft_server::connections::store::ConnectionStore;
use weft_server::permitted::Permitted;
use weft_server::service::notify;

/// Options of `weft daemon`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft daemon
      restore what was connected with --persist, and hold it
  weft connect nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --persist
      connect now, and whenever the daemon starts
  weft disconnect /dev/sdb --forget
      disconnect now, and do not connect again
  weft daemon --socket /run/weft/connections.daemon --allow-user ann
      let the user ann command the daemon, too

The disks stay when the daemon ends: each has a process of its own.")]
pub struct DaemonCommand {
    /// Socket at which the daemon answers [default: connections.daemon in the directory of records]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// User who may command the daemon in addition to its own user and root, by name or number; may
    /// be repeated. Such a user can do with weft whatever the user of the daemon can
    #[arg(long, value_name = "USER")]
    allow_user: Vec<String>,
}

/// Holds connections until a signal arrives.
pub fn run(args: &DaemonCommand) -> Result<(), Failure> {
    let runtime = Runtime::open()?;
    let users = Permitted::users(&args.allow_user)?;
    let socket = args.socket.clone().unwrap_or_else(|| own_place(&runtime));
    let (give, take) = mpsc::channel();
    // After the first signal nobody takes any more.
    watch(move || _ = give.send(()), None::<fn()>)?;
    let attacher = Arc::new(OwnCommands::new(runtime, kind_of));
    let store = ConnectionStore::of_this_user()?;
    let daemon = Daemon::start(DaemonSettings { store, attacher, socket, users })?;
    printed(writeln!(std::io::stdout().lock(), "listening on {}", daemon.socket().display()))?;
    notify::ready(false);
    let watchdog = notify::watch_that(daemon.alive());
    // The sender lives as long as the process.
    let _ = take.recv();
    notify::stopping();
    drop(watchdog);
    daemon.stop();
    Ok(())
}
