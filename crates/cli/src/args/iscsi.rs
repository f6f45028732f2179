//! iSCSI options of the command line: the initiator name and the files with secrets. Secrets
//! themselves are never arguments.

use crate::help::headings::ISCSI;
use crate::process::exit::Failure;
use clap::Args;
use std::path::PathBuf;
use weft_block::ErrorKind;
use weft_endpoint::source::iscsi::IscsiOptions;
use weft_proto::iscsi::text::Name;
use weft_server::secret::{from_file, held};

/// Names and secrets; missing ones are taken from libiscsi's environment variables.
#[derive(Args, Clone, Debug)]
pub struct IscsiArgs {
    /// iSCSI initiator name [default: that of the system (/etc/iscsi/initiatorname.iscsi),
    /// otherwise generated once and kept]
    #[arg(help_heading = ISCSI, long)]
    initiator_name: Option<String>,
    /// CHAP user name, if the URL has none [env: LIBISCSI_CHAP_USERNAME]
    #[arg(help_heading = ISCSI, long)]
    chap_user: Option<String>,
    /// File with the CHAP secret, of at least 12 bytes [env: LIBISCSI_CHAP_PASSWORD holds the
    /// secret itself]
    #[arg(help_heading = ISCSI, long)]
    chap_secret_file: Option<PathBuf>,
    /// Mutual CHAP: name of the target [default: any] [env: LIBISCSI_CHAP_TARGET_USERNAME]
    #[arg(help_heading = ISCSI, long)]
    target_chap_user: Option<String>,
    /// Mutual CHAP: file with the secret of the target [env: LIBISCSI_CHAP_TARGET_PASSWORD holds
    /// the secret itself]
    #[arg(help_heading = ISCSI, long)]
    target_chap_secret_file: Option<PathBuf>,
    /// Refused: every user of the machine could read it
    #[arg(help_heading = ISCSI, long, hide = true, aliases = ["chap-password", "target-chap-secret", "target-chap-password"])]
    chap_secret: Option<String>,
}

impl IscsiArgs {
    /// The connection options for iSCSI.
    pub fn options(&self) -> Result<IscsiOptions, Failure> {
        if self.chap_secret.is_some() {
            let text = "a secret must not be on the command line, because every user of this machine can read it there; put it into a file \
                        and name that with --chap-secret-file (--target-chap-secret-file for the target's)";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        let environment = IscsiOptions::from_environment();
        if environment.secret.is_some() || environment.target_secret.is_some() {
            held();
        }
        let secret = |file: &Option<PathBuf>, otherwise| match file {
            Some(path) => Ok::<_, Failure>(Some(from_file(path)?.into())),
            None => Ok(otherwise),
        };
        Ok(IscsiOptions {
            initiator_name: self.initiator_name.as_deref().map(parse_name).transpose()?,
            user: self.chap_user.clone().or(environment.user),
            secret: secret(&self.chap_secret_file, environment.secret)?,
            target_user: self.target_chap_user.clone().or(environment.target_user),
            target_secret: secret(&self.target_chap_secret_file, environment.target_secret)?,
        })
    }
}

fn parse_name(text: &str) -> Result<Name, Failure> {
    Name::new(text)
        .map_err(|e| Failure::of(ErrorKind::Usage, format!("\"{text}\" is not an iSCSI name: {e}")))
}
