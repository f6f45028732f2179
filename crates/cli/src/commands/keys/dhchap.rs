//! `weft gen-dhchap-key` and `weft check-dhchap-key`: secrets for NVMe in-band authentication, with
//! nvme-cli's options and results.

use crate::process::exit::{Failure, printed};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use weft_block::ErrorKind;
use weft_endpoint::identity::{HostIdentity, Identities};
use weft_proto::nvme::auth::{DhchapSecret, Hash};
use weft_server::dhchap;
use weft_server::secret::{create_private, hexadecimal, named_file};
use weft_server::values::parse_nqn;
use zeroize::Zeroizing;

/// Options of `weft gen-dhchap-key`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft gen-dhchap-key --keyfile host.secret
      a new secret, in a file that only you can read
  weft gen-dhchap-key --hmac 1 --nqn nqn.2014-08.org.nvmexpress:uuid:… --keyfile host.secret
      one that is bound to a host, as nvme-cli makes it")]
pub struct GenDhchapKeyArgs {
    /// File with the secret in hexadecimal digits, as @FILE [default: a random one]
    #[arg(short = 's', long, value_name = "@FILE")]
    secret: Option<String>,
    /// Bytes of the secret: 32, 48 or 64 [default: as many as the hash function has]
    #[arg(short = 'l', long)]
    key_length: Option<usize>,
    /// Name of the host, or of the subsystem, that the secret is for; it counts with --hmac only
    /// [default: this host]
    #[arg(short = 'n', long)]
    nqn: Option<String>,
    /// Hash function of the transformation: 0 none, 1 SHA-256, 2 SHA-384, 3 SHA-512
    #[arg(short = 'm', long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    hmac: u8,
    /// File to make, which only its owner can read [default: print the secret]
    #[arg(short = 'f', long, value_name = "FILE")]
    keyfile: Option<PathBuf>,
}

/// Options of `weft check-dhchap-key`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  weft check-dhchap-key --keyfile host.secret")]
pub struct CheckDhchapKeyArgs {
    /// File with the secret
    #[arg(short = 'f', long, value_name = "FILE", required_unless_present = "key")]
    keyfile: Option<PathBuf>,
    /// The same, as @FILE; a secret itself is refused, because every user of the machine could read
    /// it
    #[arg(short = 'k', long, value_name = "@FILE")]
    key: Option<String>,
}

/// Makes a secret.
pub fn generate(args: &GenDhchapKeyArgs) -> Result<(), Failure> {
    let text = args.make()?.text();
    match &args.keyfile {
        Some(file) => Ok(create_private(file, &text)?),
        None => printed(writeln!(std::io::stdout().lock(), "{}", text.as_str())),
    }
}

/// Checks a secret.
pub fn check(args: &CheckDhchapKeyArgs) -> Result<(), Failure> {
    let file = match (&args.keyfile, &args.key) {
        (Some(file), _) => file.clone(),
        (None, key) => named_file("--key @FILE", key.as_deref().unwrap_or_default())?.to_owned(),
    };
    let secret = dhchap::read(&file)?;
    let (hash, bytes, crc) =
        (secret.transformation().map_or(0, Hash::id), secret.key_bytes(), secret.crc());
    printed(writeln!(
        std::io::stdout().lock(),
        "Key is valid (HMAC {hash}, length {bytes}, CRC {crc:08x})"
    ))
}

impl GenDhchapKeyArgs {
    fn make(&self) -> Result<DhchapSecret, Failure> {
        let hash = Hash::of(self.hmac);
        let bytes = self.bytes(hash)?;
        let key = match &self.secret {
            Some(given) => hexadecimal(named_file("--secret @FILE", given)?, bytes)?,
            None => {
                let mut key = Zeroizing::new(vec![0; bytes]);
                Identities::system().fill(&mut key);
                key
            }
        };
        let secret = match hash {
            None => DhchapSecret::of_key(&key, None),
            Some(hash) => DhchapSecret::bound(&key, hash, self.name()?.as_str()),
        };
        secret.ok_or_else(|| Failure::of(ErrorKind::Usage, "a secret has 32, 48 or 64 bytes"))
    }

    fn bytes(&self, hash: Option<Hash>) -> Result<usize, Failure> {
        let wrong = |text: String| Err(Failure::of(ErrorKind::Usage, text));
        match (self.key_length, hash) {
            (None, None) => Ok(Hash::Sha256.bytes()),
            (None, Some(hash)) => Ok(hash.bytes()),
            (Some(bytes), Some(hash)) if bytes != hash.bytes() => wrong(format!(
                "{bytes} bytes do not go with {}: give {} or leave --key-length out",
                hash.name(),
                hash.bytes()
            )),
            (Some(bytes @ (32 | 48 | 64)), _) => Ok(bytes),
            (Some(bytes), _) => {
                wrong(format!("a secret cannot have {bytes} bytes: give 32, 48 or 64"))
            }
        }
    }

    fn name(&self) -> Result<weft_proto::nvme::types::Nqn, Failure> {
        match &self.nqn {
            Some(nqn) => Ok(parse_nqn(nqn)?),
            None => Ok(HostIdentity::of_this_host()?.nqn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name that nvme-cli's manual page uses, and a key of zeros to ff.
    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:befdec4c-2234-11b2-a85c-ca77c773af36";

    fn args(hmac: u8, key_length: Option<usize>) -> GenDhchapKeyArgs {
        GenDhchapKeyArgs { secret: None, key_length, nqn: Some(HOST.into()), hmac, keyfile: None }
    }

    #[test]
    fn lengths_are_those_of_the_hash_functions() {
        let made = |hmac, bytes| {
            args(hmac, bytes)
                .make()
                .map(|secret| (secret.transformation().map_or(0, Hash::id), secret.key_bytes()))
        };
        let fine = [
            (0, None, 32),
            (1, None, 32),
            (2, None, 48),
            (3, None, 64),
            (0, Some(48), 48),
            (3, Some(64), 64),
        ];
        for (hmac, given, bytes) in fine {
            assert_eq!(made(hmac, given).unwrap(), (hmac, bytes));
        }
        for (hmac, given) in [(1, Some(48)), (2, Some(32)), (3, Some(48)), (0, Some(33))] {
            assert!(made(hmac, given).is_err(), "{hmac} {given:?}");
        }
    }

    #[test]
    fn a_given_secret_is_taken_as_it_is_or_bound_to_the_name() {
        let path = std::env::temp_dir().join(format!("weft-dhchap-hex-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let digits: String = (0..32).map(|byte| format!("{byte:02x}")).collect();
        create_private(&path, &digits).unwrap();
        let given = |hmac| {
            GenDhchapKeyArgs { secret: Some(format!("@{}", path.display())), ..args(hmac, None) }
                .make()
                .unwrap()
        };
        let key: Vec<u8> = (0..32).collect();
        assert!(given(0) == DhchapSecret::of_key(&key, None).unwrap());
        assert!(
            given(1) == DhchapSecret::bound(&key, Hash::Sha256, HOST).unwrap()
                && given(1) != DhchapSecret::of_key(&key, Some(Hash::Sha256)).unwrap()
        );
        assert!(named_file("--secret @FILE", &digits).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
