//! `weft read`, `write`, `compare`.

use super::blocks::{Blocks, guard, println};
use super::connected::ConnectedSession;
use super::data;
use super::protection::{Format, Protection};
use super::target::{VerbTarget, letters, number, with_unit};
use crate::process::exit::{Failure, tell};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::limits::PASSTHROUGH_BYTES_MAX;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// The data of a command.
#[derive(Args, Debug)]
struct Payload {
    /// Bytes of data
    #[arg(short = 'z', long, value_parser = with_unit, default_value = "0", hide_default_value = true)]
    data_size: u64,
    /// Bytes of metadata, which networks do not transfer apart from the data
    #[arg(short = 'y', long, value_parser = with_unit, default_value = "0", hide_default_value = true)]
    metadata_size: u64,
    /// File with the data, or for it [default: standard input, or output]
    #[arg(short = 'd', long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// File of metadata; without --metadata-size it is left alone
    #[arg(short = 'M', long, value_name = "FILE")]
    metadata: Option<PathBuf>,
    #[command(flatten)]
    protection: Protection,
    /// Storage tag
    #[arg(short = 'g', long, value_parser = with_unit, default_value = "0", hide_default_value = true)]
    storage_tag: u64,
    /// Directive type
    #[arg(short = 'T', long, value_parser = number::<u8>, default_value = "0", hide_default_value = true)]
    dir_type: u8,
    /// Directive specific
    #[arg(short = 'S', long, value_parser = number::<u16>, default_value = "0", hide_default_value = true)]
    dir_spec: u16,
    /// Dataset management attributes
    #[arg(short = 'D', long, value_parser = number::<u8>, default_value = "0", hide_default_value = true)]
    dsm: u8,
    /// Print the command before it is sent
    #[arg(long)]
    show_command: bool,
    /// Print the command and do not send it
    #[arg(short = 'w', long)]
    dry_run: bool,
    /// Print how long the command took
    #[arg(short = 't', long)]
    latency: bool,
}

/// Options of `weft read`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsczyrdMpmagltfCTSDw")))]
#[command(after_help = "\
Example:
  weft read nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7 -z 4096 -d block")]
pub struct ReadArgs {
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    payload: Payload,
    #[command(flatten)]
    target: VerbTarget,
}

/// Options of `weft compare`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsczyrdMpmagltfCTSDw")))]
#[command(after_help = "\
Example:
  weft compare nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -s 0 -c 7 -z 4096 -d block")]
pub struct CompareArgs {
    #[command(flatten)]
    blocks: Blocks,
    #[command(flatten)]
    payload: Payload,
    #[command(flatten)]
    target: VerbTarget,
}

/// Options of `weft write`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nsczyrdMpmagltfCTSDw")))]
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
    target: VerbTarget,
}

impl Payload {
    fn check(&self) -> Result<(), Failure> {
        self.protection.check()?;
        let wrong = if self.dir_type > 0xf {
            format!("--dir-type {}: the field has 4 bits, so give at most 15", self.dir_type)
        } else if self.data_size == 0 {
            "data size not provided: give --data-size in bytes".to_owned()
        } else {
            return Ok(());
        };
        Err(Failure::of(ErrorKind::Usage, wrong))
    }

    /// Bytes of the command: what was given, or more where the blocks are more.
    fn bytes(&self, nsid: Nsid, blocks: &Blocks, format: Format) -> Result<u32, Failure> {
        let of_block = format.transferred(nsid, self.protection.prinfo)?;
        let least = (u64::from(blocks.block_count) + 1) * of_block;
        if self.data_size < least {
            tell(&format!("Rounding data size to fit block count ({least} bytes)"));
        }
        let bytes = self.data_size.max(least);
        u32::try_from(bytes).ok().filter(|bytes| *bytes <= PASSTHROUGH_BYTES_MAX).ok_or_else(|| {
            let text = format!("{bytes} bytes: give at most {PASSTHROUGH_BYTES_MAX}");
            Failure::of(ErrorKind::Usage, text)
        })
    }

    /// The command, on a namespace of this format.
    fn command(
        &self,
        (opcode, nsid): (NvmOpcode, Nsid),
        blocks: &Blocks,
        format: Format,
    ) -> Result<Sqe, Failure> {
        let mut sqe = blocks.command(opcode, nsid);
        sqe.set_dword(12, sqe.dword(12) | u32::from(self.dir_type) << 20);
        sqe.set_dword(13, self.dataset_management());
        self.protection.put(&mut sqe, self.storage_tag, format)?;
        Ok(sqe)
    }

    /// Dword 13. What is specific to a directive is of effect with one.
    fn dataset_management(&self) -> u32 {
        let specific = if self.dir_type == 0 { 0 } else { self.dir_spec };
        u32::from(specific) << 16 | u32::from(self.dsm)
    }

    fn show(&self, out: &mut impl Write, sqe: &Sqe, format: Format) -> std::io::Result<()> {
        let (control, blocks) = (sqe.dword(12) >> 16, sqe.dword(12) & 0xffff);
        writeln!(out, "opcode       : {:02x}\nnsid         : {:02x}", sqe.opcode(), sqe.nsid().0)?;
        writeln!(out, "flags        : 00\ncontrol      : {control:04x}")?;
        writeln!(out, "nblocks      : {blocks:04x}")?;
        // There are no addresses here.
        writeln!(out, "metadata     : 0\naddr         : 0")?;
        writeln!(out, "slba         : {:x}\ndsmgmt       : {:08x}", sqe.qword(10), sqe.dword(13))?;
        let Protection { ref_tag, app_tag, app_tag_mask, storage_tag_check, .. } = self.protection;
        writeln!(out, "reftag       : {ref_tag:x}\napptag       : {app_tag:04x}")?;
        writeln!(out, "appmask      : {app_tag_mask:04x}")?;
        writeln!(out, "storagetagcheck : {:04x}", u8::from(storage_tag_check))?;
        writeln!(out, "storagetag      : {:x}", self.storage_tag)?;
        writeln!(out, "pif             : {:02x}", format.guards)?;
        writeln!(out, "sts             : {:02x}", format.storage_tag_bits)
    }

    /// What the command sends, or makes room for.
    fn data(&self, opcode: NvmOpcode, bytes: u32) -> Result<CommandData, Failure> {
        if opcode == NvmOpcode::READ {
            return Ok(CommandData::In(bytes));
        }
        let payload = data::to_send(self.data.as_ref(), bytes)?;
        if payload.len() == bytes as usize {
            return Ok(CommandData::Out(payload));
        }
        let text = format!(
            "there are {} bytes of {bytes} to send: give data for all blocks",
            payload.len()
        );
        Err(Failure::of(ErrorKind::Usage, text))
    }

    /// Sends a command with data, or for data; gives the data that came.
    fn send(
        &self,
        target: &VerbTarget,
        blocks: &Blocks,
        opcode: NvmOpcode,
        control: &Control,
    ) -> Result<(), Failure> {
        let connected = target.connect(control)?;
        let nsid = connected.namespace(blocks.namespace_id)?;
        let format = Format::read(&connected, nsid)?;
        format.refuse_metadata(nsid, self.metadata_size)?;
        let bytes = self.bytes(nsid, blocks, format)?;
        let sqe = self.command((opcode, nsid), blocks, format)?;
        let payload = self.data(opcode, bytes)?;
        if self.show_command || self.dry_run {
            self.show(&mut std::io::stdout().lock(), &sqe, format)?;
        }
        if self.dry_run {
            return Ok(());
        }
        self.execute(&connected, opcode, sqe, (payload, bytes))
    }

    fn execute(
        &self,
        connected: &ConnectedSession,
        opcode: NvmOpcode,
        sqe: Sqe,
        (payload, bytes): (CommandData, u32),
    ) -> Result<(), Failure> {
        let verb = opcode.to_string().to_lowercase();
        let given = u32::try_from(self.data_size).unwrap_or(bytes).min(bytes);
        let began = Instant::now();
        let outcome = connected.io(opcode.text().unwrap_or("I/O"), sqe, payload);
        if self.latency {
            println(&format!(" latency: {verb}: {} us", began.elapsed().as_micros()))?;
        }
        let (_, mut came) = outcome?;
        if opcode == NvmOpcode::READ {
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
    if !args.destroy_data && !args.payload.dry_run {
        blocks.namespace_id = guard(&args.target, blocks.namespace_id, control)?;
    }
    args.payload.send(&args.target, &blocks, NvmOpcode::WRITE, control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, CliVerb};
    use crate::commands::nvme::Verb;
    use clap::Parser;

    fn verb(words: &[&str]) -> ReadArgs {
        let words = [&["weft"], words, &["127.0.0.1/nqn.2014-08.org.example:a/1"]].concat();
        let CliVerb::Nvme(verb) = Cli::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let Verb::Read(args) = *verb else { panic!("another verb") };
        args
    }

    fn command(args: &ReadArgs, format: Format) -> Sqe {
        args.payload.command((NvmOpcode::READ, Nsid(3)), &args.blocks, format).unwrap()
    }

    #[test]
    fn commands_have_their_fields_where_the_figures_show() {
        let args = verb(&["read", "-s", "4k", "-c", "7", "-l", "-f", "-z", "0x1000"]);
        let sqe = command(&args, Format::default());
        assert_eq!((sqe.opcode(), sqe.nsid(), sqe.qword(10)), (2, Nsid(3), 4096));
        assert_eq!((sqe.dword(12), args.payload.data_size), (0xc000_0007, 4096));
        let args = verb(&[
            "read", "-z", "512", "-p", "0xf", "-r", "0x1234", "-a", "0x56", "-m", "0x78", "-T",
            "1", "-S", "0x9a", "-D", "0xbc", "-C", "-g", "2",
        ]);
        args.payload.check().unwrap();
        let format = Format { storage_tag_bits: 8, ..Format::default() };
        let sqe = command(&args, format);
        assert_eq!((sqe.dword(12), sqe.dword(13)), (0x3d10_0000, 0x009a_00bc));
        assert_eq!((sqe.dword(14), sqe.dword(15)), (0x0200_1234, 0x0078_0056));
    }

    #[test]
    fn a_command_is_shown_in_nvme_clis_form() {
        let args = verb(&["read", "-z", "512", "-s", "0x20", "-p", "8", "-r", "7", "-w"]);
        let (mut out, format) = (Vec::new(), Format::default());
        args.payload.show(&mut out, &command(&args, format), format).unwrap();
        let shown = "\
opcode       : 02
nsid         : 03
flags        : 00
control      : 2000
nblocks      : 0000
metadata     : 0
addr         : 0
slba         : 20
dsmgmt       : 00000000
reftag       : 7
apptag       : 0000
appmask      : 0000
storagetagcheck : 0000
storagetag      : 0
pif             : 00
sts             : 00
";
        assert_eq!(String::from_utf8(out).unwrap(), shown);
    }

    #[test]
    fn what_has_no_place_in_a_command_is_refused() {
        for words in [&["-z", "512", "-p", "16"][..], &["-z", "512", "-T", "16"], &[]] {
            let args = verb(&[&["read"], words].concat());
            assert_eq!(args.payload.check().unwrap_err().status(), 2, "{words:?}");
        }
    }
}
