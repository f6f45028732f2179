//! `weft write-zeroes`, `verify`, `flush`, and the blocks that commands are about.

use super::data;
use super::protection::{Format, Protection, StorageTag};
use super::target::{VerbTarget, letters, number, with_unit};
use crate::process::exit::Failure;
use clap::Args;
use weft_endpoint::Control;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::host::command::{DEALLOCATE, FORCE_UNIT_ACCESS};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// Dword 12: Limited Retry.
const LIMITED_RETRY: u32 = 1 << 31;

/// The blocks of a command.
#[derive(Clone, Args, Debug)]
pub(super) struct Blocks {
    /// Namespace ID [default: the one in the URL, or the first active one]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    pub namespace_id: Option<u32>,
    /// First block
    #[arg(short = 's', long, value_parser = with_unit, default_value = "0")]
    pub start_block: u64,
    /// Number of blocks, counted from 0
    #[arg(short = 'c', long, value_parser = number::<u16>, default_value = "0")]
    pub block_count: u16,
    /// Limit the controller's attempts
    #[arg(short = 'l', long)]
    limited_retry: bool,
    /// Force unit access
    #[arg(short = 'f', long)]
    force_unit_access: bool,
}

/// Options of `weft write-zeroes`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsclfdprmaSC")))]
#[command(after_help = "\
Example:
  weft write-zeroes nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7 --deac")]
pub struct WriteZeroesArgs {
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    protection: Protection,
    #[command(flatten)]
    storage_tag: StorageTag,
    /// The controller may free the blocks
    #[arg(short = 'd', long)]
    deac: bool,
    /// Write also where a partition table, a file system or the like is recognised
    #[arg(long)]
    destroy_data: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// Options of `weft verify`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsclfprmaSC")))]
#[command(after_help = "\
Example:
  weft verify nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7")]
pub struct VerifyArgs {
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    protection: Protection,
    #[command(flatten)]
    storage_tag: StorageTag,
    #[command(flatten)]
    target: VerbTarget,
}

/// Options of `weft flush`.
#[derive(Args, Debug)]
#[command(mut_args(letters("n")))]
#[command(after_help = "\
Example:
  weft flush nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1")]
pub struct FlushArgs {
    /// Namespace ID [default: the one in the URL, or the first active one]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    #[command(flatten)]
    target: VerbTarget,
}

impl Blocks {
    pub(super) fn command(&self, opcode: NvmOpcode, nsid: Nsid) -> Sqe {
        let mut sqe = Sqe::new(opcode.0, nsid);
        sqe.set_qword(10, self.start_block);
        let retry = if self.limited_retry { LIMITED_RETRY } else { 0 };
        let access = if self.force_unit_access { FORCE_UNIT_ACCESS } else { 0 };
        sqe.set_dword(12, u32::from(self.block_count) | retry | access);
        sqe
    }
}

/// Refuses the namespace that a command is about if something is recognised there; gives its
/// identifier, so that the command is about no other one.
pub(super) fn guard(
    target: &VerbTarget,
    given: Option<u32>,
    control: &Control,
) -> Result<Option<u32>, Failure> {
    let nsid = target.connect(control)?.namespace(given)?;
    data::refuse_data(target, nsid, control)?;
    Ok(Some(nsid.0))
}

/// Sends a command without data, and says that it succeeded.
pub(super) fn bare(
    target: &VerbTarget,
    (what, said): (&str, &str),
    given: Option<u32>,
    command: impl FnOnce(Nsid) -> (Sqe, CommandData),
    control: &Control,
) -> Result<(), Failure> {
    let connected = target.connect(control)?;
    let (sqe, data) = command(connected.namespace(given)?);
    connected.io(what, sqe, data)?;
    println(said)
}

/// The same with what protects the blocks.
fn protected(
    target: &VerbTarget,
    (what, said): (&str, &str),
    blocks: &Blocks,
    (protection, tag): (&Protection, u64),
    mut sqe: Sqe,
    control: &Control,
) -> Result<(), Failure> {
    protection.check()?;
    let connected = target.connect(control)?;
    let nsid = connected.namespace(blocks.namespace_id)?;
    let format = match protection.needs_format(tag) {
        true => Format::read(&connected, nsid)?,
        false => Format::default(),
    };
    protection.put(&mut sqe, tag, format)?;
    sqe.set_dword(1, nsid.0);
    connected.io(what, sqe, CommandData::None)?;
    println(said)
}

/// A line on standard output.
pub(super) fn println(line: &str) -> Result<(), Failure> {
    use std::io::Write;
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Writes zeroes.
pub fn write_zeroes(args: &WriteZeroesArgs, control: &Control) -> Result<(), Failure> {
    args.protection.check()?;
    let mut blocks = args.blocks.clone();
    if !args.destroy_data {
        blocks.namespace_id = guard(&args.target, blocks.namespace_id, control)?;
    }
    let mut sqe = blocks.command(NvmOpcode::WRITE_ZEROES, Nsid(0));
    sqe.set_dword(12, sqe.dword(12) | if args.deac { DEALLOCATE } else { 0 });
    let words = ("Write Zeroes", "NVME Write Zeroes Success");
    let protection = (&args.protection, args.storage_tag.storage_tag);
    protected(&args.target, words, &blocks, protection, sqe, control)
}

/// Has blocks verified.
pub fn verify(args: &VerifyArgs, control: &Control) -> Result<(), Failure> {
    let sqe = args.blocks.command(NvmOpcode::VERIFY, Nsid(0));
    let words = ("Verify", "NVME Verify Success");
    let protection = (&args.protection, args.storage_tag.storage_tag);
    protected(&args.target, words, &args.blocks, protection, sqe, control)
}

/// Makes durable what was written.
pub fn flush(args: &FlushArgs, control: &Control) -> Result<(), Failure> {
    let command = |nsid| (Sqe::new(NvmOpcode::FLUSH.0, nsid), CommandData::None);
    let given = args.namespace_id;
    bare(&args.target, ("Flush", "NVMe Flush: success"), given, command, control)
}
