//! iSCSI URLs as libiscsi writes them:
//! `iscsi://[USER@]HOST[:PORT]/IQN/LUN[?header_digest=crc32c&data_digest=crc32c]`. In the target's
//! name all but letters, digits and `-._~:` may be percent-encoded.

use super::HostPort;
use super::percent::{Encoded, decode};
use std::fmt;
use weft_block::{Error, ErrorKind};
use weft_proto::iscsi::text::Name;

/// Scheme of iSCSI.
pub const ISCSI: &str = "iscsi://";

/// Port of iSCSI targets that IANA assigned.
pub const ISCSI_PORT: u16 = 3260;

/// Highest LUN that a number can name (flat addressing, SAM-5 §4.7.7).
pub const LUN_MAX: u16 = 0x3fff;

/// Request for a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestWish {
    /// No.
    #[default]
    None,
    /// CRC32C if the target has it.
    Preferred,
    /// CRC32C, or no session.
    Required,
}

/// A parsed `iscsi` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiUrl {
    /// CHAP name.
    pub user: Option<String>,
    /// Address of the target's portal.
    pub address: HostPort,
    /// The target. None: all that there are, for discovery; or whatever name a server gives its
    /// target.
    pub target: Option<Name>,
    /// The logical unit.
    pub lun: Option<u16>,
    /// CRC32C over each PDU header.
    pub header_digest: DigestWish,
    /// CRC32C over the data of each PDU.
    pub data_digest: DigestWish,
}

/// What holds when a secret stands where others can see it. The secret itself is not repeated.
const SECRET: &str = "an iSCSI URL must not hold a secret, as every user of this machine can read it; put the secret into a file and name that \
                      with --chap-secret-file (--target-chap-secret-file for the target's), or into the environment variable \
                      LIBISCSI_CHAP_PASSWORD (LIBISCSI_CHAP_TARGET_PASSWORD)";

impl IscsiUrl {
    /// Reads the URL; `default_port` holds where it names none.
    pub fn parse(url: &str, default_port: u16) -> Result<Self, Error> {
        let rest = url.strip_prefix(ISCSI);
        if rest.is_some_and(holds_secret) {
            return Err(Error::new(ErrorKind::Usage, SECRET));
        }
        let usage = |why: &str| {
            let text = format!("\"{url}\" is not iscsi://[USER@]HOST[:PORT]/IQN/LUN: {why}");
            Error::new(ErrorKind::Usage, text)
        };
        let rest = rest.ok_or_else(|| usage("wrong scheme"))?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        if user == Some("") {
            return Err(usage("the user's name before the @ is missing"));
        }
        let address = HostPort::parse(host, default_port).map_err(|e| usage(&e.to_string()))?;
        let (name, lun) =
            path.split_once('/').map_or((path, None), |(name, lun)| (name, Some(lun)));
        let number = |text: &str| text.parse().ok().filter(|&n| n <= LUN_MAX);
        let lun = match lun {
            Some(text) => Some(
                number(text)
                    .ok_or_else(|| usage(&format!("\"{text}\" is not a LUN (0 to {LUN_MAX})")))?,
            ),
            None => None,
        };
        if name.is_empty() && lun.is_some() {
            return Err(usage("a LUN must follow the target's name"));
        }
        let named = |name: &str| Name::new(&decode(name)?).map_err(|e| e.to_string());
        let target =
            if name.is_empty() { None } else { Some(named(name).map_err(|why| usage(&why))?) };
        let mut parsed = Self {
            user: user.map(str::to_owned),
            address,
            target,
            lun,
            header_digest: DigestWish::None,
            data_digest: DigestWish::None,
        };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            parsed.set(parameter).map_err(|why| usage(&why))?;
        }
        Ok(parsed)
    }

    /// A target's name as it stands in a URL.
    #[doc(hidden)]
    pub fn segment(name: &str) -> impl fmt::Display {
        Encoded::iscsi(name)
    }

    fn set(&mut self, parameter: &str) -> Result<(), String> {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let wish = || match value.to_ascii_lowercase().as_str() {
            "none" => Ok(DigestWish::None),
            "crc32c" => Ok(DigestWish::Required),
            "crc32c,none" | "none,crc32c" => Ok(DigestWish::Preferred),
            _ => Err(format!("{key} must be none, crc32c or \"crc32c,none\"")),
        };
        match key {
            "header_digest" => self.header_digest = wish()?,
            "data_digest" => self.data_digest = wish()?,
            _ => {
                return Err(format!(
                    "unknown parameter \"{key}\"; use header_digest or data_digest"
                ));
            }
        }
        Ok(())
    }
}

/// Whether what follows the scheme holds a secret, as libiscsi takes it: `user%secret@`, or one of
/// its parameters.
pub(super) fn holds_secret(rest: &str) -> bool {
    let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or(rest);
    // A secret may itself hold a slash.
    let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
    // In an IPv6 address in brackets the scope follows a %.
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let is_scoped = host.starts_with('[') && HostPort::parse(host, 0).is_ok();
    user.contains(['%', ':'])
        || (authority.contains('%') && !is_scoped)
        || parameters
            .split('&')
            .any(|parameter| parameter.to_ascii_lowercase().contains("password"))
}

impl fmt::Display for IscsiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ISCSI}")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}", self.address)?;
        if let Some(target) = &self.target {
            write!(f, "/{}", Self::segment(target.as_str()))?;
        }
        if let Some(lun) = self.lun {
            write!(f, "/{lun}")?;
        }
        let mut separator = '?';
        for (key, wish) in
            [("header_digest", self.header_digest), ("data_digest", self.data_digest)]
        {
            let value = match wish {
                DigestWish::None => continue,
                DigestWish::Preferred => "crc32c,none",
                DigestWish::Required => "crc32c",
            };
            write!(f, "{separator}{key}={value}")?;
            separator = '&';
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::without_secret;

    #[test]
    fn urls_survive_the_round_trip() {
        for text in [
            "iscsi://127.0.0.1:3260/iqn.2026-01.example.weft:disk/0",
            "iscsi://me@[::1]:3261/iqn.2026-01.example.weft:disk/16383?header_digest=crc32c&data_digest=crc32c,none",
            "iscsi://storage.example:3260/iqn.2026-01.example.weft:disk",
            "iscsi://storage.example:3260",
            "iscsi://storage.example:3260/my_disk%2F1%40home%20%C3%A9/0",
            "iscsi://[fe80::1%25eth0]:3260/iqn.2026-01.example.weft:disk/0",
            "iscsi://me@[fe80::1%253]:3260/iqn.2026-01.example.weft:disk/0",
        ] {
            assert_eq!(IscsiUrl::parse(text, ISCSI_PORT).unwrap().to_string(), text);
        }
        assert_eq!(without_secret("iscsi://me@h/iqn.x:y/0"), "iscsi://me@h/iqn.x:y/0");
        let url = IscsiUrl::parse(
            "iscsi://host/iqn.2026-01.example.weft:disk/1?data_digest=none",
            ISCSI_PORT,
        )
        .unwrap();
        assert_eq!(
            (url.address.port(), url.lun, url.data_digest),
            (3260, Some(1), DigestWish::None)
        );
    }

    #[test]
    fn wrong_urls_say_what_is_wrong() {
        for (text, why) in [
            ("iscsi:///iqn.2026-01.example.weft:disk/0", "host is missing"),
            ("iscsi://h/iqn.2026-01.example.weft:disk/x", "not a LUN"),
            ("iscsi://h/iqn.2026-01.example.weft:disk/16384", "not a LUN"),
            ("iscsi://h/iqn.2026-01.example.weft:disk/1/2", "not a LUN"),
            ("iscsi://h/%1b/0", "control characters"),
            ("iscsi://h/disk%2/0", "without two digits"),
            ("iscsi://h//0", "follow the target's name"),
            ("iscsi://@h/iqn.2026-01.example.weft:disk/0", "before the @"),
            (
                "iscsi://h/iqn.2026-01.example.weft:disk/0?header_digest=md5",
                "header_digest must be none",
            ),
            ("iscsi://h/iqn.2026-01.example.weft:disk/0?x=1", "unknown parameter \"x\""),
        ] {
            let error = IscsiUrl::parse(text, ISCSI_PORT).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
    }

    #[test]
    fn secrets_are_refused_and_not_repeated() {
        for text in [
            "iscsi://me%hidden-word@h/iqn.2026-01.example.weft:disk/0",
            "iscsi://me:hidden-word@h/iqn.2026-01.example.weft:disk/0",
            "iscsi://me%hidden/word@h/iqn.2026-01.example.weft:disk/0",
            "iscsi://me%hidden-word@[fe80::1%25eth0]/iqn.2026-01.example.weft:disk/0",
            "iscsi://h/iqn.2026-01.example.weft:disk/0?target_user=t&target_password=hidden-word",
            "iscsi://h/iqn.2026-01.example.weft:disk/0?target_user=t&PASSWORD=hidden-word",
        ] {
            let error = IscsiUrl::parse(text, ISCSI_PORT).unwrap_err().to_string();
            assert!(error.contains("--chap-secret-file") && !error.contains("hidden"), "{error}");
            assert_eq!(without_secret(&format!("readonly:{text}")), "readonly:iscsi://…");
        }
    }
}
