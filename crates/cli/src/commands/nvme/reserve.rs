//! `weft resv-register`, `resv-acquire`, `resv-release`.

use super::target::{VerbTarget, letters, number};
use crate::process::exit::Failure;
use clap::Args;
use std::io::Write;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::host::command::IGNORE_EXISTING_KEY;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::Sqe;

/// Options of `weft resv-register`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nckrpi")))]
#[command(after_help = "\
Example:
  weft resv-register nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 --rrega=0 --nrkey=0xa")]
pub struct ResvRegisterArgs {
    /// Namespace ID [default: the one in the URL, or the first active one]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// Current reservation key
    #[arg(short = 'c', long, value_parser = number::<u64>, default_value = "0")]
    crkey: u64,
    /// New reservation key
    #[arg(short = 'k', long, value_parser = number::<u64>, default_value = "0")]
    nrkey: u64,
    /// Action: 0 register, 1 unregister, 2 replace
    #[arg(short = 'r', long, value_parser = number::<u8>, default_value = "0")]
    rrega: u8,
    /// Persist through power loss: 0 no change, 2 no, 3 yes
    #[arg(short = 'p', long, value_parser = number::<u8>, default_value = "0")]
    cptpl: u8,
    /// Ignore the existing key
    #[arg(short = 'i', long)]
    iekey: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// Options of `weft resv-acquire`.
#[derive(Args, Debug)]
#[command(mut_args(letters("ncptai")))]
#[command(after_help = "\
Example:
  weft resv-acquire nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 --rtype=1 --crkey=0xa")]
pub struct ResvAcquireArgs {
    /// Namespace ID [default: the one in the URL, or the first active one]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// Current reservation key
    #[arg(short = 'c', long, value_parser = number::<u64>, default_value = "0")]
    crkey: u64,
    /// Key of the registrants to preempt
    #[arg(short = 'p', long, value_parser = number::<u64>, default_value = "0")]
    prkey: u64,
    /// Reservation type, 1 to 6
    #[arg(short = 't', long, value_parser = number::<u8>, default_value = "0")]
    rtype: u8,
    /// Action: 0 acquire, 1 preempt, 2 preempt and abort
    #[arg(short = 'a', long, value_parser = number::<u8>, default_value = "0")]
    racqa: u8,
    /// Ignore the existing key
    #[arg(short = 'i', long)]
    iekey: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// Options of `weft resv-release`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nctai")))]
#[command(after_help = "\
Example:
  weft resv-release nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 --rtype=1 --crkey=0xa")]
pub struct ResvReleaseArgs {
    /// Namespace ID [default: the one in the URL, or the first active one]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// Current reservation key
    #[arg(short = 'c', long, value_parser = number::<u64>, default_value = "0")]
    crkey: u64,
    /// Reservation type, 1 to 6
    #[arg(short = 't', long, value_parser = number::<u8>, default_value = "0")]
    rtype: u8,
    /// Action: 0 release, 1 clear
    #[arg(short = 'a', long, value_parser = number::<u8>, default_value = "0")]
    rrela: u8,
    /// Ignore the existing key
    #[arg(short = 'i', long)]
    iekey: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// A command that changes a reservation (Base 2.1 §7.4 to 7.6).
#[derive(Debug, PartialEq, Eq)]
struct Change {
    opcode: NvmOpcode,
    dword10: u32,
    keys: Vec<u64>,
    /// What nvme-cli says of its success.
    said: &'static str,
}

impl Change {
    fn send(
        self,
        target: &VerbTarget,
        given: Option<u32>,
        control: &Control,
    ) -> Result<(), Failure> {
        let connected = target.connect(control)?;
        let mut sqe = Sqe::new(self.opcode.0, connected.namespace(given)?);
        sqe.set_dword(10, self.dword10);
        let keys = self.keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let what = self.opcode.text().unwrap_or("Reservation");
        connected.io(what, sqe, CommandData::Out(keys))?;
        Ok(writeln!(std::io::stdout().lock(), "{}", self.said)?)
    }
}

/// The action, and whether the existing key is ignored.
fn dword10(option: &str, action: u8, ignores: bool) -> Result<u32, Failure> {
    if action > 7 {
        let text = format!("--{option} has 3 bits: give at most 7");
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    Ok(u32::from(action) | if ignores { IGNORE_EXISTING_KEY } else { 0 })
}

impl ResvRegisterArgs {
    fn change(&self) -> Result<Change, Failure> {
        if self.cptpl > 3 {
            return Err(Failure::of(ErrorKind::Usage, "--cptpl has 2 bits: give at most 3"));
        }
        Ok(Change {
            opcode: NvmOpcode::RESERVATION_REGISTER,
            dword10: dword10("rrega", self.rrega, self.iekey)? | u32::from(self.cptpl) << 30,
            keys: vec![self.crkey, self.nrkey],
            said: "NVME Reservation  success",
        })
    }
}

impl ResvAcquireArgs {
    fn change(&self) -> Result<Change, Failure> {
        Ok(Change {
            opcode: NvmOpcode::RESERVATION_ACQUIRE,
            dword10: dword10("racqa", self.racqa, self.iekey)? | u32::from(self.rtype) << 8,
            keys: vec![self.crkey, self.prkey],
            said: "NVME Reservation Acquire success",
        })
    }
}

impl ResvReleaseArgs {
    fn change(&self) -> Result<Change, Failure> {
        Ok(Change {
            opcode: NvmOpcode::RESERVATION_RELEASE,
            dword10: dword10("rrela", self.rrela, self.iekey)? | u32::from(self.rtype) << 8,
            keys: vec![self.crkey],
            said: "NVME Reservation Release success",
        })
    }
}

/// Registers, unregisters, or replaces a key.
pub fn resv_register(args: &ResvRegisterArgs, control: &Control) -> Result<(), Failure> {
    args.change()?.send(&args.target, args.namespace_id, control)
}

/// Takes a reservation.
pub fn resv_acquire(args: &ResvAcquireArgs, control: &Control) -> Result<(), Failure> {
    args.change()?.send(&args.target, args.namespace_id, control)
}

/// Gives a reservation up, or clears it.
pub fn resv_release(args: &ResvReleaseArgs, control: &Control) -> Result<(), Failure> {
    args.change()?.send(&args.target, args.namespace_id, control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, CliVerb};
    use crate::commands::nvme::Verb;
    use clap::Parser;

    fn change(words: &[&str]) -> Result<Change, Failure> {
        let words = [&["weft"], words, &["127.0.0.1/nqn.2014-08.org.example:a/1"]].concat();
        match Cli::try_parse_from(words).unwrap().command {
            CliVerb::Nvme(verb) => match *verb {
                Verb::ResvRegister(args) => args.change(),
                Verb::ResvAcquire(args) => args.change(),
                Verb::ResvRelease(args) => args.change(),
                _ => panic!("another verb"),
            },
            _ => panic!("another command"),
        }
    }

    #[test]
    fn the_fields_are_where_the_figures_show() {
        for (words, opcode, dword10, keys) in [
            (
                &["resv-register", "-r", "2", "-c", "5", "-k", "0xa", "-p", "3", "-i"][..],
                0x0d,
                0xc000_000a,
                vec![5, 10],
            ),
            (
                &["resv-acquire", "-a", "1", "-t", "3", "-c", "5", "-p", "6"],
                0x11,
                0x301,
                vec![5, 6],
            ),
            (&["resv-release", "--rrela=1", "--rtype=6", "--crkey=5"], 0x15, 0x601, vec![5]),
        ] {
            let change = change(words).unwrap();
            assert_eq!((change.opcode.0, change.dword10, change.keys), (opcode, dword10, keys));
        }
        assert_eq!(change(&["resv-register", "--cptpl=4"]).unwrap_err().status(), 2);
        assert_eq!(change(&["resv-release", "--rrela=8"]).unwrap_err().status(), 2);
    }
}
