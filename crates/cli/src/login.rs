//! Options of an iSCSI target: its name and access control.

use crate::help::headings::ISCSI_TARGET;
use crate::process::exit::Failure;
use crate::visible_sources::VisibleSources;
use clap::Args;
use std::path::PathBuf;
use weft_block::{Error, ErrorKind};
use weft_endpoint::export::iscsi::Settings;
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::target::ChapUser;
use weft_proto::iscsi::text::Name;
use weft_server::secret::{from_environment, from_file};

/// Environment variable for the secret of `--login-user`, instead of a file.
const SECRET: &str = "WEFT_LOGIN_SECRET";

/// Environment variable for the secret of `--login-target-user`, instead of a file.
const TARGET_SECRET: &str = "WEFT_LOGIN_TARGET_SECRET";

/// iSCSI options of `weft serve`.
#[derive(Args, Debug)]
pub struct LoginArgs {
    /// Name of the iSCSI target [default: generated once and kept]
    #[arg(help_heading = ISCSI_TARGET, long)]
    iqn: Option<String>,
    /// iSCSI initiator that may log in, optionally with the LUNs that it sees; may be repeated
    /// [default: any initiator]
    #[arg(help_heading = ISCSI_TARGET, long, value_name = "IQN[=LUN,…]")]
    allow_initiator: Vec<String>,
    /// CHAP user name of iSCSI initiators; may be repeated [default: no authentication]
    #[arg(help_heading = ISCSI_TARGET, long, value_name = "NAME")]
    login_user: Vec<String>,
    /// File with the CHAP secret of the corresponding --login-user [default: the environment
    /// variable WEFT_LOGIN_SECRET]
    #[arg(help_heading = ISCSI_TARGET, long, value_name = "FILE")]
    login_secret_file: Vec<PathBuf>,
    /// Initiator names of the corresponding --login-user, as IQN[,IQN…] [default: the first names
    /// that it logs in with, up to 64]
    #[arg(help_heading = ISCSI_TARGET, long, value_name = "IQNS")]
    login_initiator: Vec<String>,
    /// Mutual CHAP: user name of the target
    #[arg(help_heading = ISCSI_TARGET, long, value_name = "NAME")]
    login_target_user: Option<String>,
    /// Mutual CHAP: file with the secret of the target [default: the environment variable
    /// WEFT_LOGIN_TARGET_SECRET]
    #[arg(help_heading = ISCSI_TARGET, long, value_name = "FILE")]
    login_target_secret_file: Option<PathBuf>,
}

impl LoginArgs {
    /// The initiators that may log in, and which of `sources` logical units each sees.
    pub fn initiators_allowed(&self, sources: usize) -> Result<VisibleSources<Name>, Failure> {
        Ok(VisibleSources::parse(
            "--allow-initiator",
            &self.allow_initiator,
            (0, sources),
            parse_name,
        )?)
    }

    /// The target's settings from the other options.
    pub fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            name: self.iqn.as_deref().map(parse_name).transpose()?,
            chap: self.users()?,
            chap_target: self.target()?,
            ..Settings::default()
        })
    }

    fn users(&self) -> Result<Vec<ChapUser>, Failure> {
        let (users, lists) = (self.login_user.len(), self.login_initiator.len());
        if lists > users {
            let text = format!(
                "there are {lists} --login-initiator for {users} --login-user; give at most one for each"
            );
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        let lists = self.login_initiator.iter().map(String::as_str).chain(std::iter::repeat(""));
        self.credentials()?
            .into_iter()
            .zip(lists)
            .map(|(credentials, list)| {
                let initiators = list
                    .split(',')
                    .filter(|name| !name.is_empty())
                    .map(parse_name)
                    .collect::<Result<_, _>>()?;
                Ok(ChapUser { credentials, initiators })
            })
            .collect()
    }

    fn credentials(&self) -> Result<Vec<Credentials>, Failure> {
        let usage = |text: String| Failure::of(ErrorKind::Usage, text);
        if self.login_secret_file.is_empty() && self.login_user.len() == 1 {
            let missing = || {
                usage(format!(
                    "the secret of --login-user is missing: give --login-secret-file or {SECRET}"
                ))
            };
            let secret = from_environment(SECRET)?.ok_or_else(missing)?;
            return Ok(vec![Credentials {
                name: self.login_user[0].clone(),
                secret: secret.into(),
            }]);
        }
        if self.login_secret_file.len() != self.login_user.len() {
            let (users, files) = (self.login_user.len(), self.login_secret_file.len());
            return Err(usage(format!(
                "there are {users} --login-user and {files} --login-secret-file; give one file for each"
            )));
        }
        let both = self.login_user.iter().zip(&self.login_secret_file);
        both.map(|(name, path)| {
            Ok(Credentials { name: name.clone(), secret: from_file(path)?.into() })
        })
        .collect()
    }

    fn target(&self) -> Result<Option<Credentials>, Failure> {
        let secret = match &self.login_target_secret_file {
            Some(path) => Some(from_file(path)?),
            None => from_environment(TARGET_SECRET)?,
        };
        match (&self.login_target_user, secret) {
            (None, None) => Ok(None),
            (Some(name), Some(secret)) => {
                Ok(Some(Credentials { name: name.clone(), secret: secret.into() }))
            }
            (Some(_), None) => {
                let text = format!(
                    "the target's secret is missing: give --login-target-secret-file or {TARGET_SECRET}"
                );
                Err(Failure::of(ErrorKind::Usage, text))
            }
            (None, Some(_)) => Err(Failure::of(
                ErrorKind::Usage,
                "the target's secret has no name: give --login-target-user with it",
            )),
        }
    }
}

/// Parses an iSCSI name from the command line.
fn parse_name(text: &str) -> Result<Name, Error> {
    Name::new(text)
        .map_err(|e| Error::new(ErrorKind::Usage, format!("\"{text}\" is not an iSCSI name: {e}")))
}
