//! `weft host`: lets hosts in and out of a running server.

use super::apply::{ForceArgs, print};
use crate::args::server::ServerArgs;
use crate::process::exit::Failure;
use clap::{Args, Subcommand};
use weft_server::served::host_verbs::{ChangeHost, ForgetHost};

/// Options of `weft host`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft host allow nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
      an NVMe host may connect
  weft host deny iqn.2004-10.com.ubuntu:01:alice --force
      an iSCSI initiator may no longer log in, and its session ends
  weft host forget nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
      another NVMe host may use the identifier that this one has registered with")]
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
    /// Stop letting a host connect
    #[command(after_help = "\
Example:
  weft host deny iqn.2004-10.com.ubuntu:01:alice --force
      an iSCSI initiator may no longer log in, and its session ends")]
    Deny {
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        force: ForceArgs,
    },
    /// Forget that an NVMe host has proved its name, so that another name may use its identifier
    ///
    /// What is registered stays: it is that of the first host that proves its name with the
    /// identifier from then on.
    #[command(after_help = "\
Example:
  weft host forget 11111111-2222-3333-4444-555555555555
      the host with this identifier (/etc/nvme/hostid) has a new name")]
    Forget {
        /// NQN of the host, or its identifier
        host: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Asks the server.
pub fn run(args: HostArgs) -> Result<(), Failure> {
    let (method, who, force) = match args.command {
        HostCommand::Allow(who) => ("host.allow", who, false),
        HostCommand::Deny { who, force } => ("host.deny", who, force.force),
        HostCommand::Forget { host, server } => {
            return print(&server.connect()?.ask("host.forget", ForgetHost { host })?, false);
        }
    };
    let Who { host, subsystem, server } = who;
    print(&server.connect()?.ask(method, ChangeHost { subsystem, host, force })?, false)
}
