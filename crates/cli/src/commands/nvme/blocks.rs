//! `weft read`, `write`, `compare`, `write-zeroes`, `verify`, `flush`.

use super::connected::Connected;
use super::data;
use super::target::{Target, letters, number};
use crate::exit::{Failure, tell};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use weft_block::{ErrorKind, units};
use weft_endpoint::Control;
use weft_endpoint::limits::PASSTHROUGH_BYTES_MAX;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::host::command::{DEALLOCATE, FORCE_UNIT_ACCESS};
use weft_proto::nvme::identify::{Cns, IdentifyNamespace};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// Dword 12: Limited Retry.
const LIMITED_RETRY: u32 = 1 << 31;

/// The blocks of a command.
#[derive(Clone, Args, Debug)]
struct Blocks {
    /// Namespace ID [default: the one in the URL, or the first active one]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// First block
    #[arg(short = 's', long, value_parser = with_unit, default_value = "0")]
    start_block: u64,
    /// Number of blocks, counted from 0
    #[arg(short = 'c', long, value_parser = number::<u16>, default_value = "0")]
    block_count: u16,
    /// Limit the controller's attempts
    #[arg(short = 'l', long)]
    limited_retry: bool,
    /// Force unit access
    #[arg(short = 'f', long)]
    force_unit_access: bool,
}

/// The data of a command.
#[derive(Args, Debug)]
struct Payload {
    /// Bytes of data
    #[arg(short = 'z', long, value_parser = with_unit, default_value = "0", hide_default_value = true)]
    data_size: u64,
    /// File with the data, or for it [default: standard input, or output]
    #[arg(short = 'd', long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Print how long the command took
    #[arg(short = 't', long)]
    latency: bool,
}

/// Options of `weft read`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsclfzdt")))]
#[command(after_help = "\
Example:
  weft read nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7 -z 4096 -d block")]
pub struct ReadArgs {
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    payload: Payload,
    #[command(flatten)]
    target: Target,
}

/// Options of `weft compare`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsclfzdt")))]
#[command(after_help = "\
Example:
  weft compare nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7 -z 4096 -d block")]
pub struct CompareArgs {
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    payload: Payload,
    #[command(flatten)]
    target: Target,
}

/// Options of `weft write`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsclfzdt")))]
#[command(after_help = "\
Example:
  weft write nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7 -z 4096 -d block")]
pub struct WriteArgs {
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    payload: Payload,
    /// Write also where a partition table, a file system or the like is recognised
    #[arg(long, alias = "force")]
    destroy_data: bool,
    #[command(flatten)]
    target: Target,
}

/// Options of `weft write-zeroes`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsclfd")))]
#[command(after_help = "\
Example:
  weft write-zeroes nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7 --deac")]
pub struct WriteZeroesArgs {
    #[command(flatten)]
    blocks: Blocks,
    /// The controller may free the blocks
    #[arg(short = 'd', long)]
    deac: bool,
    /// Write also where a partition table, a file system or the like is recognised
    #[arg(long)]
    destroy_data: bool,
    #[command(flatten)]
    target: Target,
}

/// Options of `weft verify`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsclf")))]
#[command(after_help = "\
Example:
  weft verify nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7")]
pub struct VerifyArgs {
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    target: Target,
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
    target: Target,
}

/// A number, also with a unit.
fn with_unit(text: &str) -> Result<u64, String> {
    number::<u64>(text).or_else(|e| units::parse_size(text).map_err(|_| e))
}

impl Blocks {
    fn command(&self, opcode: NvmOpcode, nsid: Nsid) -> Sqe {
        let mut sqe = Sqe::new(opcode.0, nsid);
        sqe.set_qword(10, self.start_block);
        let retry = if self.limited_retry { LIMITED_RETRY } else { 0 };
        let access = if self.force_unit_access { FORCE_UNIT_ACCESS } else { 0 };
        sqe.set_dword(12, u32::from(self.block_count) | retry | access);
        sqe
    }
}

/// Bytes of a block of a namespace.
fn block_bytes(connected: &Connected, nsid: Nsid) -> Result<u64, Failure> {
    let raw = connected.session.identify(Cns::NAMESPACE.0, nsid)?;
    let id = IdentifyNamespace::decode(&raw).map_err(|e| connected.malformed(&e))?;
    let format = id.format().filter(|format| format.ds < 32);
    let format = format.ok_or_else(|| connected.malformed(&"no such LBA format"))?;
    if format.ms != 0 {
        let text = format!("namespace {nsid} has metadata, which weft neither sends nor receives");
        return Err(Failure::of(ErrorKind::Unsupported, text));
    }
    Ok(1 << format.ds)
}

impl Payload {
    /// Bytes of the command: what was given, or more where the blocks are more.
    fn bytes(&self, connected: &Connected, nsid: Nsid, blocks: &Blocks) -> Result<u32, Failure> {
        let least = (u64::from(blocks.block_count) + 1) * block_bytes(connected, nsid)?;
        if self.data_size < least {
            tell(&format!("Rounding data size to fit block count ({least} bytes)"));
        }
        let bytes = self.data_size.max(least);
        u32::try_from(bytes).ok().filter(|bytes| *bytes <= PASSTHROUGH_BYTES_MAX).ok_or_else(|| {
            let text = format!("{bytes} bytes: give at most {PASSTHROUGH_BYTES_MAX}");
            Failure::of(ErrorKind::Usage, text)
        })
    }

    fn check(&self) -> Result<(), Failure> {
        if self.data_size > 0 {
            return Ok(());
        }
        let text = "data size not provided: give --data-size in bytes";
        Err(Failure::of(ErrorKind::Usage, text))
    }

    /// Sends a command with data, or for data; gives the data that came.
    fn send(
        &self,
        target: &Target,
        blocks: &Blocks,
        opcode: NvmOpcode,
        control: &Control,
    ) -> Result<(), Failure> {
        let verb = opcode.to_string().to_lowercase();
        let connected = target.connect(control)?;
        let nsid = connected.namespace(blocks.namespace_id)?;
        let bytes = self.bytes(&connected, nsid, blocks)?;
        let reads = opcode == NvmOpcode::READ;
        let given = u32::try_from(self.data_size).unwrap_or(bytes).min(bytes);
        let payload = match reads {
            true => CommandData::In(bytes),
            false => {
                let payload = data::to_send(self.data.as_ref(), bytes)?;
                if payload.len() < bytes as usize {
                    let text = format!(
                        "there are {} bytes of {bytes} to send: give data for all blocks",
                        payload.len()
                    );
                    return Err(Failure::of(ErrorKind::Usage, text));
                }
                CommandData::Out(payload)
            }
        };
        let began = Instant::now();
        let outcome =
            connected.io(opcode.text().unwrap_or("I/O"), blocks.command(opcode, nsid), payload);
        if self.latency {
            println(&format!(" latency: {verb}: {} us", began.elapsed().as_micros()))?;
        }
        let (_, mut came) = outcome?;
        if reads {
            came.truncate(given as usize);
            data::received(self.data.as_ref(), &came)?;
        }
        tell(&format!("{verb}: Success"));
        Ok(())
    }
}

/// Reads blocks.
pub fn read(args: &ReadArgs, control: &Control) -> Result<(), Failure> {
    args.payload.check()?;
    args.payload.send(&args.target, &args.blocks, NvmOpcode::READ, control)
}

/// Compares blocks with data.
pub fn compare(args: &CompareArgs, control: &Control) -> Result<(), Failure> {
    args.payload.check()?;
    args.payload.send(&args.target, &args.blocks, NvmOpcode::COMPARE, control)
}

/// Writes blocks.
pub fn write(args: &WriteArgs, control: &Control) -> Result<(), Failure> {
    args.payload.check()?;
    let mut blocks = args.blocks.clone();
    if !args.destroy_data {
        blocks.namespace_id = guard(&args.target, blocks.namespace_id, control)?;
    }
    args.payload.send(&args.target, &blocks, NvmOpcode::WRITE, control)
}

/// Refuses the namespace that a command is about if something is recognised there; gives its
/// identifier, so that the command is about no other one.
pub(super) fn guard(
    target: &Target,
    given: Option<u32>,
    control: &Control,
) -> Result<Option<u32>, Failure> {
    let nsid = target.connect(control)?.namespace(given)?;
    data::refuse_data(target, nsid, control)?;
    Ok(Some(nsid.0))
}

/// Sends a command without data, and says that it succeeded.
pub(super) fn bare(
    target: &Target,
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

fn println(line: &str) -> Result<(), Failure> {
    use std::io::Write;
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Writes zeroes.
pub fn write_zeroes(args: &WriteZeroesArgs, control: &Control) -> Result<(), Failure> {
    let mut given = args.blocks.namespace_id;
    if !args.destroy_data {
        given = guard(&args.target, given, control)?;
    }
    let command = |nsid| {
        let mut sqe = args.blocks.command(NvmOpcode::WRITE_ZEROES, nsid);
        sqe.set_dword(12, sqe.dword(12) | if args.deac { DEALLOCATE } else { 0 });
        (sqe, CommandData::None)
    };
    bare(&args.target, ("Write Zeroes", "NVME Write Zeroes Success"), given, command, control)
}

/// Has blocks verified.
pub fn verify(args: &VerifyArgs, control: &Control) -> Result<(), Failure> {
    let command = |nsid| (args.blocks.command(NvmOpcode::VERIFY, nsid), CommandData::None);
    let given = args.blocks.namespace_id;
    bare(&args.target, ("Verify", "NVME Verify Success"), given, command, control)
}

/// Makes durable what was written.
pub fn flush(args: &FlushArgs, control: &Control) -> Result<(), Failure> {
    let command = |nsid| (Sqe::new(NvmOpcode::FLUSH.0, nsid), CommandData::None);
    let given = args.namespace_id;
    bare(&args.target, ("Flush", "NVMe Flush: success"), given, command, control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::nvme::Verb;
    use clap::Parser;

    fn verb(words: &[&str]) -> Verb {
        let words = [&["weft"], words, &["127.0.0.1/nqn.2014-08.org.example:a/1"]].concat();
        let Command::Nvme(verb) = Cli::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        *verb
    }

    #[test]
    fn commands_have_their_fields_where_the_figures_show() {
        let Verb::Read(args) = verb(&["read", "-s", "4k", "-c", "7", "-l", "-f", "-z", "0x1000"])
        else {
            panic!("another verb");
        };
        let sqe = args.blocks.command(NvmOpcode::READ, Nsid(3));
        assert_eq!((sqe.opcode(), sqe.nsid(), sqe.qword(10)), (2, Nsid(3), 4096));
        assert_eq!((sqe.dword(12), args.payload.data_size), (0xc000_0007, 4096));
    }
}
