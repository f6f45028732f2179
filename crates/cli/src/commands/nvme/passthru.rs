//! `weft admin-passthru`, `io-passthru`.

use super::effects::name;
use super::set_feature::refuse_lock;
use super::target::{VerbTarget, letters, number};
use super::{data, hex};
use crate::process::exit::{Failure, tell};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::limits::{ADMIN_DATA_BYTES_MAX, PASSTHROUGH_BYTES_MAX};
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::opcode::{AdminOpcode, FabricsType, NvmOpcode};
use weft_proto::nvme::sqe::{OPCODE_FABRICS, Sqe};
use weft_proto::nvme::types::Nsid;

/// Options of `weft admin-passthru`.
#[derive(Args, Debug)]
#[command(mut_args(letters("opfRnlmt2345678iMbsdrwT9")))]
#[command(after_help = "\
Examples:
  weft admin-passthru nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk --opcode=0x06 --cdw10=1 --data-len=4096 -r
  weft admin-passthru nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk --opcode=0x0a --cdw10=7")]
pub struct AdminPassthruArgs {
    #[command(flatten)]
    command: CommandArgs,
    #[command(flatten)]
    target: VerbTarget,
}

/// A command and the handling of its data.
#[derive(Args, Debug)]
struct CommandArgs {
    /// Opcode
    #[arg(short = 'o', long, value_parser = number::<u8>, default_value = "0", hide_default_value = true)]
    opcode: u8,
    /// Byte 1 of the command; networks have a use of their own for all its bits
    #[arg(short = 'f', long, value_parser = number::<u8>, default_value = "0", hide = true)]
    flags: u8,
    /// Value of the data bytes to send behind the input
    #[arg(short = 'p', long, value_parser = number::<u8>, default_value = "0")]
    prefill: u8,
    /// Bytes 2 and 3, which are the command identifier and not the user's
    #[arg(short = 'R', long, value_parser = number::<u16>, default_value = "0", hide = true)]
    rsvd: u16,
    /// Namespace ID
    #[arg(short = 'n', long, value_parser = number::<u32>, default_value = "0")]
    namespace_id: u32,
    /// Bytes of data
    #[arg(short = 'l', long, value_parser = number::<u32>, default_value = "0")]
    data_len: u32,
    /// Bytes of metadata, which networks do not transfer apart from the data
    #[arg(short = 'm', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    metadata_len: u32,
    /// File of metadata; without --metadata-len it is left alone
    #[arg(short = 'M', long, value_name = "FILE")]
    metadata: Option<PathBuf>,
    /// Milliseconds; --io-timeout is the limit here
    #[arg(short = 't', long, value_parser = number::<u32>, default_value = "0", hide = true)]
    timeout: u32,
    /// Dword 2 of the command
    #[arg(short = '2', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw2: u32,
    /// Dword 3
    #[arg(short = '3', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw3: u32,
    /// Dword 10
    #[arg(short = '4', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw10: u32,
    /// Dword 11
    #[arg(short = '5', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw11: u32,
    /// Dword 12
    #[arg(short = '6', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw12: u32,
    /// Dword 13
    #[arg(short = '7', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw13: u32,
    /// Dword 14
    #[arg(short = '8', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw14: u32,
    /// Dword 15
    #[arg(short = '9', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw15: u32,
    /// File with the data to send, or for the data received [default: standard input and output]
    #[arg(short = 'i', long, value_name = "FILE")]
    input_file: Option<PathBuf>,
    /// Print the data as the controller sent it
    #[arg(short = 'b', long)]
    raw_binary: bool,
    /// Print the command before it is sent
    #[arg(short = 's', long)]
    show_command: bool,
    /// Print the command and do not send it
    #[arg(short = 'd', long)]
    dry_run: bool,
    /// Data comes from the controller; bits 1:0 of the opcode decide without this and --write
    #[arg(short = 'r', long)]
    read: bool,
    /// Data goes to the controller
    #[arg(short = 'w', long)]
    write: bool,
    /// Print how long the command took
    #[arg(short = 'T', long)]
    latency: bool,
    /// Send a command that may destroy data: an admin command without further checks,
    /// an I/O command also where a partition table, a file system or the like is recognised
    #[arg(long)]
    destroy_data: bool,
}

/// Options of `weft io-passthru`.
#[derive(Args, Debug)]
#[command(mut_args(letters("opfRnlmt2345678iMbsdrwT9")))]
#[command(after_help = "\
The namespace is that of the option, or of the URL. Commands other than Read, Compare, Flush, Verify
and those of reservations count as ones that overwrite data.

Example:
  weft io-passthru nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 --opcode=2 --data-len=4096 --read")]
pub struct IoPassthruArgs {
    #[command(flatten)]
    command: CommandArgs,
    #[command(flatten)]
    target: VerbTarget,
}

/// Whether an I/O command leaves the data of a namespace as they are.
fn leaves_data(opcode: u8) -> bool {
    let opcode = NvmOpcode(opcode);
    matches!(opcode, NvmOpcode::FLUSH | NvmOpcode::READ | NvmOpcode::COMPARE | NvmOpcode::VERIFY)
        || matches!(opcode, NvmOpcode::RESERVATION_REGISTER | NvmOpcode::RESERVATION_REPORT)
        || matches!(opcode, NvmOpcode::RESERVATION_ACQUIRE | NvmOpcode::RESERVATION_RELEASE)
}

/// Admin commands that leave all data as they are: Get Log Page, Identify, Abort, Set Features, Get
/// Features, Asynchronous Event Request, Device Self-test, Keep Alive, Directive Receive, NVMe-MI
/// Receive, Security Receive, Get LBA Status, and those of Fabrics.
const HARMLESS: [u8; 13] =
    [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x14, 0x18, 0x1a, 0x1e, 0x82, 0x86, 0x7f];

/// Whether an admin command may destroy data, for all that is known of it.
fn destroys_data(opcode: u8) -> bool {
    !HARMLESS.contains(&opcode)
}

/// Sends an admin command.
pub fn admin_passthru(args: &AdminPassthruArgs, control: &Control) -> Result<(), Failure> {
    let opcode = args.command.opcode;
    if !args.command.destroy_data && !args.command.dry_run && destroys_data(opcode) {
        let text = format!(
            "{} (opcode {opcode:02x}h) may destroy data of whole namespaces, for all that weft knows of it: give --destroy-data if that is meant",
            name(true, opcode)
        );
        return Err(Failure::of(ErrorKind::InUse, text));
    }
    if !args.command.destroy_data && !args.command.dry_run {
        args.command.refuse_lock()?;
    }
    let send = |what: &str, sqe, data| args.target.connect(control)?.admin(what, sqe, data);
    args.command.run(true, args.command.namespace_id, send)
}

/// Sends an I/O command.
pub fn io_passthru(args: &IoPassthruArgs, control: &Control) -> Result<(), Failure> {
    if args.command.opcode == OPCODE_FABRICS {
        let text =
            "Fabrics commands (7Fh) would end the connection of an I/O queue: they are not sent";
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    // As nvme-cli, the command has namespace 0 unless one is named; that of the URL is.
    let named = args.target.address.url()?.nsid;
    let nsid = match args.command.namespace_id {
        0 => named.unwrap_or_default(),
        given => Nsid(given),
    };
    let send = |what: &str, sqe, data| {
        if !args.command.destroy_data && !leaves_data(args.command.opcode) {
            data::refuse_data(&args.target, nsid, control)?;
        }
        args.target.connect(control)?.io(what, sqe, data)
    };
    args.command.run(false, nsid.0, send)
}

impl CommandArgs {
    /// Sends the command by `send`, and prints what comes of it.
    fn run(
        &self,
        is_admin: bool,
        nsid: u32,
        send: impl FnOnce(&str, Sqe, CommandData) -> Result<(Cqe, Vec<u8>), Failure>,
    ) -> Result<(), Failure> {
        self.check(is_admin)?;
        let data = self.data()?;
        if self.show_command || self.dry_run {
            self.show(&mut std::io::stdout().lock(), nsid)?;
        }
        if self.dry_run {
            return Ok(());
        }
        let kind = if is_admin { "Admin" } else { "IO" };
        let what = match name(is_admin, self.opcode) {
            "Unknown" => "Vendor Specific",
            name => name,
        };
        let began = Instant::now();
        let outcome = send(what, self.sqe(nsid), data);
        if self.latency {
            let us = began.elapsed().as_micros();
            writeln!(std::io::stdout().lock(), "{kind} Command {what} latency: {us} us")?;
        }
        let (cqe, data) = outcome?;
        let result = cqe.result as u32;
        tell(&format!("{kind} Command {what} is Success and result: {result:#010x}"));
        self.print(&data)
    }

    fn check(&self, is_admin: bool) -> Result<(), Failure> {
        let most = if is_admin { ADMIN_DATA_BYTES_MAX } else { PASSTHROUGH_BYTES_MAX };
        let wrong = if self.metadata_len > 0 && !self.dry_run {
            "--metadata-len: networks transfer metadata only with the data of their blocks (extended LBAs): leave it out".to_owned()
        } else if self.data_len > most {
            format!("--data-len {}: give at most {most}", self.data_len)
        } else if self.flags != 0 {
            "--flags: networks set all bits of this byte themselves; leave it out".to_owned()
        } else if self.opcode == OPCODE_FABRICS && self.fabrics_type() != FabricsType::PROPERTY_GET
        {
            let text = "of the Fabrics commands (7Fh) only Property Get (--namespace-id=4) can be sent: the others would end the connection";
            text.to_owned()
        } else if self.data_len > 0 && !self.reads() && !self.writes() {
            "data direction not given: add --read or --write".to_owned()
        } else if self.data_len > 0 && self.reads() && self.writes() {
            "data goes one way only here: give one of --read and --write, as the opcode says"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(Failure::of(ErrorKind::Usage, wrong))
    }

    /// The type of a Fabrics command stands where other commands name a namespace.
    fn fabrics_type(&self) -> FabricsType {
        FabricsType(self.namespace_id as u8)
    }

    /// Refuses Set Features for what the verb of that name refuses.
    fn refuse_lock(&self) -> Result<(), Failure> {
        if AdminOpcode(self.opcode) != AdminOpcode::SET_FEATURES {
            return Ok(());
        }
        refuse_lock(FeatureId(self.cdw10 as u8), self.cdw11)
    }

    fn reads(&self) -> bool {
        self.read || self.opcode & 2 != 0
    }

    fn writes(&self) -> bool {
        self.write || self.opcode & 1 != 0
    }

    fn data(&self) -> Result<CommandData, Failure> {
        if self.data_len == 0 {
            return Ok(CommandData::None);
        }
        if self.reads() {
            return Ok(CommandData::In(self.data_len));
        }
        let mut data = data::to_send(self.input_file.as_ref(), self.data_len)?;
        data.resize(self.data_len as usize, self.prefill);
        Ok(CommandData::Out(data))
    }

    fn sqe(&self, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(self.opcode, Nsid(nsid));
        sqe.set_dword(2, self.cdw2);
        sqe.set_dword(3, self.cdw3);
        self.last_dwords().into_iter().for_each(|(n, value)| sqe.set_dword(n, value));
        sqe
    }

    fn last_dwords(&self) -> [(usize, u32); 6] {
        [
            (10, self.cdw10),
            (11, self.cdw11),
            (12, self.cdw12),
            (13, self.cdw13),
            (14, self.cdw14),
            (15, self.cdw15),
        ]
    }

    fn show(&self, out: &mut impl Write, nsid: u32) -> std::io::Result<()> {
        writeln!(out, "opcode       : {:02x}\nflags        : {:02x}", self.opcode, self.flags)?;
        writeln!(out, "rsvd1        : {:04x}\nnsid         : {:08x}", self.rsvd, nsid)?;
        writeln!(out, "cdw2         : {:08x}\ncdw3         : {:08x}", self.cdw2, self.cdw3)?;
        writeln!(
            out,
            "data_len     : {:08x}\nmetadata_len : {:08x}",
            self.data_len, self.metadata_len
        )?;
        // There are no addresses here.
        writeln!(out, "addr         : 0\nmetadata     : 0")?;
        for (n, value) in self.last_dwords() {
            writeln!(out, "cdw{n}        : {value:08x}")?;
        }
        writeln!(out, "timeout_ms   : {:08x}", self.timeout)
    }

    fn print(&self, data: &[u8]) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        if self.input_file.is_some() || self.raw_binary {
            return data::received(self.input_file.as_ref(), data);
        }
        Ok(hex::dump(&mut std::io::stdout().lock(), data)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, CliVerb};
    use crate::commands::nvme::Verb;
    use clap::Parser;

    fn command(options: &[&str]) -> CommandArgs {
        let words = [&["weft", "admin-passthru", "127.0.0.1/nqn.2014-08.org.example:a"], options];
        let CliVerb::Nvme(verb) = Cli::try_parse_from(words.concat()).unwrap().command else {
            panic!("another command");
        };
        let Verb::AdminPassthru(args) = *verb else { panic!("another verb") };
        args.command
    }

    #[test]
    fn options_have_nvme_clis_letters() {
        let args =
            command(&["-o", "0x02", "-n", "0xffffffff", "-l", "64", "-4", "0xf0002", "-r", "-b"]);
        args.check(true).unwrap();
        let sqe = args.sqe(args.namespace_id);
        assert_eq!((sqe.opcode(), sqe.nsid(), sqe.dword(10)), (2, Nsid::ALL, 0xf_0002));
        assert_eq!(args.data().unwrap(), CommandData::In(64));
        let args = command(&["--opcode=0x0a", "--cdw10=7", "-d", "-t", "1000"]);
        let mut out = Vec::new();
        args.show(&mut out, 0).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("opcode       : 0a\nflags        : 00\nrsvd1        : 0000\n"),
            "{text}"
        );
        assert!(text.ends_with("cdw15        : 00000000\ntimeout_ms   : 000003e8\n"), "{text}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_before_there_is_a_connection() {
        for options in [
            &["--opcode=0x7f", "--namespace-id=8"][..],
            &["--opcode=4", "--data-len=4"],
            &["--opcode=6", "--data-len=4", "--write"],
            &["--opcode=6", "--data-len=1000000"],
            &["--opcode=6", "--flags=1"],
            &["--opcode=6", "--metadata-len=8", "-M", "/dev/null"],
        ] {
            assert_eq!(command(options).check(true).unwrap_err().status(), 2, "{options:?}");
        }
        command(&["--opcode=6", "-m", "8", "-d"]).check(true).unwrap();
        command(&["--opcode=0x7f", "--namespace-id=4", "--cdw11=8"]).check(true).unwrap();
    }

    #[test]
    fn commands_that_may_overwrite_data_are_known() {
        let set = |value| command(&["--opcode=9", "--cdw10=0x80000084", value]).refuse_lock();
        assert_eq!(set("--cdw11=2").unwrap_err().status(), 5);
        assert!(set("--cdw11=0").is_ok());
        for opcode in [0, 2, 5, 0x0c, 0x0d, 0x0e, 0x11, 0x15] {
            assert!(leaves_data(opcode), "{opcode:#x}");
        }
        assert_eq!(
            [6, 0x0d, 0x80, 0x84, 0x20, 0xc1].map(destroys_data),
            [false, true, true, true, true, true]
        );
        for opcode in [1, 4, 8, 9, 0x19, 0x79, 0x7d, 0x80, 0xff] {
            assert!(!leaves_data(opcode), "{opcode:#x}");
        }
    }
}
