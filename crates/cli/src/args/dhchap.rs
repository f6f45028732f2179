//! Options of NVMe in-band authentication (DH-HMAC-CHAP), for both ends: files with secrets, and
//! what is accepted. Secrets themselves are never arguments.

use crate::help::headings::AUTHENTICATION;
use crate::process::exit::Failure;
use clap::Args;
use std::path::{Path, PathBuf};
use weft_block::ErrorKind;
use weft_endpoint::inventory::Authentication;
use weft_endpoint::source::HostSecrets;
use weft_proto::nvme::auth::{DhchapSecret, Group, Hash};
use weft_server::dhchap::{check_distinct, parse, parse_group, parse_hash, read};
use weft_server::secret::{again, from_environment, named_file};
use weft_server::values::parse_nqn;

/// Environment variable with a host's secret, for those who give no file.
const SECRET: &str = "WEFT_DHCHAP_SECRET";

/// Environment variable with the controllers' secret, likewise.
const CTRL_SECRET: &str = "WEFT_DHCHAP_CTRL_SECRET";

/// Secrets of both ends.
#[derive(Args, Clone, Debug, Default)]
pub struct DhchapArgs {
    /// File with the secret of this host; for weft serve: [HOSTNQN=]FILE with that of a host, or of
    /// all others, which then have to authenticate, and may be repeated [env: WEFT_DHCHAP_SECRET
    /// holds the secret itself]
    #[arg(help_heading = AUTHENTICATION, long, value_name = "FILE")]
    dhchap_secret_file: Vec<PathBuf>,
    /// File with the secret of the controllers, which then have to prove who they are; for weft
    /// serve: by which it does so [env: WEFT_DHCHAP_CTRL_SECRET holds the secret itself]
    #[arg(help_heading = AUTHENTICATION, long, value_name = "FILE")]
    dhchap_ctrl_secret_file: Option<PathBuf>,
    /// The same as --dhchap-secret-file, by nvme-cli's name; a secret itself is refused, because
    /// every user of the machine could read it
    #[arg(help_heading = AUTHENTICATION, short = 'S', long, value_name = "@FILE")]
    dhchap_secret: Option<String>,
    /// The same as --dhchap-ctrl-secret-file, by nvme-cli's name; a secret itself is refused, too
    #[arg(help_heading = AUTHENTICATION, short = 'C', long, value_name = "@FILE")]
    dhchap_ctrl_secret: Option<String>,
    /// Hash functions that are accepted, the preferred one first: sha256, sha384, sha512 [default:
    /// all]
    #[arg(help_heading = AUTHENTICATION, long, value_name = "HASH,…", value_delimiter = ',', value_parser = parse_hash)]
    dhchap_hash: Vec<Hash>,
    /// Diffie-Hellman groups that are accepted, the preferred one first: ffdhe2048, ffdhe3072,
    /// ffdhe4096, ffdhe6144, ffdhe8192, null [default: all; for weft serve ffdhe2048, ffdhe3072 and
    /// ffdhe4096]
    #[arg(help_heading = AUTHENTICATION, long, value_name = "GROUP,…", value_delimiter = ',', value_parser = parse_group)]
    dhchap_dhgroup: Vec<Group>,
}

impl DhchapArgs {
    /// The secrets of this host, which are read again from their files before each association.
    pub fn host(&self) -> Result<HostSecrets, Failure> {
        let secrets = self.host_now()?;
        let mut files = self.files()?;
        files.extend(self.controller_file()?);
        let args = self.clone();
        Ok(HostSecrets { renewal: again(files, move || args.host_now()), ..secrets })
    }

    fn host_now(&self) -> Result<HostSecrets, Failure> {
        let files = self.files()?;
        if files.len() > 1 {
            let text =
                format!("there are {} files with a secret of this host; give one", files.len());
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        let host = match files.first() {
            Some(file) => Some(read(file)?),
            None => of_environment(SECRET)?,
        };
        let controller = self.controller()?;
        check(host.is_some(), controller.as_ref())?;
        check_distinct(host.iter(), controller.as_ref())?;
        let default = HostSecrets::default();
        Ok(HostSecrets {
            host,
            controller,
            hashes: or(&self.dhchap_hash, default.hashes),
            groups: or(&self.dhchap_dhgroup, default.groups),
            renewal: None,
        })
    }

    /// The authentication that a server demands of its hosts; `None`: none.
    pub fn target(&self) -> Result<Option<Authentication>, Failure> {
        let mut demanded = Authentication::default();
        for file in self.files()? {
            match of_host(&file) {
                Some((host, file)) => {
                    demanded.hosts.entry(parse_nqn(host)?).or_default().push(read(Path::new(file))?)
                }
                None => demanded.others.push(read(&file)?),
            }
        }
        if demanded.hosts.is_empty() && demanded.others.is_empty() {
            demanded.others.extend(of_environment(SECRET)?);
        }
        let demands = !demanded.hosts.is_empty() || !demanded.others.is_empty();
        demanded.controller = self.controller()?;
        check(demands, demanded.controller.as_ref())?;
        check_distinct(demanded.all_secrets(), demanded.controller.as_ref())?;
        demanded.hashes = or(&self.dhchap_hash, demanded.hashes);
        demanded.groups = or(&self.dhchap_dhgroup, demanded.groups);
        Ok(demands.then_some(demanded))
    }

    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files = self.dhchap_secret_file.clone();
        files.extend(named(self.dhchap_secret.as_deref(), "--dhchap-secret-file")?);
        Ok(files)
    }

    fn controller_file(&self) -> Result<Option<PathBuf>, Failure> {
        let named = named(self.dhchap_ctrl_secret.as_deref(), "--dhchap-ctrl-secret-file")?;
        Ok(self.dhchap_ctrl_secret_file.clone().or(named))
    }

    fn controller(&self) -> Result<Option<DhchapSecret>, Failure> {
        match self.controller_file()? {
            Some(file) => Ok(Some(read(&file)?)),
            None => of_environment(CTRL_SECRET),
        }
    }
}

fn or<T: Clone>(given: &[T], otherwise: Vec<T>) -> Vec<T> {
    if given.is_empty() { otherwise } else { given.to_vec() }
}

/// `HOSTNQN=FILE` in its parts.
fn of_host(file: &Path) -> Option<(&str, &str)> {
    file.to_str()?.split_once('=').filter(|(host, _)| host.starts_with("nqn."))
}

/// The file that a short option names.
fn named(given: Option<&str>, option: &str) -> Result<Option<PathBuf>, Failure> {
    let instead = format!("{option} FILE, or its name with an @ in front");
    given.map(|given| Ok(named_file(&instead, given)?.to_owned())).transpose()
}

/// A controller proves who it is only to a host that has done so itself.
fn check(has_host: bool, controller: Option<&DhchapSecret>) -> Result<(), Failure> {
    if has_host || controller.is_none() {
        return Ok(());
    }
    let text = "the secret of the controllers is of no use without that of the host: give --dhchap-secret-file with it";
    Err(Failure::of(ErrorKind::Usage, text))
}

fn of_environment(variable: &str) -> Result<Option<DhchapSecret>, Failure> {
    Ok(from_environment(variable)?.map(|text| parse(&text, variable)).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";

    fn args(given: &[&str]) -> DhchapArgs {
        let command = DhchapArgs::augment_args(Command::new("weft").no_binary_name(true));
        DhchapArgs::from_arg_matches(&command.try_get_matches_from(given).unwrap()).unwrap()
    }

    /// A file with a secret, only for this user.
    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weft-dhchap-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        weft_server::secret::create_private(
            &path,
            &DhchapSecret::of_key(&[7; 32], None).unwrap().text(),
        )
        .unwrap();
        path
    }

    #[test]
    fn a_literal_secret_is_refused_and_not_repeated() {
        let text = DhchapSecret::of_key(&[7; 32], None).unwrap().text();
        for option in ["-S", "-C", "--dhchap-secret", "--dhchap-ctrl-secret"] {
            let args = args(&[option, &text]);
            for said in [args.host().err(), args.target().err()] {
                let said = said.unwrap().to_string();
                assert!(said.contains("-secret-file FILE") && !said.contains("DHHC"), "{said}");
            }
        }
    }

    #[test]
    fn a_server_has_secrets_by_host_and_two_while_one_is_changed() {
        let path = file("hosts");
        let (own, other) = (
            format!("--dhchap-secret-file={HOST}={}", path.display()),
            format!("-S@{}", path.display()),
        );
        let demanded = args(&[&own, &own, &other]).target().unwrap().unwrap();
        assert_eq!(demanded.hosts.values().map(Vec::len).collect::<Vec<_>>(), [2]);
        assert_eq!((demanded.others.len(), demanded.groups.len()), (1, 3));
        assert!(args(&[&own, &other]).host().is_err(), "a host has one");
        assert!(args(&[]).target().unwrap().is_none());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_accepted_is_what_was_given() {
        let path = file("accepted");
        let args = args(&[
            &format!("-S@{}", path.display()),
            "--dhchap-hash=hmac(sha384),sha256",
            "--dhchap-dhgroup",
            "null",
        ]);
        let secrets = args.host().unwrap();
        assert_eq!(
            (secrets.hashes, secrets.groups),
            (vec![Hash::Sha384, Hash::Sha256], vec![Group::Null])
        );
        assert!(
            parse_group("modp2048").unwrap_err().contains("ffdhe2048")
                && parse_hash("md5").is_err()
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn both_ends_have_secrets_of_their_own() {
        let path = file("both");
        let both = args(&[&format!("-S@{}", path.display()), &format!("-C@{}", path.display())]);
        for said in [both.host().err(), both.target().err()] {
            assert!(said.unwrap().to_string().contains("make another one"));
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_controllers_secret_needs_the_hosts() {
        let path = file("alone");
        let args = args(&[&format!("-C@{}", path.display())]);
        assert!(args.host().is_err() && args.target().is_err());
        std::fs::remove_file(path).unwrap();
    }
}
