//! `weft namespace`: adds, removes and resizes namespaces of a running server.

use super::apply::{ForceArgs, print};
use crate::args::scsi::ScsiArgs;
use crate::args::server::ServerArgs;
use crate::process::exit::Failure;
use clap::{Args, Subcommand};
use weft_server::served::verbs::{AddNamespace, RemoveNamespace, ResizeNamespace};

/// Options of `weft namespace`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft namespace add file:/srv/new.img,size=10GiB --nsid 3
      another namespace, which connected hosts see at once
  weft namespace resize 3 20GiB
      serve more of its source
  weft namespace resize 3
      serve all of its source, which is asked for its size: a file may have grown
  weft namespace remove 3
      refused while hosts are connected that see it, unless --force is given")]
pub struct NamespaceArgs {
    #[command(subcommand)]
    command: NamespaceCommand,
}

/// Options of `weft namespace add`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  weft namespace add file:/srv/new.img,size=10GiB --nsid 3
      another namespace, which connected hosts see at once")]
struct AddArgs {
    /// Source URL, as for weft serve; a relative path begins at the working directory of the server
    source: String,
    /// NQN of the subsystem [default: the only one]
    #[arg(long, value_name = "NQN")]
    subsystem: Option<String>,
    /// Namespace identifier [default: the lowest free one]
    #[arg(long)]
    nsid: Option<u32>,
    /// Name for NBD clients [default: none; they do not get it]
    #[arg(long)]
    name: Option<String>,
    /// UUID [default: that of the source]
    #[arg(long)]
    uuid: Option<String>,
    /// NGUID, 32 hexadecimal digits [default: the UUID]
    #[arg(long)]
    nguid: Option<String>,
    /// EUI-64, 16 hexadecimal digits
    #[arg(long)]
    eui64: Option<String>,
    #[command(flatten)]
    scsi: ScsiArgs,
    /// Size to serve at most, as in 10GiB [default: all of the source]
    #[arg(long)]
    size: Option<String>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// ANA group [default: 1]
    #[arg(long, value_name = "GROUP")]
    ana_group: Option<u32>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Subcommand, Debug)]
enum NamespaceCommand {
    /// Serve one more source
    Add(Box<AddArgs>),
    /// Stop serving a namespace
    #[command(after_help = "\
Example:
  weft namespace remove 3
      refused while hosts are connected that see it, unless --force is given")]
    Remove(Which),
    /// Serve more or less of a source
    #[command(after_help = "\
Example:
  weft namespace resize 3 20GiB
      connected hosts see the new size at once; less than now is refused while there are any, unless --force is given
  weft namespace resize 3
      all of the source, which is asked for its size")]
    Resize {
        #[command(flatten)]
        which: Which,
        /// Size to serve at most, as in 10GiB [default: all, which is what the source has when it
        /// is asked now]
        size: Option<String>,
    },
}

/// A namespace that a server has.
#[derive(Args, Debug)]
struct Which {
    /// Namespace identifier
    nsid: u32,
    /// NQN of the subsystem [default: the only one]
    #[arg(long, value_name = "NQN")]
    subsystem: Option<String>,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Asks the server.
pub fn run(args: NamespaceArgs) -> Result<(), Failure> {
    let changed = match args.command {
        NamespaceCommand::Add(args) => add(*args)?,
        NamespaceCommand::Remove(Which { nsid, subsystem, force: ForceArgs { force }, server }) => {
            server.connect()?.ask("namespace.remove", RemoveNamespace { subsystem, nsid, force })?
        }
        NamespaceCommand::Resize {
            which: Which { nsid, subsystem, force: ForceArgs { force }, server },
            size,
        } => {
            let size = size.filter(|size| size != "all");
            server
                .connect()?
                .ask("namespace.resize", ResizeNamespace { subsystem, nsid, size, force })?
        }
    };
    print(&changed, false)
}

fn add(args: AddArgs) -> Result<weft_server::served::Changed, Failure> {
    let AddArgs {
        source,
        subsystem,
        nsid,
        name,
        uuid,
        nguid,
        eui64,
        scsi,
        size,
        read_only,
        ana_group,
        server,
    } = args;
    let params = AddNamespace {
        subsystem,
        nsid,
        source,
        name,
        uuid,
        nguid,
        eui64,
        scsi: scsi.into(),
        size,
        read_only,
        ana_group,
    };
    Ok(server.connect()?.ask("namespace.add", params)?)
}
