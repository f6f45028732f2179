//! `weft gen-tls-key`: makes a pre-shared key for NVMe/TCP with TLS, with nvme-cli's options and
//! results.

use crate::process::exit::Failure;
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use weft_block::{Error, ErrorKind};
use weft_endpoint::identity::{HostIdentity, Identities};
use weft_io::private_files;
use weft_proto::nvme::auth::{Derivation, Hash, IdentityVersion, InterchangeKey, PskIdentity};
use weft_proto::nvme::types::Nqn;
use weft_server::secret::{hexadecimal, named_file};
use weft_server::values::parse_nqn;
use weft_tls::keyring::{Keyring, NVME};
use zeroize::Zeroizing;

/// Options of `weft gen-tls-key`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft gen-tls-key
      a new key, which both ends keep in a file that only they can read
  (umask 077; weft gen-tls-key > key; weft serve ram:1GiB --listen 0.0.0.0:4420 --tls --tls-key-file key)
      a server that speaks NVMe/TCP with TLS only
  weft gen-tls-key --hmac 2
      a key for AES-256-GCM with SHA-384
  weft gen-tls-key -n nqn.2014-08.org.nvmexpress:uuid:… -c nqn.2026-01.com.example:disks -I 1 -f keys
      a new key, and the identity and TLS PSK that a host and a subsystem make of it, appended to a file")]
pub struct GenTlsKeyArgs {
    /// Host NQN for the retained key [default: that of this host]
    #[arg(short = 'n', long)]
    hostnqn: Option<String>,
    /// Subsystem NQN for the retained key
    #[arg(short = 'c', long)]
    subsysnqn: Option<String>,
    /// HMAC function for the retained key: 1 = SHA-256, 2 = SHA-384
    #[arg(short = 'm', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    hmac: u8,
    /// Version of the TLS identity: 0 = NVMe TCP 1.0, 1 = NVMe TCP 1.1
    #[arg(short = 'I', long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    identity: u8,
    /// File with hexadecimal digits to be used for the key, instead of random bytes
    #[arg(short = 's', long, value_name = "@FILE")]
    secret: Option<String>,
    /// Append the TLS identity and the derived TLS PSK to this file
    #[arg(short = 'f', long, value_name = "FILE", requires = "subsysnqn")]
    keyfile: Option<PathBuf>,
    /// Derive as libnvme did before version 1.15
    #[arg(short = 'C', long)]
    compat: bool,
    #[command(flatten)]
    insert: InsertArgs,
}

/// Options about a keyring of Linux.
#[derive(Args, Debug)]
pub struct InsertArgs {
    /// Put the derived TLS PSK into the keyring of Linux
    #[arg(short = 'i', long, requires = "subsysnqn")]
    insert: bool,
    /// Keyring for the derived TLS PSK
    #[arg(short = 'k', long, default_value = NVME)]
    keyring: String,
    /// Type of the key in the keyring
    #[arg(short = 't', long, default_value = "psk", value_parser = ["psk"])]
    keytype: String,
}

impl InsertArgs {
    /// Puts a TLS PSK into the keyring, if that is asked for.
    pub fn run(&self, identity: &PskIdentity) -> Result<(), Failure> {
        if !self.insert {
            return Ok(());
        }
        let keyring = Keyring::open(&self.keyring)
            .map_err(|e| Failure::of(ErrorKind::NotFound, e.to_string()))?;
        let cannot = |e| {
            Error::io(format!("cannot insert the key into the keyring {}: {e}", self.keyring), e)
        };
        let serial = keyring.insert(&identity.text, identity.psk.as_bytes()).map_err(cannot)?;
        Ok(writeln!(std::io::stdout(), "Inserted TLS key {serial:08x}")?)
    }
}

/// Prints a key.
pub fn run(args: &GenTlsKeyArgs) -> Result<(), Failure> {
    let key = args.key()?;
    writeln!(std::io::stdout(), "{}", key.text().as_str())?;
    if let Some(subsystem) = &args.subsysnqn {
        let names = KeyNames::of(args.hostnqn.as_deref(), subsystem)?;
        let identity = names.identity(&key, args.identity, args.compat)?;
        args.keyfile.iter().try_for_each(|path| append(path, &identity))?;
        args.insert.run(&identity)?;
    }
    Ok(())
}

impl GenTlsKeyArgs {
    fn key(&self) -> Result<InterchangeKey, Failure> {
        let (hash, bytes) = if self.hmac == 2 { (Hash::Sha384, 48) } else { (Hash::Sha256, 32) };
        let key = match &self.secret {
            Some(secret) => hexadecimal(named_file("--secret @FILE", secret)?, bytes)?,
            None => Zeroizing::new(Identities::system().random::<48>()[..bytes].to_vec()),
        };
        let wrong = || {
            Failure::of(
                ErrorKind::Usage,
                format!("a key for --hmac {} has {bytes} bytes", self.hmac),
            )
        };
        InterchangeKey::of_key(&key, Some(hash)).ok_or_else(wrong)
    }
}

/// For whom a key is derived.
pub struct KeyNames {
    host: Nqn,
    subsystem: Nqn,
}

impl KeyNames {
    /// The names of options.
    pub fn of(host: Option<&str>, subsystem: &str) -> Result<Self, Failure> {
        let host = host.map_or_else(|| Ok(HostIdentity::of_this_host()?.nqn), parse_nqn)?;
        Ok(Self { host, subsystem: parse_nqn(subsystem)? })
    }

    /// The identity and the TLS PSK of a key.
    pub fn identity(
        &self,
        key: &InterchangeKey,
        version: u8,
        compat: bool,
    ) -> Result<PskIdentity, Failure> {
        let derivation = if compat { Derivation::Compat } else { Derivation::Standard };
        let version = IdentityVersion::of(version).unwrap_or_default();
        let names = (self.host.as_str(), self.subsystem.as_str());
        let retained = key.retained(names.0, derivation);
        let identity = retained.and_then(|retained| {
            PskIdentity::new(&retained, key.cipher_hash(), false, version, names, derivation)
        });
        identity.ok_or_else(|| {
            let text = "these names make no TLS identity: it must not have spaces in them, and one of version 0 has 255 bytes at most; try --identity 1";
            Failure::of(ErrorKind::Usage, text)
        })
    }
}

/// Appends an identity and its PSK to a file that only its owner can read, as nvme-cli does.
fn append(path: &Path, identity: &PskIdentity) -> Result<(), Failure> {
    let cannot = |e| Error::io(format!("cannot write to {}: {e}", path.display()), e);
    let mut file = private_files::append(path).map_err(cannot)?;
    let psk = InterchangeKey::of_key(identity.psk.as_bytes(), Some(identity.hash));
    let psk = psk.map(|psk| psk.text()).unwrap_or_default();
    Ok(writeln!(file, "{} {}", identity.text, psk.as_str()).map_err(cannot)?)
}
