//! `weft admin-passthru`.

use super::effects::name;
use super::{Target, hex, letters, number};
use crate::exit::Failure;
use clap::Args;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use weft_block::{Error, ErrorKind};
use weft_endpoint::Control;
use weft_endpoint::limits::ADMIN_DATA_BYTES_MAX;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::opcode::FabricsType;
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
    target: Target,
}

/// A command, and what becomes of its data.
#[derive(Args, Debug)]
struct CommandArgs {
    /// Opcode
    #[arg(short = 'o', long, value_parser = number::<u8>, default_value = "0", hide_default_value = true)]
    opcode: u8,
    /// Byte 1 of the command; networks have a use of their own for all its bits
    #[arg(short = 'f', long, value_parser = number::<u8>, default_value = "0", hide = true)]
    flags: u8,
    /// Value of the bytes that are not read from anywhere
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
    /// File to read data to send from, or to write data that came to [default: standard input and
    /// output]
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
    /// Data comes from the controller, as the opcode says otherwise
    #[arg(short = 'r', long)]
    read: bool,
    /// Data goes to the controller, as the opcode says otherwise
    #[arg(short = 'w', long)]
    write: bool,
    /// Print how long the command took
    #[arg(short = 'T', long)]
    latency: bool,
}

/// Sends an admin command.
pub fn admin_passthru(args: &AdminPassthruArgs, control: &Control) -> Result<(), Failure> {
    let command = &args.command;
    command.check()?;
    let data = command.data()?;
    let sqe = command.sqe();
    let mut out = std::io::stdout().lock();
    if command.show_command || command.dry_run {
        command.show(&mut out)?;
    }
    if command.dry_run {
        return Ok(());
    }
    let connected = args.target.connect(control)?;
    let what = match name(true, command.opcode) {
        "Unknown" => "Vendor Specific",
        name => name,
    };
    let began = Instant::now();
    let outcome = connected.admin(what, sqe, data);
    if command.latency {
        let us = began.elapsed().as_micros();
        writeln!(out, "Admin Command {what} latency: {us} us")?;
    }
    let (cqe, data) = outcome?;
    let result = cqe.result as u32;
    crate::exit::tell(&format!("Admin Command {what} is Success and result: {result:#010x}"));
    command.print(&mut out, &data)
}

impl CommandArgs {
    fn check(&self) -> Result<(), Failure> {
        let wrong = if self.data_len > ADMIN_DATA_BYTES_MAX {
            format!("--data-len {}: give at most {ADMIN_DATA_BYTES_MAX}", self.data_len)
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
        let mut data = match &self.input_file {
            Some(path) => {
                let file = File::open(path).map_err(|e| at(path, "read", e))?;
                taken(file, self.data_len).map_err(|e| at(path, "read", e))?
            }
            None => taken(std::io::stdin().lock(), self.data_len)?,
        };
        data.resize(self.data_len as usize, self.prefill);
        Ok(CommandData::Out(data))
    }

    fn sqe(&self) -> Sqe {
        let mut sqe = Sqe::new(self.opcode, Nsid(self.namespace_id));
        let dwords = [
            (2, self.cdw2),
            (3, self.cdw3),
            (10, self.cdw10),
            (11, self.cdw11),
            (12, self.cdw12),
            (13, self.cdw13),
            (14, self.cdw14),
            (15, self.cdw15),
        ];
        dwords.iter().for_each(|(n, value)| sqe.set_dword(*n, *value));
        sqe
    }

    fn show(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "opcode       : {:02x}\nflags        : {:02x}", self.opcode, self.flags)?;
        writeln!(
            out,
            "rsvd1        : {:04x}\nnsid         : {:08x}",
            self.rsvd, self.namespace_id
        )?;
        writeln!(out, "cdw2         : {:08x}\ncdw3         : {:08x}", self.cdw2, self.cdw3)?;
        writeln!(out, "data_len     : {:08x}\nmetadata_len : {:08x}", self.data_len, 0)?;
        // There are no addresses here.
        writeln!(out, "addr         : 0\nmetadata     : 0")?;
        for (n, value) in [
            (10, self.cdw10),
            (11, self.cdw11),
            (12, self.cdw12),
            (13, self.cdw13),
            (14, self.cdw14),
            (15, self.cdw15),
        ] {
            writeln!(out, "cdw{n}        : {value:08x}")?;
        }
        writeln!(out, "timeout_ms   : {:08x}", self.timeout)
    }

    fn print(&self, out: &mut impl Write, data: &[u8]) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        match &self.input_file {
            Some(path) => std::fs::write(path, data).map_err(|e| at(path, "write", e)),
            None if self.raw_binary => Ok(out.write_all(data)?),
            None => Ok(hex::dump(out, data)?),
        }
    }
}

/// As many bytes as there are, up to `most`.
fn taken(from: impl Read, most: u32) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::new();
    from.take(most.into()).read_to_end(&mut data)?;
    Ok(data)
}

fn at(path: &Path, what: &str, error: std::io::Error) -> Failure {
    Error::io(format!("cannot {what} {}: {error}", path.display()), error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::nvme::Verb;
    use clap::Parser;

    fn command(options: &[&str]) -> CommandArgs {
        let words = [&["weft", "admin-passthru", "127.0.0.1/nqn.2014-08.org.example:a"], options];
        let Command::Nvme(verb) = Cli::try_parse_from(words.concat()).unwrap().command else {
            panic!("another command");
        };
        let Verb::AdminPassthru(args) = *verb else { panic!("another verb") };
        args.command
    }

    #[test]
    fn options_have_nvme_clis_letters() {
        let args =
            command(&["-o", "0x02", "-n", "0xffffffff", "-l", "64", "-4", "0xf0002", "-r", "-b"]);
        args.check().unwrap();
        let sqe = args.sqe();
        assert_eq!((sqe.opcode(), sqe.nsid(), sqe.dword(10)), (2, Nsid::ALL, 0xf_0002));
        assert_eq!(args.data().unwrap(), CommandData::In(64));
        let args = command(&["--opcode=0x0a", "--cdw10=7", "-d", "-t", "1000"]);
        let mut out = Vec::new();
        args.show(&mut out).unwrap();
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
        ] {
            assert_eq!(command(options).check().unwrap_err().status(), 2, "{options:?}");
        }
        command(&["--opcode=0x7f", "--namespace-id=4", "--cdw11=8"]).check().unwrap();
    }
}
