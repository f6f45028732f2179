//! The user's settings of the target.

use weft_block::{Error, ErrorKind};
use weft_connection::identity::Identities;
use weft_proto::iscsi::chap::{Credentials, SECRET_BYTES_MIN};
use weft_proto::iscsi::target::{ChapPolicy, ChapUser};
use weft_proto::iscsi::text::Name;

/// Settings of an iSCSI target other than listen addresses.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Its name; `None`: a generated one that is kept.
    pub name: Option<Name>,
    /// CHAP users with their secrets and initiator names; empty: no authentication.
    pub chap: Vec<ChapUser>,
    /// The secrets of these users are random, with at least 90 bits: they cannot be guessed, so
    /// failed attempts are not counted.
    pub random_secrets: bool,
    /// The target's own CHAP name and secret, for mutual CHAP.
    pub chap_target: Option<Credentials>,
    /// Source of the default name and of CHAP challenges.
    pub identities: Identities,
}

impl Settings {
    /// The target's name.
    pub(super) fn target_name(&self) -> Result<Name, Error> {
        self.name.clone().map_or_else(|| self.identities.target_name(), Ok)
    }

    /// Checks that the standard allows the secrets.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for secrets that it forbids.
    pub fn check(&self) -> Result<(), Error> {
        self.policy().map(drop)
    }

    /// The CHAP policy, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for secrets that the standard forbids.
    pub(super) fn policy(&self) -> Result<Option<ChapPolicy>, Error> {
        let wrong = |text: String| Err(Error::new(ErrorKind::Usage, text));
        if self.chap.is_empty() && self.chap_target.is_some() {
            return wrong(
                "mutual CHAP needs CHAP for initiators: set a name and a secret for them too"
                    .into(),
            );
        }
        for known in self.chap.iter().map(|user| &user.credentials).chain(&self.chap_target) {
            if known.secret.len() < SECRET_BYTES_MIN {
                return wrong(format!(
                    "the CHAP secret of \"{}\" is too short: use {SECRET_BYTES_MIN} bytes or more",
                    known.name
                ));
            }
        }
        if let Some(own) = &self.chap_target
            && self.chap.iter().any(|user| user.credentials.secret == own.secret)
        {
            return wrong(format!(
                "the target and the initiator \"{}\" have the same CHAP secret: use different ones",
                own.name
            ));
        }
        let policy = || ChapPolicy { users: self.chap.clone(), target: self.chap_target.clone() };
        Ok((!self.chap.is_empty()).then(policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(name: &str, secret: &str) -> Credentials {
        Credentials { name: name.to_owned(), secret: secret.into() }
    }

    #[test]
    fn secrets_are_long_and_different() {
        let (user, target) =
            (credentials("user", "0123456789ab"), credentials("target", "ba9876543210"));
        let policy = |chap: &[Credentials], chap_target: Option<&Credentials>| {
            let users = chap.iter().map(|credentials| ChapUser {
                credentials: credentials.clone(),
                initiators: Vec::new(),
            });
            Settings {
                chap: users.collect(),
                chap_target: chap_target.cloned(),
                ..Settings::default()
            }
            .policy()
        };
        assert!(policy(&[], None).unwrap().is_none());
        assert!(policy(core::slice::from_ref(&user), Some(&target)).unwrap().is_some());
        assert!(policy(&[], Some(&target)).is_err());
        assert!(policy(&[credentials("user", "short")], None).is_err());
        assert!(policy(core::slice::from_ref(&user), Some(&user)).is_err());
    }
}
