//! `weft check-tls-key`: checks a pre-shared key for NVMe/TCP with TLS, with nvme-cli's options and
//! results.

use std::io::{Read, Write};

use clap::Args;
use weft_block::{Error, ErrorKind};
use weft_proto::nvme::auth::{Hash, InterchangeKey};
use weft_server::secret::{SECRET_BYTES_MAX, named_file, private_text};
use zeroize::Zeroizing;

use super::gen_tls::{InsertArgs, KeyNames};
use crate::process::exit::Failure;

/// Bytes of a file with a key.
const KEY_BYTES_MAX: u64 = SECRET_BYTES_MAX as u64;

/// Options of `weft check-tls-key`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft check-tls-key < key
      whether a key was copied whole
  weft check-tls-key -d @key -n nqn.2014-08.org.nvmexpress:uuid:… -c nqn.2026-01.com.example:disks -I 1
      the TLS identity that this host offers to that subsystem")]
pub struct CheckTlsKeyArgs {
    /// File with the key [default: standard input]
    #[arg(short = 'd', long, value_name = "@FILE")]
    keydata: Option<String>,
    /// Host NQN for the identity [default: that of this host]
    #[arg(short = 'n', long)]
    hostnqn: Option<String>,
    /// Subsystem NQN for the identity, which is shown with it
    #[arg(short = 'c', long)]
    subsysnqn: Option<String>,
    /// Version of the TLS identity: 0 = NVMe TCP 1.0, 1 = NVMe TCP 1.1
    #[arg(short = 'I', long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    identity: u8,
    /// Derive as libnvme did before version 1.15
    #[arg(short = 'C', long)]
    compat: bool,
    #[command(flatten)]
    insert: InsertArgs,
}

/// Prints what the key is.
pub fn run(args: &CheckTlsKeyArgs) -> Result<(), Failure> {
    let text = match &args.keydata {
        Some(given) => private_text(named_file("--keydata @FILE", given)?, KEY_BYTES_MAX)?,
        None => of_input()?,
    };
    let key = InterchangeKey::parse(&text)
        .map_err(|e| Failure::of(ErrorKind::Usage, format!("the key is not valid: {e}")))?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "Key is valid (HMAC {}, length {})",
        key.hash().map_or(0, Hash::id),
        key.key_bytes()
    )?;
    if let Some(subsystem) = &args.subsysnqn {
        let names = KeyNames::of(args.hostnqn.as_deref(), subsystem)?;
        let identity = names.identity(&key, args.identity, args.compat)?;
        writeln!(out, "{}", identity.text)?;
        args.insert.run(&identity)?;
    }
    Ok(())
}

fn of_input() -> Result<Zeroizing<String>, Failure> {
    let mut text = Zeroizing::new(String::new());
    let read = std::io::stdin().take(KEY_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|e| Error::io(format!("cannot read a key from standard input: {e}"), e))?;
    Ok(text)
}
