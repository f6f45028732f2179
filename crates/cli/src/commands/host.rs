//! `weft host`: lets hosts in and out of a running server.

use super::apply::{ForceArgs, print};
use crate::exit::Failure;
use crate::management::client::Client;
use crate::management::place::ServerArgs;
use crate::served::verbs::ChangeHost;
use clap::{Args, Subcommand};

/// Options of `weft host`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft host allow nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
      an NVMe host may connect
  weft host deny iqn.2004-10.com.ubuntu:01:alice --force
      an iSCSI initiator may not log in any more, and its session ends")]
pub struct HostArgs {
    #[command(subcommand)]
    command: HostCommand,
}

/// A host, and where it is let in.
#[derive(Args, Debug)]
struct Who {
    /// NQN of an NVMe host, or name of an iSCSI initiator
    host: String,
    /// NQN of the subsystem [default: the only one]
    #[arg(long, value_name = "NQN")]
    subsystem: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Subcommand, Debug)]
enum HostCommand {
    /// Let a host connect
    #[command(after_help = "\
Example:
  weft host allow nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
      an NVMe host may connect, too")]
    Allow(Who),
    /// Let a host connect no more
    #[command(after_help = "\
Example:
  weft host deny iqn.2004-10.com.ubuntu:01:alice --force
      an iSCSI initiator may not log in any more, and its session ends")]
    Deny {
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        force: ForceArgs,
    },
}

/// Asks the server.
pub fn run(args: HostArgs) -> Result<(), Failure> {
    let (method, who, force) = match args.command {
        HostCommand::Allow(who) => ("host.allow", who, false),
        HostCommand::Deny { who, force } => ("host.deny", who, force.force),
    };
    let Who { host, subsystem, server } = who;
    print(&Client::of(&server)?.ask(method, ChangeHost { subsystem, host, force })?, false)
}
