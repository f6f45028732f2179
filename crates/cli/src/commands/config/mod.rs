//! `weft config`: checks configurations, makes them, and renews names after a machine was copied.

mod check;

use crate::args::source_options::CommandLineOptions;
use crate::process::exit::{Failure, tell};
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use weft_endpoint::Control;
use weft_endpoint::identity::{self, Removed};
use weft_server::config::example::{EXAMPLE, schema};
use weft_server::config::{import, text_of};

/// Options of `weft config`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft config example > weft.toml
      a configuration to begin with
  weft config check weft.toml
      all its mistakes, with their lines
  weft config import /etc/nvmet/config.json > weft.toml
      the configuration of the Linux kernel's target, as nvmetcli saved it
  weft config schema > weft.schema.json
      a schema with which editors complete and check the file")]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Check a configuration for weft serve --config
    #[command(after_help = "\
Example:
  weft config check weft.toml
      all its mistakes, with their lines; nothing is opened but the files with secrets and certificates
  weft config check weft.toml --open
      and whether the sources can be opened")]
    Check {
        /// The file
        file: PathBuf,
        /// It is the configuration of a group of gateways, for weft apply
        #[arg(long)]
        group: bool,
        /// Open each source, too, and close it again; no source is written to, and no file is created
        #[arg(long, conflicts_with = "group")]
        open: bool,
    },
    /// Print a configuration with comments
    #[command(after_help = "\
Example:
  weft config example > weft.toml
      a file to begin with")]
    Example,
    /// Print the JSON schema of configurations
    #[command(after_help = "\
Example:
  weft config schema > weft.schema.json
      for an editor that completes and checks")]
    Schema,
    /// Remove the names of this host, of its targets and of the files and disks that it serves from
    /// the state directory, so that others are drawn: on a machine that was copied together with it
    #[command(after_help = "\
Examples:
  weft config renew-names
      on the copy, before it serves anything
  systemctl stop weft && WEFT_STATE_DIR=/var/lib/weft-server weft config renew-names && systemctl start weft
      the names of the service")]
    RenewNames,
    #[command(after_help = "\
Example:
  weft config import /etc/nvmet/config.json > weft.toml
      the configuration of the Linux kernel's target, as nvmetcli saved it
  rados -p rbd get gateway.conf gateway.json && weft config import gateway.json > weft.toml
      that of Ceph's iSCSI gateway

The result never serves more data, to more hosts, or with weaker authentication than the original.
What is not carried over is closed and reported. Passwords and keys are not copied: the result names
files for them, which must exist before a server starts.")]
    /// Print a configuration made from that of another target: a file of nvmetcli,
    /// targetcli or tgt, of SPDK's save_config, or the gateway.conf of Ceph's iSCSI gateway
    Import {
        /// The file
        file: PathBuf,
        /// For a group of gateways: without what each of them has on its command line
        #[arg(long)]
        group: bool,
    },
}

/// Runs the subcommand.
pub fn run(args: &ConfigArgs, control: &Control) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match &args.command {
        ConfigCommand::Check { file, group: true, .. } => return check::group(file),
        ConfigCommand::Check { file, open, .. } => {
            return check::server(file, open.then_some(control));
        }
        ConfigCommand::Example => out.write_all(EXAMPLE.as_bytes())?,
        ConfigCommand::Schema => writeln!(out, "{:#}", schema(&CommandLineOptions))?,
        ConfigCommand::RenewNames => writeln!(out, "{}", renewed(&identity::renew()?))?,
        ConfigCommand::Import { file, group } => {
            let (text, left) =
                import::import(&text_of(file)?, &file.display().to_string(), *group)?;
            out.write_all(text.as_bytes())?;
            left.iter().for_each(|sentence| tell(&format!("not carried over: {sentence}")));
        }
    }
    Ok(())
}

/// What was removed, and what has other names.
fn renewed(removed: &Removed) -> String {
    let directory = removed.directory.display();
    let names = match &removed.names[..] {
        [] => "no names of this host and its targets".to_owned(),
        names => names.join(", "),
    };
    format!(
        "Removed from {directory}: {names}; names of {} files and disks. A weft that runs keeps its names until it is started again. Names of the \
         system (/etc/nvme/hostnqn, /etc/nvme/hostid, /etc/iscsi/initiatorname.iscsi) and those in configurations are not changed.",
        removed.disks
    )
}
